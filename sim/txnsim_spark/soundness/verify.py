"""``txnsim logs verify``: are log directories sound? Plans the work and gives it to an ``engine``;
the rules are in the other modules of ``soundness``.

The driver reads only names, sizes and checkpoints. Segments are walked over in parallel; then the
results for all replicas of a partition are judged in one place. Only findings are returned.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from txnsim.storage import names
from txnsim.storage.regular_file import RegularFile
from txnsim.types import TopicPartition
from txnsim_spark.engine import Engine, EngineJob, EngineKind, cost_of
from txnsim_spark.scan.log_dirs import ignore_problem
from txnsim_spark.scan.segments import (
    SegmentFile,
    absent_replicas,
    group_by_topic_id,
    path_and_reason,
    refuse_logs_of_two_clusters,
    replicas_in,
)
from txnsim_spark.soundness._partition import judge_partition, read_epochs
from txnsim_spark.soundness._replica_facts import (
    PRODUCER_EXPIRATION_MS,
    LogDirFacts,
    ReplicaFacts,
    read_log_dir,
    replica_facts,
)
from txnsim_spark.soundness._replica_rules import comparable_facts
from txnsim_spark.soundness._segment_parts import SegmentPart, unread_part
from txnsim_spark.soundness._segment_walk import examine
from txnsim_spark.soundness.violations import (
    BrokenRule,
    Invariant,
    Severity,
    Violation,
    misnamed_file,
)
from txnsim_spark.tasks import group_in_tasks

TASK_BYTES: Final = 32 << 20
"""Small segments share a task of this size, which takes about a second."""
TASKS_MIN: Final = 2


class SegmentWork(msgspec.Struct, frozen=True, kw_only=True):
    """A segment to verify, with the facts on its replica."""

    facts: ReplicaFacts
    segment: SegmentFile


class VerificationPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The tasks of a verification, their totals, and early findings."""

    tasks: tuple[tuple[SegmentWork, ...], ...]
    replica_count: int
    segment_count: int
    total_bytes: int
    findings: tuple[Violation, ...]
    """Violations found while planning: checkpoints that can't be read."""


def plan_verification(
    paths: Iterable[Path],
    topics: frozenset[str] = frozenset(),
    *,
    producer_expiration_ms: int = PRODUCER_EXPIRATION_MS,
    task_bytes: int = TASK_BYTES,
) -> VerificationPlan:
    """Divide all segments under some paths into tasks.

    Args:
        paths: Log directories, folders of them, or replicas' folders.
        topics: Topics to verify; empty for all.
        producer_expiration_ms: The brokers' ``producer.id.expiration.ms``.
        task_bytes: Limit of the bytes of one task, unless a single segment is larger.
    """
    facts_by_log_dir_path: dict[str, LogDirFacts] = {}
    facts_by_partition: defaultdict[TopicPartition, list[ReplicaFacts]] = defaultdict(list)
    unreadable_problems: list[str] = []
    folder_problems: list[str] = []
    for replica in replicas_in(paths, topics, unreadable_problems.append, folder_problems.append):
        if replica.log_dir not in facts_by_log_dir_path:
            facts_by_log_dir_path[replica.log_dir] = read_log_dir(Path(replica.log_dir))
        facts_of_replica = replica_facts(
            facts_by_log_dir_path[replica.log_dir], replica, producer_expiration_ms
        )
        facts_by_partition[replica.topic_partition].append(facts_of_replica)
    refuse_logs_of_two_clusters(map(Path, facts_by_log_dir_path))
    violations = [*_log_dir_findings(facts_by_log_dir_path, facts_by_partition)]
    violations += [
        _folder_violation(problem, Invariant.UNREADABLE_FILE, Severity.ERROR)
        for problem in unreadable_problems
    ]
    violations += [
        _folder_violation(problem, Invariant.FOREIGN_FOLDER, Severity.NOTICE)
        for problem in folder_problems
    ]
    violations += [
        _log_dir_violation(checkpoint_file, reason, Invariant.ABSENT_REPLICA, Severity.NOTICE)
        for checkpoint_file, reason in absent_replicas(paths, topics)
    ]
    segment_works = [
        segment_work
        for _, replicas in sorted(facts_by_partition.items())
        for facts_of_topic in group_by_topic_id(replicas, lambda topic_facts: topic_facts.topic_id)
        for segment_work in _work_of_replicas(
            sorted(facts_of_topic, key=_by_broker), violations.append
        )
    ]
    total_bytes = sum(segment_work.segment.size for segment_work in segment_works)
    task_bytes = min(task_bytes, max(1, total_bytes // TASKS_MIN))
    tasks = group_in_tasks(
        segment_works, task_bytes, size_of=lambda segment_work: segment_work.segment.size
    )
    return VerificationPlan(
        tasks=tuple(tasks),
        replica_count=sum(map(len, facts_by_partition.values())),
        segment_count=len(segment_works),
        total_bytes=total_bytes,
        findings=tuple(violations),
    )


def _log_dir_findings(
    facts_by_log_dir_path: Mapping[str, LogDirFacts],
    facts_by_partition: Mapping[TopicPartition, Sequence[ReplicaFacts]],
) -> Iterator[Violation]:
    """Violations in log directories themselves, such as checkpoints that can't be read."""
    facts_by_log_dir = {
        facts_of_replica.replica.log_dir: facts_of_replica
        for facts_of_partition in facts_by_partition.values()
        for facts_of_replica in facts_of_partition
    }
    for log_dir, facts_of_replica in facts_by_log_dir.items():
        nameless_replica = msgspec.structs.replace(facts_of_replica.replica, topic="", partition=-1)
        log_dir_facts = msgspec.structs.replace(facts_of_replica, replica=nameless_replica)
        for broken_rule in facts_by_log_dir_path[log_dir].broken_rules:
            yield log_dir_facts.finding(broken_rule)


def verify(
    engine: Engine, verification_plan: VerificationPlan, engine_kind: EngineKind
) -> Iterator[Violation]:
    """All violations, by partition, replica and place."""
    yield from verification_plan.findings
    violations = engine.results_of(
        EngineJob(tasks=verification_plan.tasks, read_task=_examine_task, join_pieces=_judge_parts),
        engine_kind,
    )
    for partition_key in sorted(violations):
        yield from violations[partition_key]


def cost_of_verification(verification_plan: VerificationPlan) -> int:
    return cost_of(
        segment_work.segment.size for task in verification_plan.tasks for segment_work in task
    )


def _sort_key(violation: Violation) -> tuple[object, ...]:
    """Sort key of a finding; a missing position or offset sorts first."""
    position = -1 if violation.position is None else violation.position
    offset = -1 if violation.offset is None else violation.offset
    return (violation.broker, violation.log_dir, violation.file, position, offset, violation.rule)


# On workers


def _examine_task(
    task: Sequence[SegmentWork],
) -> Iterator[tuple[str, tuple[ReplicaFacts, SegmentPart]]]:
    """Walk over the segments of a task; yields the partition and what each segment returns."""
    for segment_work in task:
        key = f"{segment_work.segment.topic}/{segment_work.segment.partition:010}"
        yield key, (segment_work.facts, examine_work(segment_work))


def examine_work(segment_work: SegmentWork) -> SegmentPart:
    """Walk over a segment; read its replica's snapshots and leader epochs from the folder."""
    directory = Path(segment_work.facts.replica.path)
    try:
        snapshots = names.Suffix.SNAPSHOT.files_in(directory)
        epochs = read_epochs(directory, ignore_problem)  # told by ``judge_partition``, once
        return examine(
            segment_work.facts, segment_work.segment, [offset for offset, _ in snapshots], epochs
        )
    except OSError as error:
        return unread_part(segment_work.segment, error.strerror or str(error))


def _judge_parts(
    _key: str, facts_and_parts: Sequence[tuple[ReplicaFacts, SegmentPart]]
) -> list[Violation]:
    """All violations of one partition."""
    parts_by_replica: defaultdict[bytes, list[SegmentPart]] = defaultdict(list)
    for facts, segment_part in facts_and_parts:
        parts_by_replica[msgspec.msgpack.encode(facts)].append(segment_part)
    return sorted(judge_partition(_by_broker_and_offset(parts_by_replica)), key=_sort_key)


def _by_broker_and_offset(
    parts_by_replica: Mapping[bytes, Sequence[SegmentPart]],
) -> list[tuple[ReplicaFacts, Sequence[SegmentPart]]]:
    """The replicas of a partition by broker, their parts by offset."""
    return sorted(
        (
            (
                msgspec.msgpack.decode(facts_bytes, type=ReplicaFacts),
                sorted(segment_parts, key=lambda part: part.base_offset),
            )
            for facts_bytes, segment_parts in parts_by_replica.items()
        ),
        key=lambda facts_and_parts: _by_broker(facts_and_parts[0]),
    )


def _by_broker(facts: ReplicaFacts) -> tuple[int, str]:
    return facts.replica.broker, facts.replica.log_dir


# On the driver


def _work_of_replicas(
    replicas: Sequence[ReplicaFacts], on_unreadable: Callable[[Violation], object]
) -> Iterator[SegmentWork]:
    """The segments of one partition's replicas that can be read, as work."""
    segments_of_replicas = [_segments_of(facts, on_unreadable) for facts in replicas]
    start_offsets = [
        offsets_and_paths[0][0] if offsets_and_paths else 0
        for offsets_and_paths in segments_of_replicas
    ]
    for facts, offsets_and_paths in zip(
        comparable_facts(replicas, start_offsets), segments_of_replicas, strict=True
    ):
        if facts.recovery_point is None and offsets_and_paths:
            # It was not noted: only the newest segment was written to.
            facts = msgspec.structs.replace(facts, recovery_point=offsets_and_paths[-1][0])
        for segment_number, (base_offset, path) in enumerate(offsets_and_paths, 1):
            next_base_offset = (
                offsets_and_paths[segment_number][0]
                if segment_number < len(offsets_and_paths)
                else None
            )
            segment = SegmentFile(
                replica=facts.replica,
                path=str(path),
                base_offset=base_offset,
                next_base_offset=next_base_offset,
                size=path.stat().st_size,
            )
            yield SegmentWork(facts=facts, segment=segment)


def _segments_of(
    facts: ReplicaFacts, on_unreadable: Callable[[Violation], object]
) -> list[tuple[int, Path]]:
    folder = Path(facts.replica.path)
    try:
        files = names.Suffix.LOG.files_in(folder)
        if not files:
            _report_lost_log(facts, on_unreadable)
    except names.FileNameError as error:
        broken_rule = misnamed_file(error, "a file that is named for an offset")
        on_unreadable(facts.finding(broken_rule))
        return []
    segments = []
    for base_offset, path in files:
        problem = RegularFile(path).why_unreadable()
        if problem:
            broken_rule = BrokenRule(
                rule=Invariant.UNREADABLE_FILE,
                file=path.name,
                offset=base_offset,
                found=problem,
                expected="a segment that can be read",
            )
            on_unreadable(facts.finding(broken_rule))
        else:
            segments.append((base_offset, path))
    return segments


def _report_lost_log(facts: ReplicaFacts, on_unreadable: Callable[[Violation], object]) -> None:
    """Report a folder without a segment, if its broker or a snapshot says that it had records."""
    folder = Path(facts.replica.path)
    noted_offsets = (
        *(facts.high_watermark, facts.recovery_point, facts.log_start),
        *(offset for offset, _ in names.Suffix.SNAPSHOT.files_in(folder)),
    )
    noted_end = max(offset or 0 for offset in noted_offsets)
    if noted_end > 0:
        broken_rule = BrokenRule(
            rule=Invariant.CHECKPOINT,
            file=folder.name,
            offset=noted_end,
            found="no segment",
            expected=f"a log that reaches offset {noted_end}, as checkpoints or snapshots say",
        )
        on_unreadable(facts.finding(broken_rule))


def _folder_violation(problem: str, invariant: Invariant, severity: Severity) -> Violation:
    """The violation that a folder is passed by, from a sentence that begins with its path."""
    path_text, reason = path_and_reason(problem)
    return _log_dir_violation(Path(path_text), reason, invariant, severity)


def _log_dir_violation(
    path: Path, reason: str, invariant: Invariant, severity: Severity
) -> Violation:
    """A violation at a file or folder of a log directory."""
    return Violation(
        rule=invariant,
        severity=severity,
        broker=-1,
        log_dir=str(path.parent),
        topic="",
        partition=-1,
        file=path.name,
        position=None,
        offset=None,
        found=reason,
        expected="the folder of a replica",
    )

"""How far the log of each partition reaches, by small files: from which offset on nothing is
missing, and until which time it was copied. Kafka's counterparts: LogCleanerManager,
UnifiedLog.logStartOffset.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from txnsim.storage import checkpoints, names
from txnsim.txn.marker_payment import AFTER_ALL_MARKERS_MS
from txnsim.types import INTERNAL_TOPICS, TRANSACTION_STATE_TOPIC, TopicPartition
from txnsim_spark.forensics.find_hanging import NOT_JUDGED, DirectoryReader
from txnsim_spark.forensics.replica_state import ReplicaState
from txnsim_spark.forensics.verdicts import elected_replica
from txnsim_spark.scan.log_dirs import LogDirectory, ignore_problem, modified_ms, read_small

RUNNING_COPY_MS: Final = 60_000
"""How long the copy of a running broker's directory may take, unless its files tell more."""


class AuditedLog(msgspec.Struct, frozen=True, kw_only=True):
    """The log of a partition: the replica whose word counts."""

    state: ReplicaState
    complete_from: int | None
    """Offset from which on nothing is missing; None for the whole log."""
    reason: str
    """Why something may be missing below."""
    until_ms: int
    """Time until which the copy has everything, at least."""
    other_replicas: tuple[ReplicaState, ...] = ()
    """The other replicas, if all of them begin and end where this one does."""


class AuditedLogs(msgspec.Struct, frozen=True, kw_only=True):
    """The logs to compare."""

    log_by_partition: Mapping[TopicPartition, AuditedLog]
    undecided_reason_by_topic: Mapping[str, str] = {}
    """Topic -> why nobody knows which topic of this name lives."""
    living_topics: frozenset[str] | None = None
    """The topics that exist, by the metadata log; None without a copy of it."""
    missing_coordinators: str = ""
    """Which coordinators' logs are missing, in words; empty if none are."""

    @property
    def leaders(self) -> list[ReplicaState]:
        return [log.state for log in self.log_by_partition.values()]

    def why_absent(self, topic_partition: TopicPartition) -> str:
        """Why a partition has no log here."""
        if topic_partition.topic in self.undecided_reason_by_topic:
            return self.undecided_reason_by_topic[topic_partition.topic]
        if self.living_topics is not None and topic_partition.topic not in self.living_topics:
            return f"topic {topic_partition.topic} was deleted"
        return f"no replica of {topic_partition} is among the directories"


def audited_logs(
    replica_states: Sequence[ReplicaState],
    directory_reader: DirectoryReader,
    topics: frozenset[str],
) -> AuditedLogs:
    """The logs to compare, of living replicas.

    Args:
        replica_states: The living replicas (``Reading.living_states``).
        directory_reader: Has read them.
        topics: Topics to compare; all where empty. The coordinators' logs are always read.
    """
    replicas_by_partition: defaultdict[TopicPartition, list[ReplicaState]] = defaultdict(list)
    for state in replica_states:
        replicas_by_partition[state.replica.topic_partition].append(state)
    undecided_reason_by_topic = {
        topic: "; ".join(directory_reader.undecided_reasons(topic))
        for topic in {topic_partition.topic for topic_partition in replicas_by_partition}
        if directory_reader.undecided_reasons(topic)
    }
    checkpoint_by_dir: dict[str, _CleanerCheckpoint] = {}
    log_by_partition: dict[TopicPartition, AuditedLog] = {}
    for topic_partition, replicas in sorted(replicas_by_partition.items()):
        is_coordinator = topic_partition.topic == TRANSACTION_STATE_TOPIC
        if topic_partition.topic in undecided_reason_by_topic or (
            topic_partition.topic in NOT_JUDGED and not is_coordinator
        ):
            continue
        if topics and topic_partition.topic not in topics and not is_coordinator:
            continue
        elected_ends = elected_replica([state.ends for state in replicas])
        state = next(state for state in replicas if state.ends is elected_ends)
        log_dir = state.replica.log_dir
        if log_dir not in checkpoint_by_dir:
            checkpoint_by_dir[log_dir] = _CleanerCheckpoint(Path(log_dir))
        assignment = directory_reader.found_topics.assignments.get(topic_partition)
        missing_brokers = (
            set()
            if assignment is None
            else {*assignment.in_sync} - {state.replica.broker for state in replicas}
        )
        log = _audited_log(state, checkpoint_by_dir[log_dir], is_leader_here=not missing_brokers)
        log_by_partition[topic_partition] = msgspec.structs.replace(
            log, other_replicas=_equally_long(state, replicas)
        )
    topic_ids = directory_reader.found_topics.topic_ids
    return AuditedLogs(
        log_by_partition=log_by_partition,
        undecided_reason_by_topic=undecided_reason_by_topic,
        living_topics=None if topic_ids is None else frozenset(topic_ids) | INTERNAL_TOPICS,
        missing_coordinators=_missing_coordinators(log_by_partition, directory_reader),
    )


def _equally_long(
    leader_state: ReplicaState, replicas: Sequence[ReplicaState]
) -> tuple[ReplicaState, ...]:
    """The other replicas of a partition, if their logs span what the leader's does."""
    span = (leader_state.ends.log_start_offset, leader_state.ends.end_offset)
    other_replicas = tuple(state for state in replicas if state is not leader_state)
    is_comparable = leader_state.replica.topic != TRANSACTION_STATE_TOPIC and all(
        (state.ends.log_start_offset, state.ends.end_offset) == span for state in other_replicas
    )
    return other_replicas if is_comparable else ()


def other_replicas_of(
    logs: AuditedLogs, partitions: Sequence[TopicPartition]
) -> Iterator[AuditedLogs]:
    """The logs of some partitions on their other replicas, one after the other, each time with the
    coordinators' logs.
    """
    coordinator_log_by_partition = {
        topic_partition: log
        for topic_partition, log in logs.log_by_partition.items()
        if topic_partition.topic == TRANSACTION_STATE_TOPIC
    }
    replica_count_max = max(
        (
            len(logs.log_by_partition[topic_partition].other_replicas)
            for topic_partition in partitions
        ),
        default=0,
    )
    for replica_rank in range(replica_count_max):
        other_log_by_partition = {
            topic_partition: msgspec.structs.replace(
                log, state=log.other_replicas[replica_rank], other_replicas=()
            )
            for topic_partition in partitions
            if replica_rank < len((log := logs.log_by_partition[topic_partition]).other_replicas)
        }
        yield msgspec.structs.replace(
            logs, log_by_partition={**coordinator_log_by_partition, **other_log_by_partition}
        )


class _CleanerCheckpoint:
    """``cleaner-offset-checkpoint`` of a log directory, and when its broker last ran."""

    def __init__(self, log_dir: Path) -> None:
        file = log_dir / names.FileName.CLEANER_OFFSETS
        self.offsets = read_small(file, checkpoints.decode_offsets, ignore_problem)
        """None without such a file."""
        directory = LogDirectory.read(log_dir)
        self.ran_until_ms = max((time_ms for _, time_ms in directory.written_ms), default=-1)


def _audited_log(
    state: ReplicaState, checkpoint: _CleanerCheckpoint, *, is_leader_here: bool
) -> AuditedLog:
    topic_partition = state.replica.topic_partition
    start_offset = state.ends.log_start_offset
    complete_from, reason = None, ""
    if start_offset > 0:
        complete_from = start_offset
        reason = f"retention has deleted {topic_partition} below offset {start_offset}"
    cleaned_offset = _cleaned_offset(state, checkpoint)
    if cleaned_offset > start_offset:
        complete_from = cleaned_offset
        reason = f"the cleaner has been at {topic_partition} below offset {cleaned_offset}"
    epochs_file = Path(state.replica.path) / names.FileName.LEADER_EPOCHS
    until_ms = AFTER_ALL_MARKERS_MS
    if not (state.is_clean and is_leader_here):
        until_ms = max(checkpoint.ran_until_ms - RUNNING_COPY_MS, modified_ms(epochs_file))
    return AuditedLog(state=state, complete_from=complete_from, reason=reason, until_ms=until_ms)


def _cleaned_offset(state: ReplicaState, checkpoint: _CleanerCheckpoint) -> int:
    """Offset below which the cleaner may have been; 0 if it has not."""
    topic_partition = state.replica.topic_partition
    if checkpoint.offsets is not None:
        return checkpoint.offsets.get(topic_partition, 0)
    # Without the file, gaps tell it of coordinators' logs, which are read whole.
    is_compacted = (
        topic_partition.topic in INTERNAL_TOPICS
        and topic_partition.topic != TRANSACTION_STATE_TOPIC
    )
    if not is_compacted or len(state.segments) < 2:
        return 0
    return state.segments[-1].base_offset  # the cleaner never touches the newest segment


def _missing_coordinators(
    logs: Mapping[TopicPartition, AuditedLog], directory_reader: DirectoryReader
) -> str:
    present_partitions = {
        topic_partition.partition
        for topic_partition in logs
        if topic_partition.topic == TRANSACTION_STATE_TOPIC
    }
    expected_partitions = {
        topic_partition.partition
        for topic_partition in directory_reader.found_topics.assignments
        if topic_partition.topic == TRANSACTION_STATE_TOPIC
    }
    missing_partitions = expected_partitions - present_partitions
    if not missing_partitions:
        return ""
    missing_partition_list = _partition_list(missing_partitions)
    return (
        f"partitions of __transaction_state are not among the directories: {missing_partition_list}"
    )


def _partition_list(partitions: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(partitions)))

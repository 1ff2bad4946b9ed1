"""Judges all replicas of one partition, once their segments have been walked over."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from txnsim.log.producer_snapshot import SnapshotEntry
from txnsim.storage import checkpoints, names, producer_snapshot
from txnsim_spark.scan.segments import group_by_topic_id
from txnsim_spark.soundness._chain import judge_replica
from txnsim_spark.soundness._replica_rules import Replica, judge_replicas
from txnsim_spark.soundness.violations import BrokenRule, Violation, misnamed_file, read_or_report


def judge_partition(replicas: Sequence[Replica]) -> Iterator[Violation]:
    """All violations in each replica and between them.

    Args:
        replicas: Sorted by broker. Each is its facts and its segment parts in offset order, at
            least one.
    """
    for facts, segment_parts in replicas:
        directory = Path(facts.replica.path)
        broken_rules: list[BrokenRule] = []
        snapshots = read_snapshots(directory, broken_rules.append)
        read_epochs(directory, broken_rules.append)
        for broken_rule in broken_rules:
            yield facts.finding(broken_rule, segment_end=segment_parts[-1].end_offset)
        yield from judge_replica(facts, segment_parts, snapshots)
    for replicas_of_topic in group_by_topic_id(
        replicas, lambda broken_rule: broken_rule[0].topic_id
    ):
        yield from judge_replicas(replicas_of_topic)


def read_snapshots(
    directory: Path, on_broken: Callable[[BrokenRule], object]
) -> dict[int, tuple[SnapshotEntry, ...]]:
    """The readable snapshots of a replica by offset."""
    entries_by_offset: dict[int, tuple[SnapshotEntry, ...]] = {}
    try:
        offsets_and_paths = names.Suffix.SNAPSHOT.files_in(directory)
    except names.FileNameError as error:
        on_broken(misnamed_file(error, "a snapshot that is named for an offset"))
        return {}
    for offset, path in offsets_and_paths:
        snapshot_entries = read_or_report(
            path,
            producer_snapshot.decode,
            "a snapshot of producers (ProducerSnapshot.json)",
            on_broken,
            offset=offset,
            is_there=True,
        )
        if snapshot_entries is not None:
            entries_by_offset[offset] = snapshot_entries
    return entries_by_offset


def read_epochs(
    directory: Path, on_broken: Callable[[BrokenRule], object]
) -> tuple[tuple[int, int], ...] | None:
    """(leader epoch, first offset) of a replica's checkpoint; None without a readable one."""
    path = directory / names.FileName.LEADER_EPOCHS
    return read_or_report(
        path,
        lambda data: checkpoints.decode_leader_epochs(data.decode(), error_prefix=path.name),
        "leader epochs with their first offsets (LeaderEpochCheckpointFile)",
        on_broken,
        is_small=True,
    )

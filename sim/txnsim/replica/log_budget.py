"""The memory budget of a cluster's logs: when it is nearly used up, the oldest closed segments are
deleted.

A real broker has a disk, and ``log.retention.bytes`` for each log. Here the logs of all brokers
share the memory of one process, so they have one budget, ``log_budget_bytes``. It works as
retention does: whole segments are deleted from the old end of a log, the log start rises, and a
Fetch below it gets OFFSET_OUT_OF_RANGE. Never deleted are active segments, everything from the
first open transaction on, records that are not replicated, and compacted topics.

A log can only lose closed segments. So from half of the budget on, an active segment is closed when
it reaches a sixteenth of the budget.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from txnsim.log.partition_log import PartitionLog
from txnsim.replica.broker_logs import BrokerLogs, LogKey

DEVIATIONS: Final = (
    "The logs of a cluster share a budget of memory, log_budget_bytes (--log-budget), 1 GiB by "
    "default; Apache Kafka has disks. At its edge the oldest closed segments go, also before "
    "their topic's retention; compacted topics and all from the first open transaction on stay. "
    "From half of the budget on an active segment ends at a sixteenth of it.",
)

BUDGET_PARTS: Final = 16
"""Number of parts of the budget: two parts are freed when it is nearly used up, and one may be
written before the next check.
"""
LOGS_PER_STEP: Final = 256
"""Number of partitions that are checked between two pauses: about a millisecond."""
BATCH_BYTES: Final = 48
"""Memory that a batch takes in addition to its bytes, once for all replicas that share it."""
LIST_ENTRY_BYTES: Final = 28
"""Memory that a batch takes in the lists of each replica, in bytes."""

Replica = tuple[int, PartitionLog]
"""(index of the disk, log)."""


class BudgetCheck(msgspec.Struct, kw_only=True, gc=False):
    """The result of a check of all logs."""

    held_bytes: int = 0
    """Memory that the logs take, in bytes."""
    freed_bytes: int = 0
    """Bytes that were freed."""


class _ClosedSegment(msgspec.Struct, frozen=True, order=True):
    """A closed segment that may be deleted, together with all segments before it."""

    written_ms: int
    partition_index: int
    """Index of the partition."""
    next_offset: int
    """Offset after the segment."""
    memory_bytes: int


def held_bytes(replicas: Sequence[Replica]) -> int:
    """Memory that the replicas of a partition take, in bytes; most batches are shared by all."""
    largest_replica_bytes = list_bytes = 0
    for _, log in replicas:
        batch_count = segment_bytes = 0
        for segment in log.local.segments:
            batch_count += len(segment)
            segment_bytes += segment.size_bytes
        largest_replica_bytes = max(
            largest_replica_bytes, segment_bytes + batch_count * BATCH_BYTES
        )
        list_bytes += batch_count * LIST_ENTRY_BYTES
    return largest_replica_bytes + list_bytes


def replicas_by_partition(broker_logs: Sequence[BrokerLogs]) -> list[list[Replica]]:
    """Group the replicas on all disks by partition."""
    replicas_by_key: dict[LogKey, list[Replica]] = {}
    for disk_index, logs_of_broker in enumerate(broker_logs):
        for topic_id, log in logs_of_broker.replicas():
            replicas_by_key.setdefault((topic_id, log.topic_partition.partition), []).append(
                (disk_index, log)
            )
    return list(replicas_by_key.values())


def enforce_budget(
    broker_logs: Sequence[BrokerLogs], budget_bytes: int, now_ms: int, check: BudgetCheck
) -> Iterator[Replica | None]:
    """Check all logs, close large segments, and delete the oldest ones when the budget is nearly
    used up.

    Yields:
        Each log whose start has risen; None for a pause.
    """
    part_bytes = budget_bytes // BUDGET_PARTS
    partitions = replicas_by_partition(broker_logs)
    closed_segments: list[_ClosedSegment] = []
    for partition_index, replicas in enumerate(partitions):
        check.held_bytes += held_bytes(replicas)
        closed_segments += _closed_segments(partition_index, replicas)
        if partition_index % LOGS_PER_STEP == LOGS_PER_STEP - 1:
            yield None
    if check.held_bytes < budget_bytes // 2:
        return
    excess_bytes = (
        check.held_bytes - (budget_bytes - 2 * part_bytes)
        if check.held_bytes > budget_bytes - part_bytes
        else 0
    )
    new_starts: dict[int, int] = {}
    for segment in sorted(closed_segments):
        if check.freed_bytes >= excess_bytes:
            break
        new_starts[segment.partition_index] = segment.next_offset
        check.freed_bytes += segment.memory_bytes
    for partition_index, new_start in new_starts.items():
        for disk_index, log in partitions[partition_index]:
            if new_start <= log.last_stable_offset and log.raise_log_start(new_start):
                log.delete_old_segments(now_ms)
                yield disk_index, log
        yield None
    _roll_active_segments(partitions, part_bytes, excess_bytes - check.freed_bytes, now_ms)


def _closed_segments(partition_index: int, replicas: Sequence[Replica]) -> Iterator[_ClosedSegment]:
    """Deletable segments of a partition, by its most advanced replica."""
    _, log = max(replicas, key=lambda replica: replica[1].high_watermark)
    segments = log.local.segments
    if len(segments) == 1 or log.config.is_compacted:
        return
    last_stable_offset = log.last_stable_offset
    written_ms = 0
    for segment in segments.inactive_segments:
        next_offset = segments.higher_base_offset(segment, last_stable_offset)
        if next_offset > last_stable_offset:
            return
        written_ms = max(written_ms, segment.modified_ms)
        memory_bytes = segment.size_bytes + len(segment) * (
            BATCH_BYTES + LIST_ENTRY_BYTES * len(replicas)
        )
        yield _ClosedSegment(written_ms, partition_index, next_offset, memory_bytes)


def _roll_active_segments(
    partitions: Sequence[Sequence[Replica]], part_bytes: int, missing_bytes: int, now_ms: int
) -> None:
    """Close active segments that are at least ``part_bytes`` large, and smaller ones, largest
    first, while closed segments do not suffice: those may be deleted the next time.
    """
    active_segments = [
        (max(log.local.segments.active.size_bytes for _, log in replicas), -partition_index)
        for partition_index, replicas in enumerate(partitions)
        if not replicas[0][1].config.is_compacted
    ]
    for active_bytes, negated_index in sorted(active_segments, reverse=True):
        if not active_bytes or (active_bytes < part_bytes and missing_bytes <= 0):
            return
        missing_bytes -= active_bytes
        for _, log in partitions[-negated_index]:
            log.roll(now_ms)

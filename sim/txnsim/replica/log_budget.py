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

PARTS: Final = 16
"""Number of parts of the budget: two parts are freed when it is nearly used up, and one may be
written before the next check.
"""
LOGS_PER_STEP: Final = 256
"""Number of partitions that are checked between two pauses: about a millisecond."""
BATCH_BYTES: Final = 48
"""Memory that a batch takes in addition to its bytes, once for all replicas that share it."""
PLACE_BYTES: Final = 28
"""Memory that a batch takes in the lists of each replica, in bytes."""

Replica = tuple[int, PartitionLog]
"""(index of the disk, log)."""


class Look(msgspec.Struct, kw_only=True, gc=False):
    """The result of a check of all logs."""

    held_bytes: int = 0
    """Memory that the logs take, in bytes."""
    freed: int = 0
    """Bytes that were freed."""


class _Closed(msgspec.Struct, frozen=True, order=True):
    """A closed segment that may be deleted, together with all segments before it."""

    written_ms: int
    index: int
    """Index of the partition."""
    upper: int
    """Offset after the segment."""
    size: int


def held_bytes(replicas: Sequence[Replica]) -> int:
    """Memory that the replicas of a partition take, in bytes; most batches are shared by all."""
    largest = places = 0
    for _, log in replicas:
        batches = size = 0
        for segment in log.local.segments:
            batches += len(segment)
            size += segment.size_bytes
        largest = max(largest, size + batches * BATCH_BYTES)
        places += batches * PLACE_BYTES
    return largest + places


def by_partition(disks: Sequence[BrokerLogs]) -> list[list[Replica]]:
    """Group the replicas on all disks by partition."""
    replicas_by_key: dict[LogKey, list[Replica]] = {}
    for number, disk in enumerate(disks):
        for topic_id, log in disk.replicas():
            replicas_by_key.setdefault((topic_id, log.topic_partition.partition), []).append(
                (number, log)
            )
    return list(replicas_by_key.values())


def enforce(
    disks: Sequence[BrokerLogs], budget: int, now_ms: int, look: Look
) -> Iterator[Replica | None]:
    """Check all logs, close large segments, and delete the oldest ones when the budget is nearly
    used up.

    Yields:
        Each log whose start has risen; None for a pause.
    """
    part = budget // PARTS
    partitions = by_partition(disks)
    closed: list[_Closed] = []
    for index, replicas in enumerate(partitions):
        look.held_bytes += held_bytes(replicas)
        closed += _closed_segments(index, replicas)
        if index % LOGS_PER_STEP == LOGS_PER_STEP - 1:
            yield None
    if look.held_bytes < budget // 2:
        return
    excess = look.held_bytes - (budget - 2 * part) if look.held_bytes > budget - part else 0
    uppers: dict[int, int] = {}
    for segment in sorted(closed):
        if look.freed >= excess:
            break
        uppers[segment.index] = segment.upper
        look.freed += segment.size
    for index, upper in uppers.items():
        for number, log in partitions[index]:
            if upper <= log.last_stable_offset and log.raise_log_start(upper):
                log.delete_old_segments(now_ms)
                yield number, log
        yield None
    _end_segments(partitions, part, excess - look.freed, now_ms)


def _closed_segments(index: int, replicas: Sequence[Replica]) -> Iterator[_Closed]:
    """Deletable segments of a partition, by its most advanced replica."""
    _, log = max(replicas, key=lambda replica: replica[1].high_watermark)
    segments = log.local.segments
    if len(segments) == 1 or log.config.is_compacted:
        return
    below = log.last_stable_offset
    written_ms = 0
    for segment in segments.inactive:
        upper = segments.higher_base_offset(segment, below)
        if upper > below:
            return
        written_ms = max(written_ms, segment.modified_ms)
        size = segment.size_bytes + len(segment) * (BATCH_BYTES + PLACE_BYTES * len(replicas))
        yield _Closed(written_ms, index, upper, size)


def _end_segments(
    partitions: Sequence[Sequence[Replica]], part: int, missing: int, now_ms: int
) -> None:
    """Close active segments that are at least ``part`` bytes large, and smaller ones, largest
    first, while closed segments do not suffice: those may be deleted the next time.
    """
    active = [
        (max(log.local.segments.active.size_bytes for _, log in replicas), -index)
        for index, replicas in enumerate(partitions)
        if not replicas[0][1].config.is_compacted
    ]
    for size, index in sorted(active, reverse=True):
        if not size or (size < part and missing <= 0):
            return
        missing -= size
        for _, log in partitions[-index]:
            log.roll(now_ms)

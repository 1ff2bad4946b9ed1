"""Finds groups whose ``read_committed`` consumers can't pass an open transaction: how far each
group can still read, how much is hidden from it, which transaction blocks it and since when.

No file says which isolation level a group's consumers use. Consumers that read uncommitted data
don't wait.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from txnsim.types import TopicPartition
from txnsim_spark.engine import NewSession, Progress
from txnsim_spark.forensics.find_hanging import Search, find_hanging
from txnsim_spark.forensics.findings import Finding, PartitionFigures, Report
from txnsim_spark.questions._positions import Positions, group_positions


class Waiter(msgspec.Struct, frozen=True, kw_only=True):
    """A group that waits for an open transaction of one partition."""

    group: str
    topic: str
    partition: int
    committed_offset: int
    """Position of the group, next to be consumed."""
    committed_at_ms: int
    last_stable_offset: int
    """Last stable offset of the replica on which the verdict is based; the high watermark is from
    it, too.
    """
    high_watermark: int
    to_read: int
    """Number of offsets from the position to the last stable offset, still readable."""
    withheld: int
    """Number of offsets from the LSO, or a later position, to the high watermark."""
    producer_id: int
    """Id of the producer whose transaction blocks the group."""
    producer_epoch: int
    start_offset: int
    transactional_id: str | None
    verdict: str
    """Verdict on the blocking transaction."""
    since_ms: int | None
    """Start of the transaction; None without its first batch."""
    for_ms: int | None
    """Milliseconds from ``since_ms`` to ``as_of_ms``."""


class WaitingGroups(msgspec.Struct, frozen=True, kw_only=True):
    """The groups that wait for open transactions, and what could not be read."""

    as_of_ms: int
    waiters: tuple[Waiter, ...]
    unread: tuple[TopicPartition, ...]
    """Partitions with a hidden part on which no group has a position."""
    offsets_partitions: tuple[int, ...]
    """Partitions of ``__consumer_offsets`` that are among the directories. Groups of other
    partitions can't be seen.
    """
    problems: tuple[str, ...]


def find_waiting_groups(
    search: Search, *, new_session: NewSession, progress: Progress
) -> WaitingGroups:
    """Find the groups in some log directories that wait for open transactions."""
    report = find_hanging(search, new_session=new_session, progress=progress)
    problems: dict[str, None] = {}
    progress("reading __consumer_offsets")
    positions = group_positions(search.paths, problems.setdefault)
    return join_waiting_groups(report, positions, problems)


def join_waiting_groups(
    report: Report, positions: Positions, problems: Iterable[str] = ()
) -> WaitingGroups:
    """The waiting groups, from open transactions and positions.

    Args:
        report: The report on open transactions.
        positions: The positions of groups.
        problems: Problems of reading the positions.
    """
    blocked_partitions = {
        TopicPartition(figures.topic, figures.partition): figures
        for figures in report.partitions
        if figures.lag > 0
    }
    finding_by_partition = _oldest_open_txns(report, blocked_partitions.values())
    waiters = []
    for (group, partition), position in positions.position_by_group_partition.items():
        figures = blocked_partitions.get(partition)
        if figures is None or position.offset >= figures.high_watermark:
            continue
        blocking_finding = finding_by_partition[partition]
        last_stable_offset = figures.last_stable_offset
        waiters.append(
            Waiter(
                group=group,
                topic=partition.topic,
                partition=partition.partition,
                committed_offset=position.offset,
                committed_at_ms=position.committed_at_ms,
                last_stable_offset=last_stable_offset,
                high_watermark=figures.high_watermark,
                to_read=max(0, last_stable_offset - position.offset),
                withheld=figures.high_watermark - max(last_stable_offset, position.offset),
                producer_id=blocking_finding.producer_id,
                producer_epoch=blocking_finding.producer_epoch,
                start_offset=blocking_finding.start_offset,
                transactional_id=blocking_finding.transactional_id,
                verdict=blocking_finding.verdict.value,
                since_ms=blocking_finding.start_timestamp_ms,
                for_ms=None
                if blocking_finding.start_timestamp_ms is None
                else report.as_of_ms - blocking_finding.start_timestamp_ms,
            )
        )
    partitions_with_waiter = {(waiter.topic, waiter.partition) for waiter in waiters}
    return WaitingGroups(
        as_of_ms=report.as_of_ms,
        waiters=tuple(
            sorted(waiters, key=lambda waiter: (waiter.group, waiter.topic, waiter.partition))
        ),
        unread=tuple(
            sorted(
                partition
                for partition in blocked_partitions
                if (partition.topic, partition.partition) not in partitions_with_waiter
            )
        ),
        offsets_partitions=positions.partitions,
        problems=tuple(sorted({*report.source.problems, *problems})),
    )


def _oldest_open_txns(
    report: Report, blocked_partitions: Iterable[PartitionFigures]
) -> dict[TopicPartition, Finding]:
    """Partition -> its oldest open transaction, which blocks readers."""
    finding_by_partition: dict[TopicPartition, Finding] = {}
    blocked_keys = {
        (figures.topic, figures.partition, figures.producer_id): figures
        for figures in blocked_partitions
    }
    for finding in report.findings:
        if (finding.topic, finding.partition, finding.producer_id) in blocked_keys:
            finding_by_partition[finding.topic_partition] = finding
    return finding_by_partition

"""Finds readers that get nothing: a transaction without an owner blocks them, or the cause is
unknown.

The checker looks at the end of a history only: a reader that goes on after a repair is healthy.
"For too long" means longer than any transaction may live, plus the five minutes that
``PartitionsWithLateTransactionsCount`` grants (KIP-664).
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from txnsim.types import TopicPartition
from txnsim_lab.check._coordinators import stuck_partitions, timeouts_of
from txnsim_lab.check._hanging import hanging
from txnsim_lab.check._topics import deleted_topics
from txnsim_lab.check.anomaly import Anomaly, Kind, convict
from txnsim_lab.check.history import History
from txnsim_lab.check.observations import UNKNOWN_OFFSET, Read

TIMEOUT_MAX_MS: Final = 15 * 60_000
"""``transaction.max.timeout.ms`` unless a producer was seen with a longer one."""
PADDING_MS: Final = 5 * 60_000


def stuck_last_stable_offsets(history: History) -> tuple[Anomaly, ...]:
    """A transaction without an owner blocks the readers of a partition."""
    return tuple(
        convict(
            Kind.STUCK_LAST_STABLE_OFFSET,
            f"{transaction.topic_partition}: the transaction of producer"
            f" {transaction.producer_id} that is open since "
            f"{transaction.start_offset} keeps readers at {transaction.last_stable_offset}, below "
            f"{transaction.high_watermark}, and no coordinator will end it",
            *transaction.evidence,
        )
        for transaction in hanging(history)
    )


def starving_readers(history: History) -> tuple[Anomaly, ...]:
    """A reader gets nothing, and neither a hanging transaction nor a stuck coordinator explains it.
    There are two forms: the reader is before the last stable offset and gets nothing twice; or it
    has reached the last stable offset, which stays below the high watermark for longer than any
    transaction may live.
    """
    explained = {
        transaction.topic_partition for transaction in hanging(history)
    } | stuck_partitions(history)
    deleted_topic_names = deleted_topics(history)
    patience_ms = blocking_limit_ms(history)
    anomalies = []
    for (reader_name, partition), last_reads in sorted(_reads_without_progress(history).items()):
        is_explained = partition in explained or partition.topic in deleted_topic_names
        if not is_explained and len(last_reads) > 1:
            anomalies += _find_starving(reader_name, partition, last_reads, patience_ms)
    return tuple(anomalies)


def _find_starving(
    reader_name: str,
    partition: TopicPartition,
    last_reads: list[tuple[int, Read]],
    patience_ms: int,
) -> list[Anomaly]:
    """The anomalies in a reader's last Reads of a partition, which returned no records."""
    last_index, last_read = last_reads[-1]
    if all(read.last_stable_offset > read.asked for _, read in last_reads[-2:]):
        reason = (
            f"{reader_name} gets nothing at {partition}@{last_read.asked}, though readers may go "
            f"up to {last_read.last_stable_offset}"
        )
        return [convict(Kind.STARVING_READER, reason, last_reads[-2][0], last_index)]
    first_index, first_read = _first_read_held_back(last_reads)
    waited_ms = last_read.at_ms - first_read.at_ms
    if waited_ms > patience_ms:
        reason = (
            f"{reader_name} has been held at {partition}@{last_read.asked} for {waited_ms} ms, "
            f"below {last_read.high_watermark}; no transaction may be open for so long"
        )
        return [convict(Kind.STARVING_READER, reason, first_index, last_index)]
    return []


def _first_read_held_back(last_reads: list[tuple[int, Read]]) -> tuple[int, Read]:
    """The first Read at which the present last stable offset blocked the reader. Before that, there
    may have been no records after it, and the reader only waited for new ones.
    """
    first_index, first_read = last_reads[-1]
    last_read = first_read
    for index, read in reversed(last_reads):
        if not read.last_stable_offset == last_read.last_stable_offset < read.high_watermark:
            break
        first_index, first_read = index, read
    return first_index, first_read


def _reads_without_progress(
    history: History,
) -> dict[tuple[str, TopicPartition], list[tuple[int, Read]]]:
    """(reader, partition) -> its last Reads, all from one offset and without records."""
    reads_by_reader: dict[tuple[str, TopicPartition], list[tuple[int, Read]]] = defaultdict(list)
    for index, read in history.committed_reads():
        last_reads = reads_by_reader[read.who, read.place]
        makes_no_progress = not read.records and read.next_offset == read.asked
        if not makes_no_progress or (last_reads and last_reads[-1][1].asked != read.asked):
            last_reads.clear()
        if makes_no_progress and read.last_stable_offset != UNKNOWN_OFFSET:
            last_reads.append((index, read))
    return reads_by_reader


def blocking_limit_ms(history: History) -> int:
    """Time for which a transaction may block readers, in milliseconds."""
    return max((TIMEOUT_MAX_MS, *timeouts_of(history).values())) + PADDING_MS

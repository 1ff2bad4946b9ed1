"""Filters fetched records for the user of a consumer: no control records, and with read_committed
no aborted ones.

Pure. A broker sends whole batches, and with read_committed the list of aborted transactions that
touch them; leaving those out is the client's work. The rule is that of Kafka's ``CompletedFetch``:
an aborted transaction is active from its first offset on, for its producer id, until that
producer's abort marker.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import msgspec

from txnsim.types import IsolationLevel, Offset, ProducerId, TopicPartition
from txnsim.wire.batch import (
    ABORT,
    BatchHeader,
    Buffer,
    Record,
    iter_batches,
    read_control_record,
    read_records,
)


class AbortedTransaction(msgspec.Struct, frozen=True, kw_only=True):
    """An aborted transaction that a Fetch answer lists."""

    producer_id: ProducerId
    first_offset: Offset


class ConsumedRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A record as a consumer delivers it, with the producer that its batch names."""

    partition: TopicPartition
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    producer_id: int
    producer_epoch: int
    transactional: bool


class SeenMarker(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction marker among fetched batches."""

    offset: int
    producer_id: int
    committed: bool
    producer_epoch: int = -1
    timestamp_ms: int = -1
    """When the leader wrote it."""


class Visible(msgspec.Struct, frozen=True, kw_only=True):
    """Visible records, and the next position of the reader."""

    records: tuple[ConsumedRecord, ...]
    next_offset: int
    markers: tuple[SeenMarker, ...] = ()
    is_whole: bool = True
    """False if the log cleaner has removed batches or markers in between."""


def visible_records(
    partition: TopicPartition,
    record_bytes: Buffer,
    *,
    fetch_offset: int,
    isolation: IsolationLevel,
    aborted: Sequence[AbortedTransaction] = (),
) -> Visible:
    """Read fetched bytes.

    Args:
        partition: The partition of the bytes.
        record_bytes: Whole batches; the first may begin before ``fetch_offset``, a partial one at
            the end is ignored.
        fetch_offset: Records below are left out.
        isolation: Whether aborted records are left out.
        aborted: The answer's list, in any order; the same producer id may occur several times.

    Returns:
        The records in order, and the offset after the last batch: including batches without visible
            records.

    Raises:
        CorruptBatchError: The bytes are no record batches.
    """
    transactions_ahead = [
        (aborted_txn.first_offset, aborted_txn.producer_id) for aborted_txn in aborted
    ]
    heapq.heapify(transactions_ahead)
    active_producers: set[int] = set()
    records: list[ConsumedRecord] = []
    markers: list[SeenMarker] = []
    next_offset = fetch_offset
    is_whole = True
    for position, batch in iter_batches(record_bytes):
        is_whole = is_whole and batch.base_offset <= next_offset
        next_offset = max(next_offset, batch.last_offset + 1)
        if isolation is IsolationLevel.READ_COMMITTED:
            while transactions_ahead and transactions_ahead[0][0] <= batch.last_offset:
                active_producers.add(heapq.heappop(transactions_ahead)[1])
        if batch.is_control:
            marker = read_control_record(record_bytes, position)
            if marker is None:
                is_whole = False
                continue
            if marker.type == ABORT:
                active_producers.discard(batch.producer_id)
            markers.append(_seen_marker(batch, is_commit=marker.type != ABORT))
            continue
        if batch.is_transactional and batch.producer_id in active_producers:
            continue
        for record in read_records(record_bytes, position):
            if record.offset < fetch_offset:
                continue
            records.append(_consumed_record(partition, batch, record))
    return Visible(
        records=tuple(records),
        next_offset=next_offset,
        markers=tuple(markers),
        is_whole=is_whole,
    )


def _seen_marker(batch: BatchHeader, *, is_commit: bool) -> SeenMarker:
    return SeenMarker(
        offset=batch.base_offset,
        producer_id=batch.producer_id,
        committed=is_commit,
        producer_epoch=batch.producer_epoch,
        timestamp_ms=batch.max_timestamp_ms,
    )


def _consumed_record(
    partition: TopicPartition, batch: BatchHeader, record: Record
) -> ConsumedRecord:
    assert record.timestamp_ms is not None  # reading always gives one
    return ConsumedRecord(
        partition=partition,
        offset=record.offset,
        timestamp_ms=record.timestamp_ms,
        key=record.key,
        value=record.value,
        headers=record.headers,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        transactional=batch.is_transactional,
    )

"""Batches that a broker makes of others: with fewer records, with another codec, or emptied.

The cleaner and a leader whose topic has a codec of its own do this; everybody else stores a
producer's bytes as they are. ``scan_records`` looks at records without making objects of them.
Kafka's counterparts: MemoryRecords.filterTo and buildRetainedRecordsInto, LogValidator's
buildRecordsAndAssignOffsets, DefaultRecordBatch.writeEmptyHeader.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from txnsim.errors import CorruptBatchError
from txnsim.wire.batch_header import (
    COMPRESSION_MASK,
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    HEADER_SIZE,
    LOG_APPEND_TIME_FLAG,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    pack_batch,
)
from txnsim.wire.compression import compress
from txnsim.wire.records import (
    RECORD_MIN,
    VARINT_BYTES_MAX,
    VARLONG_BYTES_MAX,
    Record,
    encode_record,
    payload_of,
    read_signed,
)

_KEPT_FLAGS: Final = LOG_APPEND_TIME_FLAG | TRANSACTIONAL_FLAG | CONTROL_FLAG
NO_TIMESTAMP: Final = -1


class Scanned(NamedTuple):
    """What a broker asks of one record."""

    timestamp_delta_ms: int
    offset_delta: int
    key: bytes | None
    has_value: bool


def scan_records(payload: bytes, count: int, at: int = 0) -> Iterator[Scanned]:
    """Walk the records of a batch, checked as ``read_records`` checks them.

    Args:
        payload: The records, decompressed; they end where it ends.
        count: How many the header states.
        at: Where the first one begins.

    Raises:
        CorruptBatchError: A record is not what its lengths say, or the count is wrong.
    """
    if count < 0 or count * RECORD_MIN > len(payload) - at:
        raise CorruptBatchError(f"{count} records do not fit in {len(payload) - at} bytes")
    try:
        for _ in range(count):
            size, at = read_signed(payload, at, VARINT_BYTES_MAX)
            end = at + size
            if size < 0 or end > len(payload):
                raise CorruptBatchError(f"a record of {size} bytes at byte {at} is cut off")
            timestamp_delta_ms, at = read_signed(payload, at + 1, VARLONG_BYTES_MAX)
            offset_delta, at = read_signed(payload, at, VARINT_BYTES_MAX)
            key, at = _field(payload, at)
            value_size, at = read_signed(payload, at, VARINT_BYTES_MAX)
            at += max(0, value_size)
            at = _skip_headers(payload, at, end)
            if at != end:
                raise CorruptBatchError(f"a record ends at byte {at}, its size says {end}")
            yield Scanned(timestamp_delta_ms, offset_delta, key, value_size >= 0)
    except IndexError:
        raise CorruptBatchError("a record is cut off") from None
    if at != len(payload):
        raise CorruptBatchError(f"{len(payload) - at} bytes after the last record")


def filtered_batch(
    header: BatchHeader, records: Sequence[Record], *, delete_horizon_ms: int | None
) -> bytes:
    """The batch with these of its records alone, at their offsets and in its codec.

    Base and last offset stay, so sequences stay, too; a delete horizon takes the place of the base
    timestamp (KIP-534).
    """
    base_timestamp_ms = delete_horizon_ms
    if base_timestamp_ms is None:
        base_timestamp_ms = _time_of(records[0])
    return _packed(
        header,
        records,
        base_offset=header.base_offset,
        codec=header.compression,
        flags=(header.attributes & _KEPT_FLAGS)
        | (0 if delete_horizon_ms is None else DELETE_HORIZON_FLAG),
        base_timestamp_ms=base_timestamp_ms,
        max_timestamp_ms=header.max_timestamp_ms
        if header.is_log_append_time
        else max(map(_time_of, records)),
    )


def recoded_batch(
    header: BatchHeader, records: Sequence[Record], *, codec: int, level: int | None = None
) -> bytes:
    """A producer's batch in another codec, its records numbered in order.

    Args:
        header: Of the batch as it came.
        records: All of them.
        codec: The topic's.
        level: Of compression; None for the codec's own.
    """
    return _packed(
        header,
        records,
        base_offset=None,
        codec=codec,
        flags=header.attributes & _KEPT_FLAGS & ~LOG_APPEND_TIME_FLAG,
        base_timestamp_ms=_time_of(records[0]),
        max_timestamp_ms=max(map(_time_of, records)),
        level=level,
    )


def empty_batch(header: BatchHeader) -> bytes:
    """The batch without its records: what keeps a producer's last sequence and epoch, or the last
    offset of a cleaned part.
    """
    return pack_batch(
        b"",
        base_offset=header.base_offset,
        leader_epoch=header.leader_epoch,
        attributes=header.attributes & _KEPT_FLAGS,
        last_offset_delta=header.last_offset_delta,
        base_timestamp_ms=NO_TIMESTAMP,
        max_timestamp_ms=header.max_timestamp_ms,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        records_count=0,
    )


def batch_keys(batch: bytes, header: BatchHeader) -> Iterator[tuple[int, bytes | None, bool]]:
    """(offset, key, whether there is a value) of each record of a stored batch.

    Raises:
        CorruptBatchError: The batch can't be read.
        MissingExtraError: Its codec needs a library that is not installed.
    """
    is_only = header.records_count == 1 and not header.last_offset_delta
    at = None
    if is_only and not header.attributes & COMPRESSION_MASK:
        at = _key_position(batch)
    if at is not None:
        size, at = read_signed(batch, at, VARINT_BYTES_MAX)
        key = None
        if size >= 0:
            key = batch[at : at + size]
            at += size
        # The length of the value is zig-zag: odd is below 0.
        yield header.base_offset, key, not batch[at] & 1
        return
    for record in scan_records(payload_of(batch, header), header.records_count):
        yield header.base_offset + record.offset_delta, record.key, record.has_value


def _key_position(batch: bytes) -> int | None:
    """Where the key of the only record of an uncompressed batch begins, with its length; None where
    that record is not the first one of its batch. The quick way for what coordinators write.
    """
    at = HEADER_SIZE
    while batch[at] > 0x7F:  # the record's length
        at += 1
    at += 2  # and its attributes
    while batch[at] > 0x7F:  # the delta of its timestamp
        at += 1
    return None if batch[at + 1] else at + 2  # the delta of its offset


def _packed(
    header: BatchHeader,
    records: Sequence[Record],
    *,
    base_offset: int | None,
    codec: int,
    flags: int,
    base_timestamp_ms: int,
    max_timestamp_ms: int,
    level: int | None = None,
) -> bytes:
    pieces = [
        encode_record(
            record,
            offset_delta=number if base_offset is None else record.offset - base_offset,
            timestamp_delta_ms=_time_of(record) - base_timestamp_ms,
        )
        for number, record in enumerate(records)
    ]
    return pack_batch(
        compress(codec, b"".join(pieces), level),
        base_offset=header.base_offset,
        leader_epoch=header.leader_epoch,
        attributes=codec | flags,
        last_offset_delta=header.last_offset_delta,
        base_timestamp_ms=base_timestamp_ms,
        max_timestamp_ms=max_timestamp_ms,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        records_count=len(records),
    )


def _time_of(record: Record) -> int:
    """The timestamp of a record that was read, which always has one."""
    assert record.timestamp_ms is not None
    return record.timestamp_ms


def _field(payload: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = read_signed(payload, at, VARINT_BYTES_MAX)
    if size < 0:
        return None, at
    return payload[at : at + size], at + size


def _skip_headers(payload: bytes, at: int, end: int) -> int:
    count, at = read_signed(payload, at, VARINT_BYTES_MAX)
    if count < 0 or count > max(0, end - at):
        raise CorruptBatchError(f"{count} headers in {end - at} bytes")
    for _ in range(count):
        key, at = _field(payload, at)
        if key is None:
            raise CorruptBatchError("a header without key")
        _, at = _field(payload, at)
    return at

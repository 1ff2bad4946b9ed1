"""The records inside a batch: built for our clients and logs, and read where their content matters.

A broker reads records only to validate them (compacted topics, timestamps, compressed batches) and
to load its internal topics; otherwise it stores and serves whole batches. Kafka's counterparts are
``DefaultRecord`` and ``MemoryRecordsBuilder``. Timestamps are exact milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import ClassVar, Final, Generic, TypeVar

import msgspec

from txnsim.errors import CorruptBatchError
from txnsim.wire.batch_header import BatchHeader, Buffer, pack_batch, read_batch_header
from txnsim.wire.compression import compress, decompress
from txnsim.wire.varint import SMALL_VARINTS, encode_uvarint

Header = tuple[str, bytes | None]
ItemT = TypeVar("ItemT")

VARINT_BYTES_MAX: Final = 5
VARLONG_BYTES_MAX: Final = 10


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One record. Reading sets ``offset``; building ignores it."""

    key: bytes | None = None
    value: bytes | None = None
    timestamp_ms: int | None = None
    """When building, None stands for the batch's timestamp; after reading it is always set."""
    headers: tuple[Header, ...] = ()
    offset: int = -1

    BYTES_MIN: ClassVar = 7
    """Smallest record: its length and six more one-byte fields."""


# Building


def build_batch(
    records: Sequence[Record],
    *,
    timestamp_ms: int,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    is_transactional: bool = False,
    compression: int = 0,
    has_log_append_time: bool = False,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytes:
    """Build a batch as a producer sends it, or as a leader appends it to an internal topic.

    Args:
        records: At least one; they get consecutive offsets.
        timestamp_ms: Timestamp of records without one; of all of them with ``has_log_append_time``.
        producer_id: -1 without idempotence.
        producer_epoch: -1 without idempotence.
        base_sequence: Sequence number of the first record; -1 without idempotence.
        is_transactional: Whether it is part of a transaction.
        compression: Codec number, see ``compression``.
        has_log_append_time: Timestamp type LogAppendTime instead of CreateTime.
        base_offset: 0 when a producer sends it.
        leader_epoch: -1 when a producer sends it.

    Raises:
        ValueError: There are no records.
        MissingExtraError: The codec needs a library that is not installed.
    """
    if not records:
        raise ValueError("a batch needs at least one record")
    timestamps_ms = [
        timestamp_ms if record.timestamp_ms is None else record.timestamp_ms for record in records
    ]
    base_timestamp_ms = timestamps_ms[0]
    encoded_records: list[bytes] = []
    for offset_delta, (record, time_ms) in enumerate(zip(records, timestamps_ms, strict=True)):
        encoded_records.append(
            encode_record(
                record, offset_delta=offset_delta, timestamp_delta_ms=time_ms - base_timestamp_ms
            )
        )
    attributes = compression
    if is_transactional:
        attributes |= BatchHeader.TRANSACTIONAL
    if has_log_append_time:
        attributes |= BatchHeader.LOG_APPEND_TIME
    return pack_batch(
        compress(compression, b"".join(encoded_records)),
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        attributes=attributes,
        last_offset_delta=len(records) - 1,
        base_timestamp_ms=base_timestamp_ms,
        max_timestamp_ms=timestamp_ms if has_log_append_time else max(timestamps_ms),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        records_count=len(records),
    )


def in_batches(
    items: Iterable[ItemT], encode: Callable[[ItemT, int], bytes], *, batch_bytes_max: int
) -> Iterator[tuple[list[ItemT], list[bytes]]]:
    """Distribute records over as few batches as possible; a batch has at least one record
    (MemoryRecordsBuilder.hasRoomFor).

    Args:
        items: One item for each record.
        encode: Encodes an item's record with its length; gets the item and its index in the batch.
        batch_bytes_max: The log's ``max.message.bytes``.

    Yields:
        The items of a batch, and their encoded records.
    """
    filled_batches = FilledBatches(encode, batch_bytes_max=batch_bytes_max)
    for item in items:
        full_batch = filled_batches.add(item)
        if full_batch is not None:
            yield full_batch
    if filled_batches.last[0]:
        yield filled_batches.last


class FilledBatches(Generic[ItemT]):
    """Batches that are filled record by record, as ``in_batches`` does, for work with breaks."""

    __slots__ = ("_batch_bytes", "_batch_bytes_max", "_encode", "last")

    def __init__(
        self, encode: Callable[[ItemT, int], bytes], *, batch_bytes_max: int | None
    ) -> None:
        """Args: encode: Encodes an item's record with its length; gets the item and its index in
        the batch. batch_bytes_max: The log's ``max.message.bytes``; None for one batch of any size.
        """
        self._encode = encode
        self._batch_bytes_max = batch_bytes_max
        self._batch_bytes = BatchHeader.SIZE
        self.last: tuple[list[ItemT], list[bytes]] = ([], [])
        """The items of the batch that is being filled, and their encoded records."""

    def add(self, item: ItemT) -> tuple[list[ItemT], list[bytes]] | None:
        """Add an item; returns the batch that is full if the item begins a new one."""
        full_batch = None
        encoded_item = self._encode(item, len(self.last[0]))
        if (
            self._batch_bytes_max is not None
            and self.last[0]
            and self._batch_bytes + len(encoded_item) > self._batch_bytes_max
        ):
            full_batch, self.last = self.last, ([], [])
            self._batch_bytes = BatchHeader.SIZE
            encoded_item = self._encode(item, 0)
        batch_items, encoded_items = self.last
        batch_items.append(item)
        encoded_items.append(encoded_item)
        self._batch_bytes += len(encoded_item)
        return full_batch


def encode_record(record: Record, *, offset_delta: int, timestamp_delta_ms: int) -> bytes:
    """Encode a record, with its length in front."""
    pieces = [b"\0", signed_varint(timestamp_delta_ms), signed_varint(offset_delta)]
    _put_bytes(pieces, record.key)
    _put_bytes(pieces, record.value)
    pieces.append(signed_varint(len(record.headers)))
    for key, value in record.headers:
        _put_bytes(pieces, key.encode())
        _put_bytes(pieces, value)
    body = b"".join(pieces)
    return signed_varint(len(body)) + body


def _put_bytes(pieces: list[bytes], value: bytes | None) -> None:
    if value is None:
        pieces.append(b"\x01")
    else:
        pieces.append(signed_varint(len(value)))
        pieces.append(value)


def signed_varint(number: int) -> bytes:
    """Encode a number in zig-zag, then base 128 (``ByteUtils.writeVarint`` and
    ``writeVarlong``).
    """
    number = number << 1 if number >= 0 else (-number << 1) - 1
    return SMALL_VARINTS[number] if number < len(SMALL_VARINTS) else encode_uvarint(number)


# Reading


def read_records(buffer: Buffer, position: int = 0) -> list[Record]:
    """Read the records of the batch at ``position``; decompress them if necessary.

    Raises:
        CorruptBatchError: The batch is cut off, or its content contradicts the header.
        MissingExtraError: The codec needs a library that is not installed.
    """
    return list(iter_records(buffer, position))


def iter_records(buffer: Buffer, position: int = 0) -> Iterator[Record]:
    """Yield the records of the batch at ``position``, one by one: a batch of few bytes may hold
    millions.

    Raises:
        CorruptBatchError: The batch is cut off, or its content contradicts the header. Records
            before the damage have been yielded by then.
        MissingExtraError: The codec needs a library that is not installed.
    """
    header = read_batch_header(buffer, position)
    payload = payload_of(buffer, header, position)
    if header.records_count < 0 or header.records_count * Record.BYTES_MIN > len(payload):
        raise CorruptBatchError(
            f"batch at offset {header.base_offset}: {header.records_count} records do not fit in"
            f" {len(payload)} bytes"
        )
    end_of_record = record_index = 0
    try:
        for record_index in range(header.records_count):  # noqa: B007 - used in the error below
            record, end_of_record = _read_record(payload, end_of_record, header)
            yield record
    except IndexError:
        raise CorruptBatchError(
            f"batch at offset {header.base_offset}: record {record_index} is cut off"
        ) from None
    if end_of_record != len(payload):
        raise CorruptBatchError(
            f"batch at offset {header.base_offset}: {len(payload) - end_of_record} bytes "
            "after the last record"
        )


def only_record(batch: bytes, header: BatchHeader) -> tuple[bytes, bytes | None] | None:
    """Key and value of a batch as coordinators write it: one record with a key, uncompressed,
    without headers. It takes a quarter of the time of ``read_records``, which can read any batch.

    Returns:
        None if the batch is of another kind, or malformed.
    """
    if header.records_count != 1 or header.compression or len(batch) != header.size:
        return None
    try:
        field_size, position = _read_length(batch, BatchHeader.SIZE)
        if (
            position + field_size != len(batch) or batch[position + 1] or batch[position + 2]
        ):  # it is the first one
            return None
        key_size, position = _read_length(batch, position + 3)
        value_start = position + key_size
        if key_size < 0 or value_start >= len(batch):
            return None
        key = batch[position:value_start]
        field_size, position = _read_length(batch, value_start)
        value_end = position + max(field_size, 0)
        if value_end + 1 != len(batch) or batch[value_end]:
            return None
    except IndexError:
        return None
    return key, None if field_size < 0 else batch[position:value_end]


def _read_length(data: bytes, position: int) -> tuple[int, int]:
    """(number of a zig-zag varint of one or two bytes, position after it); for a longer varint, a
    length that does not fit.
    """
    low_byte = data[position]
    if low_byte > 0x7F:
        high_byte = data[position + 1]
        if high_byte > 0x7F:
            return len(data), position
        low_byte += (high_byte << 7) - 0x80
        position += 1
    return (low_byte >> 1) ^ -(low_byte & 1), position + 1


def payload_of(buffer: Buffer, header: BatchHeader, position: int = 0) -> bytes:
    """The records of a batch, decompressed.

    Raises:
        CorruptBatchError: The batch is cut off, or can't be decompressed.
        MissingExtraError: The codec needs a library that is not installed.
    """
    batch_end = position + header.size
    if batch_end > len(buffer):
        raise CorruptBatchError(
            f"batch at byte {position}: {header.size} bytes, only {len(buffer) - position} there"
        )
    payload = bytes(memoryview(buffer)[position + BatchHeader.SIZE : batch_end])
    return decompress(header.compression, payload)


def timestamps_in(payload: bytes | memoryview, header: BatchHeader) -> Iterator[tuple[int, int]]:
    """Yield (timestamp in ms, offset) of each record of a batch. Only the lengths of records are
    used to get from one to the next: the records were checked when the batch was written.

    Raises:
        CorruptBatchError: A record is cut off.
    """
    position = 0
    try:
        for _ in range(header.records_count):
            record_size, position = read_signed(payload, position, VARINT_BYTES_MAX)
            timestamp_delta_ms, after_timestamp = read_signed(
                payload, position + 1, VARLONG_BYTES_MAX
            )
            offset_delta, _ = read_signed(payload, after_timestamp, VARINT_BYTES_MAX)
            position += record_size
            timestamp = header.base_timestamp_ms + timestamp_delta_ms
            if header.is_log_append_time:
                timestamp = header.max_timestamp_ms
            yield timestamp, header.base_offset + offset_delta
    except IndexError:
        raise CorruptBatchError(
            f"batch at offset {header.base_offset}: a record is cut off"
        ) from None


def _read_record(payload: bytes, position: int, header: BatchHeader) -> tuple[Record, int]:
    record_size, position = read_signed(payload, position, VARINT_BYTES_MAX)
    record_end = position + record_size
    if record_size < 0 or record_end > len(payload):
        raise CorruptBatchError(
            f"record at byte {position}: {record_size} bytes, {len(payload) - position} are left "
            "in the batch"
        )
    # Attributes of a record are unused; one byte.
    timestamp_delta_ms, position = read_signed(payload, position + 1, VARLONG_BYTES_MAX)
    offset_delta, position = read_signed(payload, position, VARINT_BYTES_MAX)
    key, position = _read_bytes(payload, position)
    value, position = _read_bytes(payload, position)
    header_count, position = read_signed(payload, position, VARINT_BYTES_MAX)
    if header_count < 0 or header_count > record_end - position:
        raise CorruptBatchError(
            f"record at byte {position}: {header_count} headers in {record_end - position} bytes"
        )
    headers: list[Header] = []
    for _ in range(header_count):
        header_key, position = _read_bytes(payload, position)
        if header_key is None:
            raise CorruptBatchError(f"record at byte {position}: a header without key")
        header_value, position = _read_bytes(payload, position)
        headers.append((header_key.decode("utf-8", "replace"), header_value))
    if position != record_end:
        raise CorruptBatchError(f"record ends at byte {position}, its size says {record_end}")
    record = Record(
        key=key,
        value=value,
        timestamp_ms=header.max_timestamp_ms
        if header.is_log_append_time
        else header.base_timestamp_ms + timestamp_delta_ms,
        headers=tuple(headers),
        offset=header.base_offset + offset_delta,
    )
    return record, record_end


def _read_bytes(payload: bytes, position: int) -> tuple[bytes | None, int]:
    size, position = read_signed(payload, position, VARINT_BYTES_MAX)
    if size < 0:
        return None, position
    field_end = position + size
    if field_end > len(payload):
        raise CorruptBatchError(f"{size} bytes at byte {position} end after the batch")
    return payload[position:field_end], field_end


def read_signed(payload: bytes | memoryview, position: int, bytes_max: int) -> tuple[int, int]:
    """Read a zig-zag varint of at most ``bytes_max`` bytes: (number, position after it).

    Raises:
        CorruptBatchError: The varint has more bytes.
        IndexError: The payload ends first.
    """
    byte = payload[position]
    position += 1
    number = byte & 0x7F
    shift_bits = 7
    while byte > 0x7F:
        if shift_bits >= bytes_max * 7:
            raise CorruptBatchError(
                f"varint before byte {position} has more than {bytes_max} bytes"
            )
        byte = payload[position]
        position += 1
        number |= (byte & 0x7F) << shift_bits
        shift_bits += 7
    return (number >> 1) ^ -(number & 1), position

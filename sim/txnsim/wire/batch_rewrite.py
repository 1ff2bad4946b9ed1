"""Batches that a broker derives from other batches: with fewer records, with another codec, or
emptied.

The cleaner and a leader whose topic has its own codec do this; all other code stores a producer's
bytes as they are. ``scan_records`` reads records without making objects of them. Kafka's
counterparts: MemoryRecords.filterTo and buildRetainedRecordsInto, LogValidator's
buildRecordsAndAssignOffsets, DefaultRecordBatch.writeEmptyHeader.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from txnsim.errors import CorruptBatchError
from txnsim.wire.batch_header import BatchHeader, pack_batch
from txnsim.wire.compression import compress, compress_in_pieces
from txnsim.wire.records import (
    VARINT_BYTES_MAX,
    VARLONG_BYTES_MAX,
    Record,
    encode_record,
    only_record,
    payload_of,
    read_signed,
    signed_varint,
)

_PIECE_BYTES: Final = 65_536
"""Number of bytes that are given to a codec at once."""
_KEPT_FLAGS: Final = BatchHeader.LOG_APPEND_TIME | BatchHeader.TRANSACTIONAL | BatchHeader.CONTROL
NO_TIMESTAMP: Final = -1
_ONE_BYTE_MAX: Final = 0x7F
_NULL_SIZE: Final = 0x01
"""Encoded length of a null value."""


class ScannedRecord(NamedTuple):
    """The parts of a record that a broker validates."""

    timestamp_delta_ms: int
    offset_delta: int
    key: bytes | None
    value_size: int
    """Size of the value in bytes; -1 for null."""

    @property
    def has_value(self) -> bool:
        return self.value_size >= 0


def scan_records(payload: bytes | memoryview, count: int) -> Iterator[ScannedRecord]:
    """Yield the records of a batch, with the same checks as ``read_records``.

    Raises:
        CorruptBatchError: A record contradicts its lengths, or the count is wrong.
    """
    if count < 0 or count * Record.BYTES_MIN > len(payload):
        raise CorruptBatchError(f"{count} records do not fit in {len(payload)} bytes")
    position = 0
    try:
        for _ in range(count):
            record_size, position = read_signed(payload, position, VARINT_BYTES_MAX)
            record_end = position + record_size
            if record_size < 0 or record_end > len(payload):
                raise CorruptBatchError(
                    f"a record of {record_size} bytes at byte {position} is cut off"
                )
            timestamp_delta_ms, position = read_signed(payload, position + 1, VARLONG_BYTES_MAX)
            offset_delta, position = read_signed(payload, position, VARINT_BYTES_MAX)
            key, position = _read_nullable_bytes(payload, position)
            value_size, position = read_signed(payload, position, VARINT_BYTES_MAX)
            position += max(0, value_size)
            position = _skip_headers(payload, position, record_end)
            if position != record_end:
                raise CorruptBatchError(
                    f"a record ends at byte {position}, its size says {record_end}"
                )
            yield ScannedRecord(timestamp_delta_ms, offset_delta, key, value_size)
    except IndexError:
        raise CorruptBatchError("a record is cut off") from None
    if position != len(payload):
        raise CorruptBatchError(f"{len(payload) - position} bytes after the last record")


def filtering_batch(
    header: BatchHeader, records: Iterable[Record], *, delete_horizon_ms: int | None
) -> Generator[int, None, bytes]:
    """The batch with only these of its records, at least one, at their offsets and in its codec.
    Yield after each record.

    Base and last offset stay, and so do sequence numbers; a delete horizon replaces the base
    timestamp (KIP-534).
    """
    base_timestamp_ms = delete_horizon_ms
    newest_timestamp_ms = NO_TIMESTAMP
    encoded_records: list[bytes] = []
    for record in records:
        record_timestamp_ms = _timestamp_of(record)
        if base_timestamp_ms is None:
            base_timestamp_ms = record_timestamp_ms
        newest_timestamp_ms = (
            max(newest_timestamp_ms, record_timestamp_ms)
            if encoded_records
            else record_timestamp_ms
        )
        encoded_records.append(
            encode_record(
                record,
                offset_delta=record.offset - header.base_offset,
                timestamp_delta_ms=record_timestamp_ms - base_timestamp_ms,
            )
        )
        yield 1
    assert base_timestamp_ms is not None
    return _pack_batch(
        header,
        compress(header.compression, b"".join(encoded_records)),
        attributes=header.compression
        | (header.attributes & _KEPT_FLAGS)
        | (0 if delete_horizon_ms is None else BatchHeader.DELETE_HORIZON),
        base_timestamp_ms=base_timestamp_ms,
        max_timestamp_ms=header.max_timestamp_ms
        if header.is_log_append_time
        else newest_timestamp_ms,
        count=len(encoded_records),
    )


def recoded_batch(
    header: BatchHeader,
    payload: bytes | memoryview,
    *,
    codec: int,
    level: int | None = None,
    size_max: int,
) -> bytes | int:
    """A producer's batch in another codec, its records numbered in order. It takes no memory
    besides the result: there may be many records, or large ones.

    Args:
        header: Header of the batch as it was received.
        payload: Its records, decompressed and checked.
        codec: The topic's codec.
        level: Compression level; None for the codec's default.
        size_max: Largest size of a result that is kept.

    Returns:
        The batch; only its size if that is above ``size_max``.
    """
    renumbered_records = _RenumberedRecords(payload, header)
    size = BatchHeader.SIZE
    compressed_pieces: list[bytes] = []
    for compressed_piece in compress_in_pieces(codec, renumbered_records.pieces(), level):
        size += len(compressed_piece)
        if size > size_max:
            compressed_pieces.clear()
        else:
            compressed_pieces.append(compressed_piece)
    if size > size_max:
        return size
    return _pack_batch(
        header,
        compressed_pieces,
        attributes=codec | (header.attributes & _KEPT_FLAGS & ~BatchHeader.LOG_APPEND_TIME),
        base_timestamp_ms=renumbered_records.base_ms,
        max_timestamp_ms=renumbered_records.newest_ms,
        count=header.records_count,
    )


class _RenumberedRecords:
    """Encodes the records of a batch again, with offsets 0, 1, 2 and so on."""

    def __init__(self, payload: bytes | memoryview, header: BatchHeader) -> None:
        self._payload = memoryview(payload)
        self._header = header
        self.base_ms = self.newest_ms = 0
        """Timestamps of the first record and of the newest one that ``pieces`` has encoded."""

    def pieces(self) -> Iterator[bytes]:
        """Yield the encoded records in pieces, so that neither a large record nor many small ones
        are copied as a whole.
        """
        gathered_bytes = bytearray()
        for record_part in self._record_parts():
            if len(gathered_bytes) + len(record_part) <= _PIECE_BYTES:
                gathered_bytes += record_part
                continue
            yield bytes(gathered_bytes)  # not empty: it has the length of the large part
            gathered_bytes.clear()
            for part_start in range(0, len(record_part), _PIECE_BYTES):
                yield bytes(record_part[part_start : part_start + _PIECE_BYTES])
        yield bytes(gathered_bytes)

    def _record_parts(self) -> Iterator[bytes | memoryview]:
        header, payload = self._header, self._payload
        position = 0
        for record_number in range(header.records_count):
            record_size, position = read_signed(payload, position, VARINT_BYTES_MAX)
            record_end = position + record_size
            timestamp_ms, position = read_signed(payload, position + 1, VARLONG_BYTES_MAX)
            timestamp_ms += header.base_timestamp_ms
            if header.is_log_append_time:
                timestamp_ms = header.max_timestamp_ms
            if not record_number:
                self.base_ms = self.newest_ms = timestamp_ms
            self.newest_ms = max(self.newest_ms, timestamp_ms)
            _, position = read_signed(payload, position, VARINT_BYTES_MAX)
            record_head = (
                b"\0" + signed_varint(timestamp_ms - self.base_ms) + signed_varint(record_number)
            )
            if _is_short(payload, position, record_end):
                record_body = record_head + payload[position:record_end]
                yield signed_varint(len(record_body)) + record_body
            else:
                key_size, key, position = _read_sized(payload, position)
                value_size, value, position = _read_sized(payload, position)
                parts = (
                    record_head,
                    key_size,
                    key,
                    value_size,
                    value,
                    _encode_headers_again(payload, position),
                )
                yield signed_varint(sum(map(len, parts)))
                yield from parts
            position = record_end


def _is_short(payload: memoryview, position: int, record_end: int) -> bool:
    """Whether key and value have lengths of one byte and there are no headers: such a record can be
    copied as it is.
    """
    encoded_size = payload[position]
    if encoded_size > _ONE_BYTE_MAX or (encoded_size & 1 and encoded_size != _NULL_SIZE):
        return False
    position += 1 + encoded_size // 2
    encoded_size = payload[position]
    if encoded_size > _ONE_BYTE_MAX or (encoded_size & 1 and encoded_size != _NULL_SIZE):
        return False
    position += 1 + encoded_size // 2
    return position + 1 == record_end and not payload[position]


def _read_sized(payload: memoryview, position: int) -> tuple[bytes, memoryview, int]:
    """(encoded length of a key or value, its bytes, position after them)."""
    size, position = read_signed(payload, position, VARINT_BYTES_MAX)
    end = position + max(0, size)
    return signed_varint(size), payload[position:end], end


def _encode_headers_again(payload: memoryview, position: int) -> bytes:
    """Encode the headers of a record again."""
    header_count, position = read_signed(payload, position, VARINT_BYTES_MAX)
    encoded_headers = bytearray(signed_varint(header_count))
    for _ in range(header_count):
        _, key, position = _read_sized(payload, position)
        key_bytes = str(key, "utf-8", "replace").encode()
        value_size, value, position = _read_sized(payload, position)
        for part in (signed_varint(len(key_bytes)), key_bytes, value_size, value):
            encoded_headers += part
    return bytes(encoded_headers)


def empty_batch(header: BatchHeader) -> bytes:
    """The batch without its records: it keeps a producer's last sequence number and epoch, or the
    last offset of a cleaned part.
    """
    return _pack_batch(
        header,
        b"",
        attributes=header.attributes & _KEPT_FLAGS,
        base_timestamp_ms=NO_TIMESTAMP,
        max_timestamp_ms=header.max_timestamp_ms,
        count=0,
    )


def batch_keys(batch: bytes, header: BatchHeader) -> Iterator[tuple[int, bytes | None, bool]]:
    """Yield (offset, key, whether there is a value) of each record of a stored batch.

    Raises:
        CorruptBatchError: The batch can't be read.
        MissingExtraError: Its codec needs a library that is not installed.
    """
    only_key_and_value = only_record(batch, header)
    if only_key_and_value is not None:
        key, value = only_key_and_value
        yield header.base_offset, key, value is not None
        return
    for record in scan_records(payload_of(batch, header), header.records_count):
        yield header.base_offset + record.offset_delta, record.key, record.has_value


def _pack_batch(
    header: BatchHeader,
    records: bytes | Sequence[bytes],
    *,
    attributes: int,
    base_timestamp_ms: int,
    max_timestamp_ms: int,
    count: int,
) -> bytes:
    """A batch with these encoded records, and with the offsets and the producer of another
    batch.
    """
    return pack_batch(
        records,
        base_offset=header.base_offset,
        leader_epoch=header.leader_epoch,
        attributes=attributes,
        last_offset_delta=header.last_offset_delta,
        base_timestamp_ms=base_timestamp_ms,
        max_timestamp_ms=max_timestamp_ms,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        records_count=count,
    )


def _timestamp_of(record: Record) -> int:
    """The timestamp of a record that was read, which always has one."""
    assert record.timestamp_ms is not None
    return record.timestamp_ms


def _read_nullable_bytes(payload: bytes | memoryview, position: int) -> tuple[bytes | None, int]:
    field_size, position = read_signed(payload, position, VARINT_BYTES_MAX)
    if field_size < 0:
        return None, position
    return bytes(payload[position : position + field_size]), position + field_size


def _skip_headers(payload: bytes | memoryview, position: int, record_end: int) -> int:
    header_count, position = read_signed(payload, position, VARINT_BYTES_MAX)
    if header_count < 0 or header_count > max(0, record_end - position):
        raise CorruptBatchError(f"{header_count} headers in {record_end - position} bytes")
    for _ in range(header_count):
        key, position = _read_nullable_bytes(payload, position)
        if key is None:
            raise CorruptBatchError("a header without key")
        _, position = _read_nullable_bytes(payload, position)
    return position

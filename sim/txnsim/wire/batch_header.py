"""The header of a record batch v2, and the fields that a leader may change.

A batch keeps its bytes from producer to consumer. Its header of 61 bytes is parsed by one
``struct`` call; a leader writes base offset and leader epoch into it, which come before the bytes
that the CRC covers. Other modules read the records. Kafka's counterpart is ``DefaultRecordBatch``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is an exception class
from typing import Any, ClassVar, Final

import msgspec

from txnsim.errors import CorruptBatchError
from txnsim.on_demand_imports import OnDemand

crc32c: Final[Any] = OnDemand("crc32c")

Buffer = bytes | bytearray | memoryview
ReceivedBatch = bytes | memoryview
"""A batch as it was received: a view of its frame if it is large (``decoder``)."""

_READ_HEADER: Final = Struct(">qiibIhiqqqhii").unpack_from
_READ_LENGTH: Final = Struct(">i").unpack_from
PACK_BATCH_START: Final = Struct(">qii").pack
"""Packs base offset, length and leader epoch: the first fields of a batch in a log."""
AFTER_BATCH_START: Final = slice(16, None)
"""The bytes after those fields; the CRC covers no byte before."""
_PUT_TIMESTAMP: Final = Struct(">q").pack_into
_PUT_CRC: Final = Struct(">I").pack_into


class BatchHeader(msgspec.Struct, frozen=True, gc=False):
    """The fields of a batch header in wire order, and values derived from them."""

    MAGIC: ClassVar[int] = 2
    SIZE: ClassVar[int] = 61
    OVERHEAD: ClassVar[int] = 12
    """Number of bytes that ``batch_length`` does not count: base offset and the length itself."""
    LENGTH_MIN: ClassVar[int] = SIZE - OVERHEAD
    CRC_START: ClassVar[int] = 21
    """Position from which on the CRC covers all bytes."""
    BYTES_MAX: ClassVar[int] = 1 << 30
    """Largest batch that any broker accepts; a larger size means damage."""
    MAGIC_POSITION: ClassVar[int] = 16
    SEQUENCE_MAX: ClassVar[int] = 0x7FFFFFFF

    # Bits of ``attributes``
    COMPRESSION: ClassVar[int] = 0x07
    LOG_APPEND_TIME: ClassVar[int] = 0x08
    TRANSACTIONAL: ClassVar[int] = 0x10
    CONTROL: ClassVar[int] = 0x20
    DELETE_HORIZON: ClassVar[int] = 0x40

    base_offset: int
    batch_length: int
    """Number of bytes after this field; see ``size``."""
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    """Base timestamp; the delete horizon instead if attribute bit 6 is set (compaction)."""
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int

    @property
    def size(self) -> int:
        """Size of the whole batch in bytes."""
        return self.batch_length + BatchHeader.OVERHEAD

    @property
    def last_offset(self) -> int:
        """Offset of the last record, even if compaction has removed that record."""
        return self.base_offset + self.last_offset_delta

    @property
    def last_sequence(self) -> int:
        """Sequence number of the last record; -1 without sequences. The number after 2^31-1 is
        0.
        """
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) & BatchHeader.SEQUENCE_MAX

    @property
    def compression(self) -> int:
        """Codec: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd; higher numbers are unknown."""
        return self.attributes & BatchHeader.COMPRESSION

    @property
    def is_log_append_time(self) -> bool:
        """Whether every record has the timestamp ``max_timestamp_ms``."""
        return self.attributes & BatchHeader.LOG_APPEND_TIME != 0

    @property
    def is_transactional(self) -> bool:
        """Whether the batch is part of a transaction, or its marker."""
        return self.attributes & BatchHeader.TRANSACTIONAL != 0

    @property
    def is_control(self) -> bool:
        """Whether the batch holds a control record, which consumers never see."""
        return self.attributes & BatchHeader.CONTROL != 0

    @property
    def has_delete_horizon(self) -> bool:
        """Whether ``base_timestamp_ms`` is the time from which compaction may drop the batch
        (KIP-534).
        """
        return self.attributes & BatchHeader.DELETE_HORIZON != 0

    @property
    def wrong_crc(self) -> str:
        """The error text for a batch whose CRC is wrong."""
        return f"the batch of offset {self.base_offset} has another CRC"

    @property
    def has_producer_id(self) -> bool:
        """Whether an idempotent or transactional producer wrote the batch."""
        return self.producer_id > -1


def read_batch_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Read the header of the batch that starts at ``position``; the rest of the batch may be
    missing.

    Raises:
        CorruptBatchError: There are fewer than 61 bytes, the magic is another one, or the length is
            below the minimum.
    """
    try:
        header = BatchHeader(*_READ_HEADER(buffer, position))
    except StructError:
        raise CorruptBatchError(
            f"batch at byte {position}: {max(0, len(buffer) - position)} bytes are fewer than a"
            f" header of {BatchHeader.SIZE}"
        ) from None
    if header.magic != BatchHeader.MAGIC:
        raise CorruptBatchError(
            f"batch at byte {position}: magic {header.magic} is not {BatchHeader.MAGIC}"
        )
    if header.batch_length < BatchHeader.LENGTH_MIN:
        raise CorruptBatchError(
            f"batch at byte {position}: length {header.batch_length} is below "
            f"{BatchHeader.LENGTH_MIN}"
        )
    return header


def iter_batches(buffer: Buffer, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Iterate over consecutive batches: yields (position, header).

    A partial batch at the end stops the iteration silently: readers of a log get one when they ask
    for fewer bytes than there are (``ByteBufferLogInputStream``).

    Raises:
        CorruptBatchError: A batch has another magic or a length below the minimum.
    """
    buffer_end = len(buffer)
    while buffer_end - position >= BatchHeader.SIZE:
        header = read_batch_header(buffer, position)
        batch_bytes = header.batch_length + BatchHeader.OVERHEAD
        if batch_bytes > buffer_end - position:
            return
        yield position, header
        position += batch_bytes
    if buffer_end - position >= BatchHeader.OVERHEAD:
        batch_length = _READ_LENGTH(buffer, position + 8)[0]
        if batch_length < BatchHeader.LENGTH_MIN:
            raise CorruptBatchError(
                f"batch at byte {position}: length {batch_length} is below {BatchHeader.LENGTH_MIN}"
            )


def assign(batch: Buffer, *, base_offset: int, leader_epoch: int) -> bytes:
    """The batch with the base offset and leader epoch that its leader assigns; the CRC stays
    valid.
    """
    new_front = PACK_BATCH_START(base_offset, _READ_LENGTH(batch, 8)[0], leader_epoch)
    return b"".join((new_front, memoryview(batch)[AFTER_BATCH_START]))


def restamp(batch: Buffer, *, max_timestamp_ms: int, has_log_append_time: bool) -> bytes:
    """The batch with another largest timestamp and a new CRC.

    With ``has_log_append_time`` the timestamp type is set too, so that every record has that
    timestamp (``DefaultRecordBatch.setMaxTimestamp``); base timestamp and deltas stay.
    """
    patched_batch = bytearray(batch)
    attributes = patched_batch[22]
    if has_log_append_time:
        attributes |= BatchHeader.LOG_APPEND_TIME
    else:
        attributes &= ~BatchHeader.LOG_APPEND_TIME
    patched_batch[22] = attributes
    _PUT_TIMESTAMP(patched_batch, 35, max_timestamp_ms)
    _PUT_CRC(patched_batch, 17, crc_of(patched_batch))
    return bytes(patched_batch)


def crc_of(batch: Buffer) -> int:
    """CRC-32C of exactly one batch, over the bytes that its CRC covers."""
    crc: int = crc32c.crc32c(memoryview(batch)[BatchHeader.CRC_START :])
    return crc


def crc_is_valid(buffer: Buffer, header: BatchHeader, position: int = 0) -> bool:
    """Whether the batch at ``position`` is complete and has the CRC in its header."""
    batch_end = position + header.batch_length + BatchHeader.OVERHEAD
    if batch_end > len(buffer):
        return False
    computed_crc: int = crc32c.crc32c(
        memoryview(buffer)[position + BatchHeader.CRC_START : batch_end]
    )
    return computed_crc == header.crc


_PACK_FIELDS_AFTER_CRC: Final = Struct(">hiqqqhii").pack
_PACK_FIELDS_TO_CRC: Final = Struct(">qiibI").pack


def pack_plain_batch(payload: bytes, *, timestamp_ms: int) -> bytes:
    """A batch with one encoded record, without a producer; the log assigns its offset and epoch."""
    crc_input = _PACK_FIELDS_AFTER_CRC(0, 0, timestamp_ms, timestamp_ms, -1, -1, -1, 1) + payload
    crc: int = crc32c.crc32c(crc_input)
    return (
        _PACK_FIELDS_TO_CRC(
            0,
            len(crc_input) + BatchHeader.CRC_START - BatchHeader.OVERHEAD,
            -1,
            BatchHeader.MAGIC,
            crc,
        )
        + crc_input
    )


def pack_new_batch(encoded_records: Sequence[bytes], *, timestamp_ms: int) -> bytes:
    """A batch of encoded records of one time, as ``pack_plain_batch`` is one of a single record."""
    return pack_batch(
        encoded_records,
        base_offset=0,
        leader_epoch=-1,
        attributes=0,
        last_offset_delta=len(encoded_records) - 1,
        base_timestamp_ms=timestamp_ms,
        max_timestamp_ms=timestamp_ms,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        records_count=len(encoded_records),
    )


def pack_batch(
    payload: bytes | Sequence[bytes],
    *,
    base_offset: int,
    leader_epoch: int,
    attributes: int,
    last_offset_delta: int,
    base_timestamp_ms: int,
    max_timestamp_ms: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    records_count: int,
) -> bytes:
    """A batch from its encoded (and compressed) records, which may come in pieces."""
    header_fields = _PACK_FIELDS_AFTER_CRC(
        attributes,
        last_offset_delta,
        base_timestamp_ms,
        max_timestamp_ms,
        producer_id,
        producer_epoch,
        base_sequence,
        records_count,
    )
    batch_pieces = (
        (header_fields + payload,) if isinstance(payload, bytes) else (header_fields, *payload)
    )
    batch_length, crc = BatchHeader.CRC_START - BatchHeader.OVERHEAD, 0
    for piece in batch_pieces:
        batch_length += len(piece)
        crc = crc32c.crc32c(piece, crc)
    return b"".join(
        (
            _PACK_FIELDS_TO_CRC(base_offset, batch_length, leader_epoch, BatchHeader.MAGIC, crc),
            *batch_pieces,
        )
    )

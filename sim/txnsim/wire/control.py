"""Control batches: the COMMIT and ABORT markers that end a transaction on a partition.

Kafka's counterparts are ``EndTransactionMarker``, ``ControlRecordType`` and
``MemoryRecords.withEndTransactionMarker``.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

import msgspec

from txnsim.errors import CorruptBatchError
from txnsim.wire.batch_header import BatchHeader, Buffer, pack_batch, read_batch_header
from txnsim.wire.records import read_records

ABORT: Final = 0
COMMIT: Final = 1
MARKER_BYTES: Final = 78
"""Size of a marker's batch, in bytes."""

_PACK_MARKER: Final = Struct(">bbbbbhhbhib").pack
_READ_KEY: Final = Struct(">hh").unpack_from
_READ_VALUE: Final = Struct(">hi").unpack_from
_NO_SEQUENCE: Final = -1
_MARKER_FLAGS: Final = BatchHeader.TRANSACTIONAL | BatchHeader.CONTROL


class ControlRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a control record."""

    type: int
    """``ABORT`` or ``COMMIT``; every other type is ignored."""
    version: int
    coordinator_epoch: int
    """Epoch of the transaction coordinator that ended the transaction; -1 for other types."""

    @property
    def is_marker(self) -> bool:
        """Whether the record ends a transaction."""
        return self.type in (ABORT, COMMIT)


def control_batch(
    *,
    producer_id: int,
    producer_epoch: int,
    is_commit: bool,
    coordinator_epoch: int,
    base_offset: int,
    leader_epoch: int,
    timestamp_ms: int,
    has_log_append_time: bool = False,
) -> bytes:
    """The batch of one marker: 78 bytes, one offset. ``has_log_append_time`` is for a topic with
    that timestamp type.

    The transaction version is not part of it: only the WriteTxnMarkers request has it.
    """
    # Lengths are zig-zag varints: 16 bytes of record, 4 of key, 6 of value, no header.
    record = _PACK_MARKER(
        32, 0, 0, 0, 8, 0, COMMIT if is_commit else ABORT, 12, 0, coordinator_epoch, 0
    )
    return pack_batch(
        record,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        attributes=_MARKER_FLAGS | BatchHeader.LOG_APPEND_TIME
        if has_log_append_time
        else _MARKER_FLAGS,
        last_offset_delta=0,
        base_timestamp_ms=timestamp_ms,
        max_timestamp_ms=timestamp_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=_NO_SEQUENCE,
        records_count=1,
    )


def read_control_record(batch: Buffer, position: int = 0) -> ControlRecord | None:
    """Read the control batch at ``position``; None if compaction has emptied it.

    Raises:
        CorruptBatchError: The batch is no control batch, or its record is malformed: a key below
            four bytes, a negative version, a marker's value below six bytes.
    """
    header = read_batch_header(batch, position)
    if not header.is_control:
        raise CorruptBatchError(f"batch at offset {header.base_offset} is no control batch")
    if header.records_count == 0:
        return None
    record = read_records(batch, position)[0]
    if record.key is None or len(record.key) < 4:
        raise CorruptBatchError(f"control record at offset {record.offset}: key {record.key!r}")
    version, record_type = _READ_KEY(record.key)
    if version < 0:
        raise CorruptBatchError(f"control record at offset {record.offset}: version {version}")
    if record_type not in (ABORT, COMMIT):
        return ControlRecord(type=record_type, version=version, coordinator_epoch=-1)
    # A higher version is read as far as version 0 goes (EndTransactionMarker.deserializeValue).
    if record.value is None or len(record.value) < 6:
        raise CorruptBatchError(f"marker at offset {record.offset}: value {record.value!r}")
    value_version, coordinator_epoch = _READ_VALUE(record.value)
    if value_version < 0:
        raise CorruptBatchError(f"marker at offset {record.offset}: version {value_version}")
    return ControlRecord(type=record_type, version=version, coordinator_epoch=coordinator_epoch)

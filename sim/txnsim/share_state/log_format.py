"""Encodes and decodes the records of ``__share_group_state``, byte for byte as Kafka does.

A key begins with its kind, a value with its version; there is one version of each. A record of an
unknown kind or version is skipped, as Kafka skips records of a newer version.

Counterpart in Kafka: ShareCoordinatorRecordSerde.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING, Any, Final

from txnsim.errors import CorruptLogRecordError
from txnsim.interbroker.share_state import ShareKey, StateBatch
from txnsim.on_demand_imports import OnDemand
from txnsim.share_state.records import ShareDeleted, ShareRecord, ShareSnapshot, ShareUpdate
from txnsim.types import uuid_from, uuid_text
from txnsim.wire.decoder import DecodeFaultError, reader
from txnsim.wire.encoder import write_in_steps, writer
from txnsim.wire.records import Record, build_batch

if TYPE_CHECKING:
    from txnsim.wire.messages import share_state_records as schema
else:
    schema = OnDemand("txnsim.wire.messages.share_state_records")

_KIND: Final = struct.Struct("!h")
_SNAPSHOT: Final = 0
_UPDATE: Final = 1
_VERSION: Final = 0


# Writing


def encode_batch(records: Iterable[ShareRecord], *, now_ms: int) -> bytes:
    """Encode records, at least one, as one uncompressed record batch."""
    pairs = map(encode_record, records)
    return build_batch(
        [Record(key=key, value=value) for key, value in pairs],
        timestamp_ms=now_ms,
        base_sequence=0,
    )


def encoding_batch(records: Iterable[ShareRecord], *, now_ms: int) -> Generator[int, None, bytes]:
    """Do the same as ``encode_batch``, in slices; yields numbers of encoded elements."""
    log_records = []
    for record in records:
        message, value = _value(record), None
        if message is not None:
            pieces = [_KIND.pack(_VERSION)]
            yield from write_in_steps(message, pieces.append)
            value = b"".join(pieces)
        log_records.append(Record(key=_key(record), value=value))
    return build_batch(log_records, timestamp_ms=now_ms, base_sequence=0)


def encode_record(record: ShareRecord) -> tuple[bytes, bytes | None]:
    """Encode the key and the value of a record; the value of a tombstone is None."""
    message = _value(record)
    return _key(record), None if message is None else _encode_message(_VERSION, message)


def _key(record: ShareRecord) -> bytes:
    key = record.key
    topic_id = uuid_from(key.topic_id)
    message = schema.ShareKey(group_id=key.group_id, topic_id=topic_id, partition=key.partition)
    return _encode_message(_UPDATE if isinstance(record, ShareUpdate) else _SNAPSHOT, message)


def _value(record: ShareRecord) -> Any:
    """The message to encode as the record's value; None for a tombstone."""
    match record:
        case ShareDeleted():
            return None
        case ShareSnapshot():
            return schema.ShareSnapshotValue(
                snapshot_epoch=record.snapshot_epoch,
                state_epoch=record.state_epoch,
                leader_epoch=record.leader_epoch,
                start_offset=record.start_offset,
                delivery_complete_count=record.delivery_complete_count,
                create_timestamp=record.create_timestamp_ms,
                write_timestamp=record.write_timestamp_ms,
                state_batches=record.batches,  # they have the fields of the message's
            )
        case _:
            return schema.ShareUpdateValue(
                snapshot_epoch=record.snapshot_epoch,
                leader_epoch=record.leader_epoch,
                start_offset=record.start_offset,
                delivery_complete_count=record.delivery_complete_count,
                state_batches=record.batches,
            )


def _encode_message(kind_or_version: int, message: Any) -> bytes:
    pieces = [_KIND.pack(kind_or_version)]
    writer(type(message))(message, pieces.append)
    return b"".join(pieces)


# Reading


def decode_record(key: bytes, value: bytes | None) -> ShareRecord | None:
    """Decode a record of the log.

    Returns:
        The record; None if its kind or the version of its value is unknown.

    Raises:
        CorruptLogRecordError: The bytes do not fit their kind and version.
    """
    try:
        (kind,) = _KIND.unpack_from(key)
        if kind not in (_SNAPSHOT, _UPDATE):
            return None
        key_message = _read(schema.ShareKey, key)
        share_key = ShareKey(
            key_message.group_id, uuid_text(key_message.topic_id), key_message.partition
        )
        if value is None:
            return ShareDeleted(key=share_key) if kind == _SNAPSHOT else None
        (version,) = _KIND.unpack_from(value)
        if version != _VERSION:
            return None
        return _snapshot(share_key, value) if kind == _SNAPSHOT else _update(share_key, value)
    except (struct.error, DecodeFaultError) as error:
        raise CorruptLogRecordError(
            f"unreadable record of __share_group_state: {error}, key {key.hex()}"
        ) from error


def _snapshot(key: ShareKey, value: bytes) -> ShareSnapshot:
    message = _read(schema.ShareSnapshotValue, value)
    return ShareSnapshot(
        key=key,
        snapshot_epoch=message.snapshot_epoch,
        state_epoch=message.state_epoch,
        leader_epoch=message.leader_epoch,
        start_offset=message.start_offset,
        delivery_complete_count=message.delivery_complete_count,
        create_timestamp_ms=message.create_timestamp,
        write_timestamp_ms=message.write_timestamp,
        batches=tuple(map(state_batch, message.state_batches)),
    )


def _update(key: ShareKey, value: bytes) -> ShareUpdate:
    message = _read(schema.ShareUpdateValue, value)
    return ShareUpdate(
        key=key,
        snapshot_epoch=message.snapshot_epoch,
        leader_epoch=message.leader_epoch,
        start_offset=message.start_offset,
        delivery_complete_count=message.delivery_complete_count,
        batches=tuple(map(state_batch, message.state_batches)),
    )


def state_batch(message: Any) -> StateBatch:
    """Convert a batch of states from a message: stored values and requests name the same fields."""
    return StateBatch(
        message.first_offset, message.last_offset, message.delivery_state, message.delivery_count
    )


def _read(cls: Any, data: bytes) -> Any:
    message, _ = reader(cls)(data, _KIND.size, len(data))
    return message

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
from txnsim.types import STORED_EPOCH_MAX, uuid_from, uuid_text
from txnsim.wire.decoder import DecodeFaultError, reader
from txnsim.wire.encoder import write_in_steps, writer
from txnsim.wire.records import Record, build_batch

if TYPE_CHECKING:
    from txnsim.wire.messages import share_state_records as schema
else:
    schema = OnDemand("txnsim.wire.messages.share_state_records")

_INT16: Final = struct.Struct("!h")
_SNAPSHOT_KIND: Final = 0
_UPDATE_KIND: Final = 1
_VALUE_VERSION: Final = 0


# Writing


def encode_batch(records: Iterable[ShareRecord], *, now_ms: int) -> bytes:
    """Encode records, at least one, as one uncompressed record batch."""
    keys_and_values = map(encode_record, records)
    return build_batch(
        [Record(key=key, value=value) for key, value in keys_and_values],
        timestamp_ms=now_ms,
        base_sequence=0,
    )


def encode_batch_in_steps(
    records: Iterable[ShareRecord], *, now_ms: int
) -> Generator[int, None, bytes]:
    """Do the same as ``encode_batch``, in slices; yields numbers of encoded elements."""
    log_records = []
    for record in records:
        message, value = _value_message(record), None
        if message is not None:
            value_pieces = [_INT16.pack(_VALUE_VERSION)]
            yield from write_in_steps(message, value_pieces.append)
            value = b"".join(value_pieces)
        log_records.append(Record(key=_encode_key(record), value=value))
    return build_batch(log_records, timestamp_ms=now_ms, base_sequence=0)


def encode_record(record: ShareRecord) -> tuple[bytes, bytes | None]:
    """Encode the key and the value of a record; the value of a tombstone is None."""
    message = _value_message(record)
    return _encode_key(record), None if message is None else _encode_message(
        _VALUE_VERSION, message
    )


def _encode_key(record: ShareRecord) -> bytes:
    key = record.key
    topic_id = uuid_from(key.topic_id)
    message = schema.ShareKey(group_id=key.group_id, topic_id=topic_id, partition=key.partition)
    return _encode_message(
        _UPDATE_KIND if isinstance(record, ShareUpdate) else _SNAPSHOT_KIND, message
    )


def _value_message(record: ShareRecord) -> Any:
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
    encoded_pieces = [_INT16.pack(kind_or_version)]
    writer(type(message))(message, encoded_pieces.append)
    return b"".join(encoded_pieces)


# Reading


def decode_record(key: bytes, value: bytes | None) -> ShareRecord | None:
    """Decode a record of the log.

    Returns:
        The record; None if its kind or the version of its value is unknown.

    Raises:
        CorruptLogRecordError: The bytes do not fit their kind and version.
    """
    try:
        (record_kind,) = _INT16.unpack_from(key)
        if record_kind not in (_SNAPSHOT_KIND, _UPDATE_KIND):
            return None
        key_message = _read_message(schema.ShareKey, key)
        share_key = ShareKey(
            key_message.group_id, uuid_text(key_message.topic_id), key_message.partition
        )
        if value is None:
            return ShareDeleted(key=share_key) if record_kind == _SNAPSHOT_KIND else None
        (value_version,) = _INT16.unpack_from(value)
        if value_version != _VALUE_VERSION:
            return None
        return (
            _decode_snapshot(share_key, value)
            if record_kind == _SNAPSHOT_KIND
            else _decode_update(share_key, value)
        )
    except (struct.error, DecodeFaultError) as error:
        raise CorruptLogRecordError(
            f"unreadable record of __share_group_state: {error}, key {key.hex()}"
        ) from error


def _decode_snapshot(key: ShareKey, value: bytes) -> ShareSnapshot:
    message = _read_message(schema.ShareSnapshotValue, value)
    if message.snapshot_epoch > STORED_EPOCH_MAX:
        raise CorruptLogRecordError(
            f"a record of __share_group_state has snapshot epoch {message.snapshot_epoch}, which"
            " leaves no room for the next ones"
        )
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


def _decode_update(key: ShareKey, value: bytes) -> ShareUpdate:
    message = _read_message(schema.ShareUpdateValue, value)
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


def _read_message(message_class: Any, message_bytes: bytes) -> Any:
    message, _ = reader(message_class)(message_bytes, _INT16.size, len(message_bytes))
    return message

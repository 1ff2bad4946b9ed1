"""Records of ``__share_group_state``, byte for byte as Kafka writes them.

A key begins with its kind, a value with its version; there is one version of each. An unknown kind
or version is skipped, as Kafka skips records of a newer version.

Counterpart in Kafka: ShareCoordinatorRecordSerde.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from txnsim.errors import CorruptLogRecordError
from txnsim.extensions import OnDemand
from txnsim.interbroker.share_state import ShareKey, StateBatch
from txnsim.share_state.records import ShareDeleted, ShareRecord, ShareSnapshot, ShareUpdate
from txnsim.types import uuid_from, uuid_text
from txnsim.wire.decoder import DecodeFaultError, reader
from txnsim.wire.encoder import writer
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
    """One record batch, uncompressed; at least one record."""
    pairs = map(encode_record, records)
    return build_batch(
        [Record(key=key, value=value) for key, value in pairs],
        timestamp_ms=now_ms,
        base_sequence=0,
    )


def encode_record(record: ShareRecord) -> tuple[bytes, bytes | None]:
    """Key and value; a tombstone has no value."""
    kind = _UPDATE if isinstance(record, ShareUpdate) else _SNAPSHOT
    return _written(kind, _key(record.key)), _value(record)


def _key(key: ShareKey) -> Any:
    topic_id = uuid_from(key.topic_id)
    return schema.ShareKey(group_id=key.group_id, topic_id=topic_id, partition=key.partition)


def _value(record: ShareRecord) -> bytes | None:
    match record:
        case ShareDeleted():
            return None
        case ShareSnapshot():
            message = schema.ShareSnapshotValue(
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
            message = schema.ShareUpdateValue(
                snapshot_epoch=record.snapshot_epoch,
                leader_epoch=record.leader_epoch,
                start_offset=record.start_offset,
                delivery_complete_count=record.delivery_complete_count,
                state_batches=record.batches,
            )
    return _written(_VERSION, message)


def _written(kind_or_version: int, message: Any) -> bytes:
    pieces = [_KIND.pack(kind_or_version)]
    writer(type(message))(message, pieces.append)
    return b"".join(pieces)


# Reading


def decode_record(key: bytes, value: bytes | None) -> ShareRecord | None:
    """What a record of the log says.

    Returns:
        None where its kind, or the version of its value, is not known.

    Raises:
        CorruptLogRecordError: The bytes are not what their kind and version say.
    """
    try:
        (kind,) = _KIND.unpack_from(key)
        if kind not in (_SNAPSHOT, _UPDATE):
            return None
        place = _read(schema.ShareKey, key)
        share_key = ShareKey(place.group_id, uuid_text(place.topic_id), place.partition)
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
    found = _read(schema.ShareSnapshotValue, value)
    return ShareSnapshot(
        key=key,
        snapshot_epoch=found.snapshot_epoch,
        state_epoch=found.state_epoch,
        leader_epoch=found.leader_epoch,
        start_offset=found.start_offset,
        delivery_complete_count=found.delivery_complete_count,
        create_timestamp_ms=found.create_timestamp,
        write_timestamp_ms=found.write_timestamp,
        batches=state_batches(found),
    )


def _update(key: ShareKey, value: bytes) -> ShareUpdate:
    found = _read(schema.ShareUpdateValue, value)
    return ShareUpdate(
        key=key,
        snapshot_epoch=found.snapshot_epoch,
        leader_epoch=found.leader_epoch,
        start_offset=found.start_offset,
        delivery_complete_count=found.delivery_complete_count,
        batches=state_batches(found),
    )


def state_batches(found: Any) -> tuple[StateBatch, ...]:
    """Those of a record, or of a partition in a request: the fields are the same."""
    return tuple(
        StateBatch(one.first_offset, one.last_offset, one.delivery_state, one.delivery_count)
        for one in found.state_batches
    )


def _read(cls: Any, data: bytes) -> Any:
    found, _ = reader(cls)(data, _KIND.size, len(data))
    return found

"""Records of ``__consumer_offsets``, byte for byte as Kafka writes them.

A key begins with its kind, a value with its version. Every version can be read, the newest that the
release writes is written. This module does not know what a kind means, and it skips an unknown
kind, as Kafka skips records of a newer version.

Counterpart in Kafka: GroupCoordinatorRecordSerde.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

from txnsim.errors import CorruptLogRecordError
from txnsim.group import consumer_log_format
from txnsim.group.consumer_records import ConsumerRecord
from txnsim.group.records import (
    ClassicGroupDeleted,
    ClassicGroupStored,
    GroupRecord,
    OffsetCommitted,
    OffsetDeleted,
    StoredMember,
)
from txnsim.types import TopicPartition
from txnsim.wire.batch_header import TRANSACTIONAL_FLAG, pack_batch
from txnsim.wire.decoder import DecodeFaultError, reader
from txnsim.wire.encoder import writer
from txnsim.wire.messages import group_records as schema
from txnsim.wire.records import Record
from txnsim.wire.records import encode_record as framed_record

_KIND: Final = struct.Struct("!h")

_LEGACY_OFFSET_COMMIT: Final = 0
_OFFSET_COMMIT: Final = 1
_GROUP_METADATA: Final = 2

_GROUP_VERSION_WRITTEN: Final = 3

DEVIATIONS: Final = (
    "Records of __consumer_offsets have the versions that Apache Kafka 4.3 writes, also where "
    "`--as-version` is an older release, whose positions have no topic id.",
)


# Writing


def encode_batch(
    records: Sequence[GroupRecord],
    *,
    now_ms: int,
    producer_id: int = -1,
    producer_epoch: int = -1,
) -> bytes:
    """One record batch, uncompressed; transactional where a producer is given.

    Args:
        records: At least one.
        now_ms: Timestamp of every record.
        producer_id: The producer on whose behalf its positions are committed.
        producer_epoch: Its epoch.
    """
    pieces = (
        records.pieces
        if isinstance(records, EncodedRecords)
        else [encode_in_batch(record, number) for number, record in enumerate(records)]
    )
    return pack_batch(
        b"".join(pieces),
        base_offset=0,
        leader_epoch=-1,
        attributes=TRANSACTIONAL_FLAG if producer_id >= 0 else 0,
        last_offset_delta=len(pieces) - 1,
        base_timestamp_ms=now_ms,
        max_timestamp_ms=now_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=0,
        records_count=len(pieces),
    )


class EncodedRecords(tuple[GroupRecord, ...]):
    """Records whose bytes have been made already: many of them take longer than one turn bears."""

    pieces: Sequence[bytes]
    """What ``encode_in_batch`` gave for each."""


def encode_in_batch(record: GroupRecord, number: int) -> bytes:
    """A record as it stands in a batch, with ``number`` records in front of it."""
    key, value = encode_record(record)
    return framed_record(Record(key=key, value=value), offset_delta=number, timestamp_delta_ms=0)


def encode_record(record: GroupRecord) -> tuple[bytes, bytes | None]:
    """Key and value; a tombstone has no value."""
    match record:
        case OffsetCommitted():
            return _offset_key(record.group_id, record.topic_partition), _offset_value(record)
        case OffsetDeleted():
            return _offset_key(record.group_id, record.topic_partition), None
        case ClassicGroupStored():
            return _group_key(record.group_id), _group_value(record)
        case ClassicGroupDeleted():
            return _group_key(record.group_id), None
        case _:
            kind, key, value = consumer_log_format.to_messages(record)
            return _written(kind, key), None if value is None else _written(0, value)


def _offset_key(group_id: str, topic_partition: TopicPartition) -> bytes:
    key = schema.OffsetCommitKey(
        group=group_id, topic=topic_partition.topic, partition=topic_partition.partition
    )
    return _written(_OFFSET_COMMIT, key)


def _offset_value(record: OffsetCommitted) -> bytes:
    if record.expire_timestamp_ms != -1:
        return _written(
            1,
            schema.OFFSET_COMMIT_VALUES[1](
                offset=record.offset,
                metadata=record.metadata,
                commit_timestamp=record.commit_timestamp_ms,
                expire_timestamp=record.expire_timestamp_ms,
            ),
        )
    return _written(
        4,
        schema.OFFSET_COMMIT_VALUES[4](
            offset=record.offset,
            leader_epoch=record.leader_epoch,
            metadata=record.metadata,
            commit_timestamp=record.commit_timestamp_ms,
            topic_id=record.topic_id,
        ),
    )


def _group_key(group_id: str) -> bytes:
    return _written(_GROUP_METADATA, schema.GroupMetadataKey(group=group_id))


def _group_value(record: ClassicGroupStored) -> bytes:
    return _written(
        _GROUP_VERSION_WRITTEN,
        schema.GROUP_METADATA_VALUES[_GROUP_VERSION_WRITTEN](
            protocol_type=record.protocol_type,
            generation=record.generation,
            protocol=record.protocol,
            leader=record.leader,
            current_state_timestamp=record.state_timestamp_ms,
            members=tuple(
                schema.MEMBERS[_GROUP_VERSION_WRITTEN](
                    member_id=member.member_id,
                    group_instance_id=member.group_instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout=member.rebalance_timeout_ms,
                    session_timeout=member.session_timeout_ms,
                    subscription=member.subscription,
                    assignment=member.assignment,
                )
                for member in record.members
            ),
        ),
    )


def _written(kind_or_version: int, message: Any) -> bytes:
    pieces = [_KIND.pack(kind_or_version)]
    writer(type(message))(message, pieces.append)
    return b"".join(pieces)


# Reading


def decode_record(key: bytes, value: bytes | None) -> GroupRecord | None:
    """What a record of the log says.

    Returns:
        None where its kind, or the version of its value, is not known.

    Raises:
        CorruptLogRecordError: The bytes are not what their kind and version say.
    """
    try:
        (kind,) = _KIND.unpack_from(key)
        if kind in consumer_log_format.KEYS:
            return _decode_consumer(kind, key, value)
        decode = _DECODERS.get(kind)
        return None if decode is None else decode(key, value)
    except (struct.error, DecodeFaultError) as error:
        raise CorruptLogRecordError(
            f"unreadable record of __consumer_offsets: {error}, key {key.hex()}"
        ) from error


def _decode_offset(key: bytes, value: bytes | None) -> GroupRecord | None:
    place = _read(schema.OffsetCommitKey, key)
    topic_partition = TopicPartition(place.topic, place.partition)
    if value is None:
        return OffsetDeleted(group_id=place.group, topic_partition=topic_partition)
    found = _of_version(schema.OFFSET_COMMIT_VALUES, value)
    if found is None:
        return None
    return OffsetCommitted(
        group_id=place.group,
        topic_partition=topic_partition,
        offset=found.offset,
        leader_epoch=getattr(found, "leader_epoch", -1),
        metadata=found.metadata,
        commit_timestamp_ms=found.commit_timestamp,
        expire_timestamp_ms=getattr(found, "expire_timestamp", -1),
        topic_id=getattr(found, "topic_id", None),
    )


def _decode_group(key: bytes, value: bytes | None) -> GroupRecord | None:
    group_id = _read(schema.GroupMetadataKey, key).group
    if value is None:
        return ClassicGroupDeleted(group_id=group_id)
    found = _of_version(schema.GROUP_METADATA_VALUES, value)
    if found is None:
        return None
    return ClassicGroupStored(
        group_id=group_id,
        protocol_type=found.protocol_type,
        generation=found.generation,
        protocol=found.protocol,
        leader=found.leader,
        state_timestamp_ms=getattr(found, "current_state_timestamp", -1),
        members=tuple(
            StoredMember(
                member_id=member.member_id,
                group_instance_id=getattr(member, "group_instance_id", None),
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=getattr(member, "rebalance_timeout", -1),
                session_timeout_ms=member.session_timeout,
                subscription=member.subscription,
                assignment=member.assignment,
            )
            for member in found.members
        ),
    )


def _decode_consumer(kind: int, key: bytes, value: bytes | None) -> ConsumerRecord | None:
    found: Any = None
    if value is not None:
        found = _of_version((consumer_log_format.VALUES[kind],), value)
        if found is None:
            return None
    key_message = _read(consumer_log_format.KEYS[kind], key)
    return consumer_log_format.from_messages(kind, key_message, found)


_DECODERS: Final[dict[int, Callable[[bytes, bytes | None], GroupRecord | None]]] = {
    _LEGACY_OFFSET_COMMIT: _decode_offset,
    _OFFSET_COMMIT: _decode_offset,
    _GROUP_METADATA: _decode_group,
}


def _of_version(classes: Sequence[Any], value: bytes) -> Any | None:
    """The value in its own version; None where that is not known."""
    (version,) = _KIND.unpack_from(value)
    return _read(classes[version], value) if 0 <= version < len(classes) else None


def _read(cls: Any, data: bytes) -> Any:
    found, _ = reader(cls)(data, _KIND.size, len(data))
    return found

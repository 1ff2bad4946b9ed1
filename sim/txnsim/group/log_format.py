"""Records of ``__consumer_offsets``, byte for byte as Kafka writes them.

A key begins with its kind, a value with its version. It reads every version, and writes the newest
one that the release writes. This module does not know what a kind means, and skips unknown kinds,
as Kafka skips records of a newer version.

Counterpart in Kafka: GroupCoordinatorRecordSerde.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from txnsim.errors import CorruptLogRecordError
from txnsim.group.record_kinds import KIND_OF, kinds, message_of, record_of
from txnsim.group.records import GroupRecord, OffsetCommitted, OffsetDeleted
from txnsim.on_demand_imports import OnDemand
from txnsim.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, STORED_EPOCH_MAX, TopicPartition
from txnsim.wire.batch_header import BatchHeader, pack_batch
from txnsim.wire.decoder import DecodeFaultError, reader
from txnsim.wire.encoder import write_in_steps, writer
from txnsim.wire.records import Record, in_batches
from txnsim.wire.records import encode_record as framed_record

if TYPE_CHECKING:
    from txnsim.wire.messages import group_records as schema
else:
    schema = OnDemand("txnsim.wire.messages.group_records")

_NUMBER_FORMAT: Final = struct.Struct("!h")

_RAISED_FIELDS: Final = ("generation", "epoch", "assignment_epoch", "member_epoch")
"""Numbers of a group that its coordinator raises by one, and sends as an int32."""
_LEGACY_OFFSET_COMMIT: Final = 0
_OFFSET_COMMIT: Final = 1

DEVIATIONS: Final = (
    "Records of __consumer_offsets have the versions that the newest Apache Kafka writes, also "
    "where `--as-version` is an older release, whose positions have no topic id.",
)


# Writing


def encode_batch(
    records: Sequence[GroupRecord],
    *,
    now_ms: int,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
) -> bytes:
    """Encode records as one uncompressed batch; transactional if a producer is given, even if its
    id is negative but not -1 (CoordinatorRuntime).
    """
    encoded_records = (
        records.record_bytes
        if isinstance(records, EncodedRecords)
        else [encode_in_batch(record, record_index) for record_index, record in enumerate(records)]
    )
    return pack_batch(
        b"".join(encoded_records),
        base_offset=0,
        leader_epoch=-1,
        attributes=BatchHeader.TRANSACTIONAL if producer_id != NO_PRODUCER_ID else 0,
        last_offset_delta=len(encoded_records) - 1,
        base_timestamp_ms=now_ms,
        max_timestamp_ms=now_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=0,
        records_count=len(encoded_records),
    )


class EncodedRecords(tuple[GroupRecord, ...]):
    """Records that are already encoded, because encoding many takes longer than one turn of the
    loop may.
    """

    record_bytes: Sequence[bytes]
    """The result of ``encode_in_batch`` for each."""


def split_in_batches(
    records: Sequence[GroupRecord], *, batch_bytes_max: int
) -> Iterator[EncodedRecords]:
    """Records that need not be atomic, split into as many batches as necessary."""
    for batch_records, record_bytes in in_batches(
        records, encode_in_batch, batch_bytes_max=batch_bytes_max
    ):
        encoded_records = EncodedRecords(batch_records)
        encoded_records.record_bytes = record_bytes
        yield encoded_records


def encode_in_batch(record: GroupRecord, record_index: int) -> bytes:
    """A record's bytes in a batch, after ``record_index`` other records."""
    key, value = encode_record(record)
    return framed_record(
        Record(key=key, value=value), offset_delta=record_index, timestamp_delta_ms=0
    )


def encode_in_slices(record: GroupRecord, record_index: int) -> Generator[int, None, bytes]:
    """Like ``encode_in_batch``, but yields between the slices of a long value."""
    kind_number = KIND_OF.get(type(record), -1)
    record_kind = kinds().get(kind_number)
    if record_kind is None or isinstance(record, record_kind.deleted):
        return encode_in_batch(record, record_index)
    version = record_kind.version_written
    value_parts = [_NUMBER_FORMAT.pack(version)]
    yield from write_in_steps(message_of(record_kind.values[version], record), value_parts.append)
    key = _encode_message(kind_number, message_of(record_kind.key, record))
    log_record = Record(key=key, value=b"".join(value_parts))
    return framed_record(log_record, offset_delta=record_index, timestamp_delta_ms=0)


def encode_record(record: GroupRecord) -> tuple[bytes, bytes | None]:
    """Key and value; a tombstone has no value."""
    match record:
        case OffsetCommitted():
            return _offset_key(record.group_id, record.topic_partition), _offset_value(record)
        case OffsetDeleted():
            return _offset_key(record.group_id, record.topic_partition), None
        case _:
            kind_number = KIND_OF[type(record)]
            record_kind = kinds()[kind_number]
            key = _encode_message(kind_number, message_of(record_kind.key, record))
            if isinstance(record, record_kind.deleted):
                return key, None
            version = record_kind.version_written
            return key, _encode_message(version, message_of(record_kind.values[version], record))


def _offset_key(group_id: str, topic_partition: TopicPartition) -> bytes:
    key = schema.OffsetCommitKey(
        group=group_id, topic=topic_partition.topic, partition=topic_partition.partition
    )
    return _encode_message(_OFFSET_COMMIT, key)


def _offset_value(record: OffsetCommitted) -> bytes:
    if record.expire_timestamp_ms != -1:
        return _encode_message(
            1,
            schema.OFFSET_COMMIT_VALUES[1](
                offset=record.position,
                metadata=record.metadata,
                commit_timestamp=record.commit_timestamp_ms,
                expire_timestamp=record.expire_timestamp_ms,
            ),
        )
    return _encode_message(
        4,
        schema.OFFSET_COMMIT_VALUES[4](
            offset=record.position,
            leader_epoch=record.leader_epoch,
            metadata=record.metadata,
            commit_timestamp=record.commit_timestamp_ms,
            topic_id=record.topic_id,
        ),
    )


def _encode_message(kind_or_version: int, message: Any) -> bytes:
    message_parts = [_NUMBER_FORMAT.pack(kind_or_version)]
    writer(type(message))(message, message_parts.append)
    return b"".join(message_parts)


# Reading


def decode_record(key: bytes, value: bytes | None) -> GroupRecord | None:
    """Decode a record of the log.

    Returns:
        The record; None if its kind or the version of its value is unknown.

    Raises:
        CorruptLogRecordError: The bytes don't match their kind and version.
    """
    try:
        (kind_number,) = _NUMBER_FORMAT.unpack_from(key)
        if kind_number in (_LEGACY_OFFSET_COMMIT, _OFFSET_COMMIT):
            return _decode_offset(key, value)
        record_kind = kinds().get(kind_number)
        if record_kind is None or not record_kind.values:
            return None
        if value is None:
            return cast(
                GroupRecord, record_of(record_kind.deleted, _decode_message(record_kind.key, key))
            )
        message = _decode_value(record_kind.values, value)
        if message is None:
            return None
        return cast(
            GroupRecord,
            record_of(record_kind.stored, _decode_message(record_kind.key, key), message),
        )
    except (struct.error, DecodeFaultError) as error:
        raise CorruptLogRecordError(
            f"unreadable record of __consumer_offsets: {error}, key {key.hex()}"
        ) from error


def _decode_offset(key: bytes, value: bytes | None) -> GroupRecord | None:
    key_message = _decode_message(schema.OffsetCommitKey, key)
    topic_partition = TopicPartition(key_message.topic, key_message.partition)
    if value is None:
        return OffsetDeleted(group_id=key_message.group, topic_partition=topic_partition)
    message = _decode_value(schema.OFFSET_COMMIT_VALUES, value)
    if message is None:
        return None
    return OffsetCommitted(
        group_id=key_message.group,
        topic_partition=topic_partition,
        position=message.offset,
        leader_epoch=getattr(message, "leader_epoch", -1),
        metadata=message.metadata,
        commit_timestamp_ms=message.commit_timestamp,
        expire_timestamp_ms=getattr(message, "expire_timestamp", -1),
        topic_id=getattr(message, "topic_id", None),
    )


def _decode_value(value_classes: Sequence[Any], value: bytes) -> Any | None:
    """The value, decoded by its version number; None for an unknown version.

    Raises:
        CorruptLogRecordError: A coordinator could not go on from it.
    """
    (version,) = _NUMBER_FORMAT.unpack_from(value)
    if not 0 <= version < len(value_classes):
        return None
    message = _decode_message(value_classes[version], value)
    for field in _RAISED_FIELDS:
        if getattr(message, field, 0) > STORED_EPOCH_MAX:
            raise CorruptLogRecordError(
                f"a record of __consumer_offsets has {field} {getattr(message, field)}, which"
                " leaves no room for the next ones"
            )
    return message


def _decode_message(message_class: Any, encoded: bytes) -> Any:
    message, _ = reader(message_class)(encoded, _NUMBER_FORMAT.size, len(encoded))
    return message

"""Kinds of records in ``__consumer_offsets`` except positions: a table of kinds, and conversions of
fields.

Messages and records have the same fields. ``_OUR_FIELD_NAMES`` lists names that differ;
``_FIELD_WRITERS`` and ``_FIELD_READERS`` convert values that differ.

Counterpart in Kafka: GroupCoordinatorRecordSerde, CoordinatorRecordType.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

import msgspec

from txnsim.group.consumer_records import (
    ClassicMetadata,
    CurrentAssignmentDeleted,
    CurrentAssignmentStored,
    DeletingTopic,
    EpochDeleted,
    Epochs,
    EpochStored,
    RegexDeleted,
    RegexStored,
    ShareCurrentAssignmentDeleted,
    ShareCurrentAssignmentStored,
    ShareEpochDeleted,
    ShareEpochStored,
    ShareMemberDeleted,
    ShareMemberStored,
    ShareTargetDeleted,
    ShareTargetEpochDeleted,
    ShareTargetEpochStored,
    ShareTargetStored,
    ShareTopic,
    ShareTopicsDeleted,
    ShareTopicsStored,
    SubscriptionDeleted,
    SubscriptionStored,
    TargetDeleted,
    TargetEpochDeleted,
    TargetEpochStored,
    TargetStored,
    TopicIdPartition,
    TopicsDeleted,
)
from txnsim.group.records import ClassicGroupDeleted, ClassicGroupStored, StoredMember
from txnsim.group.streams import _record_fields as record_fields
from txnsim.group.streams._records import (
    StreamsCurrentAssignmentDeleted,
    StreamsCurrentAssignmentStored,
    StreamsEpochDeleted,
    StreamsEpochStored,
    StreamsMemberDeleted,
    StreamsMemberStored,
    StreamsTargetDeleted,
    StreamsTargetEpochDeleted,
    StreamsTargetEpochStored,
    StreamsTargetStored,
    StreamsTopologyDeleted,
    StreamsTopologyStored,
)
from txnsim.on_demand_imports import OnDemand

if TYPE_CHECKING:
    from txnsim.wire.messages import consumer_group_records as schema
    from txnsim.wire.messages import group_records
    from txnsim.wire.messages import share_group_records as share
    from txnsim.wire.messages import streams_group_records as streams
else:
    schema = OnDemand("txnsim.wire.messages.consumer_group_records")
    group_records = OnDemand("txnsim.wire.messages.group_records")
    share = OnDemand("txnsim.wire.messages.share_group_records")
    streams = OnDemand("txnsim.wire.messages.streams_group_records")

GROUP_METADATA: Final = 2
PARTITION_METADATA: Final = 4


class RecordKind(msgspec.Struct, frozen=True):
    """A kind of records: its message classes and its counterparts in the simulator."""

    key: Any
    values: Sequence[Any]
    """One message class per version; empty for a kind that is only deleted."""
    stored: Any
    deleted: Any
    version_written: int = 0


@cache
def kinds() -> Mapping[int, RecordKind]:
    """Each kind by its number."""
    group_key = schema.GroupKey
    member_key = schema.MemberKey
    return {
        GROUP_METADATA: RecordKind(
            group_records.GroupMetadataKey,
            group_records.GROUP_METADATA_VALUES,
            *_RECORD_CLASSES[GROUP_METADATA],
            version_written=3,
        ),
        3: RecordKind(group_key, (schema.GroupMetadataValue,), *_RECORD_CLASSES[3]),
        PARTITION_METADATA: RecordKind(group_key, (), *_RECORD_CLASSES[PARTITION_METADATA]),
        5: RecordKind(member_key, (schema.MemberMetadataValue,), *_RECORD_CLASSES[5]),
        6: RecordKind(group_key, (schema.TargetMetadataValue,), *_RECORD_CLASSES[6]),
        7: RecordKind(member_key, (schema.TargetMemberValue,), *_RECORD_CLASSES[7]),
        8: RecordKind(member_key, (schema.CurrentAssignmentValue,), *_RECORD_CLASSES[8]),
        10: RecordKind(member_key, (share.MemberMetadataValue,), *_RECORD_CLASSES[10]),
        11: RecordKind(group_key, (share.GroupMetadataValue,), *_RECORD_CLASSES[11]),
        12: RecordKind(group_key, (schema.TargetMetadataValue,), *_RECORD_CLASSES[12]),
        13: RecordKind(member_key, (schema.TargetMemberValue,), *_RECORD_CLASSES[13]),
        14: RecordKind(member_key, (share.CurrentAssignmentValue,), *_RECORD_CLASSES[14]),
        15: RecordKind(group_key, (share.StatePartitionMetadataValue,), *_RECORD_CLASSES[15]),
        16: RecordKind(
            schema.RegularExpressionKey, (schema.RegularExpressionValue,), *_RECORD_CLASSES[16]
        ),
        17: RecordKind(group_key, (streams.GroupMetadataValue,), *_RECORD_CLASSES[17]),
        19: RecordKind(member_key, (streams.MemberMetadataValue,), *_RECORD_CLASSES[19]),
        20: RecordKind(group_key, (schema.TargetMetadataValue,), *_RECORD_CLASSES[20]),
        21: RecordKind(member_key, (streams.TargetMemberValue,), *_RECORD_CLASSES[21]),
        22: RecordKind(member_key, (streams.CurrentAssignmentValue,), *_RECORD_CLASSES[22]),
        23: RecordKind(group_key, (streams.TopologyValue,), *_RECORD_CLASSES[23]),
    }


_RECORD_CLASSES: Final[Mapping[int, tuple[Any, Any]]] = {
    GROUP_METADATA: (ClassicGroupStored, ClassicGroupDeleted),
    3: (EpochStored, EpochDeleted),
    # The topics of a group, which was written up to 4.0 and is skipped.
    PARTITION_METADATA: (None, TopicsDeleted),
    5: (SubscriptionStored, SubscriptionDeleted),
    6: (TargetEpochStored, TargetEpochDeleted),
    7: (TargetStored, TargetDeleted),
    8: (CurrentAssignmentStored, CurrentAssignmentDeleted),
    10: (ShareMemberStored, ShareMemberDeleted),
    11: (ShareEpochStored, ShareEpochDeleted),
    12: (ShareTargetEpochStored, ShareTargetEpochDeleted),
    13: (ShareTargetStored, ShareTargetDeleted),
    14: (ShareCurrentAssignmentStored, ShareCurrentAssignmentDeleted),
    15: (ShareTopicsStored, ShareTopicsDeleted),
    16: (RegexStored, RegexDeleted),
    17: (StreamsEpochStored, StreamsEpochDeleted),
    19: (StreamsMemberStored, StreamsMemberDeleted),
    20: (StreamsTargetEpochStored, StreamsTargetEpochDeleted),
    21: (StreamsTargetStored, StreamsTargetDeleted),
    22: (StreamsCurrentAssignmentStored, StreamsCurrentAssignmentDeleted),
    23: (StreamsTopologyStored, StreamsTopologyDeleted),
}
"""Kind -> the classes of its record and its tombstone."""
KIND_OF: Final[Mapping[type, int]] = {
    record_class: kind_number
    for kind_number, record_classes in _RECORD_CLASSES.items()
    for record_class in record_classes
}
"""Class of a record -> its kind."""

_OUR_FIELD_NAMES: Final = {
    **record_fields.OUR_FIELD_NAMES,
    "assigned_partitions": "assigned",
    "assignment_timestamp": "timestamp_ms",
    "classic_member_metadata": "classic",
    "current_state_timestamp": "state_timestamp_ms",
    "deleting_topics": "deleting",
    "epoch": "group_epoch",
    "group": "group_id",
    "initialized_topics": "initialized",
    "initializing_topics": "initializing",
    "partitions_pending_revocation": "pending_revocation",
    "rebalance_timeout": "rebalance_timeout_ms",
    "regular_expression": "regex",
    "session_timeout": "session_timeout_ms",
    "subscribed_topic_names": "topic_names",
    "subscribed_topic_regex": "topic_regex",
    "supported_protocols": "protocols",
    "timestamp": "timestamp_ms",
    "topic_partitions": "partitions",
}
"""Kafka's name of a field -> the name in our records, if it differs."""


def message_of(message_class: Any, record: Any) -> Any:
    """Build a message from a record's fields."""
    message_fields = {}
    for field_name, own_field, write_field in _field_plan(message_class):
        field_value = getattr(record, own_field)
        message_fields[field_name] = (
            field_value if write_field is None else write_field(field_value)
        )
    return message_class(**message_fields)


@cache
def _field_plan(message_class: Any) -> tuple[tuple[str, str, Callable[[Any], Any] | None], ...]:
    """Each field of a message, the record's name for it, and the conversion of its value."""
    return tuple(
        (field_name, _OUR_FIELD_NAMES.get(field_name, field_name), _FIELD_WRITERS.get(field_name))
        for field_name in _field_names(message_class)
    )


@cache
def _field_names(message_class: Any) -> tuple[str, ...]:
    return tuple(message_field.name for message_field in fields(message_class))


def record_of(record_class: Any, *messages: Any) -> Any:
    """Build a record from a message's fields; a field that the message lacks has its default."""
    return record_class(
        **{
            _OUR_FIELD_NAMES.get(field_name, field_name): _FIELD_READERS[field_name](message)
            if field_name in _FIELD_READERS
            else getattr(message, field_name)
            for message in messages
            for field_name in _field_names(message.__class__)
        }
    )


# Writing


def _classic_message(classic: ClassicMetadata | None) -> Any:
    return None if classic is None else message_of(schema.ClassicMemberMetadata, classic)


def _topic_messages(message_class: Any, topics: Iterable[Any]) -> tuple[Any, ...]:
    """Topics with ids and names as messages; a class with ``partitions`` also gets those."""
    return tuple(
        message_class(
            **{field_name: getattr(topic, field_name) for field_name in _field_names(message_class)}
        )
        for topic in topics
    )


def _target_messages(partitions: Iterable[TopicIdPartition]) -> tuple[Any, ...]:
    return tuple(
        schema.TopicPartitions(
            topic_id=topic, partitions=tuple(index for _, index in topic_partitions)
        )
        for topic, topic_partitions in groupby(partitions, key=lambda partition: partition[0])
    )


def _assigned_messages(epochs: Epochs) -> tuple[Any, ...]:
    assigned_partitions = []
    for topic, topic_epochs in groupby(epochs, key=lambda partition_epoch: partition_epoch[0]):
        partition_epochs = list(topic_epochs)
        assigned_partitions.append(
            schema.AssignedPartitions(
                topic_id=topic,
                partitions=tuple(index for _, index, _ in partition_epochs),
                assignment_epochs=tuple(epoch for _, _, epoch in partition_epochs),
            )
        )
    return tuple(assigned_partitions)


_FIELD_WRITERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    **record_fields.FIELD_WRITERS,
    "assigned_partitions": _assigned_messages,
    "classic_member_metadata": _classic_message,
    "deleting_topics": lambda topics: _topic_messages(share.TopicInfo, topics),
    "initialized_topics": lambda topics: _topic_messages(share.TopicPartitionsInfo, topics),
    "initializing_topics": lambda topics: _topic_messages(share.TopicPartitionsInfo, topics),
    "members": lambda members: tuple(
        message_of(group_records.MEMBER_METADATA_VALUES[3], member) for member in members
    ),
    "partitions_pending_revocation": _assigned_messages,
    "subscribed_topic_regex": lambda regex: regex or "",
    "supported_protocols": lambda protocols: tuple(
        schema.ClassicProtocol(name=name, metadata=metadata) for name, metadata in protocols
    ),
    "topic_partitions": _target_messages,
}
"""Field of a message -> conversion from the record's field."""


# Reading


def _read_classic_metadata(message: Any) -> ClassicMetadata | None:
    metadata_message = message.classic_member_metadata
    has_metadata = metadata_message not in (None, schema.NO_CLASSIC_METADATA)
    return record_of(ClassicMetadata, metadata_message) if has_metadata else None


def _read_epochs(topics: Iterable[Any], member_epoch: int) -> Epochs:
    """Partitions with epochs. Records before 4.3 have none, so the member's epoch applies."""
    return tuple(
        (topic.topic_id, index, epoch)
        for topic in topics
        for index, epoch in zip(
            topic.partitions,
            topic.assignment_epochs or (member_epoch,) * len(topic.partitions),
            strict=False,
        )
    )


def _read_share_topics(topic_class: Any, topics: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(
        sorted(
            topic_class(
                **{
                    field_name: getattr(topic, field_name)
                    for field_name in topic_class.__struct_fields__
                }
            )
            for topic in topics
        )
    )


_FIELD_READERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    **record_fields.FIELD_READERS,
    "assigned_partitions": lambda message: _read_epochs(
        message.assigned_partitions, message.member_epoch
    ),
    "classic_member_metadata": _read_classic_metadata,
    "deleting_topics": lambda message: _read_share_topics(DeletingTopic, message.deleting_topics),
    "initialized_topics": lambda message: _read_share_topics(
        ShareTopic, message.initialized_topics
    ),
    "initializing_topics": lambda message: _read_share_topics(
        ShareTopic, message.initializing_topics
    ),
    "members": lambda message: tuple(record_of(StoredMember, member) for member in message.members),
    "partitions_pending_revocation": lambda message: _read_epochs(
        message.partitions_pending_revocation, message.member_epoch
    ),
    "subscribed_topic_regex": lambda message: message.subscribed_topic_regex or None,
    "supported_protocols": lambda classic: tuple(
        (member.name, member.metadata) for member in classic.supported_protocols
    ),
    "topic_partitions": lambda message: tuple(
        (topic.topic_id, index) for topic in message.topic_partitions for index in topic.partitions
    ),
}
"""Field of a message -> conversion to the record's value. It gets the whole message, because some
need more fields.
"""

"""Kinds of records in ``__consumer_offsets`` except positions: a table of kinds, and conversions of
fields.

Messages and records have the same fields. ``_OURS`` lists names that differ; ``_WRITTEN`` and
``_READ`` convert values that differ.

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
    CurrentDeleted,
    CurrentStored,
    DeletingTopic,
    EpochDeleted,
    Epochs,
    EpochStored,
    RegexDeleted,
    RegexStored,
    ShareCurrentDeleted,
    ShareCurrentStored,
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
    StreamsCurrentDeleted,
    StreamsCurrentStored,
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
    group = schema.GroupKey
    member = schema.MemberKey
    return {
        GROUP_METADATA: RecordKind(
            group_records.GroupMetadataKey,
            group_records.GROUP_METADATA_VALUES,
            *_RECORDS[GROUP_METADATA],
            version_written=3,
        ),
        3: RecordKind(group, (schema.GroupMetadataValue,), *_RECORDS[3]),
        PARTITION_METADATA: RecordKind(group, (), *_RECORDS[PARTITION_METADATA]),
        5: RecordKind(member, (schema.MemberMetadataValue,), *_RECORDS[5]),
        6: RecordKind(group, (schema.TargetMetadataValue,), *_RECORDS[6]),
        7: RecordKind(member, (schema.TargetMemberValue,), *_RECORDS[7]),
        8: RecordKind(member, (schema.CurrentAssignmentValue,), *_RECORDS[8]),
        10: RecordKind(member, (share.MemberMetadataValue,), *_RECORDS[10]),
        11: RecordKind(group, (share.GroupMetadataValue,), *_RECORDS[11]),
        12: RecordKind(group, (schema.TargetMetadataValue,), *_RECORDS[12]),
        13: RecordKind(member, (schema.TargetMemberValue,), *_RECORDS[13]),
        14: RecordKind(member, (share.CurrentAssignmentValue,), *_RECORDS[14]),
        15: RecordKind(group, (share.StatePartitionMetadataValue,), *_RECORDS[15]),
        16: RecordKind(
            schema.RegularExpressionKey, (schema.RegularExpressionValue,), *_RECORDS[16]
        ),
        17: RecordKind(group, (streams.GroupMetadataValue,), *_RECORDS[17]),
        19: RecordKind(member, (streams.MemberMetadataValue,), *_RECORDS[19]),
        20: RecordKind(group, (schema.TargetMetadataValue,), *_RECORDS[20]),
        21: RecordKind(member, (streams.TargetMemberValue,), *_RECORDS[21]),
        22: RecordKind(member, (streams.CurrentAssignmentValue,), *_RECORDS[22]),
        23: RecordKind(group, (streams.TopologyValue,), *_RECORDS[23]),
    }


_RECORDS: Final[Mapping[int, tuple[Any, Any]]] = {
    GROUP_METADATA: (ClassicGroupStored, ClassicGroupDeleted),
    3: (EpochStored, EpochDeleted),
    # The topics of a group, which was written up to 4.0 and is skipped.
    PARTITION_METADATA: (None, TopicsDeleted),
    5: (SubscriptionStored, SubscriptionDeleted),
    6: (TargetEpochStored, TargetEpochDeleted),
    7: (TargetStored, TargetDeleted),
    8: (CurrentStored, CurrentDeleted),
    10: (ShareMemberStored, ShareMemberDeleted),
    11: (ShareEpochStored, ShareEpochDeleted),
    12: (ShareTargetEpochStored, ShareTargetEpochDeleted),
    13: (ShareTargetStored, ShareTargetDeleted),
    14: (ShareCurrentStored, ShareCurrentDeleted),
    15: (ShareTopicsStored, ShareTopicsDeleted),
    16: (RegexStored, RegexDeleted),
    17: (StreamsEpochStored, StreamsEpochDeleted),
    19: (StreamsMemberStored, StreamsMemberDeleted),
    20: (StreamsTargetEpochStored, StreamsTargetEpochDeleted),
    21: (StreamsTargetStored, StreamsTargetDeleted),
    22: (StreamsCurrentStored, StreamsCurrentDeleted),
    23: (StreamsTopologyStored, StreamsTopologyDeleted),
}
"""Kind -> the classes of its record and its tombstone."""
KIND_OF: Final[Mapping[type, int]] = {
    record: number for number, records in _RECORDS.items() for record in records
}
"""Class of a record -> its kind."""

_OURS: Final = {
    **record_fields.OURS,
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


def message_of(cls: Any, record: Any) -> Any:
    """Build a message from a record's fields."""
    message_fields = {}
    for name, own_field, written in _plan_of(cls):
        value = getattr(record, own_field)
        message_fields[name] = value if written is None else written(value)
    return cls(**message_fields)


@cache
def _plan_of(cls: Any) -> tuple[tuple[str, str, Callable[[Any], Any] | None], ...]:
    """Each field of a message, the record's name for it, and the conversion of its value."""
    return tuple((name, _OURS.get(name, name), _WRITTEN.get(name)) for name in _names_of(cls))


@cache
def _names_of(cls: Any) -> tuple[str, ...]:
    """The fields of a message."""
    return tuple(message_field.name for message_field in fields(cls))


def record_of(cls: Any, *messages: Any) -> Any:
    """Build a record from a message's fields; a field that the message lacks has its default."""
    return cls(
        **{
            _OURS.get(name, name): _READ[name](message) if name in _READ else getattr(message, name)
            for message in messages
            for name in _names_of(message.__class__)
        }
    )


# Writing


def _classic_message(classic: ClassicMetadata | None) -> Any:
    return None if classic is None else message_of(schema.ClassicMemberMetadata, classic)


def _messages(cls: Any, topics: Iterable[Any]) -> tuple[Any, ...]:
    """Topics with ids and names as messages; a class with ``partitions`` also gets those."""
    return tuple(cls(**{name: getattr(topic, name) for name in _names_of(cls)}) for topic in topics)


def _target(partitions: Iterable[TopicIdPartition]) -> tuple[Any, ...]:
    return tuple(
        schema.TopicPartitions(
            topic_id=topic, partitions=tuple(index for _, index in topic_partitions)
        )
        for topic, topic_partitions in groupby(partitions, key=lambda pair: pair[0])
    )


def _assigned_messages(epochs: Epochs) -> tuple[Any, ...]:
    assigned_partitions = []
    for topic, topic_epochs in groupby(epochs, key=lambda entry: entry[0]):
        entries = list(topic_epochs)
        assigned_partitions.append(
            schema.AssignedPartitions(
                topic_id=topic,
                partitions=tuple(index for _, index, _ in entries),
                assignment_epochs=tuple(epoch for _, _, epoch in entries),
            )
        )
    return tuple(assigned_partitions)


_WRITTEN: Final[Mapping[str, Callable[[Any], Any]]] = {
    **record_fields.WRITTEN,
    "assigned_partitions": _assigned_messages,
    "classic_member_metadata": _classic_message,
    "deleting_topics": lambda topics: _messages(share.TopicInfo, topics),
    "initialized_topics": lambda topics: _messages(share.TopicPartitionsInfo, topics),
    "initializing_topics": lambda topics: _messages(share.TopicPartitionsInfo, topics),
    "members": lambda members: tuple(
        message_of(group_records.MEMBERS[3], each) for each in members
    ),
    "partitions_pending_revocation": _assigned_messages,
    "subscribed_topic_regex": lambda regex: regex or "",
    "supported_protocols": lambda protocols: tuple(
        schema.ClassicProtocol(name=name, metadata=metadata) for name, metadata in protocols
    ),
    "topic_partitions": _target,
}
"""Field of a message -> conversion from the record's field."""


# Reading


def _classic(value: Any) -> ClassicMetadata | None:
    classic = value.classic_member_metadata
    is_told = classic not in (None, schema.NOT_TOLD)
    return record_of(ClassicMetadata, classic) if is_told else None


def _epochs_of(topics: Iterable[Any], member_epoch: int) -> Epochs:
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


def _share_topics(cls: Any, topics: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(
        sorted(
            cls(**{name: getattr(topic, name) for name in cls.__struct_fields__})
            for topic in topics
        )
    )


_READ: Final[Mapping[str, Callable[[Any], Any]]] = {
    **record_fields.READ,
    "assigned_partitions": lambda value: _epochs_of(value.assigned_partitions, value.member_epoch),
    "classic_member_metadata": _classic,
    "deleting_topics": lambda value: _share_topics(DeletingTopic, value.deleting_topics),
    "initialized_topics": lambda value: _share_topics(ShareTopic, value.initialized_topics),
    "initializing_topics": lambda value: _share_topics(ShareTopic, value.initializing_topics),
    "members": lambda value: tuple(record_of(StoredMember, each) for each in value.members),
    "partitions_pending_revocation": lambda value: _epochs_of(
        value.partitions_pending_revocation, value.member_epoch
    ),
    "subscribed_topic_regex": lambda value: value.subscribed_topic_regex or None,
    "supported_protocols": lambda classic: tuple(
        (each.name, each.metadata) for each in classic.supported_protocols
    ),
    "topic_partitions": lambda value: tuple(
        (topic.topic_id, index) for topic in value.topic_partitions for index in topic.partitions
    ),
}
"""Field of a message -> conversion to the record's value. It gets the whole message, because some
need more fields.
"""

"""Records of the consumer protocol as bytes (KIP-848); see ``log_format`` for the rest.

Counterpart in Kafka: GroupCoordinatorRecordSerde.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Any, Final, assert_never

from txnsim.group.consumer_records import (
    ClassicMetadata,
    ConsumerRecord,
    CurrentDeleted,
    CurrentStored,
    EpochDeleted,
    Epochs,
    EpochStored,
    RegexDeleted,
    RegexStored,
    SubscriptionDeleted,
    SubscriptionStored,
    TargetDeleted,
    TargetEpochDeleted,
    TargetEpochStored,
    TargetStored,
    TopicIdPartition,
    TopicsDeleted,
)
from txnsim.wire.messages import consumer_group_records as schema

EPOCH: Final = 3
PARTITION_METADATA: Final = 4
SUBSCRIPTION: Final = 5
TARGET_EPOCH: Final = 6
TARGET: Final = 7
CURRENT: Final = 8
REGEX: Final = 16

Messages = tuple[int, Any, Any]
"""(kind, key, value or None)."""


def to_messages(record: ConsumerRecord) -> Messages:
    """Kind, key and value of a record."""
    group = record.group_id
    match record:
        case EpochStored():
            value = schema.GroupMetadataValue(
                epoch=record.epoch, metadata_hash=record.metadata_hash
            )
            return EPOCH, schema.GroupKey(group=group), value
        case EpochDeleted():
            return EPOCH, schema.GroupKey(group=group), None
        case SubscriptionStored():
            return SUBSCRIPTION, _member(record), _subscription(record)
        case SubscriptionDeleted():
            return SUBSCRIPTION, _member(record), None
        case TargetEpochStored():
            target = schema.TargetMetadataValue(
                assignment_epoch=record.epoch, assignment_timestamp=record.timestamp_ms
            )
            return TARGET_EPOCH, schema.GroupKey(group=group), target
        case TargetEpochDeleted():
            return TARGET_EPOCH, schema.GroupKey(group=group), None
        case TopicsDeleted():
            return PARTITION_METADATA, schema.GroupKey(group=group), None
        case TargetStored():
            return TARGET, _member(record), _target(record.partitions)
        case TargetDeleted():
            return TARGET, _member(record), None
        case CurrentStored():
            return CURRENT, _member(record), _current(record)
        case CurrentDeleted():
            return CURRENT, _member(record), None
        case RegexStored():
            found = schema.RegularExpressionValue(
                topics=record.topics, version=record.version, timestamp=record.timestamp_ms
            )
            return REGEX, _regex(record), found
        case RegexDeleted():
            return REGEX, _regex(record), None
        case _:
            assert_never(record)


def _member(record: Any) -> Any:
    return schema.MemberKey(group=record.group_id, member_id=record.member_id)


def _regex(record: RegexStored | RegexDeleted) -> Any:
    return schema.RegularExpressionKey(group=record.group_id, regular_expression=record.regex)


def _subscription(record: SubscriptionStored) -> Any:
    classic = record.classic
    return schema.MemberMetadataValue(
        instance_id=record.instance_id,
        rack_id=record.rack_id,
        client_id=record.client_id,
        client_host=record.client_host,
        subscribed_topic_names=record.topic_names,
        subscribed_topic_regex=record.topic_regex or "",
        rebalance_timeout_ms=record.rebalance_timeout_ms,
        server_assignor=record.server_assignor,
        classic_member_metadata=None
        if classic is None
        else schema.ClassicMemberMetadata(
            session_timeout_ms=classic.session_timeout_ms,
            supported_protocols=tuple(
                schema.ClassicProtocol(name=name, metadata=metadata)
                for name, metadata in classic.protocols
            ),
        ),
    )


def _target(partitions: Iterable[TopicIdPartition]) -> Any:
    return schema.TargetMemberValue(
        topic_partitions=tuple(
            schema.TopicPartitions(topic_id=topic, partitions=tuple(index for _, index in each))
            for topic, each in groupby(partitions, key=lambda pair: pair[0])
        )
    )


def _current(record: CurrentStored) -> Any:
    return schema.CurrentAssignmentValue(
        member_epoch=record.epoch,
        previous_member_epoch=record.previous_epoch,
        state=record.state,
        assigned_partitions=_assigned(record.assigned),
        partitions_pending_revocation=_assigned(record.pending_revocation),
    )


def _assigned(epochs: Epochs) -> tuple[Any, ...]:
    found = []
    for topic, each in groupby(epochs, key=lambda entry: entry[0]):
        entries = list(each)
        found.append(
            schema.AssignedPartitions(
                topic_id=topic,
                partitions=tuple(index for _, index, _ in entries),
                assignment_epochs=tuple(epoch for _, _, epoch in entries),
            )
        )
    return tuple(found)


# Reading

KEYS: Final[dict[int, type]] = {
    EPOCH: schema.GroupKey,
    SUBSCRIPTION: schema.MemberKey,
    TARGET_EPOCH: schema.GroupKey,
    TARGET: schema.MemberKey,
    CURRENT: schema.MemberKey,
    REGEX: schema.RegularExpressionKey,
}
"""Kind -> class of the key. Kind 4, the topics of a group, was written up to 4.0 and is skipped."""
VALUES: Final[dict[int, type]] = {
    EPOCH: schema.GroupMetadataValue,
    SUBSCRIPTION: schema.MemberMetadataValue,
    TARGET_EPOCH: schema.TargetMetadataValue,
    TARGET: schema.TargetMemberValue,
    CURRENT: schema.CurrentAssignmentValue,
    REGEX: schema.RegularExpressionValue,
}
"""Kind -> class of the value, of version 0."""


def from_messages(kind: int, key: Any, value: Any | None) -> ConsumerRecord:
    """The record of a kind that ``KEYS`` has."""
    return _DELETED[kind](key) if value is None else _STORED[kind](key, value)


def _epoch_stored(key: Any, value: Any) -> ConsumerRecord:
    return EpochStored(group_id=key.group, epoch=value.epoch, metadata_hash=value.metadata_hash)


def _subscription_stored(key: Any, value: Any) -> ConsumerRecord:
    classic = value.classic_member_metadata
    return SubscriptionStored(
        group_id=key.group,
        member_id=key.member_id,
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        topic_names=tuple(value.subscribed_topic_names),
        topic_regex=value.subscribed_topic_regex or None,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        server_assignor=value.server_assignor,
        classic=None
        if classic in (None, schema.NOT_TOLD)
        else ClassicMetadata(
            session_timeout_ms=classic.session_timeout_ms,
            protocols=tuple((each.name, each.metadata) for each in classic.supported_protocols),
        ),
    )


def _target_epoch_stored(key: Any, value: Any) -> ConsumerRecord:
    return TargetEpochStored(
        group_id=key.group,
        epoch=value.assignment_epoch,
        timestamp_ms=value.assignment_timestamp,
    )


def _target_stored(key: Any, value: Any) -> ConsumerRecord:
    return TargetStored(
        group_id=key.group,
        member_id=key.member_id,
        partitions=tuple(
            (topic.topic_id, index)
            for topic in value.topic_partitions
            for index in topic.partitions
        ),
    )


def _current_stored(key: Any, value: Any) -> ConsumerRecord:
    return CurrentStored(
        group_id=key.group,
        member_id=key.member_id,
        epoch=value.member_epoch,
        previous_epoch=value.previous_member_epoch,
        state=value.state,
        assigned=_epochs_of(value.assigned_partitions, value.member_epoch),
        pending_revocation=_epochs_of(value.partitions_pending_revocation, value.member_epoch),
    )


def _epochs_of(topics: Iterable[Any], member_epoch: int) -> Epochs:
    """Records of before 4.3 have no epochs for partitions: the member's counts then."""
    found: list[tuple[uuid.UUID, int, int]] = []
    for topic in topics:
        epochs = topic.assignment_epochs or (member_epoch,) * len(topic.partitions)
        found += [
            (topic.topic_id, index, epoch)
            for index, epoch in zip(topic.partitions, epochs, strict=False)
        ]
    return tuple(found)


def _regex_stored(key: Any, value: Any) -> ConsumerRecord:
    return RegexStored(
        group_id=key.group,
        regex=key.regular_expression,
        topics=tuple(value.topics),
        version=value.version,
        timestamp_ms=value.timestamp,
    )


_STORED: Final[dict[int, Callable[[Any, Any], ConsumerRecord]]] = {
    EPOCH: _epoch_stored,
    SUBSCRIPTION: _subscription_stored,
    TARGET_EPOCH: _target_epoch_stored,
    TARGET: _target_stored,
    CURRENT: _current_stored,
    REGEX: _regex_stored,
}
_DELETED: Final[dict[int, Callable[[Any], ConsumerRecord]]] = {
    EPOCH: lambda key: EpochDeleted(group_id=key.group),
    SUBSCRIPTION: lambda key: SubscriptionDeleted(group_id=key.group, member_id=key.member_id),
    TARGET_EPOCH: lambda key: TargetEpochDeleted(group_id=key.group),
    TARGET: lambda key: TargetDeleted(group_id=key.group, member_id=key.member_id),
    CURRENT: lambda key: CurrentDeleted(group_id=key.group, member_id=key.member_id),
    REGEX: lambda key: RegexDeleted(group_id=key.group, regex=key.regular_expression),
}

"""Share state of a share group's topics: being initialised, initialised, or being deleted
(KIP-932). Pure.

A decision has the record to write and the commands to send to share coordinators afterwards. Their
answers lead to the next record. Counterpart in Kafka: GroupMetadataManager,
shareGroupStatePartitionMetadata.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, TypeVar

import msgspec

from txnsim.errors import ErrorCode, Rejection
from txnsim.group.consumer_records import DeletingTopic, ShareRecord, ShareTopic, ShareTopicsStored
from txnsim.group.sharing.share_group import ShareGroup
from txnsim.interbroker.share_state import (
    UNKNOWN_OFFSET,
    DeleteShareState,
    InitializeShareState,
    ShareKey,
)
from txnsim.metadata.image import ClusterImage
from txnsim.types import uuid_text

Partitions = Mapping[uuid.UUID, frozenset[int]]
"""Topic -> some of its partitions."""
ShareTopics = Mapping[uuid.UUID, ShareTopic]
TopicT = TypeVar("TopicT", ShareTopic, DeletingTopic)
NewOffsets = tuple[str, Sequence[tuple[int, int]]]
"""(topic, (partition, new start offset) of each partition)."""

_UNKNOWN: Final = "This server does not host this topic-partition."
_NOTHING_TO_DELETE: Final = "There is no offset information to delete."


class PartitionError(msgspec.Struct, frozen=True, kw_only=True):
    """The error of a partition or topic, with a message if Kafka has its own."""

    error: ErrorCode = ErrorCode.none
    message: str | None = None


DONE: Final = PartitionError()


class TopicOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result for a topic whose offsets were to be altered or deleted."""

    topic_name: str
    topic_id: uuid.UUID | None = None
    outcome: PartitionError = DONE
    """The result of a deletion."""
    partitions: tuple[tuple[int, PartitionError], ...] = ()
    """The results of an alteration, by partition."""


class ShareAlteration(msgspec.Struct, frozen=True, kw_only=True):
    """New start offsets: send ``initialize`` once the records are in the log."""

    records: tuple[ShareRecord, ...] = ()
    topics: tuple[TopicOutcome, ...] = ()
    initialize: tuple[InitializeShareState, ...] = ()


class ShareDeletion(msgspec.Struct, frozen=True, kw_only=True):
    """Deletion of share state: send ``delete`` once the records are in the log."""

    records: tuple[ShareRecord, ...] = ()
    refused: tuple[TopicOutcome, ...] = ()
    delete: tuple[DeleteShareState, ...] = ()


class ShareOffset(msgspec.Struct, frozen=True, kw_only=True):
    """The position of a share partition."""

    partition: int
    start_offset: int = UNKNOWN_OFFSET
    leader_epoch: int = 0
    lag: int = -1
    error: ErrorCode = ErrorCode.none


TopicOffsets = tuple[str, uuid.UUID | None, tuple[ShareOffset, ...]]
"""(topic, its id if it exists, its partitions)."""


# Initialising


def uninitialized_topics(
    group: ShareGroup, names: AbstractSet[str], image: ClusterImage, *, awaits: bool
) -> dict[uuid.UUID, ShareTopic]:
    """Partitions of subscribed topics that are not initialised (subscribedTopicsChangeMap).

    Args:
        group: The group; its initialised partitions are left out.
        names: Names of the topics.
        image: The metadata with the existing topics.
        awaits: Whether to leave out partitions that are being initialised, too.
    """
    uninitialized: dict[uuid.UUID, ShareTopic] = {}
    for name in sorted(image.existing(names)):
        topic = image.topics[name]
        share_topics = [group.initialized.get(topic.topic_id)]
        if awaits:
            share_topics.append(group.initializing.get(topic.topic_id))
        requested_indexes = {
            index
            for share_topic in share_topics
            if share_topic is not None
            for index in share_topic.partitions
        }
        if len(requested_indexes) < len(topic.partitions):
            uninitialized[topic.topic_id] = ShareTopic(
                topic_id=topic.topic_id,
                topic_name=name,
                partitions=tuple(sorted(set(range(len(topic.partitions))) - requested_indexes)),
            )
    return uninitialized


def with_initializing(group: ShareGroup, topics: ShareTopics, *, now_ms: int) -> ShareTopicsStored:
    """The record that initialises topics; such a topic is no longer being deleted."""
    initializing = _combine_topics(group.initializing, topics)
    deleting = {
        topic_id: topic
        for topic_id, topic in group.deleting.items()
        if topic_id not in initializing
    }
    return _record(group, now_ms, initializing=initializing, deleting=deleting)


def to_initialize(
    group: ShareGroup, topics: ShareTopics, state_epoch: int
) -> tuple[InitializeShareState, ...]:
    """The commands that initialise share state. New partitions of a known topic begin at offset 0,
    so that no record is missed; the leader decides where a new topic begins. Up to 4.3 the leader
    decides for all.
    """
    known_topic_ids: frozenset[uuid.UUID] = frozenset()
    if group.rules.share_groups_read_grown_topics_whole:
        known_topic_ids = frozenset(group.initialized) | frozenset(group.initializing)
    return tuple(
        InitializeShareState(
            key=ShareKey(group.group_id, uuid_text(topic.topic_id), index),
            state_epoch=state_epoch,
            start_offset=0 if topic.topic_id in known_topic_ids else UNKNOWN_OFFSET,
        )
        for topic in topics.values()
        for index in topic.partitions
    )


def records_of_initialized(
    group: ShareGroup, partitions: Partitions, *, image: ClusterImage, now_ms: int
) -> tuple[ShareRecord, ...]:
    """The records after share coordinators have initialised these partitions
    (initializeShareGroupState).
    """
    if not partitions:
        return ()
    initialized_topics = {
        topic_id: ShareTopic(
            topic_id=topic_id,
            topic_name=image.topic_names.get(topic_id, "<UNKNOWN>"),
            partitions=tuple(sorted(indexes)),
        )
        for topic_id, indexes in partitions.items()
    }
    return (
        _record(
            group,
            now_ms,
            initializing=_without_partitions(group.initializing, partitions),
            initialized=_combine_topics(group.initialized, initialized_topics),
        ),
    )


def records_of_refused(
    group: ShareGroup, partitions: Partitions, *, now_ms: int
) -> tuple[ShareRecord, ...]:
    """The records after share coordinators have refused these partitions
    (uninitializeShareGroupState).
    """
    if not group.initializing or not partitions:
        return ()
    return (
        _record(group, now_ms, initializing=_without_partitions(group.initializing, partitions)),
    )


# Altering offsets


def alter_offsets(
    group: ShareGroup, topics: Iterable[NewOffsets], *, image: ClusterImage, now_ms: int
) -> ShareAlteration | Rejection:
    """Initialise partitions again, at given offsets (alterShareGroupOffsets)."""
    refusal = group.check_delete()
    if refusal is not None:
        return refusal
    unknown = PartitionError(error=ErrorCode.unknown_topic_or_partition, message=_UNKNOWN)
    outcomes: list[TopicOutcome] = []
    initializing: dict[uuid.UUID, ShareTopic] = {}
    offsets: dict[ShareKey, int] = {}
    for name, new_offsets in topics:
        topic = image.topics.get(name)
        count = 0 if topic is None else len(topic.partitions)
        existing_offsets = {index: offset for index, offset in new_offsets if index < count}
        outcomes.append(
            TopicOutcome(
                topic_name=name,
                topic_id=None if topic is None else topic.topic_id,
                partitions=tuple(
                    (index, DONE if topic is not None and index < count else unknown)
                    for index, _ in new_offsets
                ),
            )
        )
        if topic is not None:
            initializing[topic.topic_id] = ShareTopic(
                topic_id=topic.topic_id, topic_name=name, partitions=tuple(sorted(existing_offsets))
            )
            text = uuid_text(topic.topic_id)
            for index, offset in existing_offsets.items():
                offsets[ShareKey(group.group_id, text, index)] = offset
    return ShareAlteration(
        records=(with_initializing(group, initializing, now_ms=now_ms),) if initializing else (),
        topics=tuple(outcomes),
        initialize=tuple(
            InitializeShareState(key=key, state_epoch=group.epoch, start_offset=offset)
            for key, offset in offsets.items()
        ),
    )


# Deleting


def delete_offsets(
    group: ShareGroup, names: Iterable[str], *, image: ClusterImage, now_ms: int
) -> ShareDeletion | Rejection:
    """Delete the share state of topics; a pending deletion is sent again
    (initiateDeleteShareGroupOffsets).
    """
    refusal = group.check_delete()
    if refusal is not None:
        return refusal
    if not group.knows_topics:
        return ShareDeletion()
    remaining_topics, deleting = dict(group.initialized), dict(group.deleting)
    refused: list[TopicOutcome] = []
    delete: list[DeleteShareState] = []
    for name in names:
        topic = image.topics.get(name)
        if topic is None:
            refused.append(_not_deleted(name, _UNKNOWN))
        elif topic.topic_id in remaining_topics:
            delete += _to_delete(
                group, topic.topic_id, remaining_topics.pop(topic.topic_id).partitions
            )
            deleting[topic.topic_id] = DeletingTopic(topic_id=topic.topic_id, topic_name=name)
        elif topic.topic_id in deleting:
            delete += _to_delete(group, topic.topic_id, range(len(topic.partitions)))
        else:
            refused.append(_not_deleted(name, _NOTHING_TO_DELETE))
    return ShareDeletion(
        records=(_record(group, now_ms, initialized=remaining_topics, deleting=deleting),),
        refused=tuple(refused),
        delete=tuple(delete),
    )


def offsets_deleted(
    group: ShareGroup, topic_ids: Collection[uuid.UUID], *, now_ms: int
) -> tuple[ShareRecord, ...]:
    """The records after share coordinators have deleted the state of these topics
    (completeDeleteShareGroupOffsets).
    """
    if not group.knows_topics:
        return ()
    return (_record(group, now_ms, deleting=_without_topics(group.deleting, topic_ids)),)


def delete_all(group: ShareGroup, *, image: ClusterImage, now_ms: int) -> ShareDeletion:
    """Delete all share state of a group before the group itself is deleted
    (shareGroupBuildPartitionDeleteRequest).
    """
    if not group.knows_topics:
        return ShareDeletion()
    retried_topics = {
        topic.topic_id: ShareTopic(
            topic_id=topic.topic_id,
            topic_name=topic.name,
            partitions=tuple(range(len(topic.partitions))),
        )
        for topic_id in group.deleting
        if (topic := image.topic_by_id(topic_id)) is not None
    }
    topics = _combine_topics(_combine_topics(group.initialized, group.initializing), retried_topics)
    deleting = {
        topic_id: DeletingTopic(topic_id=topic_id, topic_name=topic.topic_name)
        for topic_id, topic in topics.items()
    }
    record = _record(group, now_ms, initializing={}, initialized={}, deleting=deleting)
    return ShareDeletion(
        records=(record,),
        delete=tuple(
            deletion
            for topic in topics.values()
            for deletion in _to_delete(group, topic.topic_id, topic.partitions)
        ),
    )


def topics_gone(
    group: ShareGroup, topic_ids: AbstractSet[uuid.UUID], *, now_ms: int
) -> tuple[ShareRecord, ...]:
    """The records that remove deleted topics from a group (maybeCleanupShareGroupState)."""
    is_apart = topic_ids.isdisjoint
    if is_apart(group.initializing) and is_apart(group.initialized) and is_apart(group.deleting):
        return ()
    return (
        _record(
            group,
            now_ms,
            initializing=_without_topics(group.initializing, topic_ids),
            initialized=_without_topics(group.initialized, topic_ids),
            deleting=_without_topics(group.deleting, topic_ids),
        ),
    )


# Parts


def _not_deleted(name: str, message: str) -> TopicOutcome:
    error = ErrorCode.unknown_topic_or_partition
    return TopicOutcome(topic_name=name, outcome=PartitionError(error=error, message=message))


def _to_delete(
    group: ShareGroup, topic_id: uuid.UUID, partitions: Iterable[int]
) -> list[DeleteShareState]:
    text = uuid_text(topic_id)
    return [
        DeleteShareState(key=ShareKey(group.group_id, text, partition)) for partition in partitions
    ]


def _record(
    group: ShareGroup,
    now_ms: int,
    *,
    initializing: ShareTopics | None = None,
    initialized: ShareTopics | None = None,
    deleting: Mapping[uuid.UUID, DeletingTopic] | None = None,
) -> ShareTopicsStored:
    """A record with the group's topics; kinds that are not given are unchanged."""

    def topics(new_topics: ShareTopics | None, old_topics: ShareTopics) -> tuple[ShareTopic, ...]:
        return tuple(sorted((old_topics if new_topics is None else new_topics).values()))

    return ShareTopicsStored(
        group_id=group.group_id,
        initializing=topics(initializing, group.initializing),
        initialized=topics(initialized, group.initialized),
        deleting=tuple(sorted((group.deleting if deleting is None else deleting).values())),
        stored_at_ms=now_ms,
    )


def _without_topics(
    topics: Mapping[uuid.UUID, TopicT], removed_ids: Collection[uuid.UUID]
) -> dict[uuid.UUID, TopicT]:
    return {topic_id: topic for topic_id, topic in topics.items() if topic_id not in removed_ids}


def _combine_topics(topics: ShareTopics, other_topics: ShareTopics) -> dict[uuid.UUID, ShareTopic]:
    combined = dict(topics)
    for topic_id, topic in other_topics.items():
        partitions_before = topics[topic_id].partitions if topic_id in topics else ()
        combined[topic_id] = msgspec.structs.replace(
            topic, partitions=tuple(sorted({*partitions_before, *topic.partitions}))
        )
    return combined


def _without_partitions(topics: ShareTopics, partitions: Partitions) -> dict[uuid.UUID, ShareTopic]:
    remaining_topics = {}
    for topic_id, topic in topics.items():
        removed_partitions = partitions.get(topic_id, frozenset())
        kept_partitions = tuple(
            index for index in topic.partitions if index not in removed_partitions
        )
        if kept_partitions:
            remaining_topics[topic_id] = msgspec.structs.replace(topic, partitions=kept_partitions)
    return remaining_topics

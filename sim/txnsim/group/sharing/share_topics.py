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

IndexesByTopic = Mapping[uuid.UUID, frozenset[int]]
"""Topic -> some of its partitions."""
ShareTopics = Mapping[uuid.UUID, ShareTopic]
TopicT = TypeVar("TopicT", ShareTopic, DeletingTopic)
NewOffsets = tuple[str, Sequence[tuple[int, int]]]
"""(topic, (partition, new start offset) of each partition)."""

_UNKNOWN_TOPIC: Final = "This server does not host this topic-partition."
_NOTHING_TO_DELETE: Final = "There is no offset information to delete."


class PersisterRejection(Rejection, frozen=True, kw_only=True):
    """A refusal that was made before share coordinators were asked; clients get its reason."""


class PartitionError(msgspec.Struct, frozen=True, kw_only=True):
    """The error of a partition or topic, with a message if Kafka has its own."""

    error: ErrorCode = ErrorCode.none
    message: str | None = None


NO_PARTITION_ERROR: Final = PartitionError()


class TopicOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result for a topic whose offsets were to be altered or deleted."""

    topic_name: str
    topic_id: uuid.UUID | None = None
    outcome: PartitionError = NO_PARTITION_ERROR
    """The result of a deletion."""
    partitions: tuple[tuple[int, PartitionError], ...] = ()
    """The results of an alteration, by partition."""


class ShareAlteration(msgspec.Struct, frozen=True, kw_only=True):
    """New start offsets: send ``states_to_initialize`` once the records are in the log."""

    records: tuple[ShareRecord, ...] = ()
    topics: tuple[TopicOutcome, ...] = ()
    states_to_initialize: tuple[InitializeShareState, ...] = ()


class ShareDeletion(msgspec.Struct, frozen=True, kw_only=True):
    """Deletion of share state: send ``states_to_delete`` once the records are in the log."""

    records: tuple[ShareRecord, ...] = ()
    refused_topics: tuple[TopicOutcome, ...] = ()
    states_to_delete: tuple[DeleteShareState, ...] = ()


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
    group: ShareGroup,
    topic_names: AbstractSet[str],
    image: ClusterImage,
    *,
    awaits_state: bool,
) -> dict[uuid.UUID, ShareTopic]:
    """Partitions of subscribed topics that are not initialised (subscribedTopicsChangeMap).

    Args:
        group: The group; its initialised partitions are left out.
        topic_names: Names of the topics.
        image: The metadata with the existing topics.
        awaits_state: Whether to leave out partitions that are being initialised, too.
    """
    topics_to_initialize: dict[uuid.UUID, ShareTopic] = {}
    for topic_name in sorted(image.existing_topics(topic_names)):
        topic = image.topics[topic_name]
        share_topics = [group.initialized.get(topic.topic_id)]
        if awaits_state:
            share_topics.append(group.initializing.get(topic.topic_id))
        requested_indexes = {
            index
            for share_topic in share_topics
            if share_topic is not None
            for index in share_topic.partitions
        }
        if len(requested_indexes) < len(topic.partitions):
            topics_to_initialize[topic.topic_id] = ShareTopic(
                topic_id=topic.topic_id,
                topic_name=topic_name,
                partitions=tuple(sorted(set(range(len(topic.partitions))) - requested_indexes)),
            )
    return topics_to_initialize


def with_initializing(group: ShareGroup, topics: ShareTopics, *, now_ms: int) -> ShareTopicsStored:
    """The record that initialises topics; such a topic is no longer being deleted."""
    initializing_topics = _combine_topics(group.initializing, topics)
    deleting_topics = {
        topic_id: topic
        for topic_id, topic in group.deleting.items()
        if topic_id not in initializing_topics
    }
    return _topics_record(
        group, now_ms, initializing_topics=initializing_topics, deleting_topics=deleting_topics
    )


def states_to_initialize(
    group: ShareGroup, share_topics: ShareTopics, state_epoch: int
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
        for topic in share_topics.values()
        for index in topic.partitions
    )


def records_of_initialized(
    group: ShareGroup, initialized_indexes: IndexesByTopic, *, image: ClusterImage, now_ms: int
) -> tuple[ShareRecord, ...]:
    """The records after share coordinators have initialised these partitions
    (initializeShareGroupState).
    """
    if not initialized_indexes:
        return ()
    initialized_topics = {
        topic_id: ShareTopic(
            topic_id=topic_id,
            topic_name=image.topic_names.get(topic_id, "<UNKNOWN>"),
            partitions=tuple(sorted(indexes)),
        )
        for topic_id, indexes in initialized_indexes.items()
    }
    return (
        _topics_record(
            group,
            now_ms,
            initializing_topics=_without_partitions(group.initializing, initialized_indexes),
            initialized_topics=_combine_topics(group.initialized, initialized_topics),
        ),
    )


def records_of_refused(
    group: ShareGroup, refused_indexes: IndexesByTopic, *, now_ms: int
) -> tuple[ShareRecord, ...]:
    """The records after share coordinators have refused these partitions
    (uninitializeShareGroupState).
    """
    if not group.initializing or not refused_indexes:
        return ()
    return (
        _topics_record(
            group,
            now_ms,
            initializing_topics=_without_partitions(group.initializing, refused_indexes),
        ),
    )


# Altering offsets


def alter_offsets(
    group: ShareGroup, topics: Iterable[NewOffsets], *, image: ClusterImage, now_ms: int
) -> ShareAlteration | Rejection:
    """Initialise partitions again, at given offsets (alterShareGroupOffsets)."""
    refusal = group.check_delete()
    if refusal is not None:
        return refusal
    unknown_partition = PartitionError(
        error=ErrorCode.unknown_topic_or_partition, message=_UNKNOWN_TOPIC
    )
    topic_outcomes: list[TopicOutcome] = []
    initializing_topics: dict[uuid.UUID, ShareTopic] = {}
    start_offsets: dict[ShareKey, int] = {}
    for topic_name, new_offsets in topics:
        topic = image.topics.get(topic_name)
        partition_count = 0 if topic is None else len(topic.partitions)
        offset_by_index = {
            index: offset for index, offset in new_offsets if index < partition_count
        }
        topic_outcomes.append(
            TopicOutcome(
                topic_name=topic_name,
                topic_id=None if topic is None else topic.topic_id,
                partitions=tuple(
                    (
                        index,
                        NO_PARTITION_ERROR
                        if topic is not None and index < partition_count
                        else unknown_partition,
                    )
                    for index, _ in new_offsets
                ),
            )
        )
        if topic is not None:
            initializing_topics[topic.topic_id] = ShareTopic(
                topic_id=topic.topic_id,
                topic_name=topic_name,
                partitions=tuple(sorted(offset_by_index)),
            )
            topic_id_text = uuid_text(topic.topic_id)
            for index, offset in offset_by_index.items():
                start_offsets[ShareKey(group.group_id, topic_id_text, index)] = offset
    return ShareAlteration(
        records=(with_initializing(group, initializing_topics, now_ms=now_ms),)
        if initializing_topics
        else (),
        topics=tuple(topic_outcomes),
        states_to_initialize=tuple(
            InitializeShareState(key=share_key, state_epoch=group.epoch, start_offset=offset)
            for share_key, offset in start_offsets.items()
        ),
    )


# Deleting


def delete_offsets(
    group: ShareGroup, topic_names: Iterable[str], *, image: ClusterImage, now_ms: int
) -> ShareDeletion | Rejection:
    """Delete the share state of topics; a pending deletion is sent again
    (initiateDeleteShareGroupOffsets).
    """
    refusal = group.check_delete()
    if refusal is not None:
        return refusal
    if not group.knows_topics:
        return ShareDeletion()
    remaining_topics, deleting_topics = dict(group.initialized), dict(group.deleting)
    refused_topics: list[TopicOutcome] = []
    deletions: list[DeleteShareState] = []
    for topic_name in topic_names:
        topic = image.topics.get(topic_name)
        if topic is None:
            refused_topics.append(_deletion_refusal(topic_name, _UNKNOWN_TOPIC))
        elif topic.topic_id in remaining_topics:
            deletions += _deletions(
                group, topic.topic_id, remaining_topics.pop(topic.topic_id).partitions
            )
            deleting_topics[topic.topic_id] = DeletingTopic(
                topic_id=topic.topic_id, topic_name=topic_name
            )
        elif topic.topic_id in deleting_topics:
            deletions += _deletions(group, topic.topic_id, range(len(topic.partitions)))
        else:
            refused_topics.append(_deletion_refusal(topic_name, _NOTHING_TO_DELETE))
    return ShareDeletion(
        records=(
            _topics_record(
                group, now_ms, initialized_topics=remaining_topics, deleting_topics=deleting_topics
            ),
        ),
        refused_topics=tuple(refused_topics),
        states_to_delete=tuple(deletions),
    )


def records_of_deleted(
    group: ShareGroup, topic_ids: Collection[uuid.UUID], *, now_ms: int
) -> tuple[ShareRecord, ...]:
    """The records after share coordinators have deleted the state of these topics
    (completeDeleteShareGroupOffsets).
    """
    if not group.knows_topics:
        return ()
    return (
        _topics_record(group, now_ms, deleting_topics=_without_topics(group.deleting, topic_ids)),
    )


def delete_all_topics(group: ShareGroup, *, image: ClusterImage, now_ms: int) -> ShareDeletion:
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
    deleting_topics = {
        topic_id: DeletingTopic(topic_id=topic_id, topic_name=topic.topic_name)
        for topic_id, topic in topics.items()
    }
    record = _topics_record(
        group,
        now_ms,
        initializing_topics={},
        initialized_topics={},
        deleting_topics=deleting_topics,
    )
    return ShareDeletion(
        records=(record,),
        states_to_delete=tuple(
            deletion
            for topic in topics.values()
            for deletion in _deletions(group, topic.topic_id, topic.partitions)
        ),
    )


def records_without_topics(
    group: ShareGroup, topic_ids: AbstractSet[uuid.UUID], *, now_ms: int
) -> tuple[ShareRecord, ...]:
    """The records that remove deleted topics from a group (maybeCleanupShareGroupState)."""
    spares_topics = topic_ids.isdisjoint
    if (
        spares_topics(group.initializing)
        and spares_topics(group.initialized)
        and spares_topics(group.deleting)
    ):
        return ()
    return (
        _topics_record(
            group,
            now_ms,
            initializing_topics=_without_topics(group.initializing, topic_ids),
            initialized_topics=_without_topics(group.initialized, topic_ids),
            deleting_topics=_without_topics(group.deleting, topic_ids),
        ),
    )


# Parts


def _deletion_refusal(topic_name: str, message: str) -> TopicOutcome:
    error = ErrorCode.unknown_topic_or_partition
    return TopicOutcome(topic_name=topic_name, outcome=PartitionError(error=error, message=message))


def _deletions(
    group: ShareGroup, topic_id: uuid.UUID, indexes: Iterable[int]
) -> list[DeleteShareState]:
    topic_id_text = uuid_text(topic_id)
    return [
        DeleteShareState(key=ShareKey(group.group_id, topic_id_text, index)) for index in indexes
    ]


def _topics_record(
    group: ShareGroup,
    now_ms: int,
    *,
    initializing_topics: ShareTopics | None = None,
    initialized_topics: ShareTopics | None = None,
    deleting_topics: Mapping[uuid.UUID, DeletingTopic] | None = None,
) -> ShareTopicsStored:
    """A record with the group's topics; kinds that are not given are unchanged."""

    def topics(given_topics: ShareTopics | None, old_topics: ShareTopics) -> tuple[ShareTopic, ...]:
        return tuple(sorted((old_topics if given_topics is None else given_topics).values()))

    return ShareTopicsStored(
        group_id=group.group_id,
        initializing=topics(initializing_topics, group.initializing),
        initialized=topics(initialized_topics, group.initialized),
        deleting=tuple(
            sorted((group.deleting if deleting_topics is None else deleting_topics).values())
        ),
        stored_at_ms=now_ms,
    )


def _without_topics(
    topics: Mapping[uuid.UUID, TopicT], removed_ids: Collection[uuid.UUID]
) -> dict[uuid.UUID, TopicT]:
    return {topic_id: topic for topic_id, topic in topics.items() if topic_id not in removed_ids}


def _combine_topics(topics: ShareTopics, other_topics: ShareTopics) -> dict[uuid.UUID, ShareTopic]:
    combined_topics = dict(topics)
    for topic_id, topic in other_topics.items():
        partitions_before = topics[topic_id].partitions if topic_id in topics else ()
        combined_topics[topic_id] = msgspec.structs.replace(
            topic, partitions=tuple(sorted({*partitions_before, *topic.partitions}))
        )
    return combined_topics


def _without_partitions(
    topics: ShareTopics, removed_indexes: IndexesByTopic
) -> dict[uuid.UUID, ShareTopic]:
    remaining_topics = {}
    for topic_id, topic in topics.items():
        removed_partitions = removed_indexes.get(topic_id, frozenset())
        kept_partitions = tuple(
            index for index in topic.partitions if index not in removed_partitions
        )
        if kept_partitions:
            remaining_topics[topic_id] = msgspec.structs.replace(topic, partitions=kept_partitions)
    return remaining_topics

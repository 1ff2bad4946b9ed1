"""OffsetFetch (key 9): how far groups have consumed.

Versions: 2 may ask for all positions and has an error of its own, 5 brings leader epochs, 7 asks
for stable positions only (KIP-447), 8 asks for several groups at once, 9 says which member asks
(KIP-848), 10 names topics by id. Kafka's counterpart: KafkaApis.handleOffsetFetchRequest.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

import msgspec

from txnsim.api._fault_subjects import partitions_named
from txnsim.api._groups.committed_positions import NamedTopic, find_topic, named_topic
from txnsim.api.request import Reply, Request
from txnsim.errors import ErrorCode, Rejection
from txnsim.faults.subjects import Subject
from txnsim.group.offset_commands import FetchedPosition, FetchOffsets
from txnsim.metadata.image import TopicImage
from txnsim.security.acls import AclOperation
from txnsim.types import TopicPartition
from txnsim.wire.codec import builder

API_KEY: Final = 9

TOP_LEVEL_ERROR_FROM: Final = 2
GROUPS_FROM: Final = 8

BY_ID_FROM: Final = 10


class _GroupPositions(msgspec.Struct, frozen=True, kw_only=True):
    """The positions of one group, as (topic as the request named it, positions) pairs."""

    group_id: str
    error: ErrorCode
    topics: tuple[tuple[NamedTopic, tuple[FetchedPosition, ...]], ...] = ()


async def handle(request: Request) -> Reply:
    """Answer with the committed positions of each requested group."""
    message = request.message
    if request.api_version < GROUPS_FROM:
        positions = await _fetch(request, message)
        return request.answer(
            topics=await _topic_rows(request, positions), error_code=positions.error
        )
    group_rows = await request.each_heavy(partial(_group_row, request), message.groups)
    return request.answer(groups=tuple(group_rows))


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error for every group."""
    message = request.message
    if request.api_version < GROUPS_FROM:
        group_positions = _refuse_group(request, message, error)
        return request.answer(topics=_refused_topics(request, group_positions), error_code=error)
    group_class = request.schema.OffsetFetchResponseGroup
    return request.answer(
        groups=tuple(
            group_class(group_id=group.group_id, error_code=error, topics=())
            for group in message.groups
        )
    )


def subject(request: Request) -> Subject:
    """For fault rules: the requested partitions; empty for a group that asks for all."""
    message = request.message
    groups = message.groups if request.api_version >= GROUPS_FROM else (message,)
    return Subject(
        partitions=tuple(
            [partition for group in groups for partition in partitions_named(request, group.topics)]
        )
    )


async def _fetch(request: Request, group: Any) -> _GroupPositions:
    image = request.broker.image
    access = request.access
    if access is not None and not access.may_group(AclOperation.DESCRIBE, group.group_id):
        return _refuse_group(request, group, ErrorCode.group_authorization_failed)
    topics_by_name: dict[str, NamedTopic] = {}
    partitions: list[TopicPartition] = []
    id_by_topic: dict[str, uuid.UUID] = {}
    refused_topics: list[tuple[NamedTopic, tuple[FetchedPosition, ...]]] = []
    for topic in group.topics or ():
        requested_topic = named_topic(topic)
        topic_name = requested_topic.name
        if request.api_version >= BY_ID_FROM:
            topic_image = find_topic(image, requested_topic)
            if not isinstance(topic_image, TopicImage):
                refused_topics.append(
                    (requested_topic, _error_positions(topic, ErrorCode.unknown_topic_id))
                )
                continue
            topic_name, id_by_topic[topic_image.name] = topic_image.name, topic_image.topic_id
        if access is not None and not access.may_topic(AclOperation.DESCRIBE, topic_name):
            refused_topics.append(
                (requested_topic, _error_positions(topic, ErrorCode.topic_authorization_failed))
            )
            continue
        topics_by_name[topic_name] = requested_topic
        partitions += [TopicPartition(topic_name, index) for index in topic.partition_indexes]
    if not request.broker.release.rules.positions_are_told_as_asked:
        partitions = list(dict.fromkeys(partitions))
    outcome = await request.broker.groups.fetch(
        FetchOffsets(
            group_id=group.group_id,
            partitions=None if group.topics is None else tuple(partitions),
            topic_ids=id_by_topic,
            member_id=getattr(group, "member_id", None),
            member_epoch=getattr(group, "member_epoch", -1),
            require_stable=getattr(request.message, "require_stable", False),
        )
    )
    if isinstance(outcome, Rejection):
        return _refuse_group(request, group, outcome.error)
    request.announce_answer(len(outcome))
    positions_by_topic: dict[str, list[FetchedPosition]] = {
        topic_name: [] for topic_name in topics_by_name
    }
    for position in outcome:
        positions_by_topic.setdefault(position.topic_partition.topic, []).append(position)
    topic_positions = []
    for topic_name, positions in positions_by_topic.items():
        if (
            access is not None
            and topic_name not in topics_by_name
            and not access.may_topic(AclOperation.DESCRIBE, topic_name)
        ):
            continue  # of all positions of the group those that may be seen
        requested_topic = topics_by_name.get(topic_name) or NamedTopic(
            name=topic_name, topic_id=None, is_by_id=False
        )
        if request.api_version >= BY_ID_FROM and requested_topic.topic_id is None:
            existing_topic = image.topics.get(topic_name)
            if existing_topic is None:
                continue  # deleted meanwhile: there is no id to answer with
            requested_topic = NamedTopic(
                name=topic_name, topic_id=existing_topic.topic_id, is_by_id=True
            )
        topic_positions.append((requested_topic, tuple(positions)))
    return _GroupPositions(
        group_id=group.group_id, error=ErrorCode.none, topics=(*topic_positions, *refused_topics)
    )


def _refuse_group(request: Request, group: Any, error: ErrorCode) -> _GroupPositions:
    refused_topics: tuple[tuple[NamedTopic, tuple[FetchedPosition, ...]], ...] = ()
    if request.api_version < TOP_LEVEL_ERROR_FROM:
        refused_topics = tuple(
            (named_topic(topic), _error_positions(topic, error)) for topic in group.topics
        )
    return _GroupPositions(group_id=group.group_id, error=error, topics=refused_topics)


def _error_positions(topic: Any, error: ErrorCode) -> tuple[FetchedPosition, ...]:
    return tuple(
        FetchedPosition(
            topic_partition=TopicPartition(getattr(topic, "name", ""), index), error=error
        )
        for index in topic.partition_indexes
    )


async def _group_row(request: Request, group: Any) -> Any:
    """The answer for one group."""
    positions = await _fetch(request, group)
    return request.schema.OffsetFetchResponseGroup(
        group_id=positions.group_id,
        error_code=positions.error,
        topics=await _topic_rows(request, positions),
    )


def _refused_topics(request: Request, group: _GroupPositions) -> tuple[Any, ...]:
    build_row = _row_maker(request)
    return tuple(
        _topic_row(request, requested_topic, map(build_row, rows))
        for requested_topic, rows in group.topics
    )


async def _topic_rows(request: Request, group: _GroupPositions) -> tuple[Any, ...]:
    build_row = _row_maker(request)
    request.expect(len(group.topics))
    return tuple(
        [
            _topic_row(request, requested_topic, await request.map_each(build_row, positions))
            for requested_topic, positions in group.topics
        ]
    )


def _topic_row(request: Request, requested_topic: NamedTopic, partition_rows: Iterable[Any]) -> Any:
    is_grouped = request.api_version >= GROUPS_FROM
    schema = request.schema
    topic_class = (
        schema.OffsetFetchResponseTopics if is_grouped else schema.OffsetFetchResponseTopic
    )
    names_topics_by_id = request.api_version >= BY_ID_FROM
    name_or_id_field = (
        {"topic_id": requested_topic.topic_id}
        if names_topics_by_id
        else {"name": requested_topic.name}
    )
    return topic_class(**name_or_id_field, partitions=tuple(partition_rows))


def _row_maker(request: Request) -> Callable[[FetchedPosition], Any]:
    is_grouped = request.api_version >= GROUPS_FROM
    class_name = "OffsetFetchResponsePartition" + "s" * is_grouped
    build_partition = builder(getattr(request.schema, class_name))
    return lambda position: build_partition(
        partition_index=position.topic_partition.partition,
        committed_offset=position.offset,
        metadata=position.metadata,
        error_code=position.error,
        committed_leader_epoch=position.leader_epoch,
    )

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
from txnsim.group.offset_commands import FetchOffsets, Position
from txnsim.metadata.image import TopicImage
from txnsim.security.acls import AclOperation
from txnsim.types import TopicPartition
from txnsim.wire.codec import builder

KEY: Final = 9

TOP_LEVEL_ERROR_FROM: Final = 2
GROUPS_FROM: Final = 8

BY_ID_FROM: Final = 10


class _GroupPositions(msgspec.Struct, frozen=True, kw_only=True):
    """The positions of one group, as (topic as the request named it, positions) pairs."""

    group_id: str
    error: ErrorCode
    topics: tuple[tuple[NamedTopic, tuple[Position, ...]], ...] = ()


async def handle(request: Request) -> Reply:
    """Look the positions up, group by group."""
    message = request.message
    if request.api_version < GROUPS_FROM:
        positions = await _fetch(request, message)
        return request.answer(topics=await _topics(request, positions), error_code=positions.error)
    answered = await request.each_heavy(partial(_group, request), message.groups)
    return request.answer(groups=tuple(answered))


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error for every group."""
    message = request.message
    if request.api_version < GROUPS_FROM:
        only = _refuse_group(request, message, error)
        return request.answer(topics=_refused_topics(request, only), error_code=error)
    make = request.schema.OffsetFetchResponseGroup
    return request.answer(
        groups=tuple(
            make(group_id=group.group_id, error_code=error, topics=()) for group in message.groups
        )
    )


def subject(request: Request) -> Subject:
    """The requested partitions; empty for a group that asks for all."""
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
    named_topics: dict[str, NamedTopic] = {}
    partitions: list[TopicPartition] = []
    topic_ids: dict[str, uuid.UUID] = {}
    unknown: list[tuple[NamedTopic, tuple[Position, ...]]] = []
    for topic in group.topics or ():
        named = named_topic(topic)
        name = named.name
        if request.api_version >= BY_ID_FROM:
            topic_image = find_topic(image, named)
            if not isinstance(topic_image, TopicImage):
                unknown.append((named, _errors(topic, ErrorCode.unknown_topic_id)))
                continue
            name, topic_ids[topic_image.name] = topic_image.name, topic_image.topic_id
        if access is not None and not access.may_topic(AclOperation.DESCRIBE, name):
            unknown.append((named, _errors(topic, ErrorCode.topic_authorization_failed)))
            continue
        named_topics[name] = named
        partitions += [TopicPartition(name, index) for index in topic.partition_indexes]
    if not request.broker.release.rules.positions_are_told_as_asked:
        partitions = list(dict.fromkeys(partitions))
    outcome = await request.broker.groups.fetch(
        FetchOffsets(
            group_id=group.group_id,
            partitions=None if group.topics is None else tuple(partitions),
            topic_ids=topic_ids,
            member_id=getattr(group, "member_id", None),
            member_epoch=getattr(group, "member_epoch", -1),
            require_stable=getattr(request.message, "require_stable", False),
        )
    )
    if isinstance(outcome, Rejection):
        return _refuse_group(request, group, outcome.error)
    request.answers(len(outcome))
    by_topic: dict[str, list[Position]] = {name: [] for name in named_topics}
    for position in outcome:
        by_topic.setdefault(position.topic_partition.topic, []).append(position)
    topics = []
    for name, positions in by_topic.items():
        if (
            access is not None
            and name not in named_topics
            and not access.may_topic(AclOperation.DESCRIBE, name)
        ):
            continue  # of all positions of the group those that may be seen
        named = named_topics.get(name) or NamedTopic(name=name, topic_id=None, is_by_id=False)
        if request.api_version >= BY_ID_FROM and named.topic_id is None:
            existing_topic = image.topics.get(name)
            if existing_topic is None:
                continue  # deleted meanwhile: there is no id to answer with
            named = NamedTopic(name=name, topic_id=existing_topic.topic_id, is_by_id=True)
        topics.append((named, tuple(positions)))
    return _GroupPositions(
        group_id=group.group_id, error=ErrorCode.none, topics=(*topics, *unknown)
    )


def _refuse_group(request: Request, group: Any, error: ErrorCode) -> _GroupPositions:
    topics: tuple[tuple[NamedTopic, tuple[Position, ...]], ...] = ()
    if request.api_version < TOP_LEVEL_ERROR_FROM:
        topics = tuple((named_topic(topic), _errors(topic, error)) for topic in group.topics)
    return _GroupPositions(group_id=group.group_id, error=error, topics=topics)


def _errors(topic: Any, error: ErrorCode) -> tuple[Position, ...]:
    return tuple(
        Position(topic_partition=TopicPartition(getattr(topic, "name", ""), index), error=error)
        for index in topic.partition_indexes
    )


async def _group(request: Request, group: Any) -> Any:
    """The answer for one group."""
    positions = await _fetch(request, group)
    return request.schema.OffsetFetchResponseGroup(
        group_id=positions.group_id,
        error_code=positions.error,
        topics=await _topics(request, positions),
    )


def _refused_topics(request: Request, group: _GroupPositions) -> tuple[Any, ...]:
    make = _row_maker(request)
    return tuple(_topic(request, named, map(make, rows)) for named, rows in group.topics)


async def _topics(request: Request, group: _GroupPositions) -> tuple[Any, ...]:
    make = _row_maker(request)
    request.expect(len(group.topics))
    return tuple(
        [
            _topic(request, named, await request.map_each(make, positions))
            for named, positions in group.topics
        ]
    )


def _topic(request: Request, named: NamedTopic, rows: Iterable[Any]) -> Any:
    is_grouped = request.api_version >= GROUPS_FROM
    schema = request.schema
    make = schema.OffsetFetchResponseTopics if is_grouped else schema.OffsetFetchResponseTopic
    by_id = request.api_version >= BY_ID_FROM
    name = {"topic_id": named.topic_id} if by_id else {"name": named.name}
    return make(**name, partitions=tuple(rows))


def _row_maker(request: Request) -> Callable[[Position], Any]:
    is_grouped = request.api_version >= GROUPS_FROM
    entity = "OffsetFetchResponsePartition" + "s" * is_grouped
    make = builder(getattr(request.schema, entity))
    return lambda position: make(
        partition_index=position.topic_partition.partition,
        committed_offset=position.offset,
        metadata=position.metadata,
        error_code=position.error,
        committed_leader_epoch=position.leader_epoch,
    )

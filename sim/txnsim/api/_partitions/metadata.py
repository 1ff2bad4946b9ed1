"""Metadata (key 3): brokers, topics, leaders.

Versions: 1 controller id, rack, internal topics; 2 cluster id; 4 may forbid auto-creation; 5
offline replicas; 7 leader epochs; 8 authorized operations; 9 flexible; 10 topic ids; 12 asks by
topic id; 13 a top-level error. Kafka's counterpart: KafkaApis.handleTopicMetadataRequest.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection
from functools import partial
from operator import itemgetter
from typing import Any, Final

from txnsim.api.request import CLUSTER_OPERATIONS, NOT_ASKED, TOPIC_OPERATIONS, Reply, Request
from txnsim.controller.controller import name_complaint
from txnsim.errors import ErrorCode
from txnsim.metadata.image import NO_LEADER, PartitionImage, TopicImage
from txnsim.types import INTERNAL_TOPICS, hash_bucket, hash_buckets
from txnsim.wire.codec import build

API_KEY: Final = 3

NONE_MEANS_ALL_FROM: Final = 1
TOPIC_IDS_FROM: Final = 10
BY_TOPIC_ID_FROM: Final = 12
ZERO_ID: Final = uuid.UUID(int=0)


async def handle(request: Request) -> Reply:
    message = request.message
    image = request.broker.image
    topics = message.topics
    if topics is None or (request.api_version < NONE_MEANS_ALL_FROM and not topics):
        return await _answer(
            request, [image.topics[topic_name] for topic_name in sorted(image.topics)]
        )
    topic_ids: dict[uuid.UUID, None] = {}  # what the request repeats is answered once
    topic_names: dict[str | None, None] = {}
    await request.map_each(partial(_note_topic, topic_ids, topic_names), topics)
    if 10 <= request.api_version < BY_TOPIC_ID_FROM and (topic_ids or None in topic_names):
        return refuse(request, ErrorCode.invalid_request)
    if topic_ids:
        # If any id is given, names are ignored. Unknown ids come first.
        topics_or_rows = await request.map_each(partial(_topic_by_id, request), topic_ids)
        topics_or_rows.sort(key=lambda topic_or_row: isinstance(topic_or_row, TopicImage))
        return await _answer(request, topics_or_rows)
    if None in topic_names:
        # Neither id nor name: Kafka trips over the null.
        return refuse(request, ErrorCode.unknown_server_error)
    may_create = getattr(message, "allow_auto_topic_creation", True)
    missing_names: list[str] = []
    broker = request.broker
    is_hashed = broker.release.rules.unknown_topics_are_hashed
    ordered_names = await _in_order(request, topic_names) if is_hashed else topic_names
    topics_or_rows = await request.map_each(
        partial(_topic_by_name, request, missing_names), ordered_names
    )
    may_create = may_create and broker.settings.auto_create_topics_enable
    if missing_names and may_create and broker.reaches_controller:
        # This answer still says that there are no such topics; clients ask again. It is one
        # request to the controller, which makes none where they are too many.
        new_topics = await request.map_each(broker.metadata.automatic, missing_names)
        pace = request.pace_of(len(new_topics))
        await broker.metadata.auto_create_all(new_topics, pace)
    return await _answer(request, topics_or_rows)


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error on every requested topic, without brokers or controller."""
    return request.answer(
        brokers=(),
        cluster_id=None,
        controller_id=NO_LEADER,
        topics=tuple(
            failed_topic(request, error, topic_name=topic.name or "", topic_id=_id_of(topic))
            for topic in request.message.topics or ()
        ),
        error_code=error,
    )


def _note_topic(
    topic_ids: dict[uuid.UUID, None], topic_names: dict[str | None, None], topic: Any
) -> None:
    topic_id = getattr(topic, "topic_id", None)
    if topic_id is not None and topic_id != ZERO_ID:
        topic_ids[topic_id] = None
    topic_names[topic.name] = None


def _id_of(topic: Any) -> uuid.UUID:
    topic_id = getattr(topic, "topic_id", None)
    return ZERO_ID if topic_id is None else topic_id


def _topic_by_id(request: Request, topic_id: uuid.UUID) -> Any:
    """The image of the topic with that id, or the answer's row for an unknown id."""
    topic = request.broker.image.topic_by_id(topic_id)
    if topic is None:
        return failed_topic(request, ErrorCode.unknown_topic_id, topic_name=None, topic_id=topic_id)
    return topic


async def _in_order(request: Request, topic_names: Collection[Any]) -> list[str]:
    """Existing topics in the order of the request, then the others (getTopicMetadata)."""
    topic_images = request.broker.image.topics
    unknown_names = [topic_name for topic_name in topic_names if topic_name not in topic_images]
    hash_places = await request.map_each(
        partial(hash_bucket, hash_buckets(len(topic_names))), unknown_names
    )
    hashed_names = sorted(zip(hash_places, unknown_names, strict=True), key=itemgetter(0))
    if request.pace is not None:
        await request.note_done(len(topic_names))
    return [
        *(topic_name for topic_name in topic_names if topic_name in topic_images),
        *(topic_name for _, topic_name in hashed_names),
    ]


def _topic_by_name(request: Request, missing_names: list[str], topic_name: str) -> Any:
    """The image of the topic with that name, or the answer's row for an unknown one. Add a missing
    but valid name to ``missing_names``.
    """
    topic = request.broker.image.topics.get(topic_name)
    if topic is not None:
        return topic
    if name_complaint(topic_name) is not None:
        return failed_topic(request, ErrorCode.invalid_topic_exception, topic_name=topic_name)
    missing_names.append(topic_name)
    return failed_topic(request, ErrorCode.unknown_topic_or_partition, topic_name=topic_name)


def failed_topic(
    request: Request, error: ErrorCode, *, topic_name: str | None, topic_id: uuid.UUID = ZERO_ID
) -> Any:
    """The row of a topic that can't be described."""
    if topic_name is None and request.api_version < BY_TOPIC_ID_FROM:
        topic_name = ""
    return build(
        request.schema.MetadataResponseTopic,
        error_code=error,
        name=topic_name,
        topic_id=_wire_id(topic_id),
        is_internal=topic_name in INTERNAL_TOPICS,
        partitions=(),
    )


async def _topic_row(request: Request, topic: TopicImage) -> Any:
    partitions = topic.partitions
    return build(
        request.schema.MetadataResponseTopic,
        error_code=ErrorCode.none,
        name=topic.name,
        topic_id=_wire_id(topic.topic_id),
        is_internal=topic.is_internal,
        partitions=tuple(
            await request.map_each(
                lambda index: _partition_row(request, index, partitions[index]),
                range(len(partitions)),
            )
        ),
        topic_authorized_operations=TOPIC_OPERATIONS
        if getattr(request.message, "include_topic_authorized_operations", False)
        else NOT_ASKED,
    )


def _wire_id(topic_id: uuid.UUID) -> uuid.UUID | None:
    # kio reads and writes the zero uuid as None.
    return None if topic_id == ZERO_ID else topic_id


def _partition_row(request: Request, index: int, partition: PartitionImage) -> Any:
    """The row of a partition: a leader is named while it is registered, and only v0 leaves out
    offline replicas (KRaftMetadataCache.partitionMetadata).
    """
    image = request.broker.image
    has_leader = partition.leader in image.brokers
    replicas, isr = partition.replicas, partition.isr
    if request.api_version == 0:
        replicas = tuple(filter(image.is_alive, replicas))
        isr = tuple(filter(image.is_alive, isr))
    error = ErrorCode.none if has_leader else ErrorCode.leader_not_available
    if has_leader and len(replicas) + len(isr) < len(partition.replicas) + len(partition.isr):
        error = ErrorCode.replica_not_available
    return build(
        request.schema.MetadataResponsePartition,
        error_code=error,
        partition_index=index,
        leader_id=partition.leader if has_leader else NO_LEADER,
        leader_epoch=partition.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=tuple(filter(image.is_offline, partition.replicas)),
    )


async def _answer(request: Request, topics_or_rows: list[Any]) -> Reply:
    """Build the answer; existing topics are given as their images, others as rows."""
    schema = request.schema
    request.expect(len(topics_or_rows))
    topics = [
        await _topic_row(request, topic_or_row)
        if isinstance(topic_or_row, TopicImage)
        else topic_or_row
        for topic_or_row in topics_or_rows
    ]
    if request.pace is not None:
        await request.note_done(len(topics_or_rows))
    image = request.broker.image
    brokers = image.alive_brokers()
    return request.answer(
        brokers=tuple(
            build(
                schema.MetadataResponseBroker,
                node_id=broker.broker_id,
                **request.address_of(broker),
                rack=broker.rack,
            )
            for broker in brokers
        ),
        cluster_id=image.cluster_id,
        # KRaft shows a live broker, never the controller: brokers forward. The first one, so that
        # runs repeat.
        controller_id=brokers[0].broker_id if brokers else NO_LEADER,
        topics=tuple(topics),
        cluster_authorized_operations=CLUSTER_OPERATIONS
        if getattr(request.message, "include_cluster_authorized_operations", False)
        else NOT_ASKED,
        error_code=ErrorCode.none,
    )

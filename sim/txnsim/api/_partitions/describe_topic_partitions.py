"""DescribeTopicPartitions (key 75): topics page by page, with a cursor.

Only version 0. Kafka's counterpart: DescribeTopicPartitionsRequestHandler.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from txnsim.api.request import NOT_ASKED, TOPIC_OPERATIONS, Reply, Request
from txnsim.controller.controller import name_complaint
from txnsim.errors import ErrorCode
from txnsim.metadata.image import NO_LEADER, TopicImage

API_KEY: Final = 75


async def handle(request: Request) -> Reply:
    """Describe topics from the cursor on, as many partitions as a page holds."""
    message = request.message
    image = request.broker.image
    topic_names = sorted({topic.name for topic in message.topics}) or sorted(image.topics)
    first_partition = 0
    if "" in topic_names:
        # Kafka can't name the resource whose authorization it wants to check.
        return refuse(request, ErrorCode.unknown_server_error)
    cursor = message.cursor
    if cursor is not None:
        if cursor.partition_index < 0:
            return refuse(request, ErrorCode.invalid_request)
        if message.topics and cursor.topic_name not in topic_names:
            return refuse(request, ErrorCode.invalid_request)
        first_partition = cursor.partition_index
        topic_names = [topic_name for topic_name in topic_names if topic_name >= cursor.topic_name]
        if not topic_names or topic_names[0] != cursor.topic_name:
            first_partition = 0
    # At least one: a page without a partition would lead nowhere.
    partitions_max = max(
        1,
        min(
            request.broker.settings.max_request_partition_size_limit,
            message.response_partition_limit,
        ),
    )
    return await _build_page(request, topic_names, first_partition, partitions_max)


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error on every requested topic; an empty request gets an empty answer."""
    return request.answer(
        topics=tuple(
            _failed_topic(request, topic.name, error, operation_bits=NOT_ASKED)
            for topic in request.message.topics
        ),
        next_cursor=None,
    )


async def _build_page(
    request: Request, topic_names: list[str], first_partition: int, partitions_max: int
) -> Reply:
    schema = request.schema
    image = request.broker.image
    topic_rows: list[Any] = []
    request.expect(len(topic_names))
    for topic_name in topic_names:
        await request.note_done(1)
        topic = image.topics.get(topic_name)
        if topic is None:
            error = (
                ErrorCode.unknown_topic_or_partition
                if name_complaint(topic_name) is None
                else ErrorCode.invalid_topic_exception
            )
            topic_rows.append(_failed_topic(request, topic_name, error))
            continue
        index_limit = min(len(topic.partitions), first_partition + partitions_max)
        topic_rows.append(
            schema.DescribeTopicPartitionsResponseTopic(
                error_code=ErrorCode.none,
                name=topic_name,
                topic_id=topic.topic_id,
                is_internal=topic.is_internal,
                partitions=tuple(
                    await request.map_each(
                        partial(_partition_row, request, topic),
                        range(first_partition, index_limit),
                    )
                ),
                topic_authorized_operations=TOPIC_OPERATIONS,
            )
        )
        partitions_max -= max(0, index_limit - first_partition)
        if index_limit < len(topic.partitions):
            return _answer_page(request, topic_rows, topic_name, index_limit)
        first_partition = 0
        if partitions_max <= 0 and topic_name != topic_names[-1]:
            return _answer_page(
                request, topic_rows, topic_names[topic_names.index(topic_name) + 1], 0
            )
    return request.answer(topics=tuple(topic_rows), next_cursor=None)


def _answer_page(
    request: Request, topic_rows: list[Any], topic_name: str, partition_index: int
) -> Reply:
    cursor = request.schema.Cursor(topic_name=topic_name, partition_index=partition_index)
    return request.answer(topics=tuple(topic_rows), next_cursor=cursor)


def _partition_row(request: Request, topic: TopicImage, index: int) -> Any:
    image = request.broker.image
    partition = topic.partitions[index]
    has_leader = partition.leader in image.brokers
    return request.schema.DescribeTopicPartitionsResponsePartition(
        # A partition without a leader is no error here, unlike in Metadata.
        error_code=ErrorCode.none,
        partition_index=index,
        leader_id=partition.leader if has_leader else NO_LEADER,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.isr,
        eligible_leader_replicas=partition.elr,
        last_known_elr=partition.last_known_elr,
        offline_replicas=tuple(filter(image.is_offline, partition.replicas)),
    )


def _failed_topic(
    request: Request, topic_name: str, error: ErrorCode, *, operation_bits: int = TOPIC_OPERATIONS
) -> Any:
    return request.schema.DescribeTopicPartitionsResponseTopic(
        error_code=error,
        name=topic_name,
        topic_id=None,
        partitions=(),
        topic_authorized_operations=operation_bits,
    )

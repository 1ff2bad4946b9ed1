"""OffsetDelete (key 47): forget a group's positions on some partitions (KIP-496).

Version 1 (since 4.5) has the flexible encoding, and header v3 (KIP-1313). Kafka's counterpart:
KafkaApis.handleOffsetDeleteRequest.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from txnsim.api._fault_subjects import subject_of_topics
from txnsim.api._topics import answered_topics
from txnsim.api.request import Reply, Request, refuse_at_top_level
from txnsim.errors import ErrorCode, Rejection
from txnsim.group.offset_commands import DeleteOffsets
from txnsim.types import TopicPartition

API_KEY: Final = 47

subject = subject_of_topics
refuse = refuse_at_top_level(topics=())


async def handle(request: Request) -> Reply:
    """Delete the positions; answer once their tombstones are replicated."""
    message = request.message
    image = request.broker.image
    errors_by_topic: dict[str, list[tuple[int, ErrorCode]]] = {}
    existing_partitions: list[TopicPartition] = []
    for topic in message.topics:
        for partition in topic.partitions:
            topic_partition = TopicPartition(topic.name, partition.partition_index)
            if image.partition(topic_partition) is None:
                unknown_topic_error = ErrorCode.unknown_topic_or_partition
                errors_by_topic.setdefault(topic.name, []).append(
                    (partition.partition_index, unknown_topic_error)
                )
            else:
                existing_partitions.append(topic_partition)
    outcome = await request.broker.groups.delete_offsets(
        DeleteOffsets(group_id=message.group_id, partitions=tuple(existing_partitions))
    )
    if isinstance(outcome, Rejection):
        return refuse(request, outcome.error)
    for topic_partition, error in outcome:
        errors_by_topic.setdefault(topic_partition.topic, []).append(
            (topic_partition.partition, error)
        )
    return request.answer(
        error_code=ErrorCode.none, topics=topics_of(request, errors_by_topic.items())
    )


def topics_of(
    request: Request, errors_by_topic: Iterable[tuple[str, list[tuple[int, ErrorCode]]]]
) -> tuple[Any, ...]:
    """The topics of an answer, each with its partitions and their errors."""
    schema = request.schema
    partition_class = schema.OffsetDeleteResponsePartition
    return answered_topics(
        schema.OffsetDeleteResponseTopic,
        (
            (
                topic_name,
                [
                    partition_class(partition_index=partition_index, error_code=error)
                    for partition_index, error in partitions
                ],
            )
            for topic_name, partitions in errors_by_topic
        ),
    )

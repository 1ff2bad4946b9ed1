"""AlterShareGroupOffsets (key 91): move the start offsets of a share group without members
(KIP-932).

Only version 0. Answered once the share coordinators of the partitions have answered. Kafka's
counterpart: KafkaApis.handleAlterShareGroupOffsetsRequest.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from txnsim.api._error_texts import reason_of, text_of
from txnsim.api._fault_subjects import of_topics
from txnsim.api._groups.share_group_heartbeat import has_share_groups
from txnsim.api.request import Reply, Request
from txnsim.errors import ErrorCode, Rejection
from txnsim.group.sharing.share_topics import PartitionError, TopicOutcome
from txnsim.wire.codec import build

KEY: Final = 91

subject = of_topics


async def handle(request: Request) -> Reply:
    """Alter the offsets of existing topics; unknown ones get an error without a request to the
    coordinator.
    """
    if not has_share_groups(request):
        return refuse(request, ErrorCode.unsupported_version)
    message, image = request.message, request.broker.image
    request.expect(sum(1 + len(topic.partitions) for topic in message.topics))
    existing_topics = [topic for topic in message.topics if topic.topic_name in image.topics]
    outcome = await request.broker.groups.alter_share_offsets(
        message.group_id,
        [(topic.topic_name, _offsets(topic)) for topic in existing_topics],
    )
    if isinstance(outcome, Rejection):
        return _failure(request, outcome.error, reason_of(outcome) or text_of(outcome.error))
    unknown = ErrorCode.unknown_topic_or_partition
    missing = [topic for topic in message.topics if topic.topic_name not in image.topics]
    refused = await refused_topics(request, missing, unknown)
    altered = [await _topic(request, topic) for topic in outcome]
    return request.answer(
        error_code=ErrorCode.none, error_message=None, responses=(*refused, *altered)
    )


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error for the whole request."""
    return _failure(request, error, text_of(error))


async def refused_topics(
    request: Request, topics: Iterable[Any], error: ErrorCode
) -> tuple[Any, ...]:
    """The topics of the request, with the error on each of their partitions."""
    image = request.broker.image
    outcome = PartitionError(error=error, message=text_of(error))
    topic_rows = []
    for topic in topics:
        topic_image = image.topics.get(topic.topic_name)
        refused = TopicOutcome(
            topic_name=topic.topic_name,
            topic_id=None if topic_image is None else topic_image.topic_id,
            partitions=tuple(
                (partition.partition_index, outcome) for partition in topic.partitions
            ),
        )
        topic_rows.append(await _topic(request, refused))
    return tuple(topic_rows)


def _offsets(topic: Any) -> list[tuple[int, int]]:
    return [(partition.partition_index, partition.start_offset) for partition in topic.partitions]


def _failure(request: Request, error: ErrorCode, message: str | None) -> Reply:
    return request.answer(error_code=error, error_message=message, responses=())


async def _topic(request: Request, topic: TopicOutcome) -> Any:
    schema = request.schema

    def partition(index_and_outcome: tuple[int, PartitionError]) -> Any:
        index, outcome = index_and_outcome
        return build(
            schema.AlterShareGroupOffsetsResponsePartition,
            partition_index=index,
            error_code=outcome.error,
            error_message=outcome.message,
        )

    return schema.AlterShareGroupOffsetsResponseTopic(
        topic_name=topic.topic_name,
        topic_id=topic.topic_id,
        partitions=tuple(await request.map_each(partition, topic.partitions)),
    )

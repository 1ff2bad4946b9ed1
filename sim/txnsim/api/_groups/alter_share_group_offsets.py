"""AlterShareGroupOffsets (key 91): move the start offsets of a share group without members
(KIP-932).

Only version 0. Answered once the share coordinators of the partitions have answered. Kafka's
counterpart: KafkaApis.handleAlterShareGroupOffsetsRequest.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from txnsim.api._error_texts import reason_of, text_of
from txnsim.api._fault_subjects import subject_of_topics
from txnsim.api._groups.share_group_heartbeat import has_share_groups
from txnsim.api.request import Reply, Request
from txnsim.errors import ErrorCode, Rejection
from txnsim.group.sharing.share_topics import PartitionError, PersisterRejection, TopicOutcome
from txnsim.wire.codec import build

API_KEY: Final = 91

subject = subject_of_topics


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
        [(topic.topic_name, _start_offsets(topic)) for topic in existing_topics],
    )
    if isinstance(outcome, Rejection):
        is_of_persister = isinstance(outcome, PersisterRejection)
        reason = outcome.reason if is_of_persister else reason_of(outcome)
        return _failure(request, outcome.error, reason or text_of(outcome.error))
    unknown_topic_error = ErrorCode.unknown_topic_or_partition
    missing_topics = [topic for topic in message.topics if topic.topic_name not in image.topics]
    refused_rows = await refused_topics(request, missing_topics, unknown_topic_error)
    altered_rows = [await _topic_row(request, topic) for topic in outcome]
    return request.answer(
        error_code=ErrorCode.none, error_message=None, responses=(*refused_rows, *altered_rows)
    )


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error for the whole request."""
    return _failure(request, error, text_of(error))


async def refused_topics(
    request: Request, topics: Iterable[Any], error: ErrorCode
) -> tuple[Any, ...]:
    """The topics of the request, with the error on each of their partitions."""
    image = request.broker.image
    partition_error = PartitionError(error=error, message=text_of(error))
    topic_rows = []
    for topic in topics:
        topic_image = image.topics.get(topic.topic_name)
        refused_topic = TopicOutcome(
            topic_name=topic.topic_name,
            topic_id=None if topic_image is None else topic_image.topic_id,
            partitions=tuple(
                (partition.partition_index, partition_error) for partition in topic.partitions
            ),
        )
        topic_rows.append(await _topic_row(request, refused_topic))
    return tuple(topic_rows)


def _start_offsets(topic: Any) -> list[tuple[int, int]]:
    return [(partition.partition_index, partition.start_offset) for partition in topic.partitions]


def _failure(request: Request, error: ErrorCode, message: str | None) -> Reply:
    return request.answer(error_code=error, error_message=message, responses=())


async def _topic_row(request: Request, topic: TopicOutcome) -> Any:
    schema = request.schema

    def partition(index_and_outcome: tuple[int, PartitionError]) -> Any:
        partition_index, partition_error = index_and_outcome
        return build(
            schema.AlterShareGroupOffsetsResponsePartition,
            partition_index=partition_index,
            error_code=partition_error.error,
            error_message=partition_error.message,
        )

    return schema.AlterShareGroupOffsetsResponseTopic(
        topic_name=topic.topic_name,
        topic_id=topic.topic_id,
        partitions=tuple(await request.map_each(partition, topic.partitions)),
    )

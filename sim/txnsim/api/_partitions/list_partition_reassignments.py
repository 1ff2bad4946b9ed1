"""ListPartitionReassignments (key 46): reassignments that are in progress (KIP-455).

Only version 0. Partitions without a reassignment, and unknown ones, are left out. Kafka's
counterpart: ReplicationControlManager.listPartitionReassignments.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from txnsim.api._fault_subjects import subject_of_topics
from txnsim.api._topics import answered_topics, rows_by_topic, same_row_for_all
from txnsim.api.request import Reply, Request
from txnsim.controller.reassignments import reassigned_partitions
from txnsim.errors import ErrorCode
from txnsim.metadata.image import PartitionImage
from txnsim.types import TopicPartition

API_KEY: Final = 46

subject = subject_of_topics


async def handle(request: Request) -> Reply:
    """List the reassignments of the requested partitions, or of all."""
    image, requested_topics = request.broker.metadata.image, request.message.topics
    if requested_topics is None:
        moving_partitions = reassigned_partitions(image)
    else:
        moving_partitions = {}
        for topic in requested_topics:
            for index in topic.partition_indexes:
                partition = image.partition(topic_partition := TopicPartition(topic.name, index))
                if partition is not None and partition.is_reassigning:
                    moving_partitions[topic_partition] = partition
    topic_rows = rows_by_topic(
        (topic_partition, _reassignment_row(request, topic_partition.partition, partition))
        for topic_partition, partition in moving_partitions.items()
    )
    return _answer(request, ErrorCode.none, None, topic_rows.items())


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error at the top. The answer repeats the partitions of the request, without replicas."""
    row_class = request.schema.OngoingPartitionReassignment
    empty_lists = {"replicas": (), "adding_replicas": (), "removing_replicas": ()}
    topic_rows = same_row_for_all(
        request.message.topics or (), lambda index: row_class(partition_index=index, **empty_lists)
    )
    return _answer(request, error, error.name, topic_rows)


def _reassignment_row(request: Request, index: int, partition: PartitionImage) -> Any:
    return request.schema.OngoingPartitionReassignment(
        partition_index=index,
        replicas=partition.replicas,
        adding_replicas=partition.adding,
        removing_replicas=partition.removing,
    )


def _answer(
    request: Request,
    error: ErrorCode,
    reason: str | None,
    topic_rows: Iterable[tuple[Any, list[Any]]],
) -> Reply:
    topics = answered_topics(request.schema.OngoingTopicReassignment, topic_rows)
    return request.answer(error_code=error, error_message=reason, topics=topics)

"""ListPartitionReassignments (key 46): replicas on the move (KIP-455).

Versions: 0 is all there is. Partitions that rest, or don't exist, are left out. Kafka's
counterpart: ReplicationControlManager.listPartitionReassignments.
"""

from __future__ import annotations

from typing import Any, Final

from txnsim.api.request import Reply, Request
from txnsim.api.subjects import of_topics
from txnsim.controller.reassignments import reassigning
from txnsim.errors import ErrorCode
from txnsim.metadata.image import PartitionImage
from txnsim.types import TopicPartition

KEY: Final = 46
VERSIONS: Final = (0, 0)

subject = of_topics


async def handle(request: Request) -> Reply:
    """List the reassignments of the requested partitions, or of all."""
    moving = reassigning(request.broker.metadata.image)
    wanted = request.message.topics
    if wanted is not None:
        asked = [
            TopicPartition(topic.name, index)
            for topic in wanted
            for index in topic.partition_indexes
        ]
        moving = {where: moving[where] for where in asked if where in moving}
    by_topic: dict[str, list[Any]] = {}
    for where, partition in moving.items():
        by_topic.setdefault(where.topic, []).append(_ongoing(request, where.partition, partition))
    return _answer(request, ErrorCode.none, None, by_topic)


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error at the top. The answer repeats the partitions of the request, without replicas."""
    nothing = request.schema.OngoingPartitionReassignment
    by_topic = {
        topic.name: [
            nothing(partition_index=index, replicas=(), adding_replicas=(), removing_replicas=())
            for index in topic.partition_indexes
        ]
        for topic in request.message.topics or ()
    }
    return _answer(request, error, error.name, by_topic)


def _ongoing(request: Request, index: int, partition: PartitionImage) -> Any:
    return request.schema.OngoingPartitionReassignment(
        partition_index=index,
        replicas=partition.replicas,
        adding_replicas=partition.adding,
        removing_replicas=partition.removing,
    )


def _answer(
    request: Request, error: ErrorCode, reason: str | None, by_topic: dict[str, list[Any]]
) -> Reply:
    make = request.schema.OngoingTopicReassignment
    return request.answer(
        error_code=error,
        error_message=reason,
        topics=tuple(make(name=name, partitions=tuple(found)) for name, found in by_topic.items()),
    )

"""OffsetForLeaderEpoch (key 23): where a leader epoch ended, so that a reader finds out about
truncation.

Versions: 3 a replica id, 4 flexible. Kafka's counterpart:
KafkaApis.handleOffsetForLeaderEpochRequest.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from txnsim.api.request import Reply, Request
from txnsim.api.subjects import of_topics
from txnsim.errors import ErrorCode, Rejection
from txnsim.types import TopicPartition

KEY: Final = 23
VERSIONS: Final = (2, 4)

subject = of_topics


async def handle(request: Request) -> Reply:
    """Answer each partition by itself."""
    topics = request.message.topics
    request.expect(len(topics))
    found = [
        await request.each(partial(_partition, request, topic.topic), topic.partitions)
        for topic in topics
    ]
    return _answer(request, found)


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error on every partition."""
    schema = request.schema
    return _answer(
        request,
        [
            [
                schema.EpochEndOffset(error_code=error, partition=partition.partition)
                for partition in topic.partitions
            ]
            for topic in request.message.topics
        ],
    )


def _answer(request: Request, found: list[list[Any]]) -> Reply:
    schema = request.schema
    return request.answer(
        topics=tuple(
            schema.OffsetForLeaderTopicResult(topic=topic.topic, partitions=tuple(partitions))
            for topic, partitions in zip(request.message.topics, found, strict=True)
        )
    )


def _partition(request: Request, topic: str, partition: Any) -> Any:
    schema = request.schema
    log = request.broker.replicas.leader(
        TopicPartition(topic, partition.partition),
        current_leader_epoch=partition.current_leader_epoch,
    )
    if isinstance(log, Rejection):
        return schema.EpochEndOffset(error_code=log.error, partition=partition.partition)
    found = log.end_offset_for_epoch(partition.leader_epoch)
    return schema.EpochEndOffset(
        error_code=ErrorCode.none,
        partition=partition.partition,
        leader_epoch=found.leader_epoch,
        end_offset=found.end_offset,
    )

"""OffsetForLeaderEpoch (key 23): the end offset of a leader epoch, so that a reader can detect
truncation.

Versions: 3 a replica id, 4 flexible. Kafka's counterpart:
KafkaApis.handleOffsetForLeaderEpochRequest.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from txnsim.api._fault_subjects import subject_of_topics
from txnsim.api._topics import answered_topics, each_partition, same_row_for_all
from txnsim.api.request import Reply, Request
from txnsim.errors import ErrorCode, Rejection
from txnsim.types import TopicPartition

API_KEY: Final = 23

subject = subject_of_topics


async def handle(request: Request) -> Reply:
    """Answer each partition by itself."""
    return _answer(request, await each_partition(request, partial(_partition_row, request)))


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error on every partition."""

    def failed_row(partition: Any) -> Any:
        return request.schema.EpochEndOffset(error_code=error, partition=partition.partition)

    return _answer(request, same_row_for_all(request.message.topics, failed_row))


def _answer(request: Request, topic_rows: list[tuple[Any, list[Any]]]) -> Reply:
    topic_class = request.schema.OffsetForLeaderTopicResult
    return request.answer(topics=answered_topics(topic_class, topic_rows, name_field="topic"))


def _partition_row(request: Request, topic: Any, partition: Any) -> Any:
    schema = request.schema
    log = request.broker.replicas.leader_log(
        TopicPartition(topic.topic, partition.partition),
        current_leader_epoch=partition.current_leader_epoch,
    )
    if isinstance(log, Rejection):
        return schema.EpochEndOffset(error_code=log.error, partition=partition.partition)
    epoch_end = log.end_offset_for_epoch(partition.leader_epoch)
    return schema.EpochEndOffset(
        error_code=ErrorCode.none,
        partition=partition.partition,
        leader_epoch=epoch_end.leader_epoch,
        end_offset=epoch_end.end_offset,
    )

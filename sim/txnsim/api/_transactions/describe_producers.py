"""DescribeProducers (key 61): the producer state of partitions, open transactions included
(KIP-664).

Only version 0. Any replica answers. Kafka's counterpart: KafkaApis.handleDescribeProducersRequest.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from txnsim.api._fault_subjects import subject_of_topics
from txnsim.api._topics import answered_topics, each_heavy_partition, same_row_for_all
from txnsim.api.request import Reply, Request
from txnsim.controller.controller import name_complaint
from txnsim.errors import ErrorCode, Rejection
from txnsim.log.producer_state import ProducerEntry
from txnsim.types import TopicPartition

API_KEY: Final = 61

subject = subject_of_topics

_NO_SUCH_TOPIC: Final = "This server does not host this topic-partition."
"""The message for an unknown topic; an unknown partition has no message."""


async def handle(request: Request) -> Reply:
    """List every producer of each partition."""
    return _answer(
        request, await each_heavy_partition(request, partial(_describe_partition, request))
    )


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error on every partition."""

    def failed_row(partition_index: int) -> Any:
        return _partition_answer(request, partition_index, error)

    return _answer(request, same_row_for_all(request.message.topics, failed_row))


def _answer(request: Request, topic_rows: list[tuple[Any, list[Any]]]) -> Reply:
    return request.answer(topics=answered_topics(request.schema.TopicResponse, topic_rows))


async def _describe_partition(request: Request, name_and_index: tuple[str, int]) -> Any:
    topic, partition_index = name_and_index
    complaint = name_complaint(topic)
    if complaint is not None:
        return _partition_answer(
            request,
            partition_index,
            ErrorCode.invalid_topic_exception,
            message=f"Topic name is invalid: {complaint}",
        )
    log = request.broker.replicas.replica_log(TopicPartition(topic, partition_index))
    if isinstance(log, Rejection):
        is_known_topic = topic in request.broker.image.topics
        return _partition_answer(
            request, partition_index, log.error, message=None if is_known_topic else _NO_SUCH_TOPIC
        )
    producers = log.producers.all_producers()
    request.announce_answer(len(producers))
    producer_rows = await request.map_each(
        partial(_producer_row, request.schema.ProducerState), producers
    )
    return _partition_answer(request, partition_index, ErrorCode.none, tuple(producer_rows))


def _partition_answer(
    request: Request,
    partition_index: int,
    error: ErrorCode,
    producers: tuple[Any, ...] = (),
    *,
    message: str | None = None,
) -> Any:
    return request.schema.PartitionResponse(
        partition_index=partition_index,
        error_code=error,
        error_message=message,
        active_producers=producers,
    )


def _producer_row(row_class: Any, producer: ProducerEntry) -> Any:
    return row_class(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        last_sequence=producer.last_sequence,
        last_timestamp=producer.last_timestamp,
        coordinator_epoch=producer.coordinator_epoch,
        current_txn_start_offset=producer.txn_first_offset,
    )

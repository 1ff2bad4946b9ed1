"""DescribeProducers (key 61): the producer state of partitions, open transactions included
(KIP-664).

One version. Any replica answers. Kafka's counterpart: KafkaApis.handleDescribeProducersRequest.
"""

from __future__ import annotations

from typing import Any, Final

from txnsim.api.request import Reply, Request
from txnsim.controller.controller import name_complaint
from txnsim.errors import ErrorCode, Rejection
from txnsim.log.answers import ProducerSnapshot
from txnsim.types import Subject, TopicPartition

KEY: Final = 61
VERSIONS: Final = (0, 0)

_NO_SUCH_TOPIC: Final = "This server does not host this topic-partition."
"""Said where the topic is unknown; where only the partition is, nothing is said."""


async def handle(request: Request) -> Reply:
    """List every producer that the partitions know."""
    return _answer(request, None)


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error on every partition."""
    return _answer(request, error)


def subject(request: Request) -> Subject:
    """The partitions asked about."""
    return Subject(
        partitions=tuple(
            TopicPartition(topic.name, index)
            for topic in request.message.topics
            for index in topic.partition_indexes
        )
    )


def _answer(request: Request, error: ErrorCode | None) -> Reply:
    schema = request.schema
    return request.answer(
        topics=tuple(
            schema.TopicResponse(
                name=topic.name,
                partitions=tuple(
                    _partition(request, TopicPartition(topic.name, index), error)
                    for index in topic.partition_indexes
                ),
            )
            for topic in request.message.topics
        )
    )


def _partition(request: Request, partition: TopicPartition, error: ErrorCode | None) -> Any:
    schema = request.schema
    message = None
    producers: tuple[ProducerSnapshot, ...] = ()
    if error is None:
        complaint = name_complaint(partition.topic)
        log = request.broker.replicas.replica(partition)
        if complaint is not None:
            error = ErrorCode.invalid_topic_exception
            message = f"Topic name is invalid: {complaint}"
        elif isinstance(log, Rejection):
            error = log.error
            if partition.topic not in request.broker.image.topics:
                message = _NO_SUCH_TOPIC
        else:
            error, producers = ErrorCode.none, log.producers()
    return schema.PartitionResponse(
        partition_index=partition.partition,
        error_code=error,
        error_message=message,
        active_producers=tuple(
            schema.ProducerState(
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                last_sequence=producer.last_sequence,
                last_timestamp=producer.last_timestamp,
                coordinator_epoch=producer.coordinator_epoch,
                current_txn_start_offset=producer.current_txn_start_offset,
            )
            for producer in producers
        ),
    )

"""AddPartitionsToTxn (key 24): the transaction is going to write to these partitions.

Versions: up to 3 a producer asks for its own transaction; 2 brings PRODUCER_FENCED. v4 is the batch
form between brokers (KIP-890: verify, or add implicitly), 5 knows TRANSACTION_ABORTABLE. v4 and v5
are advertised to everyone, and a client that sends them is served, as there is no authorizer that
would refuse it. Kafka's counterpart: KafkaApis.handleAddPartitionsToTxnRequest.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from sim.api.request import Answer, Reply, Request
from sim.api.topics import by_topic
from sim.errors import ErrorCode, Rejection
from sim.txn.commands import AddPartitions
from sim.types import (
    INTERNAL_TOPICS,
    AddPartitionsToTxnCommand,
    ProducerEpoch,
    ProducerId,
    Subject,
    TopicPartition,
    TransactionalId,
    TransactionVersion,
    TxnPartitions,
)

KEY: Final = 24
VERSIONS: Final = (0, 5)

FENCED_KNOWN_FROM: Final = 2
BATCHED_FROM: Final = 4

PartitionErrors = list[tuple[TopicPartition, ErrorCode]]


async def handle(request: Request) -> Reply:
    """Add (or verify) the partitions."""
    if request.api_version >= BATCHED_FROM:
        return await _handle_batch(request)
    message = request.message
    partitions = _partitions(message.v3_and_below_topics)
    refused = _refused(request, partitions)
    if refused:
        return _answer(request, refused)
    outcome = await request.broker.coordinator.add_partitions(
        AddPartitions(
            transactional_id=TransactionalId(message.v3_and_below_transactional_id),
            producer_id=ProducerId(message.v3_and_below_producer_id),
            producer_epoch=ProducerEpoch(message.v3_and_below_producer_epoch),
            partitions=frozenset(partitions),
            transaction_version=TransactionVersion.TV_0,
        )
    )
    error = outcome.error if isinstance(outcome, Rejection) else ErrorCode.none
    return _answer(request, [(partition, error) for partition in partitions])


def refuse(request: Request, error: ErrorCode) -> Reply:
    """Up to v3 the error on every partition, from v4 at the top."""
    if request.api_version >= BATCHED_FROM:
        return request.answer(error_code=error, results_by_transaction=())
    return _answer(
        request,
        [(partition, error) for partition in _partitions(request.message.v3_and_below_topics)],
    )


def subject(request: Request) -> Subject:
    """The transaction, or the first one of a batch."""
    message = request.message
    if request.api_version < BATCHED_FROM:
        return Subject(
            transactional_id=message.v3_and_below_transactional_id,
            producer_id=message.v3_and_below_producer_id,
            partitions=_partitions(message.v3_and_below_topics),
        )
    if not message.transactions:
        return Subject()
    first = message.transactions[0]
    return Subject(
        transactional_id=first.transactional_id,
        producer_id=first.producer_id,
        partitions=_partitions(first.topics),
    )


async def _handle_batch(request: Request) -> Reply:
    if not request.message.transactions:
        # A real broker answers when the last transaction of the batch has its result, so it never
        # answers this one.
        return Answer.NEVER
    reply = await request.broker.add_partitions_to_txn(
        AddPartitionsToTxnCommand(
            transactions=tuple(
                TxnPartitions(
                    transactional_id=TransactionalId(transaction.transactional_id),
                    producer_id=ProducerId(transaction.producer_id),
                    producer_epoch=ProducerEpoch(transaction.producer_epoch),
                    verify_only=transaction.verify_only,
                    partitions=_partitions(transaction.topics),
                )
                for transaction in request.message.transactions
            )
        )
    )
    schema = request.schema
    return request.answer(
        error_code=ErrorCode(reply.error),
        results_by_transaction=tuple(
            schema.AddPartitionsToTxnResult(
                transactional_id=transactional_id,
                topic_results=_topic_results(schema, results),
            )
            for transactional_id, results in reply.results
        ),
    )


def _refused(request: Request, partitions: tuple[TopicPartition, ...]) -> PartitionErrors:
    """Internal and unknown partitions; if there are any, all others are not even attempted."""
    image = request.broker.image
    bad: dict[TopicPartition, ErrorCode] = {}
    for partition in partitions:
        if partition.topic in INTERNAL_TOPICS:
            bad[partition] = ErrorCode.topic_authorization_failed
        elif image.partition(partition) is None:
            bad[partition] = ErrorCode.unknown_topic_or_partition
    if not bad:
        return []
    return [
        (partition, bad.get(partition, ErrorCode.operation_not_attempted))
        for partition in partitions
    ]


def _answer(request: Request, results: PartitionErrors) -> Reply:
    if request.api_version < FENCED_KNOWN_FROM:
        results = [
            (
                partition,
                ErrorCode.invalid_producer_epoch if error is ErrorCode.producer_fenced else error,
            )
            for partition, error in results
        ]
    return request.answer(results_by_topic_v3_and_below=_topic_results(request.schema, results))


def _partitions(topics: Iterable[Any]) -> tuple[TopicPartition, ...]:
    return tuple(
        TopicPartition(topic.name, partition) for topic in topics for partition in topic.partitions
    )


def _topic_results(schema: Any, results: Iterable[tuple[TopicPartition, int]]) -> tuple[Any, ...]:
    return tuple(
        schema.AddPartitionsToTxnTopicResult(
            name=name,
            results_by_partition=tuple(
                schema.AddPartitionsToTxnPartitionResult(
                    partition_index=index, partition_error_code=ErrorCode(error)
                )
                for index, error in partitions
            ),
        )
        for name, partitions in by_topic(results).items()
    )

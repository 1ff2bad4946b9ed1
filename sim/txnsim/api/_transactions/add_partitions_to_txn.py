"""AddPartitionsToTxn (key 24): add partitions to the transaction before it writes to them.

Versions: up to 3 a producer asks for its own transaction; 2 brings PRODUCER_FENCED. v4 is the batch
form between brokers (KIP-890: verify, or add implicitly), 5 knows TRANSACTION_ABORTABLE. v4 and v5
are advertised to everyone; with an authorizer they need CLUSTER_ACTION, without one a client that
sends them is served. Kafka's counterpart: KafkaApis.handleAddPartitionsToTxnRequest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import repeat
from operator import attrgetter
from typing import Any, Final

from txnsim.api._topics import by_topic
from txnsim.api.request import NoResponse, Reply, Request, answer, prepared
from txnsim.errors import ErrorCode, Rejection
from txnsim.faults.subjects import Subject, subject_of
from txnsim.interbroker.transactions import (
    AddPartitionsToTxnCommand,
    AddPartitionsToTxnReply,
    TxnPartitions,
)
from txnsim.security.acls import AclOperation
from txnsim.txn.commands import AddPartitions
from txnsim.types import (
    INTERNAL_TOPICS,
    ProducerEpoch,
    ProducerId,
    TopicPartition,
    TransactionalId,
    TransactionVersion,
)
from txnsim.wire.codec import encode_body, response_schema

API_KEY: Final = 24

FENCED_KNOWN_FROM: Final = 2
BATCHED_FROM: Final = 4

DEVIATIONS: Final = (
    "A batch of AddPartitionsToTxn that names a transactional id twice is taken entry by entry; "
    "Apache Kafka takes the last entry's partitions for both. No broker sends such a batch.",
)

CACHED_PARTITIONS_MAX: Final = 64
"""Most partitions of a cached answer: a client could make thousands of large ones that differ."""

_name_and_indexes: Final = attrgetter("name", "partitions")
PartitionErrors = list[tuple[TopicPartition, ErrorCode]]


async def handle(request: Request) -> Reply:
    """Add the partitions to the transaction, or only verify that they are part of it."""
    if request.api_version >= BATCHED_FROM:
        return await _handle_batch(request)
    message = request.message
    partitions = _partitions(message.v3_and_below_topics)
    partition_errors = _partition_errors(request, partitions)
    if partition_errors:
        topic_results = _topic_results(request.schema, by_topic(partition_errors).items())
        return request.answer(results_by_topic_v3_and_below=topic_results)
    outcome = await request.broker.coordinator.add_partitions(
        AddPartitions(
            transactional_id=TransactionalId(message.v3_and_below_transactional_id),
            producer_id=ProducerId(message.v3_and_below_producer_id),
            producer_epoch=ProducerEpoch(message.v3_and_below_producer_epoch),
            partitions=frozenset(partitions),
            transaction_version=TransactionVersion.TV_0,
        )
    )
    if isinstance(outcome, Rejection):
        return request.refuse(outcome.error)
    topics = message.v3_and_below_topics
    if len(partitions) > CACHED_PARTITIONS_MAX:
        no_errors = dict.fromkeys(partitions, ErrorCode.none)
        topic_results = _topic_results(request.schema, _errors_as_requested(topics, no_errors))
        return request.answer(results_by_topic_v3_and_below=topic_results)
    return _success_bytes(request.api_version, tuple(map(_name_and_indexes, topics)))


def refuse(request: Request, error: ErrorCode) -> Reply:
    """Up to v3 the error on every partition, from v4 at the top."""
    if request.api_version >= BATCHED_FROM:
        return request.answer(error_code=error, results_by_transaction=())
    topics = request.message.v3_and_below_topics
    error_by_partition = dict.fromkeys(_partitions(topics), _error_of_version(request, error))
    topic_results = _topic_results(request.schema, _errors_as_requested(topics, error_by_partition))
    return request.answer(results_by_topic_v3_and_below=topic_results)


def subject(request: Request) -> Subject:
    """For fault rules: the transaction of the request; every transaction of a batch."""
    message = request.message
    if request.api_version >= BATCHED_FROM:
        return subject_of(batch_command(message))
    return Subject(
        transactional_id=message.v3_and_below_transactional_id,
        producer_id=message.v3_and_below_producer_id,
        partitions=_partitions(message.v3_and_below_topics),
    )


async def _handle_batch(request: Request) -> Reply:
    if not request.message.transactions:
        # A real broker answers when the last transaction of the batch has its result, so it never
        # answers this one.
        return NoResponse.NEVER
    reply = await request.broker.peer_requests.add_partitions_to_txn(batch_command(request.message))
    return await answer_batch(request, reply)


def batch_command(message: Any) -> AddPartitionsToTxnCommand:
    """The command for a batched request."""
    return AddPartitionsToTxnCommand(
        transactions=tuple(
            TxnPartitions(
                transactional_id=transaction.transactional_id,
                producer_id=transaction.producer_id,
                producer_epoch=transaction.producer_epoch,
                verify_only=transaction.verify_only,
                partitions=_partitions(transaction.topics),
            )
            for transaction in message.transactions
        )
    )


async def answer_batch(request: Request, reply: AddPartitionsToTxnReply) -> Reply:
    """Build the answer to a batch, in the order of the request; breaks in a large one."""
    if reply.error:
        return request.refuse(ErrorCode(reply.error))
    schema = request.schema
    request.expect(sum(len(results) for _, results in reply.results))
    return request.answer(
        error_code=ErrorCode.none,
        results_by_transaction=tuple(
            [
                schema.AddPartitionsToTxnResult(
                    transactional_id=transaction.transactional_id,
                    topic_results=await _transaction_topics(request, transaction, dict(results)),
                )
                for transaction, (_, results) in zip(
                    request.message.transactions, reply.results, strict=True
                )
            ]
        ),
    )


async def _transaction_topics(
    request: Request, transaction: Any, error_by_partition: Mapping[TopicPartition, int]
) -> tuple[Any, ...]:
    """The results of one transaction.

    If all partitions have the same error, the topics are as in the request. Otherwise the errors of
    partitions are grouped by topic (AddPartitionsToTxnRequest.errorResponseForTransaction,
    AddPartitionsToTxnResponse.resultForTransaction).
    """
    if transaction.verify_only or ErrorCode.operation_not_attempted in error_by_partition.values():
        topic_errors = list(by_topic(error_by_partition.items()).items())
    else:
        topic_errors = list(_errors_as_requested(transaction.topics, error_by_partition))
    schema = request.schema
    return tuple(
        [
            schema.AddPartitionsToTxnTopicResult(
                name=topic_name,
                results_by_partition=tuple(
                    await request.map_each(partial(_partition_result, schema), index_errors)
                ),
            )
            for topic_name, index_errors in topic_errors
        ]
    )


@prepared
def _success_bytes(
    api_version: int, names_and_indexes: tuple[tuple[str, tuple[int, ...]], ...]
) -> bytes:
    topic_errors = (
        (topic_name, [(partition_index, 0) for partition_index in partition_indexes])
        for topic_name, partition_indexes in names_and_indexes
    )
    topic_results = _topic_results(response_schema(API_KEY, api_version), topic_errors)
    return encode_body(answer(API_KEY, api_version, results_by_topic_v3_and_below=topic_results))


def _partition_errors(request: Request, partitions: tuple[TopicPartition, ...]) -> PartitionErrors:
    """The errors of internal, forbidden and unknown partitions. If there are any, the other
    partitions are not attempted.
    """
    image = request.broker.replicas.image
    access = request.access
    errors_by_partition: dict[TopicPartition, ErrorCode] = {}
    for partition in partitions:
        if partition.topic in INTERNAL_TOPICS or (
            access is not None and not access.may_topic(AclOperation.WRITE, partition.topic)
        ):
            errors_by_partition[partition] = ErrorCode.topic_authorization_failed
        elif image.partition(partition) is None:
            errors_by_partition[partition] = ErrorCode.unknown_topic_or_partition
    if not errors_by_partition:
        return []
    return [
        (partition, errors_by_partition.get(partition, ErrorCode.operation_not_attempted))
        for partition in dict.fromkeys(partitions)
    ]


def _partitions(topics: Iterable[Any]) -> tuple[TopicPartition, ...]:
    topic_partitions: list[TopicPartition] = []
    for topic in topics:
        topic_partitions.extend(map(TopicPartition, repeat(topic.name), topic.partitions))
    return tuple(topic_partitions)


def _error_of_version(request: Request, error: ErrorCode) -> ErrorCode:
    if error is ErrorCode.producer_fenced and request.api_version < FENCED_KNOWN_FROM:
        return ErrorCode.invalid_producer_epoch
    return error


def _topic_results(
    schema: Any, topic_errors: Iterable[tuple[str, Iterable[tuple[int, int]]]]
) -> tuple[Any, ...]:
    """The results of partitions, under their topics."""
    return tuple(
        schema.AddPartitionsToTxnTopicResult(
            name=topic_name,
            results_by_partition=tuple(
                _partition_result(schema, index_and_error) for index_and_error in index_errors
            ),
        )
        for topic_name, index_errors in topic_errors
    )


def _errors_as_requested(
    topics: Iterable[Any], error_by_partition: Mapping[TopicPartition, int]
) -> Iterator[tuple[str, list[tuple[int, int]]]]:
    """Each topic of the request, with its partitions and their errors, in the request's order."""
    for topic in topics:
        yield (
            topic.name,
            [
                (partition_index, error_by_partition[TopicPartition(topic.name, partition_index)])
                for partition_index in topic.partitions
            ],
        )


def _partition_result(schema: Any, index_and_error: tuple[int, int]) -> Any:
    partition_index, error = index_and_error
    return schema.AddPartitionsToTxnPartitionResult(
        partition_index=partition_index, partition_error_code=ErrorCode(error)
    )

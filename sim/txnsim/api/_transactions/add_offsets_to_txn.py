"""AddOffsetsToTxn (key 25): add a group's positions to the transaction.

It adds the group's partition of ``__consumer_offsets``; transactions v2 (KIP-890) don't need it.
Versions: 2 brings PRODUCER_FENCED, 4 TRANSACTION_ABORTABLE. Kafka's counterpart:
KafkaApis.handleAddOffsetsToTxnRequest.
"""

from __future__ import annotations

from typing import Final

from txnsim.api.request import Reply, Request, only_error
from txnsim.errors import ErrorCode, Rejection
from txnsim.faults.subjects import Subject
from txnsim.txn.commands import AddPartitions
from txnsim.types import (
    CONSUMER_OFFSETS_TOPIC,
    ProducerEpoch,
    ProducerId,
    TopicPartition,
    TransactionalId,
    TransactionVersion,
    partition_for,
)

API_KEY: Final = 25

FENCED_KNOWN_FROM: Final = 2


async def handle(request: Request) -> Reply:
    """Add the group's partition of ``__consumer_offsets`` to the transaction."""
    message = request.message
    broker = request.broker
    partition = partition_for(message.group_id, broker.groups.partitions)
    outcome = await broker.coordinator.add_partitions(
        AddPartitions(
            transactional_id=TransactionalId(message.transactional_id),
            producer_id=ProducerId(message.producer_id),
            producer_epoch=ProducerEpoch(message.producer_epoch),
            partitions=frozenset({TopicPartition(CONSUMER_OFFSETS_TOPIC, partition)}),
            transaction_version=TransactionVersion.TV_0,
        )
    )
    if isinstance(outcome, Rejection):
        return request.refuse(outcome.error)
    return only_error(API_KEY, request.api_version, int(ErrorCode.none))


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error in the answer format of this version."""
    if error is ErrorCode.producer_fenced and request.api_version < FENCED_KNOWN_FROM:
        error = ErrorCode.invalid_producer_epoch
    return only_error(API_KEY, request.api_version, int(error))


def subject(request: Request) -> Subject:
    """The transaction that fault rules can name."""
    message = request.message
    return Subject(transactional_id=message.transactional_id, producer_id=message.producer_id)

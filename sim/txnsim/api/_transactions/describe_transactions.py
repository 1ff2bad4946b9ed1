"""DescribeTransactions (key 65): the coordinator's state of the given transactional ids (KIP-664).

Only version 0. Kafka's counterparts: KafkaApis.handleDescribeTransactionsRequest,
TransactionCoordinator.handleDescribeTransactions.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from operator import attrgetter
from typing import Any, Final

from txnsim.api._fault_subjects import subject_of_transactions
from txnsim.api._topics import answered_topics, rows_by_topic
from txnsim.api.request import NO_THROTTLE, Reply, Request
from txnsim.errors import ErrorCode, Rejection
from txnsim.faults.subjects import Subject
from txnsim.txn.commands import DescribedTxn
from txnsim.types import TransactionalId
from txnsim.wire.codec import build

API_KEY: Final = 65

UNKNOWN_TIME: Final = -1


async def handle(
    request: Request, *, start_of: Callable[[DescribedTxn], int] | None = None
) -> Reply:
    """Describe each id separately.

    Args:
        request: The request.
        start_of: Returns the start time to show for a transaction; by default as Kafka does.
    """
    describe = partial(_describe, request, start_of or attrgetter("start_timestamp_ms"))
    return request.answer(
        transaction_states=tuple(
            await request.each_heavy(describe, request.message.transactional_ids)
        )
    )


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error on every transactional id."""
    return request.answer(
        transaction_states=tuple(
            _failure(request, transactional_id, error)
            for transactional_id in request.message.transactional_ids
        )
    )


def subject(request: Request) -> Subject:
    """The transactional ids that fault rules can name."""
    return subject_of_transactions(request.message.transactional_ids)


async def _describe(
    request: Request, start_of: Callable[[DescribedTxn], int], transactional_id: str
) -> Any:
    description = request.broker.coordinator.describe(TransactionalId(transactional_id))
    if isinstance(description, Rejection):
        return _failure(request, transactional_id, description.error)
    request.announce_answer(len(description.partitions))
    schema = request.schema
    return build(
        schema.TransactionState,
        error_code=ErrorCode.none,
        transactional_id=description.transactional_id,
        transaction_state=description.state,
        transaction_timeout=timedelta(milliseconds=description.timeout_ms),
        transaction_start_time=start_of(description),
        transaction_last_update_time=description.last_update_timestamp_ms,
        producer_id=description.producer_id,
        producer_epoch=description.producer_epoch,
        topics=answered_topics(
            schema.TopicData,
            rows_by_topic(
                (topic_partition, topic_partition.partition)
                for topic_partition in description.partitions
            ).items(),
            name_field="topic",
        ),
    )


def _failure(request: Request, transactional_id: str, error: ErrorCode) -> Any:
    return build(
        request.schema.TransactionState,
        error_code=error,
        transactional_id=transactional_id,
        transaction_state="",
        transaction_timeout=NO_THROTTLE,
        transaction_start_time=0,
        transaction_last_update_time=UNKNOWN_TIME,
        producer_id=0,
        producer_epoch=0,
        topics=(),
    )

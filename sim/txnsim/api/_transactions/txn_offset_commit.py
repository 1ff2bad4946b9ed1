"""TxnOffsetCommit (key 28): commit a group's positions as part of a transaction.

Versions: 2 carries leader epochs, 3 the member that commits (KIP-447: one that has left the group
is fenced), 4 knows TRANSACTION_ABORTABLE. From 5 on it adds the group's partition of
``__consumer_offsets`` to the transaction by itself (transactions v2, KIP-890). 6 (Kafka 4.4) names
topics by id, and has the errors of OffsetCommit for a missing group and a stale member epoch
(KIP-1319). Kafka's counterpart: KafkaApis.handleTxnOffsetCommitRequest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from txnsim.api._fault_subjects import partitions_named
from txnsim.api._groups.committed_positions import (
    Results,
    build_answer,
    build_answer_in_slices,
    errors_of,
    same_error_for_all,
    split,
)
from txnsim.api.request import Reply, Request
from txnsim.broker.verification import TransactionOperation
from txnsim.errors import ErrorCode, Rejection
from txnsim.faults.subjects import Subject
from txnsim.group.offset_commands import NO_GENERATION, CommitOffsets, CommittingProducer
from txnsim.types import ProducerEpoch, ProducerId, TransactionalId

API_KEY: Final = 28

LOADING_KNOWN_FROM: Final = 2
ABORTABLE_KNOWN_FROM: Final = 4
TRANSACTIONS_V2_FROM: Final = 5
IDS_AND_EPOCHS_FROM: Final = 6

_ENTITY: Final = "TxnOffsetCommit"


async def handle(
    request: Request,
    *,
    own_operation: TransactionOperation | None = None,
    rename_error: Callable[[ErrorCode], ErrorCode] | None = None,
    rename_failure: Callable[[ErrorCode], ErrorCode] | None = None,
) -> Reply:
    """Verify with the transaction coordinator, then commit; the positions are pending until the
    marker.

    Args:
        request: The request.
        own_operation: What this version supports (KIP-890); by default as Kafka ships it.
        rename_error: Maps an error of the transaction coordinator to the one that the client sees.
        rename_failure: Maps an error of all positions to the one that the client sees.
    """
    message = request.message
    broker = request.broker
    split_request = split(broker.image, message.topics)
    if not split_request.positions:
        return build_answer(request, split_request.results(()), entity_prefix=_ENTITY)
    supported_operation = own_operation or _operation(request.api_version)
    has_new_errors = request.api_version >= IDS_AND_EPOCHS_FROM

    async def verify(partition_index: int, producer: CommittingProducer) -> int | Rejection:
        guard_or_rejection = await broker.group_host.verify(
            partition_index, producer, supported_operation
        )
        if rename_error is not None and isinstance(guard_or_rejection, Rejection):
            return Rejection(
                error=rename_error(guard_or_rejection.error), reason=guard_or_rejection.reason
            )
        return guard_or_rejection

    outcome = await broker.groups.commit_in_transaction(
        CommitOffsets(
            group_id=message.group_id,
            member_id=getattr(message, "member_id", ""),
            group_instance_id=getattr(message, "group_instance_id", None),
            generation=_generation(message),
            positions=split_request.positions,
            is_transactional=True,
            names_missing_group=has_new_errors,
            names_stale_epoch=has_new_errors,
            keeps_topic_ids=has_new_errors,
            api_version=request.api_version,
        ),
        CommittingProducer(
            transactional_id=TransactionalId(message.transactional_id),
            producer_id=ProducerId(message.producer_id),
            producer_epoch=ProducerEpoch(message.producer_epoch),
        ),
        verify=verify,
        pace=request.pace_of(len(split_request.positions)),
    )
    if rename_failure is not None and isinstance(outcome, Rejection):
        outcome = Rejection(error=rename_failure(outcome.error), reason=outcome.reason)
    topic_errors = _errors_of_version(request, split_request.results(errors_of(outcome)))
    if request.pace is not None:
        return await build_answer_in_slices(request, topic_errors, entity_prefix=_ENTITY)
    return build_answer(request, topic_errors, entity_prefix=_ENTITY)


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error on every partition."""
    topic_errors = same_error_for_all(request.message.topics, error)
    return build_answer(request, _errors_of_version(request, topic_errors), entity_prefix=_ENTITY)


def subject(request: Request) -> Subject:
    """For fault rules: the transaction and the partitions whose positions it commits."""
    message = request.message
    return Subject(
        transactional_id=message.transactional_id,
        producer_id=message.producer_id,
        partitions=partitions_named(request, message.topics),
    )


def _generation(message: Any) -> int:
    member_epoch = getattr(message, "generation_id_or_member_epoch", NO_GENERATION)
    return int(getattr(message, "generation_id", member_epoch))


def _operation(api_version: int) -> TransactionOperation:
    if api_version >= TRANSACTIONS_V2_FROM:
        return TransactionOperation.ADD_PARTITION
    if api_version >= ABORTABLE_KNOWN_FROM:
        return TransactionOperation.GENERIC_ERROR_SUPPORTED
    return TransactionOperation.DEFAULT_ERROR


def _errors_of_version(request: Request, topic_errors: Results) -> Results:
    """Replace COORDINATOR_LOAD_IN_PROGRESS in the first versions, whose clients don't know it."""
    if request.api_version >= LOADING_KNOWN_FROM:
        return topic_errors
    loading_error, earlier_error = (
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
    )
    return [
        (
            requested_topic,
            [
                (partition_index, earlier_error if error is loading_error else error)
                for partition_index, error in index_errors
            ],
        )
        for requested_topic, index_errors in topic_errors
    ]

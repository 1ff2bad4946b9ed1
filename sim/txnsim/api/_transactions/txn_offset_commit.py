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
    everywhere,
    split,
)
from txnsim.api.request import Reply, Request
from txnsim.broker.verification import TransactionOperation
from txnsim.errors import ErrorCode, Rejection
from txnsim.faults.subjects import Subject
from txnsim.group.offset_commands import NO_GENERATION, CommitOffsets, CommittingProducer
from txnsim.types import ProducerEpoch, ProducerId, TransactionalId

KEY: Final = 28

LOADING_KNOWN_FROM: Final = 2
ABORTABLE_KNOWN_FROM: Final = 4
TRANSACTIONS_V2_FROM: Final = 5
IDS_AND_EPOCHS_FROM: Final = 6

_ENTITY: Final = "TxnOffsetCommit"


async def handle(
    request: Request,
    *,
    operation: TransactionOperation | None = None,
    renamed: Callable[[ErrorCode], ErrorCode] | None = None,
    failed: Callable[[ErrorCode], ErrorCode] | None = None,
) -> Reply:
    """Verify with the transaction coordinator, then commit; the positions are pending until the
    marker.

    Args:
        request: The request.
        operation: What this version supports (KIP-890); by default as Kafka ships it.
        renamed: Maps an error of the transaction coordinator to the one that the client sees.
        failed: Maps an error of all positions to the one that the client sees.
    """
    message = request.message
    broker = request.broker
    split_request = split(broker.image, message.topics)
    if not split_request.positions:
        return build_answer(request, split_request.results(()), entity=_ENTITY)
    supported = operation or _operation(request.api_version)
    is_new = request.api_version >= IDS_AND_EPOCHS_FROM

    async def verify(partition: int, producer: CommittingProducer) -> int | Rejection:
        guard = await broker.group_host.verify(partition, producer, supported)
        if renamed is not None and isinstance(guard, Rejection):
            return Rejection(error=renamed(guard.error), reason=guard.reason)
        return guard

    outcome = await broker.groups.commit_in_transaction(
        CommitOffsets(
            group_id=message.group_id,
            member_id=getattr(message, "member_id", ""),
            group_instance_id=getattr(message, "group_instance_id", None),
            generation=_generation(message),
            positions=split_request.positions,
            is_transactional=True,
            missing_group_named=is_new,
            stale_epoch_named=is_new,
            keeps_topic_ids=is_new,
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
    if failed is not None and isinstance(outcome, Rejection):
        outcome = Rejection(error=failed(outcome.error), reason=outcome.reason)
    results = _in_words_of(request, split_request.results(errors_of(outcome)))
    if request.pace is not None:
        return await build_answer_in_slices(request, results, entity=_ENTITY)
    return build_answer(request, results, entity=_ENTITY)


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error on every partition."""
    results = everywhere(request.message.topics, error)
    return build_answer(request, _in_words_of(request, results), entity=_ENTITY)


def subject(request: Request) -> Subject:
    """The transaction and the partitions whose positions it commits."""
    message = request.message
    return Subject(
        transactional_id=message.transactional_id,
        producer_id=message.producer_id,
        partitions=partitions_named(request, message.topics),
    )


def _generation(message: Any) -> int:
    renamed = getattr(message, "generation_id_or_member_epoch", NO_GENERATION)
    return int(getattr(message, "generation_id", renamed))


def _operation(api_version: int) -> TransactionOperation:
    if api_version >= TRANSACTIONS_V2_FROM:
        return TransactionOperation.ADD_PARTITION
    if api_version >= ABORTABLE_KNOWN_FROM:
        return TransactionOperation.GENERIC_ERROR_SUPPORTED
    return TransactionOperation.DEFAULT_ERROR


def _in_words_of(request: Request, results: Results) -> Results:
    """Replace COORDINATOR_LOAD_IN_PROGRESS in the first versions, whose clients don't know it."""
    if request.api_version >= LOADING_KNOWN_FROM:
        return results
    later, earlier_word = (
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
    )
    return [
        (named, [(index, earlier_word if error is later else error) for index, error in partitions])
        for named, partitions in results
    ]

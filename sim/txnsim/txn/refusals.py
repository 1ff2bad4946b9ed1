"""The refusals that several decisions of the coordinator share, each with its reason."""

from __future__ import annotations

from typing import Final

from txnsim.errors import ErrorCode, Rejection
from txnsim.txn.state import TxnMetadata
from txnsim.types import TransactionalId

EMPTY_ID: Final = Rejection(
    error=ErrorCode.invalid_request, reason="the transactional id is missing or empty"
)
UNKNOWN_ID: Final = Rejection(
    error=ErrorCode.invalid_producer_id_mapping,
    reason="the transactional id is not known to its coordinator, or has expired",
)
NO_ID_BLOCK: Final = Rejection(
    error=ErrorCode.coordinator_load_in_progress,
    reason="no block of producer ids is at hand; one was asked for (KAFKA-14694)",
)


def concurrent(txn: TxnMetadata) -> Rejection:
    """A move is being logged, or an end waits for its markers."""
    moving_to = txn.state if txn.pending_state is None else txn.pending_state
    return Rejection(
        error=ErrorCode.concurrent_transactions,
        reason=f"{txn.transactional_id}: {moving_to.wire_name} is under way",
    )


def other_producer(txn: TxnMetadata, producer_id: int) -> Rejection:
    """The transactional id has another producer id."""
    return Rejection(
        error=ErrorCode.invalid_producer_id_mapping,
        reason=f"{txn.transactional_id}: belongs to producer id {txn.producer_id}, "
        f"not {producer_id}",
    )


def fenced(txn: TxnMetadata, producer_epoch: int) -> Rejection:
    """The epoch is not the present one."""
    return Rejection(
        error=ErrorCode.producer_fenced,
        reason=f"{txn.transactional_id}: epoch of producer id {txn.producer_id} is "
        f"{txn.producer_epoch} in {txn.state.wire_name}, the request has {producer_epoch}",
    )


def not_found(transactional_id: TransactionalId) -> Rejection:
    """Nothing to describe."""
    return Rejection(
        error=ErrorCode.transactional_id_not_found,
        reason=f"{transactional_id} is not known to its coordinator, or has expired",
    )

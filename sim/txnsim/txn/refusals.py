"""Errors that several decisions of the coordinator share, each with its reason.

The caller gives the row of docs/rules.md.
"""

from __future__ import annotations

from txnsim.errors import ErrorCode, Rejection
from txnsim.txn.state import TxnMetadata
from txnsim.types import TransactionalId


def empty_id_rejection(rule_id: str) -> Rejection:
    """The error for a missing or empty transactional id."""
    return Rejection(
        error=ErrorCode.invalid_request,
        reason="the transactional id is missing or empty",
        rule=rule_id,
    )


def unknown_id_rejection(rule_id: str) -> Rejection:
    """The error for a transactional id without an entry."""
    return Rejection(
        error=ErrorCode.invalid_producer_id_mapping,
        reason="the transactional id is not known to its coordinator, or has expired",
        rule=rule_id,
    )


def no_id_block_rejection(rule_id: str) -> Rejection:
    """The error if a new producer id is needed and there is none."""
    return Rejection(
        error=ErrorCode.coordinator_load_in_progress,
        reason="no block of producer ids is at hand; one was asked for (KAFKA-14694)",
        rule=rule_id,
    )


def concurrent_rejection(txn: TxnMetadata, rule_id: str) -> Rejection:
    """The error while a change is being logged, or an end waits for its markers."""
    target_state = txn.state if txn.pending_state is None else txn.pending_state
    return Rejection(
        error=ErrorCode.concurrent_transactions,
        reason=f"{txn.transactional_id}: {target_state.wire_name} is under way",
        rule=rule_id,
    )


def other_producer_rejection(txn: TxnMetadata, producer_id: int, rule_id: str) -> Rejection:
    """The error for another producer id than that of the transactional id."""
    return Rejection(
        error=ErrorCode.invalid_producer_id_mapping,
        reason=f"{txn.transactional_id}: belongs to producer id {txn.producer_id}, "
        f"not {producer_id}",
        rule=rule_id,
    )


def fencing_rejection(txn: TxnMetadata, producer_epoch: int, rule_id: str) -> Rejection:
    return Rejection(
        error=ErrorCode.producer_fenced,
        reason=f"{txn.transactional_id}: epoch of producer id {txn.producer_id} is "
        f"{txn.producer_epoch} in {txn.state.wire_name}, the request has {producer_epoch}",
        rule=rule_id,
    )


def not_found_rejection(transactional_id: TransactionalId) -> Rejection:
    """The error for a transactional id that can't be described."""
    return Rejection(
        error=ErrorCode.transactional_id_not_found,
        reason=f"{transactional_id} is not known to its coordinator, or has expired",
        rule="describe.unknown-id",
    )

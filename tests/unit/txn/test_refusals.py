"""Refusals say what was expected and what was found."""

from __future__ import annotations

import pytest

from tests.support.txn_entries import TID, entry
from txnsim.errors import ErrorCode, Rejection
from txnsim.txn.refusals import (
    EMPTY_ID,
    NO_ID_BLOCK,
    UNKNOWN_ID,
    concurrent,
    fenced,
    not_found,
    other_producer,
)
from txnsim.txn.state import TransactionState

MOVING = entry(TransactionState.ONGOING, pending=TransactionState.PREPARE_ABORT)


@pytest.mark.parametrize(
    ("refusal", "error", "reason"),
    [
        (EMPTY_ID, ErrorCode.invalid_request, "empty"),
        (UNKNOWN_ID, ErrorCode.invalid_producer_id_mapping, "expired"),
        (NO_ID_BLOCK, ErrorCode.coordinator_load_in_progress, "KAFKA-14694"),
        (concurrent(MOVING), ErrorCode.concurrent_transactions, "txn-1: PrepareAbort"),
        (concurrent(entry()), ErrorCode.concurrent_transactions, "txn-1: Empty"),
        (other_producer(entry(), 8), ErrorCode.invalid_producer_id_mapping, "id 7, not 8"),
        (fenced(entry(), 4), ErrorCode.producer_fenced, "5 in Empty, the request has 4"),
        (not_found(TID), ErrorCode.transactional_id_not_found, "txn-1"),
    ],
)
def test_error_and_reason(refusal: Rejection, error: ErrorCode, reason: str) -> None:
    assert refusal.error is error
    assert reason in refusal.reason

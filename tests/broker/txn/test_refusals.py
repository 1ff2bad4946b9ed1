"""Refusals say what was expected and what was found."""

from __future__ import annotations

import pytest

from tests.support.txn_entries import TID, entry
from txnsim.errors import ErrorCode, Rejection
from txnsim.txn.refusals import (
    concurrent,
    empty_id,
    fenced,
    no_id_block,
    not_found,
    other_producer,
    unknown_id,
)
from txnsim.txn.state import TransactionState

RULE = "end.v5.pending"
MOVING = entry(TransactionState.ONGOING, pending=TransactionState.PREPARE_ABORT)


@pytest.mark.parametrize(
    ("refusal", "error", "reason"),
    [
        (empty_id(RULE), ErrorCode.invalid_request, "empty"),
        (unknown_id(RULE), ErrorCode.invalid_producer_id_mapping, "expired"),
        (no_id_block(RULE), ErrorCode.coordinator_load_in_progress, "KAFKA-14694"),
        (concurrent(MOVING, RULE), ErrorCode.concurrent_transactions, "txn-1: PrepareAbort"),
        (concurrent(entry(), RULE), ErrorCode.concurrent_transactions, "txn-1: Empty"),
        (other_producer(entry(), 8, RULE), ErrorCode.invalid_producer_id_mapping, "id 7, not 8"),
        (fenced(entry(), 4, RULE), ErrorCode.producer_fenced, "5 in Empty, the request has 4"),
        (not_found(TID), ErrorCode.transactional_id_not_found, "txn-1"),
    ],
)
def test_error_and_reason(refusal: Rejection, error: ErrorCode, reason: str) -> None:
    assert refusal.error is error
    assert reason in refusal.reason
    assert refusal.rule in (RULE, "describe.unknown-id")

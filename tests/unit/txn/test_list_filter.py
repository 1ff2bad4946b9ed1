"""The filters of ListTransactions."""

from __future__ import annotations

import pytest

from tests.support.txn_entries import NOW_MS, entry
from txnsim.errors import ErrorCode, Rejection
from txnsim.txn.list_filter import (
    ListedTransactions,
    ListTransactions,
    list_transactions,
)
from txnsim.txn.state import TransactionState, TxnMetadata
from txnsim.types import ProducerId, TransactionalId


def named(
    name: str, state: TransactionState, *, pid: int = 7, start_ms: int | None = None
) -> TxnMetadata:
    txn = entry(state, pid=pid, start_ms=start_ms)
    fields = {field: getattr(txn, field) for field in txn.__struct_fields__}
    return TxnMetadata(**{**fields, "transactional_id": TransactionalId(name)})


TXNS = [
    named("Orders", TransactionState.EMPTY, pid=1),
    named("orders-2", TransactionState.ONGOING, pid=2, start_ms=NOW_MS - 100),
    named("payments", TransactionState.COMPLETE_COMMIT, pid=3, start_ms=NOW_MS - 5_000),
    named("buried", TransactionState.DEAD, pid=4),
]


def listed(query: ListTransactions) -> list[str]:
    answer = list_transactions(TXNS, query, now_ms=NOW_MS)
    assert isinstance(answer, ListedTransactions)
    return [each.transactional_id for each in answer.transactions]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (ListTransactions(), ["Orders", "orders-2", "payments"]),
        (ListTransactions(state_names=("Ongoing", "Empty")), ["Orders", "orders-2"]),
        (ListTransactions(state_names=("ongoing",)), []),
        (ListTransactions(state_names=("Dead",)), []),
        (ListTransactions(producer_ids=frozenset({ProducerId(3)})), ["payments"]),
        (ListTransactions(duration_ms=0), ["Orders", "orders-2", "payments"]),
        (ListTransactions(duration_ms=99), ["Orders", "orders-2", "payments"]),
        (ListTransactions(duration_ms=100), ["Orders", "payments"]),
        (ListTransactions(duration_ms=5_000), ["Orders"]),
        (ListTransactions(running_only=True), ["orders-2"]),
        (ListTransactions(running_only=True, duration_ms=100), []),
        (ListTransactions(id_pattern=""), ["Orders", "orders-2", "payments"]),
        (ListTransactions(id_pattern="orders"), []),
        (ListTransactions(id_pattern="orders.*"), ["orders-2"]),
        (ListTransactions(id_pattern="(?i)orders.*?"), ["Orders", "orders-2"]),
        (ListTransactions(id_pattern=".*s", state_names=("Empty",)), ["Orders"]),
    ],
)
def test_every_filter_must_pass(query: ListTransactions, expected: list[str]) -> None:
    assert listed(query) == expected


def test_unknown_states_are_returned_once_and_match_nothing() -> None:
    query = ListTransactions(state_names=("Open", "PrepareEpochFence", "Open"))
    assert list_transactions(TXNS, query, now_ms=NOW_MS) == ListedTransactions(
        unknown_state_names=("Open",)
    )


@pytest.mark.parametrize("pattern", ["(?=a)", r"(a)\1", "a++", "["])
def test_what_re2_does_not_compile_is_refused(pattern: str) -> None:
    query = ListTransactions(id_pattern=pattern, state_names=("Open",))
    answer = list_transactions(TXNS, query, now_ms=NOW_MS)
    assert isinstance(answer, Rejection)
    assert answer.error is ErrorCode.invalid_regular_expression


def test_a_listing_shows_the_committed_state() -> None:
    (shown,) = list_transactions(  # type: ignore[union-attr]
        [entry(TransactionState.ONGOING, pending=TransactionState.PREPARE_ABORT)],
        ListTransactions(),
        now_ms=NOW_MS,
    ).transactions
    assert (shown.state, shown.producer_id) == ("Ongoing", 7)

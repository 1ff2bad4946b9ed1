"""The filters of ListTransactions."""

from __future__ import annotations

import pytest

from tests.support.txn_entries import NOW_MS, entry
from txnsim.errors import ErrorCode, PatternError, Rejection
from txnsim.txn.list_filter import (
    Listing,
    ListTransactions,
    list_transactions,
)
from txnsim.txn.state import TransactionState, TxnMetadata
from txnsim.types import TransactionalId


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
    listing = list_transactions(TXNS, query, now_ms=NOW_MS)
    assert isinstance(listing, Listing)
    return [txn.transactional_id for txn in TXNS if listing.has(txn)]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (ListTransactions(), ["Orders", "orders-2", "payments"]),
        (ListTransactions(states=("Ongoing", "Empty")), ["Orders", "orders-2"]),
        (ListTransactions(states=("ongoing",)), []),
        (ListTransactions(states=("Dead",)), []),
        (ListTransactions(producer_ids=(3,)), ["payments"]),
        (ListTransactions(duration_ms=0), ["Orders", "orders-2", "payments"]),
        (ListTransactions(duration_ms=99), ["Orders", "orders-2", "payments"]),
        (ListTransactions(duration_ms=100), ["Orders", "payments"]),
        (ListTransactions(duration_ms=5_000), ["Orders"]),
        (ListTransactions(running_only=True), ["orders-2"]),
        (ListTransactions(running_only=True, duration_ms=100), []),
        (ListTransactions(pattern=""), ["Orders", "orders-2", "payments"]),
        (ListTransactions(pattern="orders"), []),
        (ListTransactions(pattern="orders.*"), ["orders-2"]),
        (ListTransactions(pattern="(?i)orders.*?"), ["Orders", "orders-2"]),
        (ListTransactions(pattern=".*s", states=("Empty",)), ["Orders"]),
    ],
)
def test_every_filter_must_pass(query: ListTransactions, expected: list[str]) -> None:
    assert listed(query) == expected


def test_unknown_states_are_returned_once_and_match_nothing() -> None:
    query = ListTransactions(states=("Open", "PrepareEpochFence", "Open"))
    listing = list_transactions(TXNS, query, now_ms=NOW_MS)
    assert isinstance(listing, Listing)
    assert listing.unknown_state_names == ("Open",)
    assert not any(map(listing.has, TXNS))


@pytest.mark.parametrize("pattern", ["(?=a)", r"(a)\1", "a++", "["])
def test_what_re2_does_not_compile_is_refused(pattern: str) -> None:
    query = ListTransactions(pattern=pattern, states=("Open",))
    answer = list_transactions(TXNS, query, now_ms=NOW_MS)
    assert isinstance(answer, Rejection)
    assert answer.error is ErrorCode.invalid_regular_expression


def test_a_listing_goes_by_the_committed_state() -> None:
    txn = entry(TransactionState.ONGOING, pending=TransactionState.PREPARE_ABORT)
    listing = list_transactions([txn], ListTransactions(states=("Ongoing",)), now_ms=NOW_MS)
    assert isinstance(listing, Listing)
    assert listing.has(txn)


def test_a_pattern_is_matched_with_ids_that_may_be_seen_and_with_no_others() -> None:
    """A match may take as long as a pattern of a stranger makes it."""
    asked: list[str] = []

    def may_describe(name: str) -> bool:
        asked.append(name)
        return False

    query = ListTransactions(pattern="(a?){1000}x", may_describe=may_describe)
    txn = named("a" * 100_000, TransactionState.ONGOING)
    listing = list_transactions([txn], query, now_ms=NOW_MS)
    assert isinstance(listing, Listing)
    assert not listing.has(txn)
    assert len(asked) == 1


def test_a_pattern_that_would_take_long_for_an_id_is_refused() -> None:
    query = ListTransactions(pattern="(a?){1000}x")
    txn = named("a" * 100_000, TransactionState.ONGOING)
    listing = list_transactions([txn], query, now_ms=NOW_MS)
    assert isinstance(listing, Listing)
    assert listing.weight(txn) > 100_000
    with pytest.raises(PatternError):
        listing.has(txn)

"""The filters of ListTransactions (KIP-664, KIP-994, KIP-1152).

The pattern is RE2/J's: the whole transactional id must match; look-ahead, back
references and possessive quantifiers do not compile.

Counterpart in Kafka: TransactionStateManager.listTransactionStates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from txnsim.errors import ErrorCode, PatternError, Rejection
from txnsim.patterns import Pattern, compile_pattern
from txnsim.txn.state import IDLE_STATES, WIRE_NAMES, TransactionState, TxnMetadata
from txnsim.wire.filters import TransactionFilters


class ListTransactions(TransactionFilters, frozen=True, kw_only=True):
    """The filters of a ListTransactions request, and the permission check."""

    lists_running_only: bool = False
    """Whether to list only transactions that are open or being ended (text of KIP-994)."""
    may_describe: Callable[[str], bool] | None = None
    """Says which transactional ids the client may see; the pattern is not matched with others."""


class FilteredListing(msgspec.Struct, frozen=True, kw_only=True):
    """All entries, and the filter; the caller filters in slices, as there may be many."""

    txns: Sequence[TxnMetadata]
    unknown_state_names: tuple[str, ...]
    """State names in the request that do not exist."""
    query: ListTransactions
    state_names: frozenset[str]
    producer_ids: frozenset[int]
    pattern: Pattern | None
    now_ms: int

    def filtering_work(self, txn: TxnMetadata) -> int:
        """Work that filtering an entry takes at worst, in elements of a request."""
        return 1 if self.pattern is None else self.pattern.weight(txn.transactional_id)

    def has(self, txn: TxnMetadata) -> bool:
        """Whether an entry passes all filters, without its pending change.

        Raises:
            PatternError: The match could take too long.
        """
        query, transactional_id = self.query, txn.transactional_id
        if txn.state is TransactionState.DEAD:
            return False
        if self.state_names and txn.state.wire_name not in self.state_names:
            return False
        if query.lists_running_only and txn.state in IDLE_STATES:
            return False
        if self.producer_ids and txn.producer_id not in self.producer_ids:
            return False
        # An Empty entry started at -1 and so always passes; a complete one counts from its old
        # start.
        if query.duration_ms >= 0 and self.now_ms - txn.start_timestamp_ms <= query.duration_ms:
            return False
        if query.may_describe is not None and not query.may_describe(transactional_id):
            return False
        return self.pattern is None or self.pattern.matches(transactional_id)


_KNOWN_STATE_NAMES: Final = frozenset(WIRE_NAMES.values())


def list_transactions(
    txns: Sequence[TxnMetadata], query: ListTransactions, *, now_ms: int
) -> FilteredListing | Rejection:
    """Prepare the filter, or return the error of its pattern."""
    try:
        pattern = compile_pattern(query.pattern) if query.pattern else None
    except PatternError as error:
        return pattern_rejection(query, error)
    return FilteredListing(
        txns=txns,
        unknown_state_names=tuple(
            state_name
            for state_name in dict.fromkeys(query.states)
            if state_name not in _KNOWN_STATE_NAMES
        ),
        query=query,
        state_names=frozenset(query.states),
        producer_ids=frozenset(query.producer_ids),
        pattern=pattern,
        now_ms=now_ms,
    )


def pattern_rejection(query: ListTransactions, error: PatternError) -> Rejection:
    return Rejection(
        error=ErrorCode.invalid_regular_expression,
        reason=f"not a valid RE2/J expression: {query.pattern!r}: {error}",
    )

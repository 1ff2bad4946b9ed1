"""The filters of ListTransactions (KIP-664, KIP-994, KIP-1152).

The pattern is RE2, as Kafka's RE2/J is: the whole transactional id must match; look-ahead, back
references and possessive quantifiers do not compile.

Counterpart in Kafka: TransactionStateManager.listTransactionStates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Final

import msgspec

from txnsim.errors import ErrorCode, Rejection
from txnsim.on_demand import OnDemand
from txnsim.txn.state import IDLE_STATES, WIRE_NAMES, TransactionState, TxnMetadata
from txnsim.types import ProducerId, TransactionalId

re2: Final[Any] = OnDemand("re2")


class ListTransactions(msgspec.Struct, frozen=True, kw_only=True):
    """Which transactional ids to list; a filter at its default lets everything pass."""

    state_names: tuple[str, ...] = ()
    producer_ids: frozenset[ProducerId] = frozenset()
    duration_ms: int = -1
    """Transactions that started longer ago than this. Negative: off."""
    running_only: bool = False
    """Only transactions that are open or being ended (text of KIP-994)."""
    id_pattern: str | None = None


class ListedTransaction(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the list."""

    transactional_id: TransactionalId
    producer_id: ProducerId
    state: str


class ListedTransactions(msgspec.Struct, frozen=True, kw_only=True):
    """The answer, with the names of states in the request that do not exist."""

    unknown_state_names: tuple[str, ...] = ()
    transactions: tuple[ListedTransaction, ...] = ()


_KNOWN_NAMES: Final = frozenset(WIRE_NAMES.values())


def list_transactions(
    txns: Iterable[TxnMetadata], query: ListTransactions, *, now_ms: int
) -> ListedTransactions | Rejection:
    """The entries that pass all filters, by their committed fields."""
    matches = _compile(query.id_pattern) if query.id_pattern else _match_all
    if isinstance(matches, Rejection):
        return matches
    names = frozenset(query.state_names)
    listed = [
        ListedTransaction(
            transactional_id=txn.transactional_id,
            producer_id=txn.producer_id,
            state=txn.state.wire_name,
        )
        for txn in txns
        if _passes(txn, query, names, now_ms) and matches(txn.transactional_id)
    ]
    unknown = tuple(name for name in dict.fromkeys(query.state_names) if name not in _KNOWN_NAMES)
    return ListedTransactions(unknown_state_names=unknown, transactions=tuple(listed))


def _passes(txn: TxnMetadata, query: ListTransactions, names: frozenset[str], now_ms: int) -> bool:
    if txn.state is TransactionState.DEAD:
        return False
    if names and txn.state.wire_name not in names:
        return False
    if query.running_only and txn.state in IDLE_STATES:
        return False
    if query.producer_ids and txn.producer_id not in query.producer_ids:
        return False
    # An Empty entry started at -1 and so always passes; a complete one counts from its old start
    return query.duration_ms < 0 or now_ms - txn.start_timestamp_ms > query.duration_ms


def _match_all(_transactional_id: str) -> bool:
    return True


@lru_cache(maxsize=256)
def _compile(pattern: str) -> Callable[[str], bool] | Rejection:
    options = re2.Options()
    options.log_errors = False  # or the library prints to standard error
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        return Rejection(
            error=ErrorCode.invalid_regular_expression,
            reason=f"not a valid RE2 expression: {pattern!r}: {error}",
        )
    return lambda transactional_id: compiled.fullmatch(transactional_id) is not None

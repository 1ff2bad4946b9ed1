"""ListTransactions by the text of KIP-994: a duration of 0 filters nothing. A greater one selects
transactions that have been running for longer than that, so no finished ones.

Kafka takes -1 for off, lets 0 filter, and counts finished transactions from their old start.
"""

from __future__ import annotations

from txnsim.api._transactions.list_transactions import answer_query
from txnsim.api.request import Reply, Request
from txnsim.wire.filters import TransactionFilters


async def handle(request: Request) -> Reply:
    """List the transactional ids that pass the request's filters."""
    if TransactionFilters.of(request.message).duration_ms <= 0:
        return await answer_query(request, duration_ms=TransactionFilters().duration_ms)
    return await answer_query(request, lists_running_only=True)

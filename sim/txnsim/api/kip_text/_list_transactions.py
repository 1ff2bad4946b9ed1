"""ListTransactions by the text of KIP-994: a duration of 0 filters nothing. A greater one selects
transactions that have been running for longer than that, so no finished ones.

Kafka takes -1 for off, lets 0 filter, and counts finished transactions from their old start.
"""

from __future__ import annotations

from txnsim.api._transactions.list_transactions import OFF, answer_query
from txnsim.api.request import Reply, Request


async def handle(request: Request) -> Reply:
    """List what passes the filters."""
    duration_ms = getattr(request.message, "duration_filter", OFF)
    if duration_ms <= 0:
        return await answer_query(request, duration_ms=OFF)
    return await answer_query(request, duration_ms=duration_ms, running_only=True)

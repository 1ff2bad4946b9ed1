"""DescribeTransactions by the texts of KIP-664 and KIP-994.

Versions: 0 shows neither start time nor partitions once no transaction is in progress (KIP-664); 1
adds the time of the last update, and keeps the start of a finished transaction, because the tool
tells its length as the difference of the two (KIP-994). The newer text builds on the layout that
Kafka ships, so version 0 has it too.
"""

from __future__ import annotations

from typing import Final

from txnsim.api._transactions import describe_transactions
from txnsim.api._transactions.describe_transactions import UNKNOWN_TIME
from txnsim.api.request import Reply, Request
from txnsim.txn.commands import DescribedTxn
from txnsim.txn.state import IDLE_STATES

LAST_UPDATE_FROM: Final = 1

_IDLE: Final = frozenset(state.wire_name for state in IDLE_STATES)


async def handle(request: Request) -> Reply:
    """Describe each transactional id by itself."""

    def start_of(description: DescribedTxn) -> int:
        is_over = description.state in _IDLE and request.api_version < LAST_UPDATE_FROM
        return UNKNOWN_TIME if is_over else description.start_timestamp_ms

    return await describe_transactions.handle(request, start_of=start_of)

"""DescribeTransactions by the texts of KIP-664 and KIP-994.

Versions: 0 shows neither start time nor partitions once no transaction is in progress (KIP-664); 1
adds the time of the last update, and keeps the start of a finished transaction, because the tool
tells its length as the difference of the two (KIP-994). The newer text builds on the layout that
Kafka ships, so version 0 has it too.
"""

from __future__ import annotations

from typing import Any, Final

from txnsim.api.request import Reply, Request
from txnsim.api.transactions.describe_transactions import UNKNOWN_TIME, described, failed
from txnsim.errors import Rejection
from txnsim.txn.state import IDLE_STATES
from txnsim.types import TransactionalId

VERSIONS: Final = (0, 1)

LAST_UPDATE_FROM: Final = 1

_IDLE: Final = frozenset(state.wire_name for state in IDLE_STATES)


async def handle(request: Request) -> Reply:
    """Describe each id by itself."""
    return request.answer(
        transaction_states=tuple(
            _describe(request, transactional_id)
            for transactional_id in request.message.transactional_ids
        )
    )


def _describe(request: Request, transactional_id: str) -> Any:
    found = request.broker.coordinator.describe(TransactionalId(transactional_id))
    if isinstance(found, Rejection):
        return failed(request, transactional_id, found.error)
    is_over = found.state in _IDLE and request.api_version < LAST_UPDATE_FROM
    return described(
        request,
        found,
        start_timestamp_ms=UNKNOWN_TIME if is_over else found.start_timestamp_ms,
    )

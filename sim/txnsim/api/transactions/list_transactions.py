"""ListTransactions (key 66): the transactional ids that this broker coordinates (KIP-664).

Versions: 1 a filter by duration (KIP-994), 2 a filter by pattern (KIP-1152). Clients ask every
broker. Kafka's counterparts: KafkaApis.handleListTransactionsRequest,
TransactionStateManager.listTransactionStates.
"""

from __future__ import annotations

from typing import Final

from txnsim.api.request import Reply, Request, at_top
from txnsim.errors import ErrorCode, Rejection
from txnsim.txn.list_filter import ListTransactions
from txnsim.types import ProducerId

KEY: Final = 66
VERSIONS: Final = (0, 2)

refuse = at_top(unknown_state_filters=(), transaction_states=())

OFF: Final = -1
"""A duration that filters nothing."""


async def handle(request: Request) -> Reply:
    """List what passes the filters."""
    return answer_query(request, duration_ms=getattr(request.message, "duration_filter", OFF))


def answer_query(request: Request, *, duration_ms: int, running_only: bool = False) -> Reply:
    """The answer, with the filter by duration as the listener reads it."""
    message = request.message
    found = request.broker.coordinator.list_transactions(
        ListTransactions(
            state_names=tuple(message.state_filters),
            producer_ids=frozenset(map(ProducerId, message.producer_id_filters)),
            duration_ms=duration_ms,
            running_only=running_only,
            id_pattern=getattr(message, "transactional_id_pattern", None),
        )
    )
    if isinstance(found, Rejection):
        return refuse(request, found.error)
    schema = request.schema
    return request.answer(
        error_code=ErrorCode.none,
        unknown_state_filters=found.unknown_state_names,
        transaction_states=tuple(
            schema.TransactionState(
                transactional_id=entry.transactional_id,
                producer_id=entry.producer_id,
                transaction_state=entry.state,
            )
            for entry in found.transactions
        ),
    )

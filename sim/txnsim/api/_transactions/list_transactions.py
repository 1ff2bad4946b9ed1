"""ListTransactions (key 66): the transactional ids that this broker coordinates (KIP-664).

Versions: 1 a filter by duration (KIP-994), 2 a filter by pattern (KIP-1152). Clients ask every
broker. Kafka's counterparts: KafkaApis.handleListTransactionsRequest,
TransactionStateManager.listTransactionStates.
"""

from __future__ import annotations

from functools import partial
from itertools import compress
from typing import Any, Final

from txnsim.api.request import Reply, Request, refuse_at_top_level
from txnsim.errors import ErrorCode, PatternError, Rejection
from txnsim.security.acls import AclOperation
from txnsim.txn.list_filter import ListTransactions, pattern_rejection

API_KEY: Final = 66

refuse = refuse_at_top_level(unknown_state_filters=(), transaction_states=())


async def handle(request: Request) -> Reply:
    """List the transactional ids that pass the request's filters."""
    return await answer_query(request)


async def answer_query(request: Request, **query_options: Any) -> Reply:
    """Answer the query.

    Args:
        request: The request.
        query_options: Filters of the query that the listener of the KIPs' text reads in another
            way.
    """
    access = request.access
    query = ListTransactions.of(
        request.message,
        may_describe=None
        if access is None
        else partial(access.may_transactional_id, AclOperation.DESCRIBE),
        **query_options,
    )
    listing = request.broker.coordinator.list_transactions(query)
    if isinstance(listing, Rejection):
        return refuse(request, listing.error)
    try:
        match_flags = await request.map_each(
            listing.has, listing.txns, weight=listing.filtering_work
        )
    except PatternError as error:
        return refuse(request, pattern_rejection(query, error).error)
    row_class = request.schema.TransactionState
    return request.answer(
        error_code=ErrorCode.none,
        unknown_state_filters=listing.unknown_state_names,
        transaction_states=tuple(
            await request.map_each(
                lambda txn: row_class(
                    transactional_id=txn.transactional_id,
                    producer_id=txn.producer_id,
                    transaction_state=txn.state.wire_name,
                ),
                tuple(compress(listing.txns, match_flags)),
            )
        ),
    )

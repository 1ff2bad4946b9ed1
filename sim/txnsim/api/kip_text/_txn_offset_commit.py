"""TxnOffsetCommit by the text of KIP-890: one new version that both adds the group's partition to
the transaction and knows TRANSACTION_ABORTABLE, and COORDINATOR_NOT_AVAILABLE for temporary errors.

Kafka split it in two, v4 for the error and v5 for the implicit add. Here v4 does both, and so does
v5, which follows it. Only errors of the transaction coordinator are translated.
"""

from __future__ import annotations

from typing import Final

from txnsim.api._transactions import txn_offset_commit
from txnsim.api.kip_text._errors import passing_error, server_failure, txn_offset_commit_error
from txnsim.api.request import Reply, Request
from txnsim.broker.verification import TransactionOperation

NEW_FROM: Final = 4


async def handle(request: Request) -> Reply:
    """Commit the positions; from ``NEW_FROM`` on, also add the group's partition implicitly."""
    if request.api_version < NEW_FROM:
        return await txn_offset_commit.handle(request, rename_error=passing_error)
    return await txn_offset_commit.handle(
        request,
        own_operation=TransactionOperation.ADD_PARTITION,
        rename_error=txn_offset_commit_error,
        rename_failure=server_failure,
    )

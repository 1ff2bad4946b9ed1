"""EndTxn by the text of KIP-890: v4 bumps the epoch and returns the identity to go on with.

Kafka ships that as v5, and v4 only announces an error; so a stock client that uses v4 misreads the
answer and goes on under an epoch that is over. There is no v5 here.
"""

from __future__ import annotations

from typing import Final

from txnsim.api.kip_text.errors import server_failure
from txnsim.api.request import Reply, Request
from txnsim.api.transactions import end_txn
from txnsim.errors import ErrorCode

NEW_FROM: Final = 4


async def handle(request: Request) -> Reply:
    """Decide it."""
    return await end_txn.handle(request, v2_from=NEW_FROM)


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error in the words, and in the layout, of this version."""
    if request.api_version >= NEW_FROM:
        error = server_failure(error)
    return end_txn.refuse(request, error, v2_from=NEW_FROM)

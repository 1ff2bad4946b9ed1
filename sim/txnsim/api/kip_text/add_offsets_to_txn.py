"""AddOffsetsToTxn by the text of KIP-890: a failure of the server is TRANSACTION_ABORTABLE in the
version that knows it.
"""

from __future__ import annotations

from typing import Final

from txnsim.api.kip_text.errors import server_failure
from txnsim.api.request import Reply, Request
from txnsim.api.transactions import add_offsets_to_txn
from txnsim.errors import ErrorCode

NEW_FROM: Final = 4


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error in the words of this version."""
    if request.api_version >= NEW_FROM:
        error = server_failure(error)
    return add_offsets_to_txn.refuse(request, error)

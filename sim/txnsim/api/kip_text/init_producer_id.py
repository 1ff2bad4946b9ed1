"""InitProducerId by the text of KIP-890: a failure of the server is TRANSACTION_ABORTABLE in the
version that knows it.
"""

from __future__ import annotations

from typing import Final

from txnsim.api.kip_text.errors import server_failure
from txnsim.api.request import Reply, Request
from txnsim.api.transactions import init_producer_id
from txnsim.errors import ErrorCode

NEW_FROM: Final = 5


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error in the words of this version; the identity is -1, -1."""
    if request.api_version >= NEW_FROM and request.message.transactional_id is not None:
        error = server_failure(error)
    return init_producer_id.refuse(request, error)

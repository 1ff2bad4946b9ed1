"""Whether an operator sees enough to say that a transaction hangs.

Coordinators leave out ids that the client may not describe (ListTransactions). A live transaction
of such an id looks like one without a coordinator, and the answer does not say how much it leaves
out. So this module asks for an id that does not exist: a client that may not describe that one
lacks the right for all ids.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from txnsim.client import requests
from txnsim.client.errors import ClientError, ErrorCode

if TYPE_CHECKING:
    from txnsim.client.cluster import Cluster

UNUSED_ID: Final = "7f3kq-sees-all-transactional-ids"
"""An authorizer judges the name, whether or not there is such an id. No right for a prefix that
somebody uses should cover it.
"""


async def check_sight(cluster: Cluster) -> None:
    """Make sure that every transactional id may be described.

    Raises:
        ClientError: Not every one may, or no broker answered.
    """
    message = await cluster.ask_any(requests.describe_transactions((UNUSED_ID,)))
    (row,) = message.transaction_states
    if ErrorCode(row.error_code) is ErrorCode.transactional_id_authorization_failed:
        raise ClientError(
            "Nothing can be said of transactions that seem to hang: this user may not describe"
            " every transactional id, and what it does not see looks the same",
            error=ErrorCode.transactional_id_authorization_failed,
        )

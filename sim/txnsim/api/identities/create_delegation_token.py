"""CreateDelegationToken (key 38): a token to authenticate with (KIP-48).

Versions: 2 is flexible, 3 an owner other than who asks. Who is anonymous may not ask; to others
tokens are disabled, because there is no secret to make them with (``delegation.token.secret.key``).
Kafka's counterpart: KafkaApis.handleCreateTokenRequest.
"""

from __future__ import annotations

from typing import Final

from txnsim.api.request import Reply, Request
from txnsim.errors import ErrorCode
from txnsim.security.principals import ANONYMOUS

KEY: Final = 38
VERSIONS: Final = (1, 3)

USER: Final = "User"
NO_TIME: Final = -1
ZERO_TIME: Final = 0


async def handle(request: Request) -> Reply:
    """Refuse."""
    if request.principal == ANONYMOUS:
        return refuse(request, ErrorCode.delegation_token_request_not_allowed)
    return refuse(request, ErrorCode.delegation_token_auth_disabled)


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error at the top, and whose token it would have been."""
    name = getattr(request.message, "owner_principal_name", None)
    requester = request.principal.removeprefix(f"{USER}:")
    time = NO_TIME if request.principal == ANONYMOUS else ZERO_TIME
    return request.answer(
        error_code=error,
        principal_type=request.message.owner_principal_type if name else USER,
        principal_name=name or requester,
        token_requester_principal_type=USER,
        token_requester_principal_name=requester,
        issue_timestamp=time,
        expiry_timestamp=time,
        max_timestamp=time,
        token_id="",
        hmac=b"",
    )

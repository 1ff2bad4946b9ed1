"""CreateDelegationToken (key 38): a token to authenticate with (KIP-48).

Versions: 2 is flexible, 3 an owner other than who asks. Tokens are given to authenticated
connections only, and nobody is authenticated here. Kafka's counterpart:
KafkaApis.handleCreateTokenRequest.
"""

from __future__ import annotations

from typing import Final

from sim.api.request import Reply, Request
from sim.errors import ErrorCode

KEY: Final = 38
VERSIONS: Final = (1, 3)

USER: Final = "User"
ANONYMOUS: Final = "ANONYMOUS"
"""Who asks on a connection without authentication (KafkaPrincipal.ANONYMOUS)."""
NO_TIME: Final = -1


async def handle(request: Request) -> Reply:
    """Refuse."""
    return refuse(request, ErrorCode.delegation_token_request_not_allowed)


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error at the top, and whose token it would have been."""
    name = getattr(request.message, "owner_principal_name", None)
    return request.answer(
        error_code=error,
        principal_type=request.message.owner_principal_type if name else USER,
        principal_name=name or ANONYMOUS,
        token_requester_principal_type=USER,
        token_requester_principal_name=ANONYMOUS,
        issue_timestamp=NO_TIME,
        expiry_timestamp=NO_TIME,
        max_timestamp=NO_TIME,
        token_id="",
        hmac=b"",
    )

"""RenewDelegationToken (key 39): let a token live longer (KIP-48).

Versions: 2 is flexible. An anonymous client may not ask. Any other client gets the error that
tokens
are disabled, because the broker has no secret to make them with (``delegation.token.secret.key``).
Kafka's counterpart: KafkaApis.handleRenewTokenRequest.
"""

from __future__ import annotations

from typing import Final

from txnsim.api.request import Reply, Request
from txnsim.errors import ErrorCode
from txnsim.security.principals import ANONYMOUS

KEY: Final = 39
VERSIONS: Final = (1, 2)

NO_TIME: Final = -1
NEVER_SET: Final = 0
"""The value that the controller leaves in the field."""


async def handle(request: Request) -> Reply:
    """Refuse."""
    if request.principal == ANONYMOUS:
        return refuse(request, ErrorCode.delegation_token_request_not_allowed)
    return refuse(request, ErrorCode.delegation_token_auth_disabled)


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error at the top."""
    time = NO_TIME if request.principal == ANONYMOUS else NEVER_SET
    return request.answer(error_code=error, expiry_timestamp=time)

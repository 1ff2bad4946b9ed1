"""DescribeDelegationToken (key 41): the tokens of an owner (KIP-48).

Versions: 2 is flexible, 3 names the requester of a token. An anonymous client may not ask. Any
other client gets the error that tokens are disabled, because the broker has no secret to make them
with (``delegation.token.secret.key``). Kafka's counterpart: KafkaApis.handleDescribeTokensRequest.
"""

from __future__ import annotations

from typing import Final

from txnsim.api.request import Reply, Request
from txnsim.errors import ErrorCode
from txnsim.security.principals import ANONYMOUS

KEY: Final = 41
VERSIONS: Final = (1, 3)


async def handle(request: Request) -> Reply:
    """Refuse."""
    if request.principal == ANONYMOUS:
        return refuse(request, ErrorCode.delegation_token_request_not_allowed)
    return refuse(request, ErrorCode.delegation_token_auth_disabled)


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error at the top."""
    return request.answer(error_code=error, tokens=())

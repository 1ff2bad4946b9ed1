"""DescribeDelegationToken (key 41): the tokens that somebody owns (KIP-48).

Versions: 2 is flexible, 3 tells who asked for a token. Who is anonymous may not ask; to others
tokens are disabled, because there is no secret to make them with (``delegation.token.secret.key``).
Kafka's counterpart: KafkaApis.handleDescribeTokensRequest.
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

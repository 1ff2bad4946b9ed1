"""RenewDelegationToken (key 39): let a token live longer (KIP-48).

Versions: 2 is flexible. Tokens are given to authenticated
connections only, and nobody is authenticated here. Kafka's counterpart:
KafkaApis.handleRenewTokenRequest.
"""

from __future__ import annotations

from typing import Final

from sim.api.request import Reply, Request
from sim.errors import ErrorCode

KEY: Final = 39
VERSIONS: Final = (1, 2)

NO_TIME: Final = -1


async def handle(request: Request) -> Reply:
    """Refuse."""
    return refuse(request, ErrorCode.delegation_token_request_not_allowed)


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error at the top."""
    return request.answer(error_code=error, expiry_timestamp=NO_TIME)

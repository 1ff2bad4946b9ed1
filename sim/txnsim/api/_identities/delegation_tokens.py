"""Requests for delegation tokens: which clients may send them, and the answers (KIP-48).

An anonymous client may not ask. Any other client gets the error that tokens are disabled, because
the broker has no secret to make them with (``delegation.token.secret.key``).
"""

from __future__ import annotations

from typing import Final

from txnsim.api.request import Reply, Request
from txnsim.errors import ErrorCode
from txnsim.security.principals import ANONYMOUS

NO_TIME: Final = -1
NEVER_SET: Final = 0
"""Value of a field that the controller leaves unset."""


async def refuse_request(request: Request) -> Reply:
    """Refuse any request about tokens: there is no secret key (``delegation.token.secret.key``)."""
    if request.principal == ANONYMOUS:
        return request.refuse(ErrorCode.delegation_token_request_not_allowed)
    return request.refuse(ErrorCode.delegation_token_auth_disabled)


def answer_without_expiry(request: Request, error: ErrorCode) -> Reply:
    """The error at the top, and no expiry timestamp."""
    return request.answer(error_code=error, expiry_timestamp=timestamps_of(request.principal))


def timestamps_of(principal: str) -> int:
    """The timestamp in an error answer: -1 for an anonymous client, else 0."""
    return NO_TIME if principal == ANONYMOUS else NEVER_SET

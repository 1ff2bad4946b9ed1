"""CreateDelegationToken (key 38): a token to authenticate with (KIP-48).

Versions: 2 is flexible, 3 an owner other than the requester. An anonymous client may not ask. Any
other one gets the error that tokens are disabled: the broker has no
``delegation.token.secret.key``. Kafka's counterpart: KafkaApis.handleCreateTokenRequest.
"""

from __future__ import annotations

from typing import Final

from txnsim.api._identities.delegation_tokens import refuse_request, timestamps_of
from txnsim.api.request import Reply, Request
from txnsim.errors import ErrorCode
from txnsim.security.principals import ANONYMOUS

API_KEY: Final = 38

USER: Final = "User"


async def handle(request: Request) -> Reply:
    if _is_half_an_owner(request):
        return _answer(request, ErrorCode.unknown_server_error, principal=ANONYMOUS)
    return await refuse_request(request)


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error at the top, with the owner and requester of the token."""
    if _is_half_an_owner(request):
        return _answer(request, error, principal=ANONYMOUS)
    owner_name = getattr(request.message, "owner_principal_name", None)
    owner_type = request.message.owner_principal_type if owner_name else USER
    return _answer(
        request,
        error,
        principal=request.principal,
        type_and_name=(owner_type, owner_name) if owner_name else None,
    )


def _is_half_an_owner(request: Request) -> bool:
    """Whether an owner has a name without a type: a real broker then fails the request for every
    client.
    """
    message = request.message
    return bool(
        getattr(message, "owner_principal_name", None)
        and getattr(message, "owner_principal_type", None) is None
    )


def _answer(
    request: Request,
    error: ErrorCode,
    *,
    principal: str,
    type_and_name: tuple[str, str] | None = None,
) -> Reply:
    requester = principal.removeprefix(f"{USER}:")
    timestamp = timestamps_of(principal)
    owner_type, owner_name = type_and_name or (USER, requester)
    return request.answer(
        error_code=error,
        principal_type=owner_type,
        principal_name=owner_name,
        token_requester_principal_type=USER,
        token_requester_principal_name=requester,
        issue_timestamp=timestamp,
        expiry_timestamp=timestamp,
        max_timestamp=timestamp,
        token_id="",
        hmac=b"",
    )

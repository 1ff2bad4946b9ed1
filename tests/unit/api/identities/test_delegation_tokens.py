"""Delegation tokens: who may ask for one, and what is said of its time."""

from __future__ import annotations

import pytest

from tests.support.handlers import Api, read_back
from txnsim.api.identities.delegation_tokens import NEVER_SET, NO_TIME, ask, time_of
from txnsim.errors import ErrorCode

CLIENTS = [
    ("User:ANONYMOUS", ErrorCode.delegation_token_request_not_allowed, NO_TIME),
    ("User:alice", ErrorCode.delegation_token_auth_disabled, NEVER_SET),
]


@pytest.mark.parametrize(("principal", "error", "time"), CLIENTS)
async def test_every_client_is_refused_for_a_reason_of_its_own(
    api: Api, principal: str, error: ErrorCode, time: int
) -> None:
    request = api.request("ExpireDelegationToken", 2, hmac=b"x", expiry_time_period=-1)
    request.principal = principal
    assert read_back(request, await ask(request)).error_code is error
    assert time_of(principal) == time

"""DescribeDelegationToken: a client without authentication gets no token."""

from __future__ import annotations

import pytest

from tests.support.handlers import Api, read_back
from txnsim.api.registry import HANDLERS
from txnsim.errors import ErrorCode


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_an_unauthenticated_connection_has_no_tokens(api: Api, version: int) -> None:
    answer = await api.ask("DescribeDelegationToken", version, owners=None)
    assert answer.error_code is ErrorCode.delegation_token_request_not_allowed


async def test_to_who_is_known_tokens_are_disabled(api: Api) -> None:
    request = api.request("DescribeDelegationToken", 2)
    request.principal = "User:alice"
    answer = read_back(request, await HANDLERS[request.api_key].handle(request))
    assert answer.error_code is ErrorCode.delegation_token_auth_disabled

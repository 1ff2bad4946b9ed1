"""ExpireDelegationToken: nobody is authenticated, so nobody is given tokens."""

from __future__ import annotations

import pytest

from sim.errors import ErrorCode
from tests.support.handlers import Api


@pytest.mark.parametrize("version", [1, 2])
async def test_an_unauthenticated_connection_has_no_tokens(api: Api, version: int) -> None:
    answer = await api.ask("ExpireDelegationToken", version, hmac=b"x", expiry_time_period=-1)
    assert answer.error_code is ErrorCode.delegation_token_request_not_allowed

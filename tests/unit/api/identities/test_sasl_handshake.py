"""SaslHandshake after authentication, or where there is none to do."""

from __future__ import annotations

from tests.support.handlers import Api
from txnsim.errors import ErrorCode


async def test_it_does_not_belong_here(api: Api) -> None:
    answer = await api.ask("SaslHandshake", 1)
    assert answer.error_code is ErrorCode.illegal_sasl_state


async def test_it_is_refused_with_any_error(api: Api) -> None:
    answer = api.refuse("SaslHandshake", 1, ErrorCode.unknown_server_error)
    assert answer.error_code is ErrorCode.unknown_server_error

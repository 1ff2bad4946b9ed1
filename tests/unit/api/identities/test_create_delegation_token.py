"""CreateDelegationToken: a client without authentication gets no token."""

from __future__ import annotations

import pytest

from tests.support.handlers import Api, read_back
from txnsim.api.registry import HANDLERS
from txnsim.errors import ErrorCode


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_an_unauthenticated_connection_has_no_tokens(api: Api, version: int) -> None:
    answer = await api.ask("CreateDelegationToken", version, renewers=[], max_lifetime=-1)
    assert answer.error_code is ErrorCode.delegation_token_request_not_allowed


async def test_the_answer_names_whose_token_it_would_have_been(api: Api) -> None:
    values = {"renewers": [], "max_lifetime": -1}
    owner = {"owner_principal_type": "User", "owner_principal_name": "alice"}
    answer = await api.ask("CreateDelegationToken", 3, **values, **owner)
    assert (answer.principal_type, answer.principal_name) == ("User", "alice")
    assert answer.token_requester_principal_name == "ANONYMOUS"
    nobody = await api.ask("CreateDelegationToken", 3, **values)
    assert (nobody.principal_type, nobody.principal_name) == ("User", "ANONYMOUS")


@pytest.mark.parametrize("principal", ["User:ANONYMOUS", "User:alice"])
async def test_a_name_without_a_type_is_an_unknown_error_as_on_a_real_broker(
    api: Api, principal: str
) -> None:
    owner = {"owner_principal_type": None, "owner_principal_name": "bob"}
    request = api.request("CreateDelegationToken", 3, renewers=[], max_lifetime=-1, **owner)
    request.principal = principal
    answer = read_back(request, await HANDLERS[request.api_key].handle(request))
    assert answer.error_code is ErrorCode.unknown_server_error
    assert (answer.principal_type, answer.principal_name) == ("User", "ANONYMOUS")
    refusal = HANDLERS[request.api_key].refuse(request, ErrorCode.illegal_sasl_state)
    assert read_back(request, refusal).error_code is ErrorCode.illegal_sasl_state


async def test_without_an_owner_the_client_owns_the_token(api: Api) -> None:
    owner = {"owner_principal_type": None, "owner_principal_name": None}
    answer = await api.ask("CreateDelegationToken", 3, renewers=[], max_lifetime=-1, **owner)
    assert (answer.principal_type, answer.principal_name) == ("User", "ANONYMOUS")


async def test_to_who_is_known_tokens_are_disabled(api: Api) -> None:
    request = api.request("CreateDelegationToken", 2)
    request.principal = "User:alice"
    answer = read_back(request, await HANDLERS[request.api_key].handle(request))
    assert answer.error_code is ErrorCode.delegation_token_auth_disabled

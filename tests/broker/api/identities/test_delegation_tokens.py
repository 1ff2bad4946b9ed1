"""Delegation tokens: who may ask for one, and what each API answers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.handlers import Api, read_back
from txnsim.api.registry import HANDLERS
from txnsim.errors import ErrorCode

REQUESTS: list[tuple[str, int, dict[str, Any]]] = [
    *(("CreateDelegationToken", one, {"renewers": [], "max_lifetime": -1}) for one in (1, 2, 3)),
    *(("RenewDelegationToken", one, {"hmac": b"x", "renew_period": -1}) for one in (1, 2)),
    *(("ExpireDelegationToken", one, {"hmac": b"x", "expiry_time_period": -1}) for one in (1, 2)),
    *(("DescribeDelegationToken", one, {"owners": None}) for one in (1, 2, 3)),
]


async def answer_to(api: Api, principal: str, name: str, version: int, **values: Any) -> Any:
    request = api.request(name, version, **values)
    request.principal = principal
    return read_back(request, await HANDLERS[request.api_key].handle(request))


@pytest.mark.parametrize(("name", "version", "values"), REQUESTS)
async def test_an_unauthenticated_connection_may_not_ask_and_to_others_tokens_are_disabled(
    api: Api, name: str, version: int, values: dict[str, Any]
) -> None:
    answer = await answer_to(api, "User:ANONYMOUS", name, version, **values)
    assert answer.error_code is ErrorCode.delegation_token_request_not_allowed
    answer = await answer_to(api, "User:alice", name, version, **values)
    assert answer.error_code is ErrorCode.delegation_token_auth_disabled
    if hasattr(answer, "expiry_timestamp"):
        assert answer.expiry_timestamp.timestamp() == 0


@pytest.mark.parametrize("name", ["alice", None])
async def test_the_answer_names_whose_token_it_would_have_been(api: Api, name: str | None) -> None:
    owner = {"owner_principal_type": name and "User", "owner_principal_name": name}
    answer = await api.ask("CreateDelegationToken", 3, renewers=[], max_lifetime=-1, **owner)
    assert (answer.principal_type, answer.principal_name) == ("User", name or "ANONYMOUS")
    assert answer.token_requester_principal_name == "ANONYMOUS"


@pytest.mark.parametrize("principal", ["User:ANONYMOUS", "User:alice"])
async def test_a_name_without_a_type_is_an_unknown_error_as_on_a_real_broker(
    api: Api, principal: str
) -> None:
    owner = {"owner_principal_type": None, "owner_principal_name": "bob"}
    asked = {"renewers": [], "max_lifetime": -1, **owner}
    answer = await answer_to(api, principal, "CreateDelegationToken", 3, **asked)
    assert answer.error_code is ErrorCode.unknown_server_error
    assert (answer.principal_type, answer.principal_name) == ("User", "ANONYMOUS")
    request = api.request("CreateDelegationToken", 3, **asked)
    refusal = HANDLERS[request.api_key].refuse(request, ErrorCode.illegal_sasl_state)
    assert read_back(request, refusal).error_code is ErrorCode.illegal_sasl_state

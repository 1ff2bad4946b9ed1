"""CreateAcls: each binding by itself, once."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.handlers import Api
from tests.support.security import GuardedApi
from txnsim.controller.controller import RECORDS_MAX
from txnsim.errors import ErrorCode

RULE: dict[str, Any] = {
    "resource_type": 2,
    "resource_name": "orders",
    "resource_pattern_type": 3,
    "principal": "User:bob",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}


async def test_good_ones_are_added_and_bad_ones_refused(api: Api) -> None:
    boss = GuardedApi(api, super_users=frozenset({"User:alice"}))
    bad = {**RULE, "resource_type": 4}
    answer = await boss.ask("CreateAcls", 3, creations=[RULE, bad, RULE])
    assert [one.error_code for one in answer.results] == [
        ErrorCode.none,
        ErrorCode.invalid_request,
        ErrorCode.none,
    ]
    offset = api.broker.image.offset
    assert api.broker.image.acls.count == 1
    await boss.ask("CreateAcls", 3, creations=[RULE])
    assert api.broker.image.offset == offset  # it was there already


async def test_what_only_a_filter_may_be_fails_the_whole_request(api: Api) -> None:
    boss = GuardedApi(api, super_users=frozenset({"User:alice"}))
    answer = await boss.ask("CreateAcls", 3, creations=[RULE, {**RULE, "operation": 1}])
    assert {one.error_code for one in answer.results} == {ErrorCode.unknown_server_error}
    assert not api.broker.image.acls.count


@pytest.mark.slow
async def test_more_new_ones_than_a_request_may_make_are_all_refused(api: Api) -> None:
    boss = GuardedApi(api, super_users=frozenset({"User:alice"}))
    many = [{**RULE, "resource_name": f"t-{number}"} for number in range(RECORDS_MAX + 1)]
    bad = {**RULE, "resource_type": 4}
    answer = await boss.ask("CreateAcls", 3, creations=[bad, *many])
    assert answer.results[0].error_code is ErrorCode.invalid_request
    assert {one.error_code for one in answer.results[1:]} == {ErrorCode.policy_violation}
    assert not list(api.broker.image.acls.all())
    answer = await boss.ask("CreateAcls", 3, creations=[*many[1:], many[1]])
    assert {one.error_code for one in answer.results} == {ErrorCode.none}
    assert api.broker.image.acls.count == RECORDS_MAX


async def test_without_an_authorizer_security_is_disabled(api: Api) -> None:
    answer = await api.ask("CreateAcls", 1, creations=[RULE])
    assert [one.error_code for one in answer.results] == [ErrorCode.security_disabled]

"""DeleteAcls: what any of the filters takes is gone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.support.handlers import Api
from tests.support.security import GuardedApi, acl
from txnsim.api._identities import delete_acls
from txnsim.api._identities.delete_acls import TOO_MANY
from txnsim.errors import ErrorCode
from txnsim.security.acls import Operation, ResourceType

ALL_OF_TOPICS: dict[str, Any] = {
    "resource_type_filter": 2,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}


async def test_each_filter_is_answered_with_what_it_removed(api: Api) -> None:
    boss = GuardedApi(api, super_users=frozenset({"User:alice"}))
    boss.grant(
        acl(ResourceType.TOPIC, "orders", Operation.READ),
        acl(ResourceType.GROUP, "g", Operation.READ),
    )
    bad = {**ALL_OF_TOPICS, "resource_type_filter": 99}
    answer = await boss.ask("DeleteAcls", 3, filters=[ALL_OF_TOPICS, bad, ALL_OF_TOPICS])
    assert [one.error_code for one in answer.filter_results] == [
        ErrorCode.none,
        ErrorCode.invalid_request,
        ErrorCode.none,
    ]
    removed = [[rule.resource_name for rule in one.matching_acls] for one in answer.filter_results]
    assert removed == [["orders"], [], ["orders"]]
    assert [rule.name for rule in api.broker.image.acls.all()] == ["g"]


@pytest.mark.slow
@pytest.mark.parametrize("bound", ["MATCHES_MAX", "RECORDS_MAX"])
async def test_a_request_that_matches_too_much_removes_nothing(
    api: Api, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    monkeypatch.setattr(delete_acls, bound, 2)
    boss = GuardedApi(api, super_users=frozenset({"User:alice"}))
    boss.grant(
        acl(ResourceType.TOPIC, "orders", Operation.READ),
        acl(ResourceType.TOPIC, "orders", Operation.WRITE),
    )
    bad = {**ALL_OF_TOPICS, "resource_type_filter": 99}
    of_groups = {**ALL_OF_TOPICS, "resource_type_filter": 3}
    # As a real 4.3.1 has it: where as many go as may go, one of these must not be matched again.
    answer = await boss.ask("DeleteAcls", 3, filters=[bad, ALL_OF_TOPICS, of_groups, ALL_OF_TOPICS])
    assert {
        (one.error_code, one.error_message, len(one.matching_acls)) for one in answer.filter_results
    } == {(ErrorCode.invalid_request, TOO_MANY.reason, 0)}
    assert len(answer.filter_results) == 4
    assert api.broker.image.acls.count == 2
    answer = await boss.ask("DeleteAcls", 3, filters=[bad, ALL_OF_TOPICS, of_groups])
    assert [len(one.matching_acls) for one in answer.filter_results] == [0, 2, 0]
    assert not api.broker.image.acls.count


async def test_what_was_granted_between_the_slices_is_removed_as_well(api: Api) -> None:
    boss = GuardedApi(api, super_users=frozenset({"User:alice"}))
    boss.grant(acl(ResourceType.TOPIC, "orders", Operation.READ))
    others = [{**ALL_OF_TOPICS, "resource_name_filter": f"t-{at}"} for at in range(5_000)]
    asking = asyncio.get_running_loop().create_task(
        boss.ask("DeleteAcls", 3, filters=[ALL_OF_TOPICS, *others])
    )
    await asyncio.sleep(0)
    assert not asking.done()
    boss.grant(acl(ResourceType.TOPIC, "payments", Operation.READ))
    first = (await asking).filter_results[0]
    assert sorted(one.resource_name for one in first.matching_acls) == ["orders", "payments"]
    assert not api.broker.image.acls.count


async def test_without_an_authorizer_security_is_disabled(api: Api) -> None:
    answer = await api.ask("DeleteAcls", 1, filters=[ALL_OF_TOPICS])
    assert [one.error_code for one in answer.filter_results] == [ErrorCode.security_disabled]

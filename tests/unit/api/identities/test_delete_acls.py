"""DeleteAcls: what any of the filters takes is gone."""

from __future__ import annotations

from typing import Any

from tests.support.handlers import Api
from tests.support.security import GuardedApi, acl
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


async def test_each_filter_is_told_what_it_has_removed(api: Api) -> None:
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


async def test_without_an_authorizer_security_is_disabled(api: Api) -> None:
    answer = await api.ask("DeleteAcls", 1, filters=[ALL_OF_TOPICS])
    assert [one.error_code for one in answer.filter_results] == [ErrorCode.security_disabled]

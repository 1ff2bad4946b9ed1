"""DescribeAcls: the ACLs that a filter takes."""

from __future__ import annotations

from typing import Any, Final

from tests.support.handlers import Api
from tests.support.security import GuardedApi, acl
from txnsim.errors import ErrorCode
from txnsim.security.acls import Operation, PatternType, ResourceType

EVERYTHING: Final[dict[str, Any]] = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}


async def test_matching_acls_are_answered_by_resource(api: Api) -> None:
    boss = GuardedApi(api, super_users=frozenset({"User:alice"}))
    boss.grant(
        acl(ResourceType.TOPIC, "orders", Operation.READ),
        acl(ResourceType.TOPIC, "orders", Operation.WRITE),
        acl(ResourceType.GROUP, "g", Operation.READ, pattern=PatternType.PREFIXED),
    )
    answer = await boss.ask("DescribeAcls", 3, **EVERYTHING)
    assert answer.error_code is ErrorCode.none
    found = {
        (one.resource_type, one.resource_name, one.pattern_type): one.acls
        for one in answer.resources
    }
    assert {key: len(acls) for key, acls in found.items()} == {(2, "orders", 3): 2, (3, "g", 4): 1}
    (rule,) = found[3, "g", 4]
    assert (rule.principal, rule.host, rule.operation, rule.permission_type) == (
        "User:alice",
        "*",
        3,
        3,
    )
    matching = {**EVERYTHING, "resource_name_filter": "group", "pattern_type_filter": 2}
    answer = await boss.ask("DescribeAcls", 3, **matching)
    assert [one.resource_name for one in answer.resources] == ["g"]


async def test_an_unknown_kind_finds_nothing(api: Api) -> None:
    boss = GuardedApi(api, super_users=frozenset({"User:alice"}))
    boss.grant(acl(ResourceType.TOPIC, "orders", Operation.READ))
    answer = await boss.ask("DescribeAcls", 3, **{**EVERYTHING, "operation": 99})
    assert (answer.error_code, answer.resources) == (ErrorCode.none, ())


async def test_without_an_authorizer_security_is_disabled(api: Api) -> None:
    answer = await api.ask("DescribeAcls", 3, **EVERYTHING)
    assert answer.error_code is ErrorCode.security_disabled
    assert answer.error_message == "No Authorizer is configured on the broker"

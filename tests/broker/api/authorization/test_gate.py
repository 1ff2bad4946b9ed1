"""The gate stands only where there is an authorizer, and asks for the present ACLs."""

from __future__ import annotations

from tests.support.security import GuardedApi, acl
from txnsim.api.authorization import _groups as groups
from txnsim.api.authorization import _topics as topics
from txnsim.api.authorization import _transactions as transactions
from txnsim.api.authorization._parts import PARTS
from txnsim.api.authorization.gate import GUARDS, guarded
from txnsim.api.registry import HANDLERS, SHIPPED
from txnsim.errors import ErrorCode
from txnsim.security.acls import Operation, ResourceType
from txnsim.security.authorizer import Authorizer


def test_what_is_advertised_is_the_same_behind_the_gate() -> None:
    assert guarded(SHIPPED, Authorizer()).advertised == SHIPPED.advertised


def test_every_api_that_is_guarded_is_spoken_and_has_one_guard() -> None:
    assert GUARDS.keys() <= HANDLERS.keys()
    tables = (PARTS, groups.GUARDS, topics.GUARDS, transactions.GUARDS)
    assert len(GUARDS) == sum(map(len, tables))


async def test_rights_are_those_of_this_very_moment(api: GuardedApi) -> None:
    group = acl(ResourceType.GROUP, "g", Operation.READ)
    denied = ErrorCode.group_authorization_failed
    assert (await api.ask("Heartbeat", 3, group_id="g")).error_code is denied
    api.grant(group)
    assert (await api.ask("Heartbeat", 3, group_id="g")).error_code is not denied
    api.revoke_all()
    assert (await api.ask("Heartbeat", 3, group_id="g")).error_code is denied


async def test_a_super_user_passes(api: GuardedApi) -> None:
    boss = GuardedApi(api.api, super_users=frozenset({"User:alice"}))
    answer = await boss.ask("DescribeQuorum", 2)
    assert answer.error_code is not ErrorCode.cluster_authorization_failed


async def test_what_needs_no_right_is_answered(api: GuardedApi) -> None:
    assert (
        await api.ask("ApiVersions", 3)
    ).error_code is not ErrorCode.cluster_authorization_failed

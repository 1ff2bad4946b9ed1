"""Groups that may not be seen are left out; a client learns no topics from groups."""

from __future__ import annotations

from tests.support.security import GuardedApi, acl
from txnsim.errors import ErrorCode
from txnsim.security.acls import Operation, ResourceType

TOPIC, CLUSTER = ResourceType.TOPIC, ResourceType.CLUSTER
ALL_TOPICS = acl(TOPIC, "*", Operation.READ)


async def test_positions_of_a_group_that_is_gone_are_not_deleted_by_topic(api: GuardedApi) -> None:
    api.grant(acl(ResourceType.GROUP, "none", Operation.DELETE), ALL_TOPICS)
    answer = await api.ask(
        "OffsetDelete", 0, group_id="none", topics=[{"name": "orders", "partitions": []}]
    )
    assert answer.error_code is not ErrorCode.none
    assert answer.topics == ()

"""Groups that may not be seen are left out; a client learns no topics from groups."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest

from tests.support.group_api import GROUP
from tests.support.security import GuardedApi, acl
from txnsim.errors import ErrorCode
from txnsim.security.acls import CLUSTER_NAME, Operation, ResourceType

TOPIC, CLUSTER = ResourceType.TOPIC, ResourceType.CLUSTER
DESCRIBE_GROUP = acl(ResourceType.GROUP, GROUP, Operation.DESCRIBE)
READ_GROUP = acl(ResourceType.GROUP, GROUP, Operation.READ)
ALL_TOPICS = acl(TOPIC, "*", Operation.READ)
FORBIDDEN = ErrorCode.topic_authorization_failed
TURNS: Final = 1_000


@pytest.fixture
async def committed(api: GuardedApi) -> GuardedApi:
    """The group has positions of ``orders`` and ``hidden``."""
    await api.api.until(
        lambda answer: answer.error_code is ErrorCode.none,
        "FindCoordinator",
        1,
        key=GROUP,
        key_type=0,
    )
    positions = [
        {"name": name, "partitions": [{"partition_index": 0, "committed_offset": 1}]}
        for name in ("orders", "hidden")
    ]
    await api.api.until(
        lambda answer: answer.topics[0].partitions[0].error_code is ErrorCode.none,
        "OffsetCommit",
        8,
        group_id=GROUP,
        generation_id_or_member_epoch=-1,
        topics=positions,
    )
    return api


async def test_groups_are_listed_with_the_right_to_see_them(committed: GuardedApi) -> None:
    assert (await committed.ask("ListGroups", 3)).groups == ()
    committed.grant(DESCRIBE_GROUP)
    answer = await committed.ask("ListGroups", 3)
    assert [group.group_id for group in answer.groups] == [GROUP]
    committed.revoke_all()
    committed.grant(acl(CLUSTER, CLUSTER_NAME, Operation.DESCRIBE))
    assert (await committed.ask("ListGroups", 3)).groups == answer.groups


@pytest.mark.parametrize(("name", "field"), [("DescribeGroups", "groups")])
async def test_an_answer_says_what_may_be_done_to_a_group(
    committed: GuardedApi, name: str, field: str
) -> None:
    committed.grant(DESCRIBE_GROUP)
    for asked, bits in ((True, 1 << Operation.DESCRIBE), (False, -(2**31))):
        values: dict[str, Any] = {field: [GROUP, "x"], "include_authorized_operations": asked}
        answer = await committed.ask(name, 5, **values)
        found = {group.group_id: group.authorized_operations for group in answer.groups}
        assert found == {GROUP: bits, "x": -(2**31)}


@pytest.mark.parametrize(("version", "grouped"), [(1, False), (5, False), (8, True)])
async def test_positions_need_the_right_to_the_group(
    committed: GuardedApi, *, version: int, grouped: bool
) -> None:
    topics = [{"name": "orders", "partition_indexes": [0]}]
    one = {"group_id": GROUP, "topics": topics}
    values: dict[str, Any] = {"groups": [one]} if grouped else one
    answer = await committed.ask("OffsetFetch", version, **values)
    if version == 1:
        error = answer.topics[0].partitions[0].error_code
    else:
        error = answer.groups[0].error_code if grouped else answer.error_code
    assert error is ErrorCode.group_authorization_failed


async def test_all_positions_are_those_of_topics_that_may_be_seen(committed: GuardedApi) -> None:
    committed.grant(DESCRIBE_GROUP, acl(TOPIC, "orders", Operation.DESCRIBE))
    answer = await committed.ask("OffsetFetch", 5, group_id=GROUP, topics=None)
    assert [topic.name for topic in answer.topics if topic.partitions] == ["orders"]


async def test_positions_of_a_group_that_is_gone_are_not_deleted_by_topic(api: GuardedApi) -> None:
    api.grant(acl(ResourceType.GROUP, "none", Operation.DELETE), ALL_TOPICS)
    answer = await api.ask(
        "OffsetDelete", 0, group_id="none", topics=[{"name": "orders", "partitions": []}]
    )
    assert answer.error_code is not ErrorCode.none
    assert answer.topics == ()


async def test_a_member_may_subscribe_to_what_it_may_see(api: GuardedApi) -> None:
    api.grant(READ_GROUP)
    values = {
        "group_id": GROUP,
        "member_id": "m",
        "member_epoch": 0,
        "subscribed_topic_names": ["orders"],
    }
    answer = await api.ask("ConsumerGroupHeartbeat", 1, **values)
    assert answer.error_code is FORBIDDEN
    api.grant(acl(TOPIC, "orders", Operation.DESCRIBE))
    answer = await api.ask("ConsumerGroupHeartbeat", 1, **values)
    assert answer.error_code is not FORBIDDEN


async def test_a_group_does_not_tell_its_topics(api: GuardedApi) -> None:
    await api.api.until(
        lambda answer: answer.error_code is ErrorCode.none, "FindCoordinator", 1, key=GROUP
    )
    await api.api.until(
        lambda answer: answer.error_code is ErrorCode.none,
        "ConsumerGroupHeartbeat",
        1,
        group_id=GROUP,
        member_id="m",
        member_epoch=0,
        rebalance_timeout=1_000,
        topic_partitions=[],
        subscribed_topic_names=["orders"],
    )
    api.grant(DESCRIBE_GROUP)
    values = {"group_ids": [GROUP], "include_authorized_operations": True}
    (group,) = (await api.ask("ConsumerGroupDescribe", 1, **values)).groups
    assert (group.error_code, group.members) == (FORBIDDEN, ())
    assert "not authorized to describe" in group.error_message
    api.grant(ALL_TOPICS)
    (group,) = (await api.ask("ConsumerGroupDescribe", 1, **values)).groups
    assert (group.error_code, len(group.members)) == (ErrorCode.none, 1)
    assert group.authorized_operations == 1 << Operation.DESCRIBE


async def test_an_expression_stands_for_topics_that_the_member_may_see(api: GuardedApi) -> None:
    # TopicRegexResolver.filterTopicDescribeAuthorizedTopics
    api.grant(READ_GROUP, acl(TOPIC, "orders", Operation.READ))
    await api.api.until(
        lambda answer: answer.error_code is ErrorCode.none, "FindCoordinator", 1, key=GROUP
    )
    values = {"group_id": GROUP, "member_id": "m", "rebalance_timeout": 1_000}
    subscribed = {**values, "topic_partitions": [], "subscribed_topic_regex": ".*"}
    for _ in range(TURNS):
        answer = await api.ask("ConsumerGroupHeartbeat", 1, **subscribed, member_epoch=0)
        if answer.assignment is not None and answer.assignment.topic_partitions:
            break
        await asyncio.sleep(0)
    image = api.api.broker.image
    assigned = [image.topic_names[each.topic_id] for each in answer.assignment.topic_partitions]
    assert assigned == ["orders"]

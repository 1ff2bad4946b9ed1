"""ConsumerGroupDescribe v0 and v1: epochs, members, what they have and are to have."""

from __future__ import annotations

import pytest

from tests.support.group_api import GROUP, GroupApi, group_api
from txnsim.errors import ErrorCode

E = ErrorCode


@pytest.mark.parametrize("version", [0, 1])
async def test_a_stable_group(groups: GroupApi, version: int) -> None:
    await groups.consume("a", instance_id="i", rack_id="r")
    answer = await groups.api.ask(
        "ConsumerGroupDescribe",
        version,
        group_ids=[GROUP],
        include_authorized_operations=True,
    )
    (group,) = answer.groups
    assert (group.error_code, group.group_id, group.group_state) == (E.none, GROUP, "Stable")
    assert (group.group_epoch, group.assignment_epoch) == (2, 2)
    assert (group.assignor_name, group.authorized_operations) == ("uniform", 3400)
    (member,) = group.members
    assert (member.member_id, member.instance_id, member.rack_id) == ("a", "i", "r")
    assert (member.member_epoch, member.client_id) == (2, "test")
    assert member.subscribed_topic_names == ("orders",)
    assert member.subscribed_topic_regex == ""
    for assignment in (member.assignment, member.target_assignment):
        (topic,) = assignment.topic_partitions
        assert (topic.topic_name, topic.partitions) == ("orders", (0, 1, 2))
    if version >= 1:
        assert member.member_type == 1


@pytest.mark.parametrize(
    ("rules", "owned"),
    [({}, (0, 1, 2)), ({"what_is_given_up_is_described": False}, (0, 1))],
)
async def test_a_partition_that_is_not_given_up_yet_is_a_member_s(
    rules: dict[str, bool], owned: tuple[int, ...]
) -> None:
    async with group_api(rules=rules) as groups:
        epoch = (await groups.consume("a")).member_epoch
        await groups.consume("b")
        await groups.consume("a", epoch)
        answer = await groups.api.ask("ConsumerGroupDescribe", 1, group_ids=[GROUP])
    (group,) = answer.groups
    assert group.group_epoch == epoch + 1
    (topic,) = next(m for m in group.members if m.member_id == "a").assignment.topic_partitions
    assert topic.partitions == owned


async def test_deleted_topics_are_left_out(groups: GroupApi) -> None:
    await groups.consume("a")
    await groups.api.ask("DeleteTopics", 1, topic_names=["orders"])
    answer = await groups.api.ask("ConsumerGroupDescribe", 1, group_ids=[GROUP])
    assert answer.groups[0].members[0].assignment.topic_partitions == ()


async def test_what_is_no_consumer_group(groups: GroupApi) -> None:
    await groups.stable()
    answer = await groups.api.ask("ConsumerGroupDescribe", 1, group_ids=[GROUP, "missing", ""])
    assert [(each.group_id, each.error_code) for each in answer.groups] == [
        (GROUP, E.group_id_not_found),
        ("missing", E.group_id_not_found),
        ("", E.invalid_group_id),
    ]

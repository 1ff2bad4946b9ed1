"""Handlers of groups and their positions, and what those of positions have in common."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.consumer_groups import image, topic_id
from tests.support.group_api import (
    ASSIGNMENT,
    GROUP,
    SUBSCRIPTION,
    ClassicMember,
    GroupApi,
    group_api,
)
from tests.support.slow_machine import SLOW_S
from txnsim.api._groups.committed_positions import (
    NamedTopic,
    errors_of,
    find_topic,
    named_topic,
    same_error_for_all,
    split,
)
from txnsim.api._groups.describe_groups import group_operations
from txnsim.api.registry import shipped_apis
from txnsim.errors import ErrorCode, Rejection
from txnsim.metadata.image import TopicImage
from txnsim.releases import RELEASES
from txnsim.types import CoordinatorEpoch, TopicPartition

# Topics in, errors by topic out: what OffsetCommit and TxnOffsetCommit have in common.


E = ErrorCode
UNKNOWN = E.unknown_topic_or_partition
IMAGE = image(orders=2)


def position(partition_index: int) -> SimpleNamespace:
    return SimpleNamespace(
        partition_index=partition_index, committed_offset=7, committed_metadata="m"
    )


def topic(name: str, *partition_indexes: int) -> SimpleNamespace:
    return SimpleNamespace(
        name=name, partitions=[position(partition_index) for partition_index in partition_indexes]
    )


def test_a_topic_is_found_as_it_was_named() -> None:
    topic_by_id = NamedTopic(name="", topic_id=topic_id("orders"), is_by_id=True)
    topic = find_topic(IMAGE, topic_by_id)
    assert isinstance(topic, TopicImage)
    assert topic.name == "orders"
    for unknown_id in (uuid.UUID(int=1), None):
        named_topic = NamedTopic(name="", topic_id=unknown_id, is_by_id=True)
        assert find_topic(IMAGE, named_topic) is E.unknown_topic_id
    unknown_error = E.unknown_topic_or_partition
    assert (
        find_topic(IMAGE, NamedTopic(name="missing", topic_id=None, is_by_id=False))
        is unknown_error
    )
    assert find_topic(IMAGE, NamedTopic(name="", topic_id=None, is_by_id=False)) is unknown_error


def test_what_exists_goes_to_the_coordinator_with_its_id_and_no_epoch_before_v6() -> None:
    positions_request = split(IMAGE, [topic("orders", 0, 5), topic("missing", 1)])
    assert positions_request.refused == {
        named_topic(topic("orders")): [(5, UNKNOWN)],
        named_topic(topic("missing")): [(1, UNKNOWN)],
    }
    (position,) = positions_request.positions
    assert (position.topic_partition, position.offset) == (TopicPartition("orders", 0), 7)
    assert (position.leader_epoch, position.metadata, position.topic_id) == (
        -1,
        "m",
        topic_id("orders"),
    )


def test_errors_of_the_coordinator_follow_those_of_what_is_not_there() -> None:
    topics = [topic("orders", 0), topic("missing", 3), topic("orders", 5, 1, 0)]
    positions_request = split(IMAGE, topics)
    assert positions_request.results([E.none, E.stale_member_epoch, E.none]) == [
        (named_topic(topic("missing")), [(3, UNKNOWN)]),
        (
            named_topic(topic("orders")),
            [(5, UNKNOWN), (0, E.none), (1, E.stale_member_epoch), (0, E.none)],
        ),
    ]
    assert positions_request.refused[named_topic(topic("orders"))] == [(5, UNKNOWN)]
    assert same_error_for_all(topics[2:], E.not_coordinator) == [
        (named_topic(topic("orders")), [(index, E.not_coordinator) for index in (5, 1, 0)])
    ]


def test_a_topic_that_is_named_twice_is_answered_twice_where_all_of_it_exists() -> None:
    positions_request = split(IMAGE, [topic("orders", 0), topic("orders"), topic("orders", 1, 1)])
    outcome = tuple((position.topic_partition, E.none) for position in positions_request.positions)
    assert positions_request.results(errors_of(outcome)) == [
        (named_topic(topic("orders")), [(0, E.none)]),
        (named_topic(topic("orders")), [(1, E.none), (1, E.none)]),
    ]


def test_what_the_coordinator_refuses_it_refuses_for_what_exists() -> None:
    positions_request = split(IMAGE, [topic("orders", 0, 5, 1)])
    rejection = Rejection(error=E.unknown_member_id, reason="nobody")
    assert positions_request.results(errors_of(rejection)) == [
        (
            named_topic(topic("orders")),
            [(5, UNKNOWN), (0, E.unknown_member_id), (1, E.unknown_member_id)],
        )
    ]


# ``offset_fetch``: OffsetFetch v1 to v10: several groups, refusals; the casebook has its answers.


def values(groups: GroupApi, *indexes: int, **request_fields: Any) -> dict[str, Any]:
    """Values of an OffsetFetch request, in the shapes of old and of new versions."""
    topic = {"name": "orders", "partition_indexes": indexes or (0,)}
    group = {
        "group_id": GROUP,
        "topics": [{**topic, "topic_id": groups.api.topic_id("orders")}],
        "member_id": None,
        "member_epoch": -1,
        **request_fields,
    }
    return {"require_stable": False, "groups": [group], "group_id": GROUP, "topics": [topic]}


def only(answer: Any) -> Any:
    """The only group of an OffsetFetch answer of any version."""
    groups = getattr(answer, "groups", None)
    return answer if groups is None else groups[0]


async def test_several_groups_each_with_its_error(groups: GroupApi) -> None:
    await groups.commit(5)
    await groups.consume("a", group_id="new")
    base = values(groups)["groups"][0]
    group_requests = [base, {**base, "group_id": "new", "member_id": "b", "member_epoch": 1}]
    answer = await groups.api.ask("OffsetFetch", 9, groups=group_requests, require_stable=False)
    assert [group.error_code for group in answer.groups] == [E.none, E.unknown_member_id]


@pytest.mark.parametrize(
    ("rules", "repeat_count"), [({}, 2), ({"positions_are_told_as_asked": False}, 1)]
)
async def test_a_partition_that_is_named_twice(rules: dict[str, bool], repeat_count: int) -> None:
    async with group_api(rules=rules) as groups:
        answer = await groups.api.ask("OffsetFetch", 9, **values(groups, 0, 0))
    assert len(answer.groups[0].topics[0].partitions) == repeat_count


@pytest.mark.parametrize(
    ("rules", "error"),
    [
        ({}, E.unknown_server_error),
        ({"large_positions_are_server_errors": False}, E.invalid_commit_offset_size),
    ],
)
async def test_a_position_that_does_not_fit(rules: dict[str, bool], error: ErrorCode) -> None:
    small_message_config = {"name": "max.message.bytes", "config_operation": 0, "value": "100"}
    topic = {
        "resource_type": 2,
        "resource_name": "__consumer_offsets",
        "configs": [small_message_config],
    }
    async with group_api(rules=rules) as groups:
        await groups.commit(5)
        await groups.api.ask("IncrementalAlterConfigs", 1, resources=[topic])
        answer = await groups.commit(6)
    assert answer.topics[0].partitions[0].error_code is error


async def test_a_deleted_topic_has_no_id(groups: GroupApi) -> None:
    await groups.commit(5)
    await groups.api.ask("DeleteTopics", 1, topic_names=["orders"])
    answer = await groups.api.ask(
        "OffsetFetch",
        10,
        groups=[{"group_id": GROUP, "topics": None, "member_id": None, "member_epoch": -1}],
    )
    assert answer.groups[0].topics == ()


@pytest.mark.parametrize("version", [1, 2, 7, 8])
async def test_errors_of_the_group(groups: GroupApi, version: int) -> None:
    for partition in range(3):
        groups.api.broker.groups.unload(partition)
    answer = only(await groups.api.ask("OffsetFetch", version, **values(groups)))
    if version == 1:
        assert answer.topics[0].partitions[0].error_code is E.not_coordinator
    else:
        assert (answer.error_code, answer.topics) == (E.not_coordinator, ())
    refusal_answer = groups.api.refuse("OffsetFetch", version, E.not_coordinator, **values(groups))
    assert type(only(refusal_answer)) is type(answer)


# ``consumer_group_describe``: ConsumerGroupDescribe v0 and v1: epochs, members, what they have and
# are to have.


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
    ("rules", "owned_partitions"),
    [({}, (0, 1, 2)), ({"what_is_given_up_is_described": False}, (0, 1))],
)
async def test_a_partition_that_is_not_given_up_yet_is_a_member_s(
    rules: dict[str, bool], owned_partitions: tuple[int, ...]
) -> None:
    async with group_api(rules=rules) as groups:
        epoch = (await groups.consume("a")).member_epoch
        await groups.consume("b")
        await groups.consume("a", epoch)
        answer = await groups.api.ask("ConsumerGroupDescribe", 1, group_ids=[GROUP])
    (group,) = answer.groups
    assert group.group_epoch == epoch + 1
    (topic,) = next(m for m in group.members if m.member_id == "a").assignment.topic_partitions
    assert topic.partitions == owned_partitions


async def test_deleted_topics_are_left_out(groups: GroupApi) -> None:
    await groups.consume("a")
    await groups.api.ask("DeleteTopics", 1, topic_names=["orders"])
    answer = await groups.api.ask("ConsumerGroupDescribe", 1, group_ids=[GROUP])
    assert answer.groups[0].members[0].assignment.topic_partitions == ()


async def test_what_is_no_consumer_group(groups: GroupApi) -> None:
    await groups.stable()
    answer = await groups.api.ask("ConsumerGroupDescribe", 1, group_ids=[GROUP, "missing", ""])
    assert [(group.group_id, group.error_code) for group in answer.groups] == [
        (GROUP, E.group_id_not_found),
        ("missing", E.group_id_not_found),
        ("", E.invalid_group_id),
    ]


# ``consumer_group_heartbeat``: ConsumerGroupHeartbeat v0 and v1: who has the protocol; the casebook
# has its answers.


def partitions_assigned(answer: Any) -> list[tuple[int, ...]]:
    return [topic_partition.partitions for topic_partition in answer.assignment.topic_partitions]


async def test_a_regular_expression_is_looked_up_after_the_answer(groups: GroupApi) -> None:
    regex: dict[str, Any] = {"subscribed_topic_names": None, "subscribed_topic_regex": "ord.*"}
    first_answer = await groups.consume("a", **regex)
    assert (first_answer.error_code, partitions_assigned(first_answer)) == (E.none, [])
    for _ in range(100):
        answer = await groups.consume("a", first_answer.member_epoch)
        if answer.assignment is not None:
            break
        await asyncio.sleep(0)
    assert partitions_assigned(answer) == [(0, 1, 2)]


async def test_without_its_feature_there_is_no_consumer_protocol(groups: GroupApi) -> None:
    update = {"feature": "group.version", "max_version_level": 0, "upgrade_type": 2}
    lowered = await groups.api.ask("UpdateFeatures", 1, feature_updates=[update])
    assert lowered.error_code is E.none
    answer = await groups.consume("a")
    assert answer.error_code is E.unsupported_version
    description = await groups.api.ask("ConsumerGroupDescribe", 1, group_ids=[GROUP])
    assert description.groups[0].error_code is E.unsupported_version


@pytest.mark.parametrize("release", ["3.9", "4.0"])
async def test_which_releases_have_the_consumer_protocol(release: str) -> None:
    async with group_api(as_version=(release,)) as groups:
        answer = await groups.consume("a", version=0)
        has_protocol = release != "3.9"
        assert answer.error_code is (E.none if has_protocol else E.unsupported_version)


# DescribeGroups v0 to v6: a stable group, elsewhere, by release; the casebook has the rest.


@pytest.mark.parametrize("version", range(7))
async def test_describe_groups_a_stable_group(groups: GroupApi, version: int) -> None:
    member = await groups.stable()
    answer = await groups.api.ask(
        "DescribeGroups", version, groups=[GROUP], include_authorized_operations=True
    )
    (group,) = answer.groups
    assert (group.error_code, group.group_id, group.group_state) == (E.none, GROUP, "Stable")
    assert (group.protocol_type, group.protocol_data) == ("consumer", "range")
    (member_description,) = group.members
    assert (member_description.member_id, member_description.client_id) == (member.id, "test")
    assert (member_description.member_metadata, member_description.member_assignment) == (
        SUBSCRIPTION,
        ASSIGNMENT,
    )
    if version >= 3:
        assert group.authorized_operations == 3400
    if version >= 4:
        assert member_description.group_instance_id is None


async def test_groups_elsewhere(groups: GroupApi) -> None:
    for partition in range(3):
        groups.api.broker.groups.unload(partition)
    answer = await groups.api.ask(
        "DescribeGroups", 5, groups=[GROUP], include_authorized_operations=False
    )
    assert answer.groups[0].error_code is E.not_coordinator


async def test_groups_without_configs_had_fewer_operations(groups: GroupApi) -> None:
    request = groups.api.request("DescribeGroups", 5)
    assert group_operations(request) == 3400
    request.apis = shipped_apis(RELEASES["3.9"])
    assert group_operations(request) == 328


# ``list_groups``: ListGroups v0 to v5: the groups of a broker, by state and type.


@pytest.mark.parametrize(
    ("states", "types", "expected"),
    [
        ((), (), {"g", "new", "simple"}),
        (("stable",), (), {"g", "new"}),
        (("EMPTY", "Dead"), (), {"simple"}),
        ((), ("Consumer",), {"new"}),
        (("Stable",), ("classic",), {"g"}),
        (("nonsense",), (), set()),
    ],
)
async def test_filters(
    groups: GroupApi, states: Sequence[str], types: Sequence[str], expected: set[str]
) -> None:
    await groups.stable()
    await groups.consume("a", group_id="new")
    await groups.commit(1, group_id="simple")
    answer = await groups.api.ask("ListGroups", 5, states_filter=states, types_filter=types)
    assert {group.group_id for group in answer.groups} == expected


async def test_a_coordinator_that_loads(groups: GroupApi) -> None:
    groups.api.broker.groups.begin_load(0, CoordinatorEpoch(7))
    answer = await groups.api.ask("ListGroups", 5)
    assert answer.error_code is E.coordinator_load_in_progress


# ``delete_groups``: DeleteGroups v0 to v2: groups without members, and their positions.


@pytest.mark.parametrize("version", range(3))
async def test_every_version(groups: GroupApi, version: int) -> None:
    await groups.commit(5)
    await groups.stable_elsewhere()
    answer = await groups.api.ask(
        "DeleteGroups", version, groups_names=[GROUP, "busy", "missing", GROUP]
    )
    assert {result.group_id: result.error_code for result in answer.results} == {
        GROUP: E.none,
        "busy": E.non_empty_group,
        "missing": E.group_id_not_found,
    }
    assert await groups.committed_offset() == (-1, E.none)


async def test_delete_groups_groups_elsewhere(groups: GroupApi) -> None:
    for partition in range(3):
        groups.api.broker.groups.unload(partition)
    answer = await groups.api.ask("DeleteGroups", 2, groups_names=[GROUP])
    assert answer.results[0].error_code is E.not_coordinator


# ``offset_delete``: OffsetDelete v0: refusals of the whole; the casebook has its answers.


def values_of_offset_delete(
    *partition_indexes: int, name: str = "orders", group_id: str = GROUP
) -> dict[str, Any]:
    partitions = [{"partition_index": partition_index} for partition_index in partition_indexes]
    return {"group_id": group_id, "topics": [{"name": name, "partitions": partitions}]}


async def test_refusals_of_the_whole(groups: GroupApi) -> None:
    missing = await groups.api.ask(
        "OffsetDelete", 0, **values_of_offset_delete(0, group_id="missing")
    )
    assert (missing.error_code, missing.topics) == (E.group_id_not_found, ())
    nameless = await groups.api.ask("OffsetDelete", 0, **values_of_offset_delete(0, group_id=""))
    assert nameless.error_code is E.invalid_group_id
    join_reply = await groups.join(protocol_type="connect")
    assert join_reply.error_code is E.none
    busy_answer = await groups.api.ask("OffsetDelete", 0, **values_of_offset_delete(0))
    assert (busy_answer.error_code, busy_answer.topics) == (E.non_empty_group, ())


# ``sync_group``: SyncGroup v0 to v5: a request that is never answered; the casebook has the
# answers.


async def test_a_second_sync_of_a_member_lets_the_first_one_wait_for_ever(
    groups: GroupApi,
) -> None:
    leader = await groups.stable()
    join_task = groups.later(groups.join())
    await groups.wait_for_state("PreparingRebalance")
    await groups.join(leader.id)
    member = ClassicMember(id=(await join_task).member_id, generation=2)
    waits_task = groups.later(groups.sync(member))
    await asyncio.sleep(0)
    second_sync_task = groups.later(groups.sync(member))
    await asyncio.sleep(0)
    await groups.sync(ClassicMember(id=leader.id, generation=2), {member.id: b"yours"})
    assert (await second_sync_task).assignment == b"yours"
    assert (await waits_task).name == "NEVER"


# ``join_group``: JoinGroup v0 to v9: a request that is never answered; the casebook has the
# answers.


async def test_a_second_join_of_a_member_lets_the_first_one_wait_for_ever(
    groups: GroupApi,
) -> None:
    member = await groups.stable()
    # Pending: the rebalance can't complete without this member.
    pending_member = await groups.join(version=4)
    waits_task = groups.later(groups.join(member.id))
    await groups.wait_for_state("PreparingRebalance")
    second_join_task = groups.later(groups.join(member.id))
    await asyncio.wait_for(groups.join(pending_member.member_id), timeout=SLOW_S)
    assert (await second_join_task).generation_id == 2
    assert (await waits_task).name == "NEVER"

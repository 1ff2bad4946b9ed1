"""Share groups through the handlers: members, descriptions, offsets, by level and release."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.broker_api import Api
from tests.support.group_api import GROUP, GroupApi, group_api
from txnsim.errors import ErrorCode
from txnsim.faults.subjects import Subject
from txnsim.interbroker.share_state import ShareKey
from txnsim.types import TopicPartition, uuid_text

E = ErrorCode
NOT_SHARE = f"Group {GROUP} is not a share group."


async def await_coordinators(api: Api) -> None:
    """Wait until the group's share partitions have their coordinators."""
    text = uuid_text(api.topic_id("orders"))
    await api.until(
        lambda answer: all(coordinator.error_code is E.none for coordinator in answer.coordinators),
        "FindCoordinator",
        6,
        key_type=2,
        coordinator_keys=[
            ShareKey(GROUP, text, partition).coordinator_key for partition in range(3)
        ],
    )


async def send_heartbeat(
    api: Api, member_id: str, epoch: int = 0, *topics: str, **request_fields: Any
) -> Any:
    names = topics or (("orders",) if epoch == 0 else None)
    values = {
        "group_id": GROUP,
        "member_id": member_id,
        "member_epoch": epoch,
        "rack_id": None,
        "subscribed_topic_names": names,
    }
    return await api.ask("ShareGroupHeartbeat", 1, **{**values, **request_fields})


async def join_until_assigned(api: Api, member_id: str) -> Any:
    """A member that has all partitions of ``orders``; its last answer."""
    await await_coordinators(api)
    epoch = (await send_heartbeat(api, member_id)).member_epoch
    return await api.until(
        lambda answer: answer.assignment is not None and answer.assignment.topic_partitions,
        "ShareGroupHeartbeat",
        1,
        group_id=GROUP,
        member_id=member_id,
        member_epoch=epoch,
        rack_id=None,
        subscribed_topic_names=("orders",),
    )


async def make_empty_group(api: Api) -> None:
    """A group whose topic is initialised, without members."""
    await join_until_assigned(api, "a")
    await send_heartbeat(api, "a", -1)


async def describe(api: Api, *group_ids: str) -> Any:
    answer = await api.ask(
        "ShareGroupDescribe", 1, group_ids=group_ids, include_authorized_operations=True
    )
    return answer.groups


async def offsets(api: Api, topics: Any = None, *, version: int = 1, group_id: str = GROUP) -> Any:
    answer = await api.ask(
        "DescribeShareGroupOffsets", version, groups=[{"group_id": group_id, "topics": topics}]
    )
    return answer.groups[0]


async def alter(api: Api, *topics: tuple[str, dict[int, int]], group_id: str = GROUP) -> Any:
    return await api.ask(
        "AlterShareGroupOffsets",
        0,
        group_id=group_id,
        topics=[
            {
                "topic_name": topic_name,
                "partitions": [
                    {"partition_index": partition_index, "start_offset": offset}
                    for partition_index, offset in offset_by_partition.items()
                ],
            }
            for topic_name, offset_by_partition in topics
        ],
    )


async def delete(api: Api, *topic_names: str, group_id: str = GROUP) -> Any:
    topics = [{"topic_name": topic_name} for topic_name in topic_names]
    return await api.ask("DeleteShareGroupOffsets", 0, group_id=group_id, topics=topics)


# ``share_group_heartbeat``: members


async def test_members_share_partitions(groups: GroupApi) -> None:
    api = groups.api
    heartbeat = await join_until_assigned(api, "a")
    (topic,) = heartbeat.assignment.topic_partitions
    assert (topic.topic_id, topic.partitions) == (api.topic_id("orders"), (0, 1, 2))
    (group,) = await describe(api, GROUP)
    assert (group.error_code, group.group_state, group.assignor_name) == (
        E.none,
        "Stable",
        "simple",
    )
    assert group.group_epoch == group.assignment_epoch == heartbeat.member_epoch
    (member,) = group.members
    assert (member.member_id, member.client_id, member.rack_id) == ("a", "test", None)
    assert member.subscribed_topic_names == ("orders",)
    (topic,) = member.assignment.topic_partitions
    assert (topic.topic_name, topic.partitions) == ("orders", (0, 1, 2))
    assert group.authorized_operations == 3400
    leave_answer = await send_heartbeat(api, "a", -1)
    assert (leave_answer.error_code, leave_answer.member_epoch, leave_answer.assignment) == (
        E.none,
        -1,
        None,
    )
    assert [description.group_state for description in await describe(api, GROUP)] == ["Empty"]


# ``share_group_describe``: groups that are listed and described


async def test_a_share_group_is_listed_as_one(groups: GroupApi) -> None:
    await send_heartbeat(groups.api, "a")
    for states, types in (([], []), (["stable"], ["SHARE"])):
        listing = await groups.api.ask("ListGroups", 5, states_filter=states, types_filter=types)
        assert [
            (group.group_id, group.protocol_type, group.group_type) for group in listing.groups
        ] == [(GROUP, "share", "share")]
    listing = await groups.api.ask("ListGroups", 5, states_filter=[], types_filter=["classic"])
    assert listing.groups == ()


async def test_what_is_no_share_group(groups: GroupApi) -> None:
    api = groups.api
    await groups.consume("a")
    refusal = await send_heartbeat(api, "b")
    assert (refusal.error_code, refusal.error_message) == (E.group_id_not_found, NOT_SHARE)
    assert [
        (description.group_id, description.error_code, description.error_message)
        for description in await describe(api, GROUP, "missing", "")
    ] == [
        (GROUP, E.group_id_not_found, NOT_SHARE),
        ("missing", E.group_id_not_found, "Group missing not found."),
        ("", E.invalid_group_id, None),
    ]
    alter_answer = await alter(api, ("orders", {0: 1}))
    assert (alter_answer.error_code, alter_answer.responses) == (E.group_id_not_found, ())
    deleted = await delete(api, "orders")
    assert (deleted.error_code, deleted.error_message) == (E.group_id_not_found, NOT_SHARE)
    assert (await delete(api, "orders", group_id="")).error_code is E.invalid_group_id


async def test_a_heartbeat_without_a_member_is_refused(groups: GroupApi) -> None:
    for member_id, reason in (("", None), (" ", "MemberId can't be empty.")):
        refusal = await send_heartbeat(groups.api, member_id)
        assert (refusal.error_code, refusal.error_message) == (E.invalid_request, reason)


# ``alter_share_group_offsets``: new start offsets
# ``describe_share_group_offsets``: start offsets and lag


async def test_offsets_and_their_lag(groups: GroupApi) -> None:
    api = groups.api
    await make_empty_group(api)
    alter_answer = await alter(api, ("orders", {0: 0, 7: 1}), ("missing", {0: 1}))
    assert alter_answer.error_code is E.none
    assert {
        (topic.topic_name, partition.partition_index): partition.error_code
        for topic in alter_answer.responses
        for partition in topic.partitions
    } == {
        ("orders", 0): E.none,
        ("orders", 7): E.unknown_topic_or_partition,
        ("missing", 0): E.unknown_topic_or_partition,
    }
    answer = await offsets(api)
    (topic,) = answer.topics
    assert (topic.topic_name, topic.topic_id) == ("orders", api.topic_id("orders"))
    assert [
        (partition.partition_index, partition.start_offset, partition.lag)
        for partition in topic.partitions
    ] == [
        (0, 0, 0),
        (1, -1, -1),
        (2, -1, -1),
    ]
    offset_requests = [
        {"topic_name": "orders", "partitions": (0,)},
        {"topic_name": "missing", "partitions": (3,)},
    ]
    for version in (0, 1):
        answer = await offsets(api, offset_requests, version=version)
        assert [
            (topic.topic_name, topic.topic_id, partition.partition_index, partition.start_offset)
            for topic in answer.topics
            for partition in topic.partitions
        ] == [("orders", api.topic_id("orders"), 0, 0), ("missing", None, 3, -1)]


async def test_a_negative_partition_fails_the_whole_alteration(groups: GroupApi) -> None:
    api = groups.api
    await make_empty_group(api)
    alter_answer = await alter(api, ("orders", {0: 1, -1: 1}))
    assert (alter_answer.error_code, alter_answer.responses) == (E.unknown_server_error, ())
    topic_id = uuid_text(api.topic_id("orders"))
    assert alter_answer.error_message == (
        f"Initialize share group parameters has invalid partitionId - {GROUP} {topic_id} -1"
    )


async def test_offsets_are_about_their_partitions(groups: GroupApi) -> None:
    api, name = groups.api, {"topic_name": "orders"}
    subject = Subject(partitions=(TopicPartition("orders", 1),))
    partitions = [{"partition_index": 1, "start_offset": 0}]
    topics = [{**name, "partitions": partitions}]
    assert api.subject("AlterShareGroupOffsets", 0, group_id=GROUP, topics=topics) == subject
    offset_requests = [{"group_id": GROUP, "topics": [{**name, "partitions": (1,)}]}]
    assert api.subject("DescribeShareGroupOffsets", 1, groups=offset_requests) == subject
    offset_requests = [{"group_id": GROUP, "topics": None}]
    assert api.subject("DescribeShareGroupOffsets", 1, groups=offset_requests) == Subject()


# ``delete_share_group_offsets``: topics that a group forgets


async def test_deleted_offsets_are_not_described(groups: GroupApi) -> None:
    api = groups.api
    await make_empty_group(api)
    deleted = await delete(api, "orders", "missing")
    assert [
        (topic.topic_name, topic.topic_id, topic.error_code, topic.error_message)
        for topic in deleted.responses
    ] == [
        ("orders", api.topic_id("orders"), E.none, None),
        (
            "missing",
            None,
            E.unknown_topic_or_partition,
            "This server does not host this topic-partition.",
        ),
    ]
    assert (await offsets(api)).topics == ()


async def test_a_group_with_members_stays_as_it_is(groups: GroupApi) -> None:
    api = groups.api
    await join_until_assigned(api, "a")
    alter_answer, deleted = await alter(api, ("orders", {0: 1})), await delete(api, "orders")
    for answer in (alter_answer, deleted):
        assert (answer.error_code, answer.error_message) == (
            E.non_empty_group,
            "The group is not empty.",
        )
    removed = await api.ask("DeleteGroups", 2, groups_names=[GROUP])
    assert removed.results[0].error_code is E.non_empty_group
    await send_heartbeat(api, "a", -1)
    removed = await api.ask("DeleteGroups", 2, groups_names=[GROUP])
    assert removed.results[0].error_code is E.none
    assert (await describe(api, GROUP))[0].error_code is E.group_id_not_found


async def test_elsewhere_and_before_it_runs(groups: GroupApi) -> None:
    api = groups.api
    for partition in range(3):
        api.broker.groups.unload(partition)
    assert (await send_heartbeat(api, "a")).error_code is E.not_coordinator
    (group,) = await describe(api, GROUP)
    assert (group.error_code, group.error_message) == (
        E.not_coordinator,
        "This is not the correct coordinator.",
    )
    answer = await offsets(api)
    assert (answer.error_code, answer.error_message) == (
        E.not_coordinator,
        "This is not the correct coordinator.",
    )


async def test_without_their_feature_there_are_no_share_groups(groups: GroupApi) -> None:
    api = groups.api
    update = {"feature": "share.version", "max_version_level": 0, "upgrade_type": 2}
    lowered = await api.ask("UpdateFeatures", 1, feature_updates=[update])
    assert lowered.error_code is E.none
    assert [
        (await send_heartbeat(api, "a")).error_code,
        (await describe(api, GROUP))[0].error_code,
        (await offsets(api)).error_code,
        (await alter(api)).error_code,
        (await delete(api)).error_code,
    ] == [E.unsupported_version] * 5


@pytest.mark.parametrize(("release", "has_share_groups"), [("4.1", False), ("4.2", True)])
async def test_which_releases_have_share_groups(release: str, has_share_groups: bool) -> None:
    async with group_api(as_version=(release,)) as groups:
        answer = await send_heartbeat(groups.api, "a")
        assert answer.error_code is (E.none if has_share_groups else E.unsupported_version)


@pytest.mark.parametrize(
    ("api_name", "version", "values"),
    [
        ("ShareGroupHeartbeat", 1, {"group_id": "g", "member_id": "", "member_epoch": 0}),
        ("AlterShareGroupOffsets", 0, {"group_id": "g", "topics": ()}),
        ("DeleteShareGroupOffsets", 0, {"group_id": "g", "topics": ()}),
    ],
)
async def test_a_refusal_is_one_of_the_whole_request(
    groups: GroupApi, api_name: str, version: int, values: dict[str, Any]
) -> None:
    answer = groups.api.refuse(api_name, version, E.coordinator_not_available, **values)
    assert answer.error_code is E.coordinator_not_available


async def test_a_refusal_is_one_of_each_group(groups: GroupApi) -> None:
    refuse = groups.api.refuse
    description = refuse("ShareGroupDescribe", 1, E.not_coordinator, group_ids=["g"])
    refusal = refuse(
        "DescribeShareGroupOffsets",
        1,
        E.not_coordinator,
        groups=[{"group_id": "g", "topics": None}],
    )
    assert description.groups[0].error_code is refusal.groups[0].error_code is E.not_coordinator

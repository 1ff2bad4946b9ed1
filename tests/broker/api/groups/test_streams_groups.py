"""Streams groups through the handlers: members, internal topics, descriptions, by level."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.support.group_api import GROUP, GroupApi, group_api
from txnsim.errors import ErrorCode
from txnsim.group.streams.group import StreamsGroup, UnrecordedState
from txnsim.group.streams.topology import TopologyStatus

E = ErrorCode


def topic(name: str, **topic_fields: Any) -> dict[str, Any]:
    """An internal topic of a request."""
    return {
        "name": name,
        "partitions": 0,
        "replication_factor": 0,
        "topic_configs": [],
        **topic_fields,
    }


def subtopology_of(subtopology_id: str, *sources: str, **subtopology_fields: Any) -> dict[str, Any]:
    """A subtopology of a request."""
    return {
        "subtopology_id": subtopology_id,
        "source_topics": sources,
        "source_topic_regex": (),
        "state_changelog_topics": [],
        "repartition_sink_topics": (),
        "repartition_source_topics": [],
        "copartition_groups": [],
        **subtopology_fields,
    }


COUNTING = (
    subtopology_of("0", "orders", repartition_sink_topics=("by-word",)),
    subtopology_of(
        "1",
        repartition_source_topics=[topic("by-word")],
        state_changelog_topics=[
            topic("counts", topic_configs=[{"key": "cleanup.policy", "value": "compact"}])
        ],
        copartition_groups=[
            {"source_topics": (), "source_topic_regex": (), "repartition_source_topics": (0,)}
        ],
    ),
)


async def send_heartbeat(
    group: GroupApi,
    member_id: str,
    epoch: int = 0,
    subtopologies: tuple[dict[str, Any], ...] = COUNTING,
    *,
    version: int = 1,
    **request_fields: Any,
) -> Any:
    """Send a StreamsGroupHeartbeat; epoch 0 joins the group."""
    owned_tasks: Any = [] if epoch == 0 else None
    values = {
        "group_id": GROUP,
        "member_id": member_id,
        "member_epoch": epoch,
        "endpoint_information_epoch": 0,
        "instance_id": None,
        "rack_id": None,
        "rebalance_timeout": timedelta(milliseconds=1_000 if epoch == 0 else -1),
        "topology": {"epoch": 0, "subtopologies": subtopologies} if epoch == 0 else None,
        "active_tasks": owned_tasks,
        "standby_tasks": owned_tasks,
        "warmup_tasks": owned_tasks,
        "process_id": "p" if epoch == 0 else None,
        "user_endpoint": None,
        "client_tags": owned_tasks,
        "task_offsets": None,
        "task_end_offsets": None,
        "shutdown_application": False,
    }
    return await group.api.ask("StreamsGroupHeartbeat", version, **{**values, **request_fields})


async def describe(
    group: GroupApi, *group_ids: str, version: int = 1, **request_fields: Any
) -> Any:
    """The groups of a StreamsGroupDescribe answer."""
    values = {"group_ids": group_ids or (GROUP,), "include_authorized_operations": False}
    answer = await group.api.ask("StreamsGroupDescribe", version, **{**values, **request_fields})
    return answer.groups


def streams_api() -> Any:
    """The api of a broker without the delays of streams groups."""
    return group_api(
        group_streams_initial_rebalance_delay_ms=0, group_streams_assignment_interval_ms=0
    )


def ids(tasks: Any) -> dict[str, tuple[int, ...]]:
    """The tasks of an answer: the partitions of each subtopology."""
    return {
        tasks_of_subtopology.subtopology_id: tasks_of_subtopology.partitions
        for tasks_of_subtopology in tasks
    }


# ``streams_group_heartbeat``


async def test_internal_topics_are_made_and_tasks_assigned() -> None:
    async with streams_api() as group:
        first_answer = await send_heartbeat(group, "a")
        assert (first_answer.error_code, first_answer.member_epoch) == (E.none, 2)
        assert [(status.status_code, status.status_detail) for status in first_answer.status] == [
            (TopologyStatus.MISSING_INTERNAL_TOPICS, "Internal topics are missing: counts, by-word")
        ]
        assert (first_answer.heartbeat_interval, first_answer.acceptable_recovery_lag) == (
            timedelta(seconds=5),
            10_000,
        )
        image = group.api.broker.image
        assert len(image.topics["counts"].partitions) == len(image.topics["orders"].partitions)
        assert image.topics["counts"].configs["cleanup.policy"] == "compact"
        ready_reply = await send_heartbeat(group, "a", 2)
        assert ready_reply.status == ()
        assert ids(ready_reply.active_tasks) == {"0": (0, 1, 2), "1": (0, 1, 2)}
        assert (ready_reply.standby_tasks, ready_reply.warmup_tasks) == ((), ())
        old_reply = await send_heartbeat(group, "a", 3, version=0)
        assert (old_reply.acceptable_recovery_lag, old_reply.active_tasks) == (0, None)


async def test_a_group_is_listed_described_and_deleted() -> None:
    async with streams_api() as group:
        endpoint = {"host": "h", "port": 99}
        tags = [{"key": "zone", "value": "z"}]
        await send_heartbeat(group, "a", user_endpoint=endpoint, client_tags=tags, instance_id="i")
        offsets = [{"subtopology_id": "1", "partition": 0, "offset": 5}]
        answer = await send_heartbeat(group, "a", 2, task_offsets=offsets, instance_id="i")
        served = answer.partitions_by_user_endpoint[0]
        assert (served.user_endpoint.host, served.user_endpoint.port) == ("h", 99)
        assert {
            active_partition.topic: active_partition.partitions
            for active_partition in served.active_partitions
        } == {
            "orders": (0, 1, 2),
            "by-word": (0, 1, 2),
        }
        (description,) = await describe(group, include_topology_description=True)
        assert (description.group_state, description.group_epoch, description.assignment_epoch) == (
            "Stable",
            3,
            3,
        )
        assert (description.assignor_name, description.topology_description_status) == ("sticky", 1)
        assert [
            subtopology.subtopology_id for subtopology in description.topology.subtopologies
        ] == ["0", "1"]
        counted_topic = description.topology.subtopologies[1].state_changelog_topics[0]
        assert (counted_topic.name, counted_topic.partitions) == ("counts", 3)
        (member,) = description.members
        assert (member.member_id, member.process_id, member.instance_id) == ("a", "p", "i")
        assert (member.user_endpoint.host, member.client_tags[0].value) == ("h", "z")
        assert [task_offset.offset for task_offset in member.task_offsets] == [5]
        assert ids(member.assignment.active_tasks) == ids(member.target_assignment.active_tasks)
        living_group = group.api.broker.groups.find(GROUP)
        assert isinstance(living_group, StreamsGroup)
        topology, living_group.topology = living_group.topology, None
        unrecorded_state, living_group.memory = living_group.memory, UnrecordedState()
        assert (await describe(group))[0].topology is None, "a log may lack it"
        living_group.topology, living_group.memory = topology, unrecorded_state
        (older_answer,) = await describe(group, version=0, include_authorized_operations=True)
        assert older_answer.authorized_operations > 0
        listing = await group.api.ask("ListGroups", 5, states_filter=(), types_filter=("Streams",))
        assert [(group.group_type, group.protocol_type) for group in listing.groups] == [
            ("streams", "streams")
        ]
        first_deletion = await group.api.ask("DeleteGroups", 2, groups_names=(GROUP,))
        assert first_deletion.results[0].error_code is E.non_empty_group
        await send_heartbeat(group, "a", -1, instance_id="i")
        (empty,) = await describe(group)
        assert (empty.group_state, empty.members) == ("Empty", ())
        second_deletion = await group.api.ask("DeleteGroups", 2, groups_names=(GROUP,))
        assert second_deletion.results[0].error_code is E.none
        (missing,) = await describe(group)
        assert missing.error_code is E.group_id_not_found


async def test_a_group_that_is_not_ready_is_found_by_the_state_s_other_name() -> None:
    async with streams_api() as group:
        await send_heartbeat(group, "a", 0, (subtopology_of("0", "nope"),))
        (description,) = await describe(group)
        assert (description.group_state, len(description.topology.subtopologies)) == ("NotReady", 1)
        for name, number in (("NotReady", 0), ("not_ready", 1)):
            listing = await group.api.ask("ListGroups", 5, states_filter=(name,), types_filter=())
            assert len(listing.groups) == number


# ``streams_group_describe``


async def test_what_is_no_streams_group_is_not_described() -> None:
    async with streams_api() as group:
        await group.consume("m")
        descriptions = await describe(group, "", GROUP, "none")
        assert [description.error_code for description in descriptions] == [
            E.invalid_group_id,
            E.group_id_not_found,
            E.group_id_not_found,
        ]
        assert descriptions[1].error_message == f"Group {GROUP} is not a streams group."
        refusal = await send_heartbeat(group, "a")
        assert (refusal.error_code, refusal.error_message) == (
            E.group_id_not_found,
            f"Group {GROUP} is not a streams group.",
        )


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (
            "__consumer_offsets",
            "Use of Kafka internal topics __consumer_offsets in a Kafka Streams topology is "
            "prohibited.",
        ),
        ("a b", "Topic names a b are not valid topic names."),
    ],
)
async def test_some_topics_are_in_no_topology(name: str, reason: str) -> None:
    async with streams_api() as group:
        refusal = await send_heartbeat(group, "a", 0, (subtopology_of("0", "orders", name),))
        assert (refusal.error_code, refusal.error_message) == (E.streams_invalid_topology, reason)


async def test_topics_that_can_t_be_made_are_told_with_the_next_heartbeat() -> None:
    async with streams_api() as group:
        logs = [topic(f"log-{number}", replication_factor=9) for number in range(5)]
        answer = await send_heartbeat(
            group, "a", 0, (subtopology_of("0", "orders", state_changelog_topics=logs),)
        )
        assert "Creation failed" not in answer.status[0].status_detail
        second_reply = await send_heartbeat(group, "a", 2)
        detail = second_reply.status[0].status_detail
        assert detail.startswith(
            "Internal topics are missing: log-0, log-2, log-1 and 2 additional topics; "
            "Creation failed: log-"
        )
        assert detail.endswith(" and 2 more.")


# ``streams_group_topology_description_update``


async def test_descriptions_of_topologies_are_taken_by_nobody() -> None:
    async with streams_api() as group:
        answer = await group.api.ask(
            "StreamsGroupTopologyDescriptionUpdate",
            0,
            group_id=GROUP,
            member_id="a",
            topology_epoch=0,
            topology_description={"subtopologies": [], "global_stores": []},
        )
        assert (answer.error_code, answer.error_message) == (
            E.unsupported_version,
            "The broker has no streams group topology description plugin configured.",
        )


async def test_a_coordinator_that_is_not_there_says_no_more() -> None:
    async with streams_api() as group:
        group.api.broker.groups.is_running = False
        refusal = await send_heartbeat(group, "a")
        assert (refusal.error_code, refusal.error_message) == (E.coordinator_not_available, None)


async def test_without_their_feature_there_are_no_streams_groups() -> None:
    async with streams_api() as group:
        update = {"feature": "streams.version", "max_version_level": 0, "upgrade_type": 2}
        lowered = await group.api.ask("UpdateFeatures", 1, feature_updates=[update])
        assert lowered.error_code is E.none
        assert (await send_heartbeat(group, "a")).error_code is E.unsupported_version
        assert (await describe(group))[0].error_code is E.unsupported_version


@pytest.mark.parametrize(("release", "has_streams_groups"), [("4.1", False), ("4.2", True)])
async def test_which_releases_have_streams_groups(
    release: str, *, has_streams_groups: bool
) -> None:
    async with group_api(as_version=(release,)) as group:
        answer = await send_heartbeat(group, "a", version=0)
        assert answer.error_code is (E.none if has_streams_groups else E.unsupported_version)


async def test_a_refusal_is_one_of_the_whole_request_or_of_each_group() -> None:
    async with streams_api() as group:
        refuse = group.api.refuse
        values = {"group_id": "g", "member_id": "a", "member_epoch": 0}
        beaten = refuse("StreamsGroupHeartbeat", 1, E.not_coordinator, **values)
        assert (beaten.error_code, beaten.status) == (E.not_coordinator, ())
        description = refuse("StreamsGroupDescribe", 1, E.not_coordinator, group_ids=["g"])
        assert description.groups[0].error_code is E.not_coordinator

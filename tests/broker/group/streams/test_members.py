"""Who sends a heartbeat, and whether it may; texts are a real 4.4.0's."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.support.streams_groups import COUNTING, StreamsDriver, heartbeat, tasks
from txnsim.errors import ErrorCode, Rejection
from txnsim.group.consumer_group import LEFT_EPOCH, LEFT_FOR_A_WHILE_EPOCH
from txnsim.group.streams._members import check_heartbeat, update_member
from txnsim.group.streams.tasks import Tasks
from txnsim.group.streams.topology import Subtopology, TopicInfo
from txnsim.releases.rules import Rules

ONE = tasks("0_0")
INVALID: dict[str, tuple[int, dict[str, Any]]] = {
    "MemberId can't be empty.": (0, {"member_id": " "}),
    "GroupId can't be empty.": (0, {"group_id": ""}),
    "InstanceId can't be empty.": (0, {"instance_id": ""}),
    "RackId can't be empty.": (1, {"rack_id": " "}),
    "RebalanceTimeoutMs must be provided in first request.": (0, {"rebalance_timeout_ms": -1}),
    "ActiveTasks must be empty when (re-)joining.": (0, {"active": ONE}),
    "StandbyTasks must be empty when (re-)joining.": (0, {"standby": None}),
    "WarmupTasks must be empty when (re-)joining.": (0, {"warmup": ONE}),
    "Topology must be non-null when (re-)joining.": (0, {"topology": None}),
    "InstanceId can't be null.": (-2, {}),
    "MemberEpoch is -3, but must be greater than or equal to -2.": (-3, {}),
    "If one task-type is non-null, all must be non-null.": (1, {"active": ONE}),
    "Topology can only be provided when (re-)joining.": (1, {"topology": (0, COUNTING)}),
    "Regular expressions for source topics are not supported yet.": (
        0,
        {"topology": (0, (Subtopology(subtopology_id="0", source_topic_regex=("a.*",)),))},
    ),
}


@pytest.mark.parametrize("reason", INVALID)
def test_requests_that_no_group_takes(reason: str) -> None:
    epoch, fields = INVALID[reason]
    command = msgspec.structs.replace(heartbeat("a", epoch), **fields)
    assert check_heartbeat(command) == Rejection(error=ErrorCode.invalid_request, reason=reason)


@pytest.mark.parametrize(
    ("reason", "fields"),
    [
        ("Static membership is not yet supported.", {"instance_id": "i"}),
        ("TaskOffsets are not supported yet.", {"task_offsets": ()}),
        ("TaskEndOffsets are not supported yet.", {"task_end_offsets": ()}),
        ("WarmupTasks are not supported yet.", {"active": ONE, "standby": ONE, "warmup": ONE}),
    ],
)
def test_up_to_4_3_members_say_less(reason: str, fields: dict[str, Any]) -> None:
    command = msgspec.structs.replace(heartbeat("a", 1), **fields)
    older_rules = Rules(streams_heartbeats_are_whole=False)
    rejection = Rejection(error=ErrorCode.invalid_request, reason=reason)
    assert check_heartbeat(command, older_rules) == rejection
    assert check_heartbeat(command) is None
    assert check_heartbeat(heartbeat("a", 0), older_rules) is None


def test_up_to_4_3_no_interval_of_task_offsets_is_told() -> None:
    driver = StreamsDriver()
    driver.protocol.release_rules = Rules(streams_heartbeats_are_whole=False)
    assert driver.join("a").task_offset_interval_ms == 0
    assert StreamsDriver().join("a").task_offset_interval_ms == 60_000


@pytest.mark.parametrize("epoch", [0, 1, -1])
def test_requests_that_a_group_takes(epoch: int) -> None:
    assert check_heartbeat(heartbeat("a", epoch)) is None


def test_the_broker_counts_the_partitions_of_changelogs() -> None:
    subtopology = Subtopology(
        subtopology_id="0", state_changelog_topics=(TopicInfo(name="log", partitions=3),)
    )
    assert check_heartbeat(heartbeat("a", 0, topology=(0, (subtopology,)))) == Rejection(
        error=ErrorCode.streams_invalid_topology,
        reason="Changelog topic log must have an undefined partition count, but it is set to 3.",
    )


def driver_of_two() -> StreamsDriver:
    """``a`` is static, at epoch 3 after 2, and has tasks 0_0 and 1_0."""
    driver = StreamsDriver()
    driver.join("a", instance_id="i")
    driver.join("b")
    driver.send_ok("a", 2, instance_id="i")
    driver.send_ok("a", 2, instance_id="i", owned=Tasks(active=tasks("0_0", "1_0")))
    assert driver.group.members["a"].member_epoch == 3
    return driver


FENCED = {
    "a newer epoch": ((4, {}), "greater member epoch (4)"),
    "an older epoch that says nothing": ((2, {}), "smaller member epoch (2)"),
    "an older epoch with other tasks": (
        (2, {"owned": Tasks(active=tasks("0_1"))}),
        "smaller member epoch (2)",
    ),
    "an older epoch with a standby": (
        (2, {"owned": Tasks(standby=tasks("0_0"))}),
        "smaller member epoch (2)",
    ),
    "an older epoch with a warm-up": (
        (2, {"owned": Tasks(warmup=tasks("0_0"))}),
        "smaller member epoch (2)",
    ),
    "a much older epoch": ((1, {"owned": Tasks()}), "smaller member epoch (1)"),
}


@pytest.mark.parametrize("name", FENCED)
def test_zombies_are_fenced(name: str) -> None:
    (epoch, fields), comparison = FENCED[name]
    rejection = driver_of_two().send("a", epoch, instance_id="i", **fields)
    assert isinstance(rejection, Rejection)
    assert (rejection.error, rejection.reason) == (
        ErrorCode.fenced_member_epoch,
        f"The streams group member has a {comparison} than the one known by the group coordinator "
        "(3). The member must abandon all its partitions and rejoin.",
    )


def test_a_member_that_missed_an_answer_goes_on() -> None:
    owned_tasks = Tasks(active=tasks("0_0"))
    assert driver_of_two().send_ok("a", 2, instance_id="i", owned=owned_tasks).member_epoch == 3


STRANGERS = {
    "nobody": (("c", 3, {}), "Member c is not a member of group g."),
    "an unknown instance": (("a", 3, {"instance_id": "j"}), "Instance id j is unknown."),
    "another with the instance": (
        ("c", 3, {"instance_id": "i"}),
        "Static member c with instance id i was fenced by member a.",
    ),
    "another that joins with the instance": (
        ("c", 0, {"instance_id": "i"}),
        "Static member c with instance id i cannot join the group because the instance id is owned "
        "by a member.",
    ),
    "nobody that leaves": (("c", LEFT_EPOCH, {}), "Member c is not a member of group g."),
    "another that leaves for a while": (
        ("c", LEFT_FOR_A_WHILE_EPOCH, {"instance_id": "i"}),
        "Static member c with instance id i was fenced by member a.",
    ),
}


@pytest.mark.parametrize("stranger_name", STRANGERS)
def test_strangers_are_refused(stranger_name: str) -> None:
    (member_id, epoch, fields), reason = STRANGERS[stranger_name]
    rejection = driver_of_two().send(member_id, epoch, **fields)
    assert isinstance(rejection, Rejection)
    assert rejection.reason == reason


def test_what_a_heartbeat_leaves_out_is_as_before() -> None:
    member = driver_of_two().group.members["a"]
    member_told_all = update_member(
        member, heartbeat("a", 3, rack_id="r", endpoint=("h", 1), client_id="c2")
    )
    assert (member_told_all.rack_id, member_told_all.endpoint, member_told_all.client_id) == (
        "r",
        ("h", 1),
        "c2",
    )
    later_member = update_member(member_told_all, heartbeat("a", 3))
    assert (later_member.rack_id, later_member.endpoint, later_member.instance_id) == (
        "r",
        ("h", 1),
        "i",
    )
    updated_member = update_member(member_told_all, heartbeat("a", 0))
    assert (updated_member.rack_id, updated_member.endpoint) == ("r", None), (
        "an endpoint is told with each life"
    )

"""Heartbeats of streams groups: epochs, statuses, tasks, timers; texts are a real 4.4.0's."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.support.streams_groups import (
    COUNTING,
    GROUP,
    StreamsDriver,
    codes,
    configs,
    counting_image,
    have_same_log,
    tasks,
)
from txnsim.errors import ErrorCode, InvariantViolation, Rejection
from txnsim.group.commands import TimerCancelled, TimerKind, TimerSet
from txnsim.group.consumer_group import LEFT_EPOCH, LEFT_FOR_A_WHILE_EPOCH
from txnsim.group.streams._records import (
    StreamsCurrentAssignmentStored,
    StreamsEpochStored,
    StreamsMemberStored,
    StreamsTargetEpochStored,
    StreamsTargetStored,
    StreamsTopologyStored,
)
from txnsim.group.streams.tasks import StreamsMemberState, Tasks
from txnsim.group.streams.topology import Subtopology, TopologyStatus
from txnsim.releases.rules import Rules

ALL = tasks("0_0", "0_1", "1_0", "1_1")


def heartbeat_rejection(driver: StreamsDriver, *args: Any, **request_fields: Any) -> Rejection:
    """Send a heartbeat that must be refused; return the rejection."""
    rejection = driver.send(*args, **request_fields)
    assert isinstance(rejection, Rejection), rejection
    return rejection


def kinds(driver: StreamsDriver) -> list[str]:
    """The types of the records of the last decision."""
    return [type(record).__name__ for record in driver.records]


def test_the_first_member_gets_everything() -> None:
    driver = StreamsDriver()
    reply = driver.join("a")
    assert (reply.member_epoch, reply.statuses, reply.tasks) == (2, (), Tasks(active=ALL))
    assert (reply.heartbeat_interval_ms, reply.task_offset_interval_ms) == (5_000, 60_000)
    assert reply.acceptable_recovery_lag == 10_000
    assert [type(record) for record in driver.records] == [
        StreamsMemberStored,
        StreamsTopologyStored,
        StreamsEpochStored,
        StreamsTargetStored,
        StreamsTargetEpochStored,
        StreamsCurrentAssignmentStored,
    ]
    heartbeat_reply = driver.send_ok("a", 2)
    assert (heartbeat_reply.tasks, driver.records) == (None, [])
    assert driver.group.state_name == "Stable"
    assert have_same_log(driver.group, driver.reload_group())


def test_a_second_member_waits_for_what_the_first_gives_up() -> None:
    driver = StreamsDriver()
    driver.join("a")
    second_reply = driver.join("b")
    assert (second_reply.member_epoch, second_reply.tasks) == (3, Tasks())
    assert driver.group.members["b"].state is StreamsMemberState.UNRELEASED_TASKS
    first_reply = driver.send_ok("a", 2)
    assert first_reply.member_epoch == 2
    assert first_reply.tasks == Tasks(active=tasks("0_0", "1_0"))
    timer = driver.effects[-2]
    assert isinstance(timer, TimerSet)
    assert timer.kind is TimerKind.REVOCATION
    assert (timer.member_id, timer.delay_ms, timer.generation) == ("a", 1_000, 2)
    assert driver.group.state_name == "Reconciling"
    assert driver.send_ok("a", 2, owned=first_reply.tasks).member_epoch == 3
    assert isinstance(driver.effects[-2], TimerCancelled)
    assert driver.send_ok("b", 3, owned=Tasks()).tasks == Tasks(active=tasks("0_1", "1_1"))
    assert driver.group.state_name == "Stable"


def test_missing_internal_topics_are_told_and_waited_for() -> None:
    driver = StreamsDriver(counting_image(words=2))
    reply = driver.join("a")
    assert reply.statuses == (
        (TopologyStatus.MISSING_INTERNAL_TOPICS, "Internal topics are missing: counts, by-word"),
    )
    assert list(reply.topics_to_make) == ["counts", "by-word"]
    assert (reply.tasks, driver.group.state_name) == (Tasks(), "NotReady")
    driver.image = counting_image(2)
    ready_reply = driver.send_ok("a", reply.member_epoch)
    assert (ready_reply.member_epoch, ready_reply.statuses, ready_reply.topics_to_make) == (
        3,
        (),
        {},
    )
    assert ready_reply.tasks == Tasks(active=ALL)


def test_missing_source_topics_end_an_assignment() -> None:
    driver = StreamsDriver()
    driver.join("a")
    driver.image = counting_image(2, by_word=2, counts=2)
    reply = driver.send_ok("a", 2)
    assert codes(reply) == [TopologyStatus.MISSING_SOURCE_TOPICS]
    assert reply.tasks == Tasks()
    assert driver.send_ok("a", 2, owned=Tasks()).member_epoch == 3
    assert driver.group.state_name == "NotReady"


def test_what_an_image_does_not_change_is_not_looked_at_again() -> None:
    driver = StreamsDriver()
    driver.join("a")
    driver.send_ok("a", 2)
    state_before = driver.group.memory
    assert (state_before.refreshed_version, state_before.configured_topology is not None) == (
        1,
        True,
    )
    driver.image = counting_image(7)
    driver.send_ok("a", 2)
    assert driver.records == []
    assert driver.group.memory == msgspec.structs.replace(state_before, refreshed_version=7)


def test_more_partitions_are_more_tasks() -> None:
    one_subtopology = (Subtopology(subtopology_id="0", source_topics=("words",)),)
    driver = StreamsDriver(counting_image(words=1))
    driver.join("a", topology=(0, one_subtopology))
    driver.image = counting_image(2, words=3)
    assert driver.send_ok("a", 2).tasks == Tasks(active=tasks("0_0", "0_1", "0_2"))


# Topologies


def test_an_older_topology_is_stale() -> None:
    driver = StreamsDriver()
    driver.join("a", topology=(3, COUNTING))
    reply = driver.join("b", topology=(2, ()))
    assert reply.statuses == (
        (
            TopologyStatus.STALE_TOPOLOGY,
            "The member's topology epoch 2 is behind the group's topology epoch 3.",
        ),
    )
    assert driver.group.topology_epoch == 3


@pytest.mark.parametrize("topology", [(4, COUNTING), (3, COUNTING[:1])])
def test_a_topology_can_t_be_changed(topology: tuple[int, Any]) -> None:
    driver = StreamsDriver()
    driver.join("a", topology=(3, COUNTING))
    rejection = heartbeat_rejection(driver, "b", 0, topology=topology)
    assert (rejection.error, rejection.reason) == (
        ErrorCode.invalid_request,
        "Topology updates are not supported yet.",
    )


def test_a_topology_that_can_t_be_is_refused() -> None:
    driver = StreamsDriver()
    no_source = (Subtopology(subtopology_id="0"),)
    assert heartbeat_rejection(driver, "a", 0, topology=(0, no_source)).error is (
        ErrorCode.streams_invalid_topology
    )
    assert (
        heartbeat_rejection(driver, "a", 0, topology=(-1, COUNTING)).error
        is ErrorCode.unknown_server_error
    )


@pytest.mark.parametrize(
    ("owned_tasks", "reason"),
    [
        (
            Tasks(active=tasks("9_0")),
            "Subtopology 9 does not exist in the topology.",
        ),
        (
            Tasks(standby=tasks("0_2")),
            "Task 2 for subtopology 0 is invalid. Number of tasks for this subtopology: 2",
        ),
        (
            Tasks(warmup=frozenset({("0", -1)})),
            "Task -1 for subtopology 0 is invalid. Number of tasks for this subtopology: 2",
        ),
    ],
)
def test_tasks_that_can_t_be_are_refused(owned_tasks: Tasks, reason: str) -> None:
    driver = StreamsDriver()
    driver.join("a")
    assert heartbeat_rejection(driver, "a", 2, owned=owned_tasks).reason == reason


# Delays


def test_the_first_assignment_waits_for_members() -> None:
    driver = StreamsDriver()
    driver.configs = configs(initial_delay_ms=3_000)
    reply = driver.join("a")
    assert (reply.member_epoch, reply.statuses) == (
        1,
        (
            (
                TopologyStatus.ASSIGNMENT_DELAYED,
                "Assignment delayed due to the configured initial rebalance delay.",
            ),
        ),
    )
    delay = driver.effects[0]
    assert isinstance(delay, TimerSet)
    assert (delay.kind, delay.delay_ms, delay.keeps_first) == (TimerKind.ASSIGNMENT, 3_000, True)
    driver.is_delayed = True
    assert codes(driver.join("b")) == [TopologyStatus.ASSIGNMENT_DELAYED]
    assert driver.group.state_name == "Assigning"
    driver.send_ok("a", 1)
    driver.fire(TimerKind.ASSIGNMENT)
    assert driver.group.assignment_epoch == driver.group.epoch
    assert driver.send_ok("a", 1).tasks == Tasks(active=tasks("0_1", "1_1"))
    assert driver.send_ok("b", 1).tasks == Tasks(active=tasks("0_0", "1_0")), "Java's order"
    driver.fire(TimerKind.ASSIGNMENT)
    assert driver.records == [], "nothing is due"


def test_a_delay_of_a_group_that_is_empty_again_means_nothing() -> None:
    driver = StreamsDriver()
    driver.configs = configs(initial_delay_ms=3_000)
    driver.join("a")
    driver.fire(TimerKind.ASSIGNMENT)
    assert driver.records == [], "the topology was not held against topics here yet"
    driver.send_ok("a", LEFT_EPOCH)
    driver.fire(TimerKind.ASSIGNMENT)
    assert driver.records == []


def test_assignments_keep_a_distance() -> None:
    driver = StreamsDriver()
    intervals = msgspec.structs.replace(driver.configs.intervals, assignment_interval_ms=1_000)
    driver.configs = configs(intervals=intervals)
    driver.join("a")
    reply = driver.join("b")
    assert reply.statuses == (
        (
            TopologyStatus.ASSIGNMENT_DELAYED,
            "Assignment delayed due to the configured assignment interval.",
        ),
    )
    assert (reply.member_epoch, reply.tasks) == (2, Tasks())
    driver.now_ms += 1_000
    assert driver.send_ok("b", 2).member_epoch == 3


def test_other_configs_are_reason_for_another_assignment() -> None:
    driver = StreamsDriver()
    driver.join("a")
    driver.join("b")
    driver.settle("a", "b")
    driver.configs = configs(assignor=(("num.standby.replicas", "1"),))
    driver.send_ok("a", 3)
    driver.settle("a", "b")
    assert driver.group.epoch == 4
    assert driver.group.members["a"].assigned.standby == tasks("1_1")
    assert driver.group.members["b"].assigned.standby == tasks("1_0")


def test_missing_client_tags_are_told() -> None:
    driver = StreamsDriver()
    driver.configs = configs(assignor=(("rack.aware.assignment.tags", "zone,cluster"),))
    reply = driver.join("a", client_tags={"zone": "z"})
    assert reply.statuses == (
        (
            TopologyStatus.MISSING_CLIENT_TAGS,
            "Missing required client tags for rack-aware standby assignment: [cluster]. Configure "
            "them via 'client.tag.<tagKey>' in your Streams config.",
        ),
    )
    assert driver.join("b", api_version=0).statuses == ()
    assert driver.join("c", client_tags={"zone": "z", "cluster": "c"}).statuses == ()


# Members


def test_a_member_that_says_something_new_is_written() -> None:
    driver = StreamsDriver()
    driver.join("a")
    driver.send_ok("a", 2, rack_id="r", process_id="x", client_tags={"k": "v"})
    assert kinds(driver)[:2] == ["StreamsMemberStored", "StreamsEpochStored"]
    member = driver.group.members["a"]
    assert (member.rack_id, member.process_id, dict(member.client_tags)) == ("r", "x", {"k": "v"})
    driver.send_ok("a", 3, rebalance_timeout_ms=7, endpoint=("h", 1))
    assert driver.group.members["a"].rebalance_timeout_ms == 7


def test_a_static_member_s_news_matter_only_to_the_assignor() -> None:
    driver = StreamsDriver()
    driver.join("a", instance_id="i")
    driver.send_ok("a", 2, instance_id="i", client_id="other")
    assert kinds(driver) == ["StreamsMemberStored"]
    driver.send_ok("a", 2, instance_id="i", rack_id="r")
    assert "StreamsEpochStored" in kinds(driver)


def test_a_group_has_room_for_so_many() -> None:
    driver = StreamsDriver(max_size=1)
    driver.join("a", instance_id="i")
    rejection = heartbeat_rejection(driver, "b", 0)
    assert (rejection.error, rejection.reason) == (
        ErrorCode.group_max_size_reached,
        "The streams group has reached its maximum capacity of 1 members.",
    )
    driver.send_ok("a", LEFT_FOR_A_WHILE_EPOCH, instance_id="i")
    assert driver.join("b", instance_id="i").member_epoch >= 2


def test_a_static_member_comes_back_to_its_tasks() -> None:
    driver = StreamsDriver()
    driver.join("a", instance_id="i")
    driver.join("b")
    driver.send_ok("a", 2, instance_id="i", owned=Tasks(active=ALL))
    driver.send_ok("a", 2, instance_id="i", owned=Tasks(active=tasks("0_0", "1_0")))
    driver.send_ok("b", 3, owned=Tasks())
    epoch = driver.group.epoch
    leave_reply = driver.send_ok("a", LEFT_FOR_A_WHILE_EPOCH, instance_id="i")
    assert leave_reply.member_epoch == LEFT_FOR_A_WHILE_EPOCH
    member_away = driver.group.members["a"]
    assert (member_away.member_epoch, set(member_away.assigned.active.values())) == (-2, {0})
    assert driver.group.state_name == "Reconciling"
    streams_reply = driver.join("a2", instance_id="i", process_id="p-a")
    assert (streams_reply.member_epoch, streams_reply.tasks) == (
        epoch,
        Tasks(active=tasks("0_0", "1_0")),
    )
    assert set(driver.group.members) == {"b", "a2"}
    assert driver.group.epoch == epoch, "nothing else had to move"
    assert have_same_log(driver.group, driver.reload_group())


def test_a_stranger_with_the_instance_id_takes_the_tasks_to_come_until_they_are_missed() -> None:
    driver = StreamsDriver()
    driver.join("a", instance_id="i")
    driver.join("b")
    assert (
        heartbeat_rejection(driver, "x", 2, instance_id="i").error is ErrorCode.fenced_instance_id
    )
    assert driver.send_ok("a", 2, instance_id="i", owned=Tasks(active=ALL)).tasks == Tasks()
    assert driver.send_ok("a", 2, instance_id="i", owned=Tasks()).member_epoch == 3
    driver.send_ok("b", 3, owned=Tasks())
    assert driver.group.state_name == "Stable"
    streams_reply = driver.send_ok("a", 3, instance_id="i")
    assert (streams_reply.member_epoch, streams_reply.tasks) == (
        4,
        Tasks(active=tasks("0_0", "1_0")),
    )
    assert kinds(driver)[:2] == ["StreamsEpochStored", "StreamsTargetEpochStored"]
    assert (driver.group.epoch, driver.group.assignment_epoch) == (4, 4)


def test_without_warmups_no_target_is_remembered() -> None:
    driver = StreamsDriver()
    driver.configs = configs(warmup_tasks_max=0)
    driver.join("a")
    assert driver.group.memory.refined is None


# Leaving, sessions


@pytest.mark.parametrize("kind", [TimerKind.ASSIGNMENT, TimerKind.JOIN, TimerKind.SYNC])
def test_a_timer_that_no_member_of_a_streams_group_has_is_a_bug(kind: TimerKind) -> None:
    driver = StreamsDriver()
    driver.join("a")
    for member_id in ("a", "gone"):
        timer = TimerSet(kind=kind, group_id="g", member_id=member_id, delay_ms=1_000)
        with pytest.raises(
            InvariantViolation, match=f"the streams group g has no timer {kind.name}"
        ):
            driver.protocol.remove_late_member(driver.group, timer)


def test_who_leaves_makes_room() -> None:
    driver = StreamsDriver()
    driver.join("a")
    driver.join("b")
    driver.settle("a", "b")
    reply = driver.send_ok("b", LEFT_EPOCH)
    assert (reply.member_epoch, reply.heartbeat_interval_ms, reply.statuses) == (LEFT_EPOCH, 0, ())
    assert {effect.kind for effect in driver.effects[-2:]} == {
        TimerKind.HEARTBEAT,
        TimerKind.REVOCATION,
    }
    driver.settle("a")
    assert driver.group.members["a"].assigned.tasks == Tasks(active=ALL)
    driver.send_ok("a", LEFT_EPOCH)
    assert kinds(driver)[-1] == "StreamsTargetEpochStored", "the last one ends the assignment"
    assert (driver.group.state_name, driver.group.assigned_at_ms) == ("Empty", 0)
    assert have_same_log(driver.group, driver.reload_group())


def test_a_silent_member_is_removed() -> None:
    driver = StreamsDriver()
    driver.join("a")
    driver.fire(TimerKind.HEARTBEAT, "a")
    assert driver.group.is_empty
    driver.fire(TimerKind.HEARTBEAT, "a")
    assert driver.records == []


def test_who_does_not_give_up_in_time_is_removed() -> None:
    driver = StreamsDriver()
    driver.join("a")
    driver.join("b")
    driver.send_ok("a", 2)
    revocation_timers = [effect for effect in driver.effects if effect.kind is TimerKind.REVOCATION]
    assert list(driver.protocol.timers_after_load(driver.group)) == [
        driver.protocol.session_timer(GROUP, "a"),
        revocation_timers[-1],
        driver.protocol.session_timer(GROUP, "b"),
    ]
    driver.fire(TimerKind.REVOCATION, "a")
    assert set(driver.group.members) == {"b"}


def test_who_has_given_up_since_stays() -> None:
    driver = StreamsDriver()
    driver.join("a")
    driver.join("b")
    driver.send_ok("a", 2)
    driver.send_ok("a", 2, owned=Tasks(active=tasks("0_0", "1_0")))
    driver.fire(TimerKind.REVOCATION, "a")
    assert driver.records == []


def test_a_shutdown_is_told_to_all_until_nobody_is_left() -> None:
    driver = StreamsDriver()
    driver.join("a")
    driver.join("b")
    text = (
        "Streams group member a encountered a fatal error and requested a shutdown for the entire "
        "application."
    )
    assert driver.send_ok("a", 2, shutdown=True).statuses == (
        (TopologyStatus.SHUTDOWN_APPLICATION, text),
    )
    assert driver.send_ok("b", 3, shutdown=True).statuses == (
        (TopologyStatus.SHUTDOWN_APPLICATION, text),
    )
    driver.send_ok("a", LEFT_EPOCH)
    assert codes(driver.send_ok("b", 3)) == [TopologyStatus.SHUTDOWN_APPLICATION]
    driver.send_ok("b", LEFT_EPOCH)
    assert driver.join("c").statuses == ()


def test_a_member_may_ask_for_the_shutdown_as_it_leaves() -> None:
    driver = StreamsDriver()
    driver.join("a")
    driver.join("b")
    driver.send_ok("a", LEFT_EPOCH, shutdown=True)
    assert codes(driver.send_ok("b", 3)) == [TopologyStatus.SHUTDOWN_APPLICATION]


# Offsets and endpoints


def test_reported_offsets_are_kept() -> None:
    driver = StreamsDriver()
    driver.join("a")
    driver.send_ok("a", 2, task_offsets=((("1", 0), 5),), task_end_offsets=((("1", 0), 9),))
    task_offsets = driver.group.memory.task_offsets["a"]
    assert (task_offsets.offsets, task_offsets.end_offsets) == ({("1", 0): 5}, {("1", 0): 9})
    driver.send_ok("a", 2, task_offsets=())
    assert driver.group.memory.task_offsets["a"].end_offsets == {("1", 0): 9}
    repeated_offsets = ((("1", 0), 5), (("1", 0), 5))
    for field_name in ("task_offsets", "task_end_offsets"):
        assert heartbeat_rejection(driver, "a", 2, **{field_name: repeated_offsets}).reason == (
            "Task offsets contain a duplicate entry for subtopology 1 and partition 0."
        )
    driver.join("b")
    driver.send_ok("a", LEFT_EPOCH)
    assert driver.group.memory.task_offsets == {}


def test_endpoints_tell_what_they_serve() -> None:
    driver = StreamsDriver()
    first_reply = driver.join("a", endpoint=("h", 1))
    assert first_reply.endpoints_epoch == 0, "the group comes into being"
    assert first_reply.endpoints is not None
    assert [(endpoint.endpoint, endpoint.active) for endpoint in first_reply.endpoints] == [
        (("h", 1), (("words", (0, 1)), ("by-word", (0, 1))))
    ]
    assert driver.send_ok("a", 2).endpoints is None, "what it knows is what the group knows"
    second_reply = driver.join("b", endpoint=("g", 2))
    assert second_reply.endpoints_epoch == 1
    assert second_reply.endpoints is not None
    assert [endpoint.endpoint for endpoint in second_reply.endpoints] == [("h", 1), ("g", 2)]
    assert driver.send_ok("b", 3, endpoints_epoch=1).endpoints is None
    moved_reply = driver.send_ok("b", 3, endpoints_epoch=1, endpoint=("g", 3))
    assert moved_reply.endpoints_epoch == 2
    plain_reply = driver.join("c")
    assert plain_reply.endpoints is not None
    assert len(plain_reply.endpoints) == 2


def test_a_standby_is_served_as_such() -> None:
    driver = StreamsDriver()
    driver.configs = configs(assignor=(("num.standby.replicas", "1"),))
    driver.join("a", endpoint=("h", 1))
    driver.join("b", endpoint=("g", 2))
    driver.settle("a", "b")
    endpoints = driver.send_ok(
        "a", driver.group.members["a"].member_epoch, endpoints_epoch=-1
    ).endpoints
    assert endpoints is not None
    served = {endpoint.endpoint: endpoint.standby for endpoint in endpoints}
    assert set(served.values()) == {(("by-word", (0,)),), (("by-word", (1,)),)}


def test_an_endpoint_without_topics_breaks_a_real_broker() -> None:
    driver = StreamsDriver(counting_image(other=1))
    rejection = heartbeat_rejection(driver, "a", 0, endpoint=("h", 1))
    assert rejection.error is ErrorCode.unknown_server_error


def test_what_an_endpoint_serves_must_be_there() -> None:
    driver = StreamsDriver(counting_image(words=1, by_word=1, counts=1))
    driver.configs = configs(assignor=(("num.standby.replicas", "1"),))
    driver.join("a", endpoint=("h", 1))
    driver.join("b")
    driver.settle("a", "b")
    kinds_of = {
        bool(member.assigned.standby): member.member_id for member in driver.group.members.values()
    }
    sender = kinds_of[False]
    driver.image = counting_image(2, words=1, counts=1)
    if sender == "a":
        driver.send_ok("b", driver.group.members["b"].member_epoch, endpoint=("g", 2))
    rejection = heartbeat_rejection(
        driver, sender, driver.group.members[sender].member_epoch, endpoints_epoch=-1
    )
    assert rejection.reason == "Topic by-word not found in metadata image"


def test_what_an_endpoint_serves_as_active_must_be_there() -> None:
    driver = StreamsDriver()
    driver.join("a", endpoint=("h", 1))
    driver.join("b")
    driver.settle("a", "b")
    driver.image = counting_image(2, words=2, counts=2)
    rejection = heartbeat_rejection(driver, "b", 3, endpoints_epoch=-1)
    assert rejection.reason == "Topic by-word not found in metadata image"


def test_a_task_serves_only_partitions_that_there_are() -> None:
    subtopology = Subtopology(subtopology_id="0", source_topics=("words", "other"))
    driver = StreamsDriver(counting_image(words=2, other=1))
    driver.join("a", topology=(0, (subtopology,)), endpoint=("h", 1))
    driver.join("b", topology=(0, (subtopology,)), endpoint=("g", 2))
    driver.settle("a", "b")
    endpoints = driver.send_ok("a", 3, endpoints_epoch=-1).endpoints
    assert endpoints is not None
    assert sorted(len(endpoint.active) for endpoint in endpoints) == [1, 2]


def test_a_member_in_a_state_of_a_later_release_is_fenced() -> None:
    driver = StreamsDriver()
    driver.join("a")
    driver.join("b")
    stored_assignment = next(
        record for record in driver.log if isinstance(record, StreamsCurrentAssignmentStored)
    )
    strange_assignment = msgspec.structs.replace(stored_assignment, state=99)
    driver.shard.apply(strange_assignment, record_offset=0)
    assert heartbeat_rejection(driver, "a", 2).error is ErrorCode.fenced_member_epoch


def test_who_is_not_there_can_t_leave() -> None:
    driver = StreamsDriver()
    driver.join("a")
    assert heartbeat_rejection(driver, "x", LEFT_EPOCH).error is ErrorCode.unknown_member_id


@pytest.mark.parametrize("is_before", [False, True])
def test_up_to_4_3_a_standby_is_given_up_before_it_runs(is_before: bool) -> None:
    driver = StreamsDriver()
    if is_before:
        driver.protocol.release_rules = Rules(streams_tasks_change_in_place=False)
    driver.configs = configs(assignor=(("num.standby.replicas", "1"),))
    driver.join("a")
    driver.join("b")
    driver.settle("a", "b")
    (copy,) = driver.group.members["b"].assigned.standby
    driver.send_ok("a", LEFT_EPOCH)
    driver.send_ok("b", driver.group.members["b"].member_epoch)
    member = driver.group.members["b"]
    assert (copy in member.assigned.active) is not is_before
    assert (member.state is StreamsMemberState.UNREVOKED_TASKS) is is_before
    driver.settle("b")
    assert copy in driver.group.members["b"].assigned.active

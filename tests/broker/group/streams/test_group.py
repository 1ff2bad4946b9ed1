"""A streams group: replay, positions of its members, deletion; random lives reload as they are."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.support.consumer_groups import GROUP
from tests.support.streams_groups import (
    COUNTING,
    StreamsDriver,
    configs,
    counting_image,
    have_same_log,
)
from txnsim.errors import ErrorCode, Rejection
from txnsim.group.commands import TimerKind
from txnsim.group.consumer_group import LEFT_EPOCH, LEFT_FOR_A_WHILE_EPOCH
from txnsim.group.offset_commands import CommitOffsets, FetchOffsets, NewPosition
from txnsim.group.shard import GroupShard
from txnsim.group.state import GroupType, expiry_from_commit
from txnsim.group.streams._records import (
    StreamsCurrentAssignmentDeleted,
    StreamsCurrentAssignmentStored,
    StreamsEpochDeleted,
    StreamsMemberDeleted,
    StreamsTargetEpochDeleted,
    StreamsTopologyDeleted,
    StreamsTopologyStored,
)
from txnsim.group.streams.group import RefinedTarget, StreamsGroup, StreamsGroupMember
from txnsim.group.streams.tasks import StreamsMemberState, Tasks
from txnsim.group.streams.topology import Subtopology
from txnsim.types import TopicPartition
from txnsim.wire.codec import run_to_end


def commit(
    member_id: str, epoch: int, *topic_partitions: str, **request_fields: Any
) -> CommitOffsets:
    """A command that commits a member's positions; ``words-0`` names a partition."""
    positions = []
    for task_place in topic_partitions or ("words-0",):
        topic, _, partition_index = task_place.rpartition("-")
        positions.append(
            NewPosition(topic_partition=TopicPartition(topic, int(partition_index)), offset=1)
        )
    return CommitOffsets(
        **{
            "group_id": GROUP,
            "generation": epoch,
            "member_id": member_id,
            "positions": tuple(positions),
            "api_version": 9,
            **request_fields,
        }
    )


def two_members() -> StreamsDriver:
    """A group: ``a`` has tasks 0_0 and 1_0 since epoch 2, ``b`` the other tasks since epoch 3."""
    driver = StreamsDriver()
    driver.join("a")
    driver.join("b")
    driver.settle("a", "b")
    return driver


ALLOWED = [
    commit("a", 3),
    commit("a", 2),
    commit("a", 2, "by-word-0"),
    commit("", -1, is_transactional=True),
    commit("a", 3, is_transactional=True, api_version=5),
]


@pytest.mark.parametrize("command", ALLOWED)
def test_who_may_commit(command: CommitOffsets) -> None:
    assert two_members().group.check_offset_commit(command) is None


REFUSED = {
    "a stranger": (commit("c", 3), "Member c is not a member of group g."),
    "an old client": (
        commit("a", 3, api_version=8),
        "OffsetCommit version 9 or above must be used by members using the streams group protocol",
    ),
    "a newer epoch": (
        commit("a", 4),
        "Received member epoch 4 is newer than current member epoch 3.",
    ),
    "a task that it has not": (
        commit("a", 2, "words-0", "words-1"),
        "Task 0-1 is not assigned or pending revocation for member.",
    ),
    "a task that it got later": (
        commit("b", 2, "words-1"),
        "Received member epoch 2 is older than assignment epoch 3 for task 0-1.",
    ),
    "a topic of others": (commit("a", 2, "other-0"), "Topic other is not in the topology."),
}


@pytest.mark.parametrize("name", REFUSED)
def test_who_may_not_commit(name: str) -> None:
    command, reason = REFUSED[name]
    rejection = two_members().group.check_offset_commit(command)
    assert isinstance(rejection, Rejection)
    assert rejection.reason == reason


def test_a_task_that_is_being_given_up_may_be_committed_for() -> None:
    driver = StreamsDriver()
    driver.join("a")
    driver.join("b")
    driver.send_ok("a", 2)
    assert driver.group.members["a"].pending_revocation.active
    member_behind = StreamsGroupMember(
        member_id="a",
        member_epoch=5,
        pending_revocation=driver.group.members["a"].pending_revocation,
    )
    driver.group.members["a"] = member_behind
    assert driver.group.check_offset_commit(commit("a", 2, "words-1")) is None


def test_without_a_topology_nothing_old_is_committed() -> None:
    group = StreamsGroup(GROUP)
    group.apply(StreamsCurrentAssignmentStored(**_current(), active=(("0", 0, 2),)))
    rejection = group.check_offset_commit(commit("m", 2))
    assert isinstance(rejection, Rejection)
    assert rejection.reason == "Topology is not available for offset commit validation."


def _current() -> dict[str, Any]:
    return {
        "group_id": GROUP,
        "member_id": "m",
        "member_epoch": 3,
        "previous_member_epoch": 2,
        "state": 1,
    }


def test_anybody_commits_for_an_empty_group() -> None:
    group = StreamsGroup(GROUP)
    assert group.check_offset_commit(commit("", -1)) is None
    assert group.check_position(commit("", -1), (None, 0)) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("member_id", "epoch", "error"),
    [
        (None, -1, None),
        ("a", 3, None),
        ("a", 2, ErrorCode.stale_member_epoch),
        ("c", 3, ErrorCode.unknown_member_id),
        (None, 3, ErrorCode.unknown_server_error),  # a real broker looks for the member null
    ],
)
def test_who_may_read_positions(member_id: str | None, epoch: int, error: ErrorCode | None) -> None:
    command = FetchOffsets(group_id=GROUP, partitions=None, member_id=member_id, member_epoch=epoch)
    rejection = two_members().group.check_offset_fetch(command)
    assert (None if rejection is None else rejection.error) == error


def test_what_others_ask_of_it() -> None:
    driver = two_members()
    group = driver.group
    assert (group.type, group.protocol_type_or_empty) == (GroupType.STREAMS, "streams")
    assert group.offsets_expire_from() is expiry_from_commit
    assert group.check_offset_delete() is None
    rejection = group.check_delete()
    assert rejection is not None
    assert rejection.error is ErrorCode.non_empty_group
    assert group.has_subscriber("words")
    assert group.has_subscriber("by-word")
    assert not group.has_subscriber("counts")
    assert StreamsGroup(GROUP).topology_epoch == -1
    for member_id in ("a", "b"):
        driver.send_ok(member_id, LEFT_EPOCH)
    assert driver.group.check_delete() is None
    assert not driver.group.has_subscriber("words")


def test_its_tombstones_leave_nothing() -> None:
    driver = two_members()
    records = driver.group.tombstones()
    for record in records:
        driver.shard.apply(record, record_offset=0)
    assert driver.shard.groups == {}
    for record in records:
        driver.shard.apply(record, record_offset=0)
    assert driver.shard.groups == {}, "of a group that is not there they mean nothing"
    assert type(records[-2]) is StreamsEpochDeleted


def test_tombstones_of_who_is_not_there_mean_nothing() -> None:
    group = StreamsGroup(GROUP)
    group.apply(StreamsMemberDeleted(group_id=GROUP, member_id="x"))
    group.apply(StreamsCurrentAssignmentDeleted(group_id=GROUP, member_id="x"))
    group.apply(StreamsTargetEpochDeleted(group_id=GROUP))
    assert (group.members, group.assignment_epoch) == ({}, -1)


def test_a_state_of_a_later_release_is_unknown() -> None:
    group = StreamsGroup(GROUP)
    group.apply(StreamsCurrentAssignmentStored(**{**_current(), "state": 9}))
    assert group.members["m"].state is StreamsMemberState.UNKNOWN


def test_a_topology_may_go() -> None:
    group = StreamsGroup(GROUP)
    stored_topology = StreamsTopologyStored(
        group_id=GROUP, topology_epoch=4, subtopologies=COUNTING
    )
    group.apply(stored_topology)
    assert group.topology_epoch == 4
    group.apply(StreamsTopologyDeleted(group_id=GROUP))
    group.apply(StreamsEpochDeleted(group_id=GROUP))
    assert group.topology_epoch == -1


def test_a_topology_that_can_t_be_is_none() -> None:
    group = StreamsGroup(GROUP)
    subtopologies = (Subtopology(subtopology_id="0"),) * 2
    group.apply(
        StreamsTopologyStored(group_id=GROUP, topology_epoch=0, subtopologies=subtopologies)
    )
    assert group.topology is None


def test_an_instance_id_may_change() -> None:
    driver = StreamsDriver()
    driver.join("a", instance_id="i")
    driver.send_ok("a", LEFT_EPOCH, instance_id="i")
    assert driver.group.static_members == {}


MEMBERS = ("a", "b", "c")


class Life(RuleBasedStateMachine):
    """Members come, report, go and fall silent; topics and configs change."""

    def __init__(self) -> None:
        super().__init__()
        self.driver = StreamsDriver(counting_image(words=2))
        self.offset = 1

    def _members_present(self) -> list[str]:
        return [member_name for member_name in MEMBERS if member_name in self.driver.group.members]

    @rule(
        member_id=st.sampled_from(MEMBERS),
        is_static=st.booleans(),
        process=st.sampled_from(["p", "q"]),
        has_endpoint=st.booleans(),
    )
    def join(self, member_id: str, is_static: bool, process: str, has_endpoint: bool) -> None:
        answer = self.driver.send(
            member_id,
            0,
            instance_id=f"i-{member_id}" if is_static else None,
            process_id=process,
            endpoint=("h", 1) if has_endpoint else None,
        )
        if isinstance(answer, Rejection):
            assert answer.error in (
                ErrorCode.unreleased_instance_id,
                ErrorCode.unknown_server_error,
            )

    @precondition(lambda self: self._members_present())
    @rule(data=st.data(), keeps_revoked_tasks=st.booleans(), reports_tasks=st.booleans())
    def beat(self, data: st.DataObject, keeps_revoked_tasks: bool, reports_tasks: bool) -> None:
        member_id = data.draw(st.sampled_from(self._members_present()))
        member = self.driver.group.members[member_id]
        if member.member_epoch < 0:
            return
        owned_tasks = member.assigned.tasks
        if keeps_revoked_tasks and member.pending_revocation.active:
            owned_tasks = Tasks(active=owned_tasks.active | member.pending_revocation.tasks.active)
        answer = self.driver.send(
            member_id,
            member.member_epoch,
            owned=owned_tasks if reports_tasks else None,
            instance_id=member.instance_id,
        )
        if isinstance(answer, Rejection):  # topics went, and with them tasks or what is served
            assert answer.error in (ErrorCode.invalid_request, ErrorCode.unknown_server_error)

    @precondition(lambda self: self._members_present())
    @rule(data=st.data(), for_a_while=st.booleans())
    def leave(self, data: st.DataObject, for_a_while: bool) -> None:
        member_id = data.draw(st.sampled_from(self._members_present()))
        instance_id = self.driver.group.members[member_id].instance_id
        epoch = LEFT_FOR_A_WHILE_EPOCH if for_a_while and instance_id else LEFT_EPOCH
        self.driver.send_ok(member_id, epoch, instance_id=instance_id)

    @precondition(lambda self: self._members_present())
    @rule(data=st.data())
    def silent(self, data: st.DataObject) -> None:
        self.driver.fire(TimerKind.HEARTBEAT, data.draw(st.sampled_from(self._members_present())))

    @rule(partition_count=st.integers(0, 3), has_internal_topics=st.booleans())
    def topics(self, partition_count: int, has_internal_topics: bool) -> None:
        self.offset += 1
        partition_counts = (
            {"words": partition_count, "by_word": partition_count, "counts": partition_count}
            if has_internal_topics
            else {"words": partition_count}
        )
        self.driver.image = counting_image(
            self.offset, **(partition_counts if partition_count else {"other": 1})
        )

    @rule(standby_count=st.integers(0, 1))
    def configure(self, standby_count: int) -> None:
        self.driver.configs = configs(assignor=(("num.standby.replicas", str(standby_count)),))

    @invariant()
    def reload_equals_living(self) -> None:
        assert have_same_log(self.driver.group, self.driver.reload_group())

    @invariant()
    def no_task_runs_twice(self) -> None:
        members = self.driver.group.members.values()
        running_tasks = [task for member in members for task in member.assigned.active]
        revoked_tasks = [task for member in members for task in member.pending_revocation.active]
        assert len(set(running_tasks)) == len(running_tasks)
        assert not set(running_tasks) & set(revoked_tasks)


Life.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
test_random_lives = Life.TestCase


def test_a_shard_takes_the_place_of_an_empty_classic_group() -> None:
    shard = GroupShard(partition=0, coordinator_epoch=0)
    shard.classic_or_new(GROUP, now_ms=0)
    record = StreamsTopologyStored(group_id=GROUP, topology_epoch=0, subtopologies=COUNTING)
    shard.apply(record, record_offset=0)
    assert shard.groups[GROUP].type is GroupType.STREAMS


def test_a_group_takes_what_was_looked_at_ahead() -> None:
    group = two_members().group
    group_state_before = dict(vars(group))
    later_group = run_to_end(group.with_records([StreamsTopologyDeleted(group_id=GROUP)]))
    assert vars(group) == group_state_before
    group.adopt(later_group)
    assert group.topology is None
    assert vars(group) == vars(later_group)


def test_a_target_without_the_member_is_handed_over_as_it_is() -> None:
    refined = RefinedTarget(epoch=2, tasks={"a": Tasks()})
    assert refined.with_new_id("b", "c") is refined
    assert refined.with_new_id("a", "c").tasks == {"c": Tasks()}

"""A share group as its records say: states, what it refuses, tombstones, reload."""

from __future__ import annotations

import uuid

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.support.consumer_groups import GROUP, image
from tests.support.share_groups import ShareDriver, state_of
from txnsim.errors import ErrorCode, Rejection
from txnsim.group.commands import HeartbeatReply
from txnsim.group.consumer_records import (
    EpochDeleted,
    EpochStored,
    ShareCurrentAssignmentDeleted,
    ShareEpochDeleted,
    ShareEpochStored,
    ShareMemberDeleted,
    ShareTargetDeleted,
    ShareTargetEpochDeleted,
    ShareTopicsDeleted,
)
from txnsim.group.offset_commands import CommitOffsets, FetchOffsets
from txnsim.group.offset_machine import expire_offsets
from txnsim.group.sharing.share_group import ShareGroup
from txnsim.group.state import GroupType
from txnsim.releases.rules import Rules


def test_it_is_a_group_like_any_other() -> None:
    group = ShareDriver().group
    assert (group.type, group.type.value) == (GroupType.SHARE, "share")
    assert (group.protocol_type_or_empty, group.state_name) == ("share", "Empty")
    assert group.offsets_expire_from() is None
    assert (group.epoch, group.assignment_epoch) == (1, 1)
    assert ShareGroup(GROUP, Rules(consumer_groups_begin_at_one=False)).epoch == 0


def test_it_has_no_positions() -> None:
    group = ShareDriver().group
    commit = CommitOffsets(group_id=GROUP, positions=())
    expected_rejection = Rejection(
        error=ErrorCode.group_id_not_found, reason=f"Group {GROUP} is not a consumer group."
    )
    assert group.check_offset_commit(commit) == expected_rejection
    assert group.check_position(commit, (uuid.UUID(int=1), 0)) == expected_rejection
    assert (
        group.check_offset_fetch(FetchOffsets(group_id=GROUP, partitions=())) == expected_rejection
    )
    assert group.check_offset_delete() == expected_rejection


def test_it_is_deleted_without_members_only_and_never_expires() -> None:
    driver = ShareDriver()
    driver.beat_ok("m", 0, "t")
    assert driver.group.check_delete() == Rejection(
        error=ErrorCode.non_empty_group, reason="The group is not empty."
    )
    assert driver.group.state_name == "Stable"
    assert (driver.group.has_subscriber("t"), driver.group.has_subscriber("u")) == (True, False)
    driver.beat_ok("m", -1)
    assert driver.group.check_delete() is None
    assert driver.group.is_empty
    assert expire_offsets(driver.shard, driver.group, retention_ms=0, now_ms=2**40) == ()


def test_tombstones_in_the_order_of_a_real_broker() -> None:
    driver = ShareDriver()
    driver.beat_ok("m", 0, "t")
    tombstones = driver.group.tombstones()
    assert [type(record) for record in tombstones] == [
        ShareCurrentAssignmentDeleted,
        ShareTargetDeleted,
        ShareTargetEpochDeleted,
        ShareMemberDeleted,
        ShareTopicsDeleted,
        ShareEpochDeleted,
    ]
    driver.write(tombstones[:-1])
    state_after = state_of(driver.group)
    assert (state_after["members"], state_after["target"], state_after["initializing"]) == (
        {},
        {},
        {},
    )
    assert state_after["assignment_epoch"] == -1
    driver.group.apply(tombstones[-1])
    assert state_of(driver.group) == state_after, "the shard lets go of it"
    driver.write(tombstones[-1:])
    assert driver.shard.groups == {}
    driver.write(tombstones)
    assert driver.shard.groups == {}, "tombstones of what is not there mean nothing"


def test_tombstones_of_members_that_are_not_there_mean_nothing() -> None:
    driver = ShareDriver()
    driver.write([ShareEpochStored(group_id=GROUP, group_epoch=3)])
    driver.write(
        make_kind(group_id=GROUP, member_id="x")
        for make_kind in (ShareCurrentAssignmentDeleted, ShareTargetDeleted, ShareMemberDeleted)
    )
    assert driver.group.members == {}


def test_a_tombstone_of_another_kind_of_group_deletes_nothing() -> None:
    driver = ShareDriver()
    driver.write([ShareEpochStored(group_id=GROUP, group_epoch=3)])
    driver.shard.apply(EpochDeleted(group_id=GROUP), record_offset=9)
    assert driver.group.epoch == 3
    driver.shard.apply(EpochStored(group_id="other", group_epoch=3), record_offset=10)
    driver.shard.apply(ShareEpochDeleted(group_id="other"), record_offset=11)
    assert set(driver.shard.groups) == {GROUP, "other"}


MEMBERS = st.sampled_from("abc")
TOPICS = st.lists(st.sampled_from("tuv"), min_size=1, unique=True)


class ShareGroups(RuleBasedStateMachine):
    """Members come, stay and go while topics grow and share state is initialised."""

    def __init__(self) -> None:
        super().__init__()
        self.driver = ShareDriver(image(t=1, u=2))
        self.epochs: dict[str, int] = {}
        self.version = 1

    @rule(member_id=MEMBERS, topics=TOPICS)
    def joins(self, member_id: str, topics: list[str]) -> None:
        self.epochs[member_id] = self.driver.beat_ok(member_id, 0, *topics).member_epoch

    @rule(member_id=MEMBERS, topics=st.none() | TOPICS)
    def stays(self, member_id: str, topics: list[str] | None) -> None:
        reply = self.driver.beat(member_id, self.epochs.get(member_id, 1), *topics or ())
        assert isinstance(reply, HeartbeatReply) == (member_id in self.epochs)
        if isinstance(reply, HeartbeatReply):
            assert reply.member_epoch >= self.epochs[member_id]
            self.epochs[member_id] = reply.member_epoch

    @rule(member_id=MEMBERS, is_late=st.booleans())
    def goes(self, member_id: str, is_late: bool) -> None:
        driver = self.driver
        if self.epochs.pop(member_id, None) is None:
            return
        if is_late:
            driver.take(
                driver.protocol.remove_late_member(driver.group, member_id, image=driver.image)
            )
        else:
            driver.beat_ok(member_id, -1)

    @rule(partitions=st.integers(1, 4))
    def topic_changes(self, partitions: int) -> None:
        self.version += 1
        self.driver.image = image(self.version, t=partitions, u=2)

    @rule(is_done=st.booleans(), passes_ms=st.sampled_from([0, 40_000]))
    def share_coordinator_answers(self, is_done: bool, passes_ms: int) -> None:
        self.driver.now_ms += passes_ms
        if is_done:
            self.driver.complete_initialization()
        else:
            self.driver.refuse_initialization()

    @invariant()
    def members_are_those_that_stay(self) -> None:
        assert set(self.driver.group.members) == set(self.epochs)
        assert set(self.driver.group.target) == set(self.epochs)

    @invariant()
    def nobody_has_what_is_not_initialised(self) -> None:
        group = self.driver.group
        existing_partitions = {
            (topic.topic_id, partition_index)
            for topic in group.initialized.values()
            for partition_index in topic.partitions
        }
        for member in group.members.values():
            assert member.assigned <= existing_partitions
            assert member.member_epoch <= group.assignment_epoch <= group.epoch

    @invariant()
    def reload_equals_living(self) -> None:
        loaded_groups, living_groups = self.driver.reload_shard().groups, self.driver.shard.groups
        assert loaded_groups.keys() == living_groups.keys()
        for group_id, group in living_groups.items():
            assert state_of(loaded_groups[group_id]) == state_of(group)


ShareGroups.TestCase.settings = settings(max_examples=15, stateful_step_count=20, deadline=None)
TestShareGroups = ShareGroups.TestCase

"""Share groups, heartbeat by heartbeat (GroupMetadataManager's share half)."""

from __future__ import annotations

import pytest

from tests.support.consumer_groups import GROUP, NOW, image, parts, topic_id
from tests.support.share_groups import ShareDriver
from txnsim.errors import ErrorCode, Rejection
from txnsim.group._member_counts import NAMES_MAX
from txnsim.group.commands import HeartbeatReply, TimerCancelled, TimerKind, session_timer
from txnsim.group.consumer_records import (
    DeletingTopic,
    ShareCurrentAssignmentDeleted,
    ShareCurrentAssignmentStored,
    ShareEpochStored,
    ShareMemberDeleted,
    ShareMemberStored,
    ShareTargetDeleted,
    ShareTargetEpochStored,
    ShareTargetStored,
    ShareTopic,
    ShareTopicsStored,
)
from txnsim.group.sharing.share import ShareHeartbeatOutcome
from txnsim.group.sharing.share_topics import records_of_initialized, records_of_refused
from txnsim.interbroker.share_state import UNKNOWN_OFFSET, InitializeShareState, ShareKey
from txnsim.metadata.group_configs import GroupIntervals
from txnsim.releases.rules import Rules
from txnsim.types import uuid_text

E = ErrorCode
T = topic_id("t")


def assignment(reply: HeartbeatReply) -> tuple[object, ...]:
    assert reply.assignment is not None
    return reply.assignment


def topic(*partitions: int, topic_name: str = "t") -> ShareTopic:
    return ShareTopic(topic_id=topic_id(topic_name), topic_name=topic_name, partitions=partitions)


def stored_topics(
    initializing: tuple[ShareTopic, ...] = (), initialized: tuple[ShareTopic, ...] = ()
) -> ShareTopicsStored:
    return ShareTopicsStored(
        group_id=GROUP, initializing=initializing, initialized=initialized, stored_at_ms=NOW
    )


@pytest.mark.parametrize(
    ("member_id", "epoch", "topics", "rack_id", "group_id", "reason"),
    [
        (" ", 0, ("t",), None, GROUP, "MemberId can't be empty."),
        ("m", 0, ("t",), None, "", "GroupId can't be empty."),
        ("m", 0, ("t",), "", GROUP, "RackId can't be empty."),
        ("m", 0, (), None, GROUP, "SubscribedTopicNames must be set in first request."),
        ("m", -2, ("t",), None, GROUP, "MemberEpoch is invalid."),
    ],
)
def test_what_every_group_refuses(
    member_id: str,
    epoch: int,
    topics: tuple[str, ...],
    rack_id: str | None,
    group_id: str,
    reason: str,
) -> None:
    refusal = ShareDriver().beat(member_id, epoch, *topics, rack_id=rack_id, group_id=group_id)
    assert refusal == Rejection(error=E.invalid_request, reason=reason)


def test_the_first_member_gets_nothing_until_its_partitions_are_initialised() -> None:
    driver = ShareDriver(image(t=2))
    reply = driver.beat_ok("m", 0, "t", "missing")
    assert reply == HeartbeatReply(
        member_id="m", member_epoch=2, assignment=(), heartbeat_interval_ms=5_000
    )
    assert [type(record) for record in driver.records] == [
        ShareMemberStored,
        ShareEpochStored,
        ShareTargetStored,
        ShareTargetEpochStored,
        ShareCurrentAssignmentStored,
        ShareTopicsStored,
    ]
    assert driver.records[-1] == stored_topics(initializing=(topic(0, 1),))
    assert driver.effects == [session_timer(GROUP, "m", 45_000)]
    assert driver.initializations == [
        InitializeShareState(key=ShareKey(GROUP, uuid_text(T), partition_index), state_epoch=2)
        for partition_index in (0, 1)
    ]
    assert driver.beat_ok("m", 2).assignment is None
    assert driver.records == [], "they are on their way"
    driver.initializations = [
        InitializeShareState(key=ShareKey(GROUP, uuid_text(T), partition_index), state_epoch=2)
        for partition_index in (0, 1)
    ]
    driver.complete_initialization()
    assert driver.records == [stored_topics(initialized=(topic(0, 1),))]
    reply = driver.beat_ok("m", 2)
    assert (reply.member_epoch, assignment(reply)) == (3, tuple(sorted(parts("t", 0, 1))))


def test_members_share_where_they_are_many() -> None:
    driver = ShareDriver(image(t=1))
    driver.beat_ok("a", 0, "t")
    driver.complete_initialization()
    driver.beat_ok("a", 2)
    second_reply = driver.beat_ok("b", 0, "t")
    assert (second_reply.member_epoch, assignment(second_reply)) == (4, ((T, 0),))
    assert driver.beat_ok("a", 3).member_epoch == 4
    assert driver.beat_ok("a", 4).assignment is None
    assert driver.beat_ok("a", 4, "t").assignment == ((T, 0),), "who names its topics is told"


def test_who_joins_again_keeps_its_epoch() -> None:
    driver = ShareDriver()
    driver.beat_ok("m", 0, "t")
    reply = driver.beat_ok("m", 0, "t")
    assert (reply.member_epoch, assignment(reply), driver.records) == (2, (), [])


def test_another_rack_is_stored_and_changes_no_epoch() -> None:
    driver = ShareDriver()
    driver.beat_ok("m", 0, "t")
    driver.beat("m", 2, rack_id="r")
    (record,) = driver.records
    assert isinstance(record, ShareMemberStored)
    assert record.rack_id == "r"


def test_epochs_that_fence() -> None:
    driver = ShareDriver()
    driver.beat_ok("m", 0, "t")
    driver.beat_ok("m", 2, "u")
    assert driver.beat_ok("m", 2).member_epoch == 3, "it may not have seen the last answer"
    driver.beat_ok("m", 3, "t")
    assert driver.beat("m", 2) == Rejection(
        error=E.fenced_member_epoch,
        reason="The share group member has a smaller member epoch (2) than the one known by the"
        " group coordinator (4), and it does not match the previous member epoch (3). The member"
        " must abandon all its partitions and rejoin.",
    )
    assert driver.beat("m", 5) == Rejection(
        error=E.fenced_member_epoch,
        reason="The share group member has a greater member epoch (5) than the one known by the"
        " group coordinator (4). The member must abandon all its partitions and rejoin.",
    )
    unknown_rejection = Rejection(
        error=E.unknown_member_id, reason=f"Member x is not a member of group {GROUP}."
    )
    assert driver.beat("x", 1) == unknown_rejection
    assert driver.beat("x", -1) == unknown_rejection


def test_a_full_group_takes_no_new_member() -> None:
    driver = ShareDriver(max_size=1)
    driver.beat_ok("a", 0, "t")
    assert driver.beat("b", 0, "t") == Rejection(
        error=E.group_max_size_reached,
        reason="The share group has reached its maximum capacity of 1 members.",
    )
    driver.beat_ok("a", 0, "t")


def test_a_subscription_that_is_too_much_for_the_group_is_refused_and_leaves_nothing() -> None:
    driver = ShareDriver()
    most_names = tuple(str(number) for number in range(NAMES_MAX))
    driver.beat_ok("m", 0, *most_names)
    log_length_before = len(driver.log)
    rejection = driver.beat("n", 0, "t")
    assert isinstance(rejection, Rejection)
    assert rejection.error is E.group_max_size_reached
    assert len(driver.log) == log_length_before
    driver.beat_ok("n", 0, *most_names)


def test_who_leaves_takes_its_records_along() -> None:
    driver = ShareDriver()
    driver.beat_ok("a", 0, "t")
    driver.beat_ok("b", 0, "t")
    tombstones = [
        ShareCurrentAssignmentDeleted(group_id=GROUP, member_id="a"),
        ShareTargetDeleted(group_id=GROUP, member_id="a"),
        ShareMemberDeleted(group_id=GROUP, member_id="a"),
    ]
    assert driver.beat_ok("a", -1) == HeartbeatReply(member_id="a", member_epoch=-1)
    assert driver.records[:3] == tombstones
    assert [type(record) for record in driver.records[3:]] == [ShareEpochStored]
    assert driver.effects == [
        TimerCancelled(kind=TimerKind.HEARTBEAT, group_id=GROUP, member_id="a")
    ]
    driver.take(driver.protocol.remove_late_member(driver.group, "b", image=driver.image))
    assert driver.records[3:] == [
        ShareEpochStored(group_id=GROUP, group_epoch=5),
        ShareTargetEpochStored(group_id=GROUP, assignment_epoch=5),
    ], "nobody is left to assign to"
    assert driver.group.state_name == "Empty"
    late_outcome = driver.protocol.remove_late_member(driver.group, "b", image=driver.image)
    assert late_outcome == ShareHeartbeatOutcome()


def test_partitions_that_are_added_begin_at_0() -> None:
    driver = ShareDriver(image(t=1))
    driver.beat_ok("m", 0, "t")
    driver.complete_initialization()
    driver.beat_ok("m", 2)
    driver.image = image(2, t=2, other=1)
    reply = driver.beat_ok("m", 3)
    assert driver.records[-1] == stored_topics(initializing=(topic(1),), initialized=(topic(0),))
    assert driver.initializations == [
        InitializeShareState(
            key=ShareKey(GROUP, uuid_text(T), 1),
            state_epoch=reply.member_epoch,
            start_offset=0,
        )
    ]
    driver.complete_initialization()
    assert assignment(driver.beat_ok("m", 4)) == tuple(sorted(parts("t", 0, 1)))


def test_up_to_4_3_where_added_partitions_begin_is_not_said() -> None:
    driver = ShareDriver(image(t=1), rules=Rules(share_groups_read_grown_topics_whole=False))
    driver.beat_ok("m", 0, "t")
    driver.complete_initialization()
    driver.beat_ok("m", 2)
    driver.image = image(2, t=2)
    driver.beat_ok("m", 3)
    assert [command.start_offset for command in driver.initializations] == [UNKNOWN_OFFSET]


def test_up_to_4_3_nobody_is_assigned_when_the_last_member_leaves() -> None:
    driver = ShareDriver(rules=Rules(share_groups_assign_nobody=False))
    driver.beat_ok("m", 0, "t")
    epoch_before = driver.group.assignment_epoch
    driver.beat_ok("m", -1)
    assert [type(record) for record in driver.records[3:]] == [ShareEpochStored]
    assert driver.group.assignment_epoch == epoch_before < driver.group.epoch


def test_topics_that_change_nothing_bump_no_epoch() -> None:
    driver = ShareDriver()
    driver.beat_ok("m", 0, "t")
    driver.image = image(2, t=4, other=1)
    assert driver.beat_ok("m", 2).member_epoch == 2
    assert driver.records == []


def test_what_a_share_coordinator_refused_is_asked_for_again() -> None:
    driver = ShareDriver(image(t=1))
    driver.beat_ok("m", 0, "t")
    driver.refuse_initialization()
    assert driver.records == [stored_topics()]
    driver.beat_ok("m", 2)
    assert driver.initializations != []


def test_what_is_not_answered_is_asked_for_again_after_a_while() -> None:
    driver = ShareDriver(image(t=1))
    driver.beat_ok("m", 0, "t")
    driver.now_ms = NOW + 29_999
    driver.beat_ok("m", 2)
    assert driver.initializations == []
    driver.now_ms = NOW + 30_000
    driver.beat_ok("m", 2)
    assert driver.initializations != []
    driver.now_ms += 20_000
    driver.group.restart_initializing(now_ms=driver.now_ms)
    assert driver.protocol.timer_after_load(driver.group, "m") == session_timer(GROUP, "m", 45_000)
    driver.now_ms += 29_999
    driver.beat_ok("m", 2)
    assert driver.initializations == [], "a coordinator that loads waits anew"


def test_a_part_of_what_is_initialising_may_be_done() -> None:
    driver = ShareDriver(image(t=2))
    driver.beat_ok("m", 0, "t")
    driver.initializations = driver.initializations[:1]
    driver.complete_initialization()
    assert driver.records == [stored_topics(initializing=(topic(1),), initialized=(topic(0),))]
    unknown_partitions_by_id = {topic_id("gone"): frozenset({0})}
    (record,) = records_of_initialized(
        driver.group, unknown_partitions_by_id, image=driver.image, now_ms=NOW
    )
    assert isinstance(record, ShareTopicsStored)
    assert [
        share_topic.topic_name for share_topic in record.initialized if share_topic.topic_id != T
    ] == ["<UNKNOWN>"]
    assert records_of_initialized(driver.group, {}, image=driver.image, now_ms=NOW) == ()
    assert records_of_refused(driver.group, {}, now_ms=NOW) == ()


def test_a_topic_that_is_initialised_again_is_not_deleted_any_more() -> None:
    driver = ShareDriver(image(t=1))
    deleting_topic = DeletingTopic(topic_id=T, topic_name="t")
    other_topic = DeletingTopic(topic_id=topic_id("u"), topic_name="u")
    driver.write([ShareTopicsStored(group_id=GROUP, deleting=(deleting_topic, other_topic))])
    driver.beat_ok("m", 0, "t")
    assert driver.group.deleting == {other_topic.topic_id: other_topic}


def test_a_target_is_made_once_in_an_interval() -> None:
    driver = ShareDriver(image(t=1))
    driver.intervals = GroupIntervals(45_000, 5_000, 1_000)
    driver.beat_ok("a", 0, "t")
    driver.complete_initialization()
    assert driver.beat_ok("a", 2).member_epoch == 2
    assert (driver.group.epoch, driver.group.assignment_epoch) == (3, 2)
    driver.beat_ok("a", 2)
    assert driver.group.epoch == 3, "one that is awaited is not asked for again"
    driver.now_ms += 1_000
    reply = driver.beat_ok("a", 2)
    assert (reply.member_epoch, assignment(reply)) == (3, ((T, 0),))


def test_another_subscription_takes_effect_before_another_target() -> None:
    driver = ShareDriver(image(t=1, u=1))
    driver.intervals = GroupIntervals(45_000, 5_000, 1_000)
    driver.beat_ok("a", 0, "t")
    driver.complete_initialization()
    driver.now_ms += 1_000
    driver.beat_ok("a", 2)
    reply = driver.beat_ok("a", 3, "u")
    assert (reply.member_epoch, assignment(reply)) == (3, ())


def test_what_a_target_keeps_of_a_topic_that_is_unknown_asks_for_no_other_target() -> None:
    driver = ShareDriver(image(t=1))
    driver.beat_ok("m", 0, "t")
    driver.complete_initialization()
    driver.beat_ok("m", 2)
    target = tuple(sorted(parts("t", 0) | parts("gone", 0)))
    driver.write([ShareTargetStored(group_id=GROUP, member_id="m", partitions=target)])
    assert driver.beat_ok("m", 3).member_epoch == 3
    assert driver.records == []

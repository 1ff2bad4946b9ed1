"""The consumer protocol, heartbeat by heartbeat (GroupMetadataManager's consumer half)."""

from __future__ import annotations

import pytest

from tests.support.consumer_groups import GROUP, NOW, ConsumerDriver, image, parts
from txnsim.errors import ErrorCode, InvariantViolation, Rejection
from txnsim.group._consumer_members import check_heartbeat
from txnsim.group._member_counts import REGEXES_MAX
from txnsim.group.commands import (
    ConsumerHeartbeat,
    ConsumerOutcome,
    HeartbeatReply,
    ResolveRegexes,
    TimerCancelled,
    TimerKind,
    TimerSet,
)
from txnsim.group.consumer_group import (
    LEFT_EPOCH,
    LEFT_FOR_A_WHILE_EPOCH,
    ConsumerGroup,
    MemberState,
)
from txnsim.group.consumer_records import EpochStored, RegexDeleted, SubscriptionDeleted
from txnsim.group.consumer_regex import REFRESH_MIN_MS, matching_topics, resolve
from txnsim.metadata.group_configs import GroupIntervals
from txnsim.releases.rules import LATEST_RULES, Rules
from txnsim.wire.codec import run_to_end

E = ErrorCode


def session(member_id: str) -> TimerSet:
    return TimerSet(kind=TimerKind.HEARTBEAT, group_id=GROUP, member_id=member_id, delay_ms=45_000)


def revocation(member_id: str, epoch: int) -> TimerSet:
    return TimerSet(
        kind=TimerKind.REVOCATION,
        group_id=GROUP,
        member_id=member_id,
        delay_ms=60_000,
        generation=epoch,
    )


def timer_cancelled(member_id: str, timer_kind: TimerKind) -> TimerCancelled:
    return TimerCancelled(kind=timer_kind, group_id=GROUP, member_id=member_id)


def error(outcome: HeartbeatReply | Rejection) -> ErrorCode:
    return outcome.error if isinstance(outcome, Rejection) else E.none


# Joining


def test_the_first_member_gets_everything_at_once() -> None:
    driver = ConsumerDriver()
    reply = driver.require_reply(driver.join("a", "t"))
    assert (reply.member_id, reply.member_epoch) == ("a", 2)
    assert reply.assignment == tuple(sorted(parts("t", 0, 1, 2, 3)))
    assert reply.heartbeat_interval_ms == 5_000
    assert (driver.group.epoch, driver.group.assignment_epoch) == (2, 2)
    assert driver.group.state_name == "Stable"
    assert session("a") in driver.effects


def test_a_second_member_waits_until_the_first_one_gives_up() -> None:
    driver = ConsumerDriver()
    driver.join("a", "t")
    second_reply = driver.require_reply(driver.join("b", "t"))
    assert (second_reply.member_epoch, second_reply.assignment) == (3, ())
    assert driver.group.state_name == "Reconciling"
    first_reply = driver.require_reply(driver.beat("a", 2))
    assert first_reply.member_epoch == 2
    assert first_reply.assignment is not None
    assert len(first_reply.assignment) == 2
    still_owned = frozenset(first_reply.assignment)
    assert revocation("a", 2) in driver.effects
    assert driver.require_reply(driver.beat("b", 3)).assignment is None
    reply = driver.require_reply(driver.beat("a", 2, owned_partitions=still_owned))
    assert (reply.member_epoch, reply.assignment) == (3, None)
    assert timer_cancelled("a", TimerKind.REVOCATION) in driver.effects
    freeing_reply = driver.require_reply(driver.beat("b", 3))
    assert frozenset(freeing_reply.assignment or ()) == parts("t", 0, 1, 2, 3) - still_owned
    assert driver.group.state_name == "Stable"


def test_a_client_of_version_0_may_leave_the_id_to_the_coordinator() -> None:
    driver = ConsumerDriver()
    reply = driver.require_reply(driver.join("", "t", member_id_required=False))
    assert reply.member_id == "id1"


def test_a_full_group_takes_no_new_member() -> None:
    driver = ConsumerDriver(max_size=1)
    driver.join("a", "t", instance_id="i")
    assert error(driver.join("b", "t")) is E.group_max_size_reached
    assert error(driver.beat("a", 2, instance_id="i")) is E.none


def test_a_static_member_comes_back_to_a_full_group() -> None:
    driver = ConsumerDriver(max_size=1)
    driver.join("a", "t", instance_id="i")
    driver.beat("a", -2, instance_id="i")
    assert error(driver.join("b", "t", instance_id="other")) is E.group_max_size_reached
    assert driver.require_reply(driver.join("b", "t", instance_id="i")).member_id == "b"


def test_before_kafka_20601_a_static_member_did_not_come_back_to_a_full_group() -> None:
    driver = ConsumerDriver(max_size=1, rules=Rules(full_groups_take_static_members_back=False))
    driver.join("a", "t", instance_id="i")
    driver.beat("a", -2, instance_id="i")
    assert error(driver.join("b", "t", instance_id="i")) is E.group_max_size_reached
    assert driver.require_reply(driver.join("a", "t", instance_id="i")).member_id == "a"


def test_before_kafka_20268_a_group_began_at_epoch_0() -> None:
    driver = ConsumerDriver(rules=Rules(consumer_groups_begin_at_one=False))
    assert (driver.group.epoch, driver.group.assignment_epoch) == (0, 0)
    assert driver.require_reply(driver.join("a", "t")).member_epoch == 1
    assert (driver.group.epoch, driver.group.assignment_epoch) == (1, 1)


def test_before_kafka_20268_a_new_group_left_epoch_0_also_without_a_topic() -> None:
    # A real 4.0.2 and 4.1.2: "group.groupEpoch() == 0" raises the epoch.
    driver = ConsumerDriver(rules=Rules(consumer_groups_begin_at_one=False))
    assert driver.require_reply(driver.join("a")).member_epoch == 1
    assert (driver.group.epoch, driver.group.assignment_epoch) == (1, 1)
    assert driver.require_reply(driver.join("b", "t")).member_epoch == 2


def test_a_member_that_was_fenced_joins_again() -> None:
    driver = ConsumerDriver()
    driver.join("a", "t")
    driver.join("b", "t")
    driver.beat("a", 2, owned_partitions=parts("t", 0, 1))
    assert driver.require_reply(driver.join("a", "t")).member_epoch == 3


def test_before_kafka_19233_a_member_that_is_known_did_not_join_again() -> None:
    driver = ConsumerDriver(rules=Rules(fenced_members_join_again=False))
    driver.join("a", "t")
    assert driver.require_reply(driver.join("a", "t")).member_epoch == 2, (
        "it may have missed the answer"
    )
    driver.join("b", "t")
    driver.beat("a", 2, owned_partitions=parts("t", 0, 1, 2, 3))
    driver.beat("a", 2, owned_partitions=frozenset(driver.group.members["a"].assigned))
    assert driver.group.members["a"].member_epoch == 3
    rejection = driver.join("a", "t")
    assert isinstance(rejection, Rejection)
    assert rejection.error is E.fenced_member_epoch
    assert "smaller member epoch (0)" in rejection.reason


def test_where_the_last_member_leaves_its_assignment_ends_with_it() -> None:
    driver = ConsumerDriver()
    for member in ("a", "b"):
        driver.join(member, "t")
    driver.beat("a", -1)
    assert driver.group.assignment_epoch < driver.group.epoch
    driver.beat("b", -1)
    assert (driver.group.epoch, driver.group.assignment_epoch) == (5, 5)
    assert driver.group.assigned_at_ms == 0


def test_before_kafka_20442_the_assignment_of_an_empty_group_stayed_behind() -> None:
    driver = ConsumerDriver(rules=Rules(last_leaver_ends_assignment=False))
    driver.join("a", "t")
    driver.beat("a", -1)
    assert (driver.group.epoch, driver.group.assignment_epoch) == (3, 2)


def test_heartbeats_that_change_nothing_write_nothing() -> None:
    driver = ConsumerDriver()
    driver.join("a", "t")
    log_length_before = len(driver.log)
    reply = driver.require_reply(driver.beat("a", 2))
    assert reply.assignment is None
    assert len(driver.log) == log_length_before


def test_a_full_heartbeat_gets_a_full_answer() -> None:
    driver = ConsumerDriver()
    driver.join("a", "t")
    reply = driver.require_reply(
        driver.beat(
            "a",
            2,
            rebalance_timeout_ms=60_000,
            topic_names=("t",),
            owned_partitions=parts("t", 0, 1, 2, 3),
        )
    )
    assert reply.assignment is not None


def test_rejoining_with_epoch_0_goes_on_where_the_member_was() -> None:
    driver = ConsumerDriver()
    driver.join("a", "t")
    reply = driver.require_reply(driver.join("a", "t"))
    assert reply.member_epoch == 2
    assert reply.assignment is not None


# Changes


def test_topics_that_change_raise_the_epoch() -> None:
    driver = ConsumerDriver()
    driver.join("a", "t")
    driver.image = image(offset=2, t=5)
    reply = driver.require_reply(driver.beat("a", 2))
    assert (driver.group.epoch, reply.member_epoch) == (3, 3)
    assert len(reply.assignment or ()) == 5
    driver.image = image(offset=3, t=5, other=1)
    driver.beat("a", 3)
    assert driver.group.epoch == 3


def test_subscribing_to_something_else_is_seen_to_at_once() -> None:
    driver = ConsumerDriver(image(t=1, u=1))
    driver.join("a", "t")
    reply = driver.require_reply(driver.beat("a", 2, topic_names=("u",)))
    assert reply.assignment == ()
    assert driver.group.members["a"].state is MemberState.UNREVOKED_PARTITIONS
    last_reply = driver.require_reply(driver.beat("a", 2, owned_partitions=frozenset()))
    assert frozenset(last_reply.assignment or ()) == parts("u", 0)
    assert last_reply.member_epoch == 3


def test_topics_that_do_not_exist_are_waited_for() -> None:
    driver = ConsumerDriver(image())
    assert driver.require_reply(driver.join("a", "t")).assignment == ()
    driver.image = image(offset=2, t=1)
    assert driver.require_reply(driver.beat("a", 2)).assignment == tuple(parts("t", 0))


@pytest.mark.parametrize(
    ("rules", "epoch"),
    [
        (LATEST_RULES, 3),
        (Rules(another_assignor_is_a_change=False), 2),  # before KAFKA-20434
    ],
)
def test_members_that_prefer_another_assignor_get_another_assignment(
    rules: Rules, epoch: int
) -> None:
    driver = ConsumerDriver(rules=rules)
    driver.join("a", "t")
    driver.beat("a", 2, server_assignor="uniform")
    assert driver.group.epoch == 2, "it is the default"
    driver.beat("a", 2, server_assignor="range")
    assert (driver.group.epoch, driver.group.assignment_epoch) == (epoch, epoch)


def test_the_assignor_that_most_want_is_taken() -> None:
    driver = ConsumerDriver()
    driver.join("a", "t", server_assignor="range")
    assert driver.group.preferred_assignor() == "range"
    driver.beat("a", 2, server_assignor="uniform")
    assert driver.group.preferred_assignor() == "uniform"


IN_BACKGROUND = Rules(assignors_run_in_background=True)


def test_an_assignor_in_the_background_comes_to_later_heartbeats() -> None:
    driver = ConsumerDriver(rules=IN_BACKGROUND)
    join_reply = driver.require_reply(driver.join("a", "t"))
    assert (join_reply.member_epoch, join_reply.assignment) == (1, ()), (
        "the epoch of an empty assignment"
    )
    assert (driver.group.epoch, driver.group.assignment_epoch) == (2, 1)
    assert driver.group.state_name == "Assigning"
    assert driver.run_assignors() == 1
    assert (driver.group.assignment_epoch, driver.group.state_name) == (2, "Reconciling")
    moved_reply = driver.require_reply(driver.beat("a", 1))
    assert (moved_reply.member_epoch, moved_reply.assignment) == (2, tuple(parts("t", 0, 1, 2, 3)))
    assert driver.replay_log().target == driver.group.target


def test_runs_of_an_assignor_for_an_epoch_that_is_over_come_to_nothing() -> None:
    driver = ConsumerDriver(rules=IN_BACKGROUND)
    driver.join("a", "t")
    driver.beat("a", 1)
    driver.join("b", "t")
    assert driver.group.epoch == 3
    assert driver.run_assignors() == 1, "of two for epoch 2 and one for epoch 3"
    assert driver.group.assignment_epoch == 3
    first_reply, second_reply = (driver.require_reply(driver.beat(member, 1)) for member in "ab")
    assert (first_reply.member_epoch, second_reply.member_epoch) == (3, 3)
    assert {*(first_reply.assignment or ()), *(second_reply.assignment or ())} == parts(
        "t", 0, 1, 2, 3
    )


def test_target_assignments_are_made_no_more_often_than_allowed() -> None:
    driver = ConsumerDriver()
    driver.intervals = GroupIntervals(45_000, 5_000, 1_000)
    driver.join("a", "t")
    second_reply = driver.require_reply(driver.join("b", "t"))
    assert (second_reply.member_epoch, second_reply.assignment) == (2, ())
    assert driver.group.state_name == "Assigning"
    driver.now_ms += 1_000
    driver.beat("b", 2)
    assert (driver.group.epoch, driver.group.assignment_epoch) == (3, 3)


def test_a_member_s_details_are_written_without_a_rebalance() -> None:
    driver = ConsumerDriver()
    driver.join("a", "t")
    driver.beat("a", 2, rack_id="r")
    assert driver.group.members["a"].rack_id == "r"
    assert driver.group.epoch == 2


# Epochs


@pytest.mark.parametrize(
    ("epoch", "owned_partitions", "expected_error"),
    [
        (3, None, E.none),
        (4, None, E.fenced_member_epoch),
        (2, None, E.fenced_member_epoch),
        (2, frozenset(), E.none),
        (2, parts("t", 0, 1, 2, 3), E.fenced_member_epoch),
    ],
)
def test_only_a_member_that_missed_one_answer_may_be_an_epoch_behind(
    epoch: int, owned_partitions: frozenset[object] | None, expected_error: ErrorCode
) -> None:
    driver = ConsumerDriver()
    driver.join("a", "t")
    driver.join("b", "t")
    driver.beat("a", 2)
    driver.beat("a", 2, owned_partitions=parts("t", 0, 1))
    assert driver.group.members["a"].member_epoch == 3
    assert error(driver.beat("a", epoch, owned_partitions=owned_partitions)) is expected_error


def test_strangers_are_unknown() -> None:
    driver = ConsumerDriver()
    assert error(driver.beat("a", 2)) is E.unknown_member_id
    assert error(driver.beat("a", 2, instance_id="i")) is E.unknown_member_id
    assert error(driver.beat("a", LEFT_EPOCH)) is E.unknown_member_id
    assert error(driver.beat("a", LEFT_EPOCH, instance_id="i")) is E.unknown_member_id


# Leaving


def test_what_a_member_leaves_is_given_to_the_others() -> None:
    driver = ConsumerDriver()
    driver.join("a", "t")
    driver.join("b", "t")
    reply = driver.require_reply(driver.beat("a", LEFT_EPOCH))
    assert (reply.member_id, reply.member_epoch, reply.assignment) == ("a", LEFT_EPOCH, None)
    assert {timer_cancelled("a", timer_kind) for timer_kind in TimerKind} <= set(driver.effects)
    told_reply = driver.require_reply(driver.beat("b", 3))
    assert frozenset(told_reply.assignment or ()) == parts("t", 0, 1, 2, 3)


def test_with_the_last_member_the_group_is_empty_and_its_epoch_is_raised() -> None:
    driver = ConsumerDriver()
    driver.join("a", "t")
    driver.beat("a", LEFT_EPOCH)
    assert driver.group.state_name == "Empty"
    assert driver.group.epoch == 3


def too_late(driver: ConsumerDriver, *timers: TimerSet) -> ConsumerOutcome:
    return driver.protocol.remove_late_members(driver.group, timers, image=driver.image)


def test_a_silent_member_is_taken_off() -> None:
    driver = ConsumerDriver()
    driver.join("a", "t")
    driver.take(too_late(driver, session("a")))
    assert driver.group.members == {}
    assert too_late(driver, session("a")).records == ()


def test_who_does_not_give_up_in_time_is_taken_off_unless_it_has_moved_on() -> None:
    driver = ConsumerDriver()
    driver.join("a", "t")
    driver.join("b", "t")
    driver.beat("a", 2)
    assert too_late(driver, revocation("a", 0)).records == ()
    assert too_late(driver, revocation("x", 0)).records == ()
    driver.take(too_late(driver, revocation("a", 2)))
    assert SubscriptionDeleted(group_id="g", member_id="a") in driver.log


def test_a_timer_that_no_consumer_group_has_is_a_bug_also_of_a_member_that_is_gone() -> None:
    driver = ConsumerDriver()
    driver.join("a", "t")
    for member_id in ("a", "gone"):
        timer_set = TimerSet(
            kind=TimerKind.ASSIGNMENT, group_id="g", member_id=member_id, delay_ms=1_000
        )
        with pytest.raises(InvariantViolation, match="the consumer group g has no timer ASSIGN"):
            too_late(driver, session("a"), timer_set)


# Static members


def test_a_static_member_that_left_for_a_while_gets_back_what_it_had() -> None:
    driver = ConsumerDriver()
    driver.join("a", "t", instance_id="i")
    driver.join("b", "t")
    driver.beat("a", 2, instance_id="i")
    driver.beat("a", 2, instance_id="i", owned_partitions=parts("t", 0, 1))
    owned_before = frozenset(driver.group.members["a"].assigned)
    reply = driver.require_reply(driver.beat("a", LEFT_FOR_A_WHILE_EPOCH, instance_id="i"))
    assert reply.member_epoch == LEFT_FOR_A_WHILE_EPOCH
    assert driver.group.epoch == 3
    heartbeat_reply = driver.require_reply(driver.join("z", "t", instance_id="i"))
    assert frozenset(heartbeat_reply.assignment or ()) == owned_before
    assert driver.group.epoch == 3
    assert "a" not in driver.group.members
    assert driver.group.static_members == {"i": "z"}
    assert error(driver.beat("a", 3, instance_id="i")) is E.fenced_instance_id
    assert error(driver.beat("a", LEFT_EPOCH, instance_id="i")) is E.fenced_instance_id
    assert error(driver.beat("z", LEFT_EPOCH, instance_id="i")) is E.none


def test_an_instance_that_has_not_left_is_not_released() -> None:
    driver = ConsumerDriver()
    driver.join("a", "t", instance_id="i")
    assert error(driver.join("z", "t", instance_id="i")) is E.unreleased_instance_id


def test_a_static_member_at_a_wrong_epoch_is_fenced() -> None:
    driver = ConsumerDriver()
    driver.join("a", "t", instance_id="i")
    assert error(driver.beat("a", 9, instance_id="i")) is E.fenced_member_epoch
    assert error(driver.beat("a", 2, instance_id="i")) is E.none


# Coordinators that change


def test_a_loading_coordinator_knows_all_that_the_last_one_knew() -> None:
    driver = ConsumerDriver(image(t=4, u=2))
    driver.join("a", "t", instance_id="i")
    driver.join("b", "t", "u")
    driver.beat("a", 2, instance_id="i")
    driver.beat("a", LEFT_FOR_A_WHILE_EPOCH, instance_id="i")
    driver.join("c", "u", instance_id="i")
    loaded_group = driver.replay_log()
    for field_name in (
        "epoch",
        "assignment_epoch",
        "members",
        "static_members",
        "target",
        "resolved",
    ):
        assert getattr(loaded_group, field_name) == getattr(driver.group, field_name), field_name
    for partition in parts("t", 0, 1, 2, 3) | parts("u", 0, 1):
        assert loaded_group.owner_of(partition) == driver.group.owner_of(partition)


def test_members_found_in_the_log_have_a_session_to_show_themselves() -> None:
    driver = ConsumerDriver()
    driver.join("a", "t")
    driver.join("b", "t")
    driver.beat("a", 2)
    a, b = (
        driver.protocol.timers_after_load("g", driver.group.members[member_id])
        for member_id in "ab"
    )
    assert a == (
        session("a"),
        revocation("a", 2),
    )
    assert b == (session("b"),)


def test_a_member_in_a_state_of_a_later_release_is_fenced() -> None:
    driver = ConsumerDriver()
    driver.join("a", "t")
    from txnsim.group.consumer_records import CurrentAssignmentStored

    driver.write(
        (
            CurrentAssignmentStored(
                group_id="g", member_id="a", member_epoch=2, previous_member_epoch=0, state=99
            ),
        )
    )
    assert error(driver.beat("a", 2)) is E.fenced_member_epoch


def test_the_hash_of_topics_is_kept_with_the_epoch() -> None:
    driver = ConsumerDriver()
    driver.join("a", "nothing")
    (stored_epoch,) = [record for record in driver.log if isinstance(record, EpochStored)]
    assert stored_epoch.metadata_hash == 0
    driver.join("b", "t")
    assert driver.group.metadata_hash != 0
    assert driver.now_ms == NOW


# Subscriptions by regular expression. The rules of
# GroupMetadataManager.maybeUpdateRegularExpressions and handleRegularExpressionsResult. A member
# whose expression has never been looked up is at the group's first epoch, with nothing.


@pytest.mark.parametrize("regex", ["(", "a{1000}{1000}"])
def test_an_expression_that_another_program_has_written_matches_nothing(regex: str) -> None:
    topics_by_regex = run_to_end(matching_topics([regex, "ord.*"], image=image(orders=1)))
    assert topics_by_regex == {regex: (), "ord.*": ("orders",)}


def lookups(driver: ConsumerDriver) -> list[tuple[str, ...]]:
    return [effect.regexes for effect in driver.effects if isinstance(effect, ResolveRegexes)]


def test_an_expression_is_looked_up_after_the_heartbeat_and_raises_the_epoch() -> None:
    driver = ConsumerDriver(image(orders=1, other=1))
    reply = driver.require_reply(driver.join("a", topic_regex="ord.*"))
    assert (reply.member_epoch, reply.assignment) == (1, ())
    assert lookups(driver) == [("ord.*",)]
    driver.look_up()
    assert driver.group.resolved["ord.*"].topics == {"orders"}
    told_reply = driver.require_reply(driver.join("a", topic_regex="ord.*"))
    assert frozenset(told_reply.assignment or ()) == parts("orders", 0)
    assert driver.group.has_subscriber("orders")
    assert not driver.group.has_subscriber("other")


def test_what_was_looked_up_is_assigned_without_waiting_for_the_interval() -> None:
    driver = ConsumerDriver(image(orders=1))
    driver.intervals = GroupIntervals(45_000, 5_000, 1_000)
    driver.join("a", topic_regex="ord.*")
    assert driver.group.assigned_at_ms == 0  # a new group is assigned to its first epoch
    driver.look_up()
    reply = driver.require_reply(driver.join("a", topic_regex="ord.*"))
    assert frozenset(reply.assignment or ()) == parts("orders", 0)


def test_an_expression_for_nothing_raises_no_epoch() -> None:
    driver = ConsumerDriver(image(other=1))
    driver.join("a", topic_regex="ord.*")
    driver.look_up()
    assert driver.group.resolved["ord.*"].topics == frozenset()
    assert driver.group.epoch == 1


def test_names_and_an_expression_add_up() -> None:
    driver = ConsumerDriver(image(orders=1, other=1))
    epoch = driver.require_reply(driver.join("a", "other", topic_regex="ord.*")).member_epoch
    driver.look_up()
    reply = driver.require_reply(driver.beat("a", epoch))
    assert frozenset(reply.assignment or ()) == parts("orders", 0) | parts("other", 0)


def test_an_expression_that_is_none_is_refused() -> None:
    driver = ConsumerDriver()
    refusal = driver.join("a", topic_regex="(")
    assert isinstance(refusal, Rejection)
    assert refusal.error is ErrorCode.invalid_regular_expression
    assert "SubscribedTopicRegex `(` is not a valid regular expression" in refusal.reason


def test_a_group_has_so_many_expressions_and_no_more() -> None:
    driver = ConsumerDriver()
    for regex_number in range(REGEXES_MAX):
        assert not isinstance(
            driver.join(f"m{regex_number}", topic_regex=f"t{regex_number}"), Rejection
        )
    refusal = driver.join("last", topic_regex="one.more")
    assert isinstance(refusal, Rejection)
    assert refusal.error is ErrorCode.invalid_regular_expression
    assert f"the group has {REGEXES_MAX} others" in refusal.reason


def test_an_expression_that_is_known_already_counts_at_once() -> None:
    driver = ConsumerDriver(image(orders=2))
    driver.join("a", topic_regex="ord.*")
    driver.look_up()
    driver.join("a", topic_regex="ord.*")
    epoch_before = driver.group.epoch
    driver.join("b", topic_regex="ord.*")
    assert driver.group.epoch == epoch_before + 1
    assert lookups(driver) == []


def test_leaving_an_expression_deletes_it_with_its_last_user() -> None:
    driver = ConsumerDriver(image(orders=2))
    driver.join("a", topic_regex="ord.*")
    driver.look_up()
    epoch = driver.require_reply(driver.join("a", topic_regex="ord.*")).member_epoch
    driver.beat("a", epoch, topic_regex="")
    assert driver.group.resolved == {}
    assert RegexDeleted(group_id="g", regex="ord.*") in driver.log
    driver.now_ms += REFRESH_MIN_MS + 1
    driver.beat("a", driver.group.members["a"].member_epoch, topic_regex="o.*")
    driver.look_up()
    assert list(driver.group.resolved) == ["o.*"]
    driver.beat("a", -1)
    assert driver.group.resolved == {}


def test_an_expression_of_two_members_outlives_one_of_them() -> None:
    driver = ConsumerDriver(image(orders=2))
    driver.join("a", topic_regex="ord.*")
    driver.look_up()
    driver.join("b", topic_regex="ord.*")
    driver.beat("a", -1)
    assert list(driver.group.resolved) == ["ord.*"]


def test_an_expression_of_two_members_stays_when_one_of_them_takes_another() -> None:
    driver = ConsumerDriver(image(orders=2))
    driver.join("a", topic_regex="ord.*")
    driver.look_up()
    driver.join("b", topic_regex="ord.*")
    driver.beat("a", driver.group.members["a"].member_epoch, topic_regex="o.*")
    assert RegexDeleted(group_id="g", regex="ord.*") not in driver.log
    driver.beat("b", driver.group.members["b"].member_epoch, topic_regex="o.*")
    assert RegexDeleted(group_id="g", regex="ord.*") in driver.log


def test_new_topics_are_looked_for_but_not_too_often() -> None:
    driver = ConsumerDriver(image(orders=1))
    driver.join("a", topic_regex="ord.*")
    driver.look_up()
    epoch = driver.require_reply(driver.join("a", topic_regex="ord.*")).member_epoch
    driver.image = image(offset=2, orders=1, ordeals=1)
    driver.beat("a", epoch)
    assert lookups(driver) == []
    driver.now_ms += REFRESH_MIN_MS + 1
    driver.beat("a", epoch)
    driver.look_up()
    reply = driver.require_reply(driver.beat("a", driver.group.members["a"].member_epoch))
    assert len(reply.assignment or ()) == 2
    driver.now_ms += REFRESH_MIN_MS + 1
    driver.beat("a", reply.member_epoch)
    assert lookups(driver) == []
    driver.now_ms += 600_001
    driver.beat("a", reply.member_epoch)
    assert lookups(driver) == [("ord.*",)]


def test_a_lookup_without_members_is_dropped_and_one_without_news_raises_nothing() -> None:
    driver = ConsumerDriver(image(orders=1))
    assert resolve(driver.group, {"x": ()}, image=driver.image, now_ms=1) == ()
    driver.join("a", topic_regex="ord.*")
    driver.look_up()
    second_records = resolve(driver.group, {"ord.*": ("orders",)}, image=driver.image, now_ms=2)
    assert [type(record).__name__ for record in second_records] == ["RegexStored"]


@pytest.mark.parametrize(
    ("regex", "reason"),
    [
        ("(", "missing closing )"),
        ("[a", "missing closing ]"),
        ("*a", "missing argument to repetition operator"),
        ("[z-a]", "invalid character class range"),
    ],
)
def test_what_is_no_expression_is_refused_in_kafka_s_words(regex: str, reason: str) -> None:
    rejection = ConsumerDriver(image(orders=1)).join("a", topic_regex=regex)
    assert isinstance(rejection, Rejection)
    assert rejection.error is ErrorCode.invalid_regular_expression
    assert rejection.reason == (
        f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {reason}."
    )


def test_topics_that_the_member_may_not_describe_are_left_out() -> None:
    driver = ConsumerDriver(image(orders=1, ordinary=1))
    looked_up_names: list[str] = []

    def may_describe(name: str) -> bool:
        looked_up_names.append(name)
        return name == "ordinary"

    driver.join("a", topic_regex="ord.*", may_describe=may_describe)
    driver.look_up()
    assert sorted(looked_up_names) == ["orders", "ordinary"]
    assert driver.group.resolved["ord.*"].topics == {"ordinary"}


# What is wrong with a heartbeat whatever the group. The rules of
# GroupCoordinatorService.throwIfConsumerGroupHeartbeatRequestIsInvalid.


JOIN = {
    "member_epoch": 0,
    "rebalance_timeout_ms": 1,
    "owned_partitions": frozenset(),
    "topic_names": (),
}


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        (JOIN, None),
        ({"member_epoch": 3}, None),
        ({**JOIN, "member_id": ""}, "MemberId can't be empty."),
        ({**JOIN, "member_id": "", "member_id_required": False}, None),
        (
            {"member_epoch": 1, "member_id": "", "member_id_required": False},
            "MemberId can't be empty.",
        ),
        (
            {"member_epoch": -1, "member_id": "", "member_id_required": False},
            "MemberId can't be empty.",
        ),
        ({**JOIN, "group_id": ""}, "GroupId can't be empty."),
        ({**JOIN, "instance_id": ""}, "InstanceId can't be empty."),
        ({**JOIN, "rack_id": ""}, "RackId can't be empty."),
        (
            {**JOIN, "rebalance_timeout_ms": -1},
            "RebalanceTimeoutMs must be provided in first request.",
        ),
        ({**JOIN, "owned_partitions": None}, "TopicPartitions must be empty when (re-)joining."),
        (
            {**JOIN, "topic_names": None},
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when "
            "(re-)joining.",
        ),
        ({**JOIN, "topic_names": None, "topic_regex": "t.*"}, None),
        ({"member_epoch": -2}, "InstanceId can't be null."),
        ({"member_epoch": -2, "instance_id": "i"}, None),
        ({"member_epoch": -3}, "MemberEpoch is invalid."),
    ],
)
def test_a_heartbeat_is_complete(values: dict[str, object], complaint: str | None) -> None:
    command = ConsumerHeartbeat(
        **{  # type: ignore[arg-type]
            "group_id": "g",
            "member_id": "m",
            "client_id": "c",
            "client_host": "/h",
            **values,
        }
    )
    rejection = check_heartbeat(command, assignors=("uniform",))
    if complaint is None:
        assert rejection is None
    else:
        assert rejection is not None
        assert (rejection.error, rejection.reason) == (ErrorCode.invalid_request, complaint)


def test_an_unknown_assignor_is_unsupported() -> None:
    command = ConsumerHeartbeat(
        group_id="g",
        member_id="m",
        member_epoch=1,
        server_assignor="mine",
        client_id="c",
        client_host="/h",
    )
    rejection = check_heartbeat(command, assignors=("uniform", "range"))
    assert rejection is not None
    assert rejection.error is ErrorCode.unsupported_assignor
    assert "Supported assignors: uniform, range." in rejection.reason


def test_who_is_not_there_is_named() -> None:
    assert ConsumerGroup("g").unknown_member("m").reason == "Member m is not a member of group g."

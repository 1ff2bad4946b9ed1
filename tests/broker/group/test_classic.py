"""The classic group protocol, request by request (GroupMetadataManager's classic half)."""

from __future__ import annotations

import pytest

from tests.support.groups import DELAY_MS, NOW, RANGE, ClassicDriver
from txnsim.errors import ErrorCode, InvariantViolation
from txnsim.group.classic import PROTOCOLS_MAX
from txnsim.group.commands import NewGroupStored, TimerKind
from txnsim.group.state import ClassicGroupState

E = ErrorCode
S = ClassicGroupState

STICKY_PROTOCOL = (("sticky", b"s"),)
TWO_PROTOCOLS = (("sticky", b"s"), ("range", b"r"))


def group_awaiting_assignment() -> tuple[ClassicDriver, str, str]:
    """A group of two members that wait for their assignments; its leader and its follower."""
    driver = ClassicDriver()
    waiters = [driver.join(), driver.join()]
    while driver.group.state_name == S.PREPARING_REBALANCE.value:
        driver.fire(TimerKind.JOIN)
    leader, follower = (driver.join_reply(waiter).member_id for waiter in waiters)
    return driver, leader, follower


# JoinGroup: new members


def test_a_new_dynamic_member_gets_an_id_and_must_join_with_it() -> None:
    driver = ClassicDriver()
    first_join = driver.join_reply(driver.join(is_member_id_required=True))
    assert first_join.error is E.member_id_required
    assert first_join.member_id == "client-id1"
    assert driver.timers[TimerKind.HEARTBEAT, "client-id1"].delay_ms == 10_000
    waiter = driver.join("client-id1", is_member_id_required=True)
    driver.fire(TimerKind.JOIN)
    assert driver.join_reply(waiter).generation == 1


def test_an_unused_id_is_forgotten_and_lets_the_rebalance_go_on() -> None:
    driver = ClassicDriver()
    (leader,) = driver.stable(None)
    driver.join(is_member_id_required=True)  # on its way
    second_join_waiter = driver.join(leader)
    assert second_join_waiter not in driver.answers
    driver.fire(TimerKind.HEARTBEAT, "client-id2")
    assert driver.join_reply(second_join_waiter).generation == 2
    assert driver.timers[TimerKind.HEARTBEAT, leader].delay_ms == 10_000


def test_an_unused_id_ends_quietly_where_no_rebalance_waits() -> None:
    driver = ClassicDriver()
    driver.join(is_member_id_required=True)
    driver.fire(TimerKind.HEARTBEAT, "client-id1")
    assert driver.group.pending_join == {}
    assert driver.group.state_name == S.EMPTY.value


def test_a_member_with_absurdly_many_protocols_is_refused() -> None:
    driver = ClassicDriver()
    most_protocols = tuple((str(protocol_number), b"") for protocol_number in range(PROTOCOLS_MAX))
    refused_reply = driver.join_reply(driver.join(protocols=(*most_protocols, ("one more", b""))))
    assert refused_reply.error is E.invalid_request
    assert driver.group.members == {}
    waiter = driver.join(protocols=most_protocols)
    driver.fire(TimerKind.JOIN)
    assert driver.join_reply(waiter).generation == 1


def test_a_member_that_names_its_protocol_twice_waits() -> None:
    driver = ClassicDriver()
    waiter = driver.join(protocols=(*STICKY_PROTOCOL, *STICKY_PROTOCOL))
    driver.fire(TimerKind.JOIN)
    assert waiter not in driver.answers
    assert driver.group.generation == 1
    assert driver.group.state_name == S.PREPARING_REBALANCE.value


def test_members_that_are_silent_together_start_one_rebalance() -> None:
    driver = ClassicDriver()
    stay, *silent_members = driver.stable(None, None, None)
    driver.take(
        driver.protocol.remove_expired_members(driver.group, [*silent_members, "gone"], now_ms=NOW)
    )
    assert list(driver.group.members) == [stay]
    assert driver.group.state_name == S.PREPARING_REBALANCE.value
    assert driver.join_reply(driver.join(stay)).generation == 2


def test_an_unused_id_that_ends_ends_no_first_rebalance_of_others() -> None:
    driver = ClassicDriver()
    waiter = driver.join()
    driver.take(driver.protocol.remove_expired_members(driver.group, ["gone"], now_ms=NOW))
    assert waiter not in driver.answers


def test_an_id_handed_to_a_dynamic_member_can_t_become_static() -> None:
    driver = ClassicDriver()
    driver.join(is_member_id_required=True)
    with pytest.raises(InvariantViolation):
        driver.join("client-id1", instance_id="i")


@pytest.mark.parametrize(
    ("protocol_type", "protocols"), [("", RANGE), ("consumer", ()), ("connect", RANGE)]
)
def test_protocols_must_fit_those_of_the_group(
    protocol_type: str, protocols: tuple[tuple[str, bytes], ...]
) -> None:
    driver = ClassicDriver()
    (leader,) = driver.stable(None)
    for member_id in ("", leader):
        reply = driver.join_reply(
            driver.join(member_id, protocol_type=protocol_type, protocols=protocols)
        )
        assert reply.error is E.inconsistent_group_protocol
        assert reply.member_id == member_id


def test_no_protocol_in_common_is_inconsistent() -> None:
    driver = ClassicDriver()
    driver.stable(None)
    assert (
        driver.join_reply(driver.join(protocols=STICKY_PROTOCOL)).error
        is E.inconsistent_group_protocol
    )


def test_an_empty_group_takes_any_protocol_but_none() -> None:
    driver = ClassicDriver()
    assert driver.join_reply(driver.join(protocols=())).error is E.inconsistent_group_protocol
    assert driver.join(protocols=STICKY_PROTOCOL) not in driver.answers


def test_a_dead_group_can_t_be_joined() -> None:
    driver = ClassicDriver()
    driver.group.move_to(S.DEAD, now_ms=NOW)
    assert driver.join_reply(driver.join()).error is E.coordinator_not_available
    reply = driver.join_reply(driver.join("m"))
    assert (reply.error, reply.member_id) == (E.coordinator_not_available, "m")


def test_a_full_group_refuses_who_is_not_counted_already() -> None:
    driver = ClassicDriver(max_size=1)
    first_join_waiter = driver.join()
    assert driver.join_reply(driver.join()).error is E.group_max_size_reached
    driver.fire(TimerKind.JOIN)
    member = driver.join_reply(first_join_waiter).member_id
    assert driver.join_reply(driver.join()).error is E.group_max_size_reached
    assert driver.join_reply(driver.join(member)).error is E.none  # CompletingRebalance
    driver.join(member, protocols=TWO_PROTOCOLS)
    assert driver.group.generation == 2


def test_a_new_group_is_written_before_it_has_members() -> None:
    driver = ClassicDriver()
    driver.is_new = True
    waiter = driver.join(is_member_id_required=True)
    (records_to_append,) = driver.writes
    assert records_to_append.after_write == NewGroupStored(group_id="g", waiter=waiter)
    (record,) = records_to_append.records
    assert record.group_id == "g"


# The first generation


def test_the_first_rebalance_waits_for_more_members_as_long_as_they_come() -> None:
    driver = ClassicDriver()
    first_join_waiter = driver.join(rebalance_ms=2 * DELAY_MS)
    timer = driver.timers[TimerKind.JOIN, ""]
    assert (timer.delay_ms, timer.remaining_ms) == (DELAY_MS, DELAY_MS)
    second_join_waiter = driver.join(rebalance_ms=2 * DELAY_MS)
    driver.fire(TimerKind.JOIN)
    timer = driver.timers[TimerKind.JOIN, ""]
    assert (timer.delay_ms, timer.remaining_ms) == (DELAY_MS, 0)
    driver.join(rebalance_ms=2 * DELAY_MS)
    driver.fire(TimerKind.JOIN)  # no time remains, whoever has come
    leader, follower_reply = (
        driver.join_reply(first_join_waiter),
        driver.join_reply(second_join_waiter),
    )
    assert leader.generation == follower_reply.generation == 1
    assert leader.leader == follower_reply.leader == leader.member_id
    assert len(leader.members) == 3
    assert follower_reply.members == ()
    assert leader.protocol == "range"
    assert driver.timers[TimerKind.SYNC, ""].generation == 1


def test_a_new_member_is_alive_by_waiting_only_after_its_first_generation() -> None:
    driver = ClassicDriver()
    waiter = driver.join()
    assert driver.timers[TimerKind.HEARTBEAT, "client-id1"].delay_ms == 300_000
    driver.fire(TimerKind.HEARTBEAT, "client-id1")
    assert driver.join_reply(waiter).error is E.unknown_member_id
    assert driver.group.state_name == S.EMPTY.value


def test_the_protocol_with_most_first_votes_wins() -> None:
    driver = ClassicDriver()
    waiters = [
        driver.join(protocols=tuple(reversed(TWO_PROTOCOLS))),
        driver.join(protocols=TWO_PROTOCOLS),
    ]
    waiters.append(driver.join(protocols=TWO_PROTOCOLS))
    while driver.group.state_name == S.PREPARING_REBALANCE.value:
        driver.fire(TimerKind.JOIN)
    assert {driver.join_reply(waiter).protocol for waiter in waiters} == {"sticky"}


# JoinGroup: known members


def test_an_unknown_member_id_is_refused() -> None:
    driver = ClassicDriver()
    driver.stable(None)
    reply = driver.join_reply(driver.join("stranger"))
    assert (reply.error, reply.member_id) == (E.unknown_member_id, "stranger")


def test_an_empty_group_has_no_member() -> None:
    driver = ClassicDriver()
    (member,) = driver.stable(None)
    driver.group.state = S.EMPTY  # a member left behind: can't be reached by requests
    assert driver.join_reply(driver.join(member)).error is E.unknown_member_id


def test_rejoining_unchanged_is_answered_from_the_generation() -> None:
    driver = ClassicDriver()
    leader, follower = driver.stable(None, None)
    reply = driver.join_reply(driver.join(follower))
    assert (reply.generation, reply.members) == (1, ())
    second_join_waiter = driver.join(leader)  # a leader that joins again wants to assign anew
    assert driver.group.state_name == S.PREPARING_REBALANCE.value
    assert second_join_waiter not in driver.answers


def test_rejoining_while_the_assignment_is_awaited_tells_the_leader_the_members() -> None:
    driver, leader, follower = group_awaiting_assignment()
    assert len(driver.join_reply(driver.join(leader)).members) == 2
    assert driver.join_reply(driver.join(follower)).members == ()


def test_rejoining_with_other_metadata_starts_a_rebalance() -> None:
    driver = ClassicDriver()
    leader, follower = driver.stable(None, None)
    first_join_waiter = driver.join(follower, protocols=(("range", b"other"),))
    assert driver.group.state_name == S.PREPARING_REBALANCE.value
    second_join_waiter = driver.join(leader)
    assert (
        driver.join_reply(first_join_waiter).generation
        == driver.join_reply(second_join_waiter).generation
        == 2
    )


def test_asking_again_while_waiting_leaves_the_first_request_unanswered() -> None:
    driver = ClassicDriver()
    leader, _ = driver.stable(None, None)
    first_join_waiter = driver.join(leader)
    second_join_waiter = driver.join(leader)
    assert driver.answers[first_join_waiter] is None
    assert second_join_waiter not in driver.answers


# Rebalance


def test_who_does_not_come_in_time_is_removed() -> None:
    driver = ClassicDriver()
    leader, follower = driver.stable(None, None)
    waiter = driver.join(follower, protocols=(("range", b"other"),))
    assert driver.timers[TimerKind.JOIN, ""].delay_ms == 60_000
    driver.fire(TimerKind.JOIN)
    reply = driver.join_reply(waiter)
    assert reply.leader == follower
    assert leader not in driver.group.members
    assert (TimerKind.HEARTBEAT, leader) not in driver.timers


def test_static_members_are_waited_for_until_their_session_ends() -> None:
    driver = ClassicDriver()
    static, dynamic = driver.stable("i", None)
    driver.leave((dynamic, None))
    driver.fire(TimerKind.JOIN)  # nobody came, but the static one may still be alive
    assert driver.group.state_name == S.PREPARING_REBALANCE.value
    assert driver.timers[TimerKind.JOIN, ""].delay_ms == 60_000
    driver.fire(TimerKind.HEARTBEAT, static)
    assert driver.group.state_name == S.EMPTY.value
    assert driver.group.generation == 2
    assert driver.writes[-1].after_write is None


def test_another_static_member_leads_where_the_leader_does_not_come() -> None:
    driver = ClassicDriver()
    _, other_member = driver.stable("i", "j")
    waiter = driver.join(other_member, instance_id="j", protocols=(("range", b"new"),))
    driver.fire(TimerKind.JOIN)
    assert driver.join_reply(waiter).leader == other_member
    assert len(driver.join_reply(waiter).members) == 2


def test_a_rebalance_tells_those_who_wait_for_an_assignment() -> None:
    driver, _, follower = group_awaiting_assignment()
    waiting_sync_waiter = driver.sync(follower)
    driver.join()
    assert driver.sync_reply(waiting_sync_waiter).error is E.rebalance_in_progress
    assert (TimerKind.SYNC, "") not in driver.timers


def test_who_does_not_sync_is_removed() -> None:
    driver, leader, follower = group_awaiting_assignment()
    driver.sync(leader, assignments={leader: b"all"})
    driver.write()
    driver.fire(TimerKind.SYNC)
    assert list(driver.group.members) == [leader]
    assert driver.group.state_name == S.PREPARING_REBALANCE.value
    assert follower not in driver.group.members


def test_a_timer_of_an_older_generation_does_nothing() -> None:
    driver = ClassicDriver()
    driver.stable(None)
    assert driver.protocol.end_sync_phase(driver.group, generation=1, now_ms=NOW) == []
    driver.group.pending_sync["x"] = None
    assert driver.protocol.end_sync_phase(driver.group, generation=0, now_ms=NOW) == []
    driver.group.state = S.PREPARING_REBALANCE
    assert driver.protocol.end_sync_phase(driver.group, generation=1, now_ms=NOW) == []


# SyncGroup


def test_the_leader_s_assignment_is_given_to_all_once_it_is_stored() -> None:
    driver, leader, follower = group_awaiting_assignment()
    early_sync_waiter = driver.sync(follower)
    leader_sync_waiter = driver.sync(leader, assignments={follower: b"f"})
    assert early_sync_waiter not in driver.answers
    (record,) = driver.writes[0].records
    assert [(m.member_id, m.assignment) for m in record.members] == [  # type: ignore[union-attr]
        (leader, b""),
        (follower, b"f"),
    ]
    driver.write()
    assert driver.sync_reply(early_sync_waiter).assignment == b"f"
    assert driver.sync_reply(early_sync_waiter).protocol == "range"
    assert driver.sync_reply(leader_sync_waiter).assignment == b""
    late_sync_waiter = driver.sync(follower)
    assert driver.sync_reply(late_sync_waiter).assignment == b"f"
    assert (TimerKind.SYNC, "") not in driver.timers


def test_an_assignment_that_can_t_be_stored_starts_a_rebalance() -> None:
    driver = ClassicDriver()
    waiter = driver.join()
    driver.fire(TimerKind.JOIN)
    leader = driver.join_reply(waiter).member_id
    leader_sync_waiter = driver.sync(leader, assignments={leader: b"x"})
    driver.write(E.coordinator_not_available)
    assert driver.sync_reply(leader_sync_waiter).error is E.coordinator_not_available
    assert driver.group.state_name == S.PREPARING_REBALANCE.value


def test_an_assignment_stored_too_late_changes_nothing() -> None:
    driver = ClassicDriver()
    waiter = driver.join()
    driver.fire(TimerKind.JOIN)
    leader = driver.join_reply(waiter).member_id
    driver.sync(leader, assignments={leader: b"x"})
    driver.join(leader, protocols=(("range", b"new"),))
    assert driver.group.generation == 2
    driver.write()
    assert driver.group.state_name == S.COMPLETING_REBALANCE.value


def test_syncing_again_while_waiting_leaves_the_first_request_unanswered() -> None:
    driver, _, follower = group_awaiting_assignment()
    first_sync_waiter = driver.sync(follower)
    driver.sync(follower)
    assert driver.answers[first_sync_waiter] is None
    second_join_waiter = max(driver.answers) + 1
    driver.leave((follower, None))
    assert driver.answers.get(second_join_waiter) is None


@pytest.mark.parametrize(
    ("generation", "protocol_type", "protocol", "error"),
    [
        (0, None, None, E.illegal_generation),
        (1, "connect", None, E.inconsistent_group_protocol),
        (1, "consumer", "sticky", E.inconsistent_group_protocol),
        (1, "consumer", "range", E.none),
    ],
)
def test_sync_is_of_this_generation_and_protocol(
    generation: int, protocol_type: str | None, protocol: str | None, error: ErrorCode
) -> None:
    driver = ClassicDriver()
    (member,) = driver.stable(None)
    waiter = driver.sync(
        member, generation=generation, protocol_type=protocol_type, protocol=protocol
    )
    assert driver.sync_reply(waiter).error is error


def test_sync_of_a_stranger_a_dead_and_a_rebalancing_group() -> None:
    driver = ClassicDriver()
    leader, _ = driver.stable(None, None)
    assert driver.sync_reply(driver.sync("stranger")).error is E.unknown_member_id
    driver.join(leader)
    assert driver.sync_reply(driver.sync(leader)).error is E.rebalance_in_progress
    driver.group.state = S.DEAD
    assert driver.sync_reply(driver.sync(leader)).error is E.coordinator_not_available


def test_sync_in_an_empty_group_with_members_is_a_bug() -> None:
    driver = ClassicDriver()
    (member,) = driver.stable(None)
    driver.group.state = S.EMPTY
    with pytest.raises(InvariantViolation):
        driver.sync(member)


# Heartbeat


def test_a_heartbeat_moves_the_session_on_and_tells_of_a_rebalance() -> None:
    driver = ClassicDriver()
    leader, follower = driver.stable(None, None)
    driver.timers.clear()
    assert driver.heartbeat(follower) is E.none
    assert driver.timers[TimerKind.HEARTBEAT, follower].delay_ms == 10_000
    driver.join(leader)
    assert driver.heartbeat(follower) is E.rebalance_in_progress
    assert driver.heartbeat(follower, generation=0) is E.illegal_generation
    assert driver.heartbeat("stranger") is E.unknown_member_id
    driver.group.state = S.DEAD
    assert driver.heartbeat(follower) is E.coordinator_not_available


def test_a_silent_member_is_removed() -> None:
    driver = ClassicDriver()
    leader, follower = driver.stable(None, None)
    driver.fire(TimerKind.HEARTBEAT, follower)
    assert list(driver.group.members) == [leader]
    assert driver.group.state_name == S.PREPARING_REBALANCE.value


def test_who_waits_for_an_answer_is_alive() -> None:
    driver = ClassicDriver()
    leader, _ = driver.stable(None, None)
    driver.join(leader)
    driver.fire(TimerKind.HEARTBEAT, leader)
    assert leader in driver.group.members
    assert driver.protocol.remove_expired_members(driver.group, ["gone"], now_ms=NOW) == []


def test_the_last_one_missing_being_silent_ends_the_rebalance() -> None:
    driver = ClassicDriver()
    leader, follower = driver.stable(None, None)
    waiter = driver.join(leader)
    driver.fire(TimerKind.HEARTBEAT, follower)
    assert driver.join_reply(waiter).generation == 2


def test_a_silent_member_does_not_end_a_rebalance_that_others_are_missing_in() -> None:
    driver = ClassicDriver()
    leader, silent_member, _ = driver.stable(None, None, None)
    waiter = driver.join(leader)
    driver.fire(TimerKind.HEARTBEAT, silent_member)
    assert waiter not in driver.answers


# LeaveGroup


def test_leaving_starts_a_rebalance_and_names_each_error() -> None:
    driver = ClassicDriver()
    leader, follower = driver.stable(None, "i")
    reply = driver.leave((follower, "i"), ("stranger", None), ("", "nobody"))
    assert [error for _, _, error in reply.members] == [
        E.none,
        E.unknown_member_id,
        E.unknown_member_id,
    ]
    assert driver.group.state_name == S.PREPARING_REBALANCE.value
    assert list(driver.group.members) == [leader]


def test_a_static_member_is_removed_by_its_instance_alone() -> None:
    driver = ClassicDriver()
    _, static = driver.stable(None, "i")
    assert driver.leave(("wrong", "i")).members[0][2] is E.fenced_instance_id
    assert driver.leave(("", "i")).members[0][2] is E.none
    assert static not in driver.group.members


def test_leaving_in_a_rebalance_may_end_it() -> None:
    driver = ClassicDriver()
    leader, follower = driver.stable(None, None)
    waiter = driver.join(leader)
    driver.leave((follower, None))
    assert driver.join_reply(waiter).generation == 2


def test_a_waiting_member_that_is_removed_hears_that_it_is_unknown() -> None:
    driver = ClassicDriver()
    leader, follower = driver.stable(None, None)
    waiter = driver.join(leader)
    driver.leave((leader, None))
    assert driver.join_reply(waiter).error is E.unknown_member_id
    assert driver.group.leader == follower


def test_an_id_on_its_way_can_be_given_back() -> None:
    driver = ClassicDriver()
    driver.join(is_member_id_required=True)
    assert driver.leave(("client-id1", None)).members[0][2] is E.none
    assert driver.group.state_name == S.EMPTY.value


def test_a_dead_group_can_not_be_left() -> None:
    driver = ClassicDriver()
    driver.group.move_to(S.DEAD, now_ms=NOW)
    assert driver.leave(("m", None)).error is E.coordinator_not_available


def test_nothing_happens_when_no_member_could_leave() -> None:
    driver = ClassicDriver()
    driver.stable(None)
    driver.leave(("stranger", None))
    assert driver.group.state_name == S.STABLE.value


# Static members


def test_an_instance_that_starts_again_gets_a_new_id_without_a_rebalance() -> None:
    driver = ClassicDriver()
    leader, static = driver.stable(None, "i")
    waiter = driver.join(instance_id="i")
    driver.write()
    reply = driver.join_reply(waiter)
    assert reply.member_id != static
    assert (reply.generation, reply.leader, reply.skip_assignment) == (1, leader, False)
    assert driver.group.state_name == S.STABLE.value
    assert (
        driver.sync_reply(driver.sync(reply.member_id, instance_id="i")).assignment
        == static.encode()
    )
    assert driver.heartbeat(static, instance="i") is E.fenced_instance_id


@pytest.mark.parametrize("is_assignment_skippable", [True, False])
def test_a_static_leader_skips_the_assignment_or_takes_itself_for_a_follower(
    is_assignment_skippable: bool,
) -> None:
    driver = ClassicDriver()
    static, _ = driver.stable("i", None)
    waiter = driver.join(instance_id="i", is_assignment_skippable=is_assignment_skippable)
    driver.write()
    reply = driver.join_reply(waiter)
    assert reply.skip_assignment is is_assignment_skippable
    assert len(reply.members) == (2 if is_assignment_skippable else 0)
    assert reply.leader == (reply.member_id if is_assignment_skippable else static)


def test_a_static_member_that_can_t_be_stored_keeps_its_old_id() -> None:
    driver = ClassicDriver()
    _, static = driver.stable(None, "i")
    waiter = driver.join(instance_id="i", session_ms=9_000, protocols=(("range", b"new"),))
    driver.write(E.not_coordinator)
    assert driver.join_reply(waiter).error is E.not_coordinator
    member = driver.group.members[static]
    assert (member.session_timeout_ms, member.protocols) == (10_000, RANGE)
    assert driver.timers[TimerKind.HEARTBEAT, static].delay_ms == 10_000


def test_a_static_member_replaced_twice_leaves_the_first_write_without_effect() -> None:
    driver = ClassicDriver()
    driver.stable(None, "i")
    first_join_waiter = driver.join(instance_id="i")
    second_join_waiter = driver.join(instance_id="i")
    assert driver.join_reply(first_join_waiter).error is E.fenced_instance_id
    driver.write()
    driver.write()
    assert driver.join_reply(second_join_waiter).error is E.none


def test_a_static_member_that_has_moved_on_is_not_answered_twice() -> None:
    driver = ClassicDriver()
    driver.stable(None, "i")
    driver.join(instance_id="i")
    (member,) = [m for m in driver.group.members.values() if m.group_instance_id]
    driver.group.await_join(member, None)
    driver.write()
    assert 99 not in driver.answers


def test_a_static_member_with_other_protocols_starts_a_rebalance() -> None:
    driver = ClassicDriver()
    waiter = driver.join(instance_id="i", protocols=tuple(reversed(TWO_PROTOCOLS)))
    driver.fire(TimerKind.JOIN)
    member = driver.join_reply(waiter).member_id
    driver.sync(member, instance_id="i", assignments={})
    driver.write()
    driver.join(instance_id="i", protocols=TWO_PROTOCOLS)
    assert driver.group.generation == 2
    assert driver.group.protocol == "sticky"


def test_a_static_member_that_comes_back_and_names_its_protocol_twice_fails() -> None:
    driver = ClassicDriver()
    waiter = driver.join(instance_id="i", protocols=STICKY_PROTOCOL)
    driver.fire(TimerKind.JOIN)
    member = driver.join_reply(waiter).member_id
    driver.sync(member, instance_id="i", assignments={})
    driver.write()
    failed_waiter = driver.join(instance_id="i", protocols=(*STICKY_PROTOCOL, *STICKY_PROTOCOL))
    assert driver.join_reply(failed_waiter).error is E.unknown_server_error
    assert driver.group.state_name == S.STABLE.value
    assert driver.group.awaiting_join_count == 0


def test_a_static_member_replaced_while_others_wait() -> None:
    driver = ClassicDriver()
    waiters = [driver.join(), driver.join(instance_id="i")]
    while driver.group.state_name == S.PREPARING_REBALANCE.value:
        driver.fire(TimerKind.JOIN)
    leader, static = (driver.join_reply(waiter).member_id for waiter in waiters)
    waiting_sync_waiter = driver.sync(static, instance_id="i")
    second_join_waiter = driver.join(instance_id="i")  # CompletingRebalance: begin anew
    assert driver.sync_reply(waiting_sync_waiter).error is E.fenced_instance_id
    assert driver.group.state_name == S.PREPARING_REBALANCE.value
    third_join_waiter = driver.join(instance_id="i")  # PreparingRebalance: the newest waits
    assert driver.join_reply(second_join_waiter).error is E.fenced_instance_id
    driver.join(leader)
    assert driver.join_reply(third_join_waiter).generation == 2


def test_a_static_member_of_an_empty_group_is_a_bug() -> None:
    driver = ClassicDriver()
    driver.stable("i")
    driver.group.state = S.EMPTY
    with pytest.raises(InvariantViolation):
        driver.join(instance_id="i")

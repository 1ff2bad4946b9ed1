"""A member's way to its target, step by step (CurrentAssignmentBuilder)."""

from __future__ import annotations

import uuid

import pytest

from txnsim.errors import ErrorCode, Rejection
from txnsim.group.consumer import Goal, reconcile
from txnsim.group.consumer_group import ConsumerMember, MemberState
from txnsim.group.consumer_records import TopicIdPartition

T = uuid.UUID(int=1)
U = uuid.UUID(int=2)
S = MemberState


def parts(*numbers: int, topic: uuid.UUID = T) -> frozenset[TopicIdPartition]:
    return frozenset((topic, number) for number in numbers)


def at(epoch: int, *numbers: int, topic: uuid.UUID = T) -> dict[TopicIdPartition, int]:
    return {(topic, number): epoch for number in numbers}


def member(
    state: MemberState = S.STABLE,
    *,
    epoch: int = 5,
    assigned: dict[TopicIdPartition, int] | None = None,
    pending: dict[TopicIdPartition, int] | None = None,
) -> ConsumerMember:
    return ConsumerMember(
        member_id="m",
        member_epoch=epoch,
        previous_member_epoch=4,
        state=state,
        assigned=assigned or {},
        pending_revocation=pending or {},
    )


def step(
    before: ConsumerMember,
    target: frozenset[TopicIdPartition],
    *,
    epoch: int = 6,
    owned: frozenset[TopicIdPartition] | None = None,
    taken: frozenset[TopicIdPartition] = frozenset(),
    subscribed: frozenset[uuid.UUID] = frozenset({T, U}),
    changed: bool = False,
) -> ConsumerMember:
    after = reconcile(
        before,
        Goal(
            assignment_epoch=epoch,
            partitions=target,
            subscribed=subscribed,
            subscription_changed=changed,
            owned=owned,
            owner_of=lambda each: "other" if each in taken else None,
        ),
    )
    assert isinstance(after, ConsumerMember)
    return after


def test_a_member_at_its_target_stays_as_it_is() -> None:
    before = member(assigned=at(3, 1))
    assert step(before, parts(1), epoch=5) is before


def test_what_is_free_is_taken_at_once() -> None:
    after = step(member(assigned=at(3, 1)), parts(1, 2))
    assert (after.member_epoch, after.previous_member_epoch, after.state) == (6, 5, S.STABLE)
    assert after.assigned == {(T, 1): 3, (T, 2): 6}


def test_what_is_lost_has_to_be_given_up_before_the_epoch_moves_on() -> None:
    after = step(member(assigned=at(3, 1, 2)), parts(2, 3))
    assert (after.member_epoch, after.previous_member_epoch, after.state) == (
        5,
        5,
        S.UNREVOKED_PARTITIONS,
    )
    assert after.assigned == at(3, 2)
    assert after.pending_revocation == at(3, 1)
    assert step(after, parts(2, 3), owned=parts(1, 2)) is after
    assert step(after, parts(2, 3)) is after  # it has not said anything
    done = step(after, parts(2, 3), owned=parts(2))
    assert (done.member_epoch, done.state, done.pending_revocation) == (6, S.STABLE, {})
    assert done.assigned == {(T, 2): 3, (T, 3): 6}


def test_what_was_given_up_already_is_not_asked_for() -> None:
    after = step(member(assigned=at(3, 1, 2)), parts(2), owned=parts(2))
    assert (after.member_epoch, after.state, after.assigned) == (6, S.STABLE, at(3, 2))


def test_what_others_still_have_is_waited_for_at_the_new_epoch() -> None:
    after = step(member(), parts(1, 2), taken=parts(2))
    assert (after.member_epoch, after.state, after.assigned) == (
        6,
        S.UNRELEASED_PARTITIONS,
        at(6, 1),
    )
    waiting = step(after, parts(1, 2), taken=parts(2))
    assert (waiting.member_epoch, waiting.previous_member_epoch, waiting.state) == (
        6,
        6,
        S.UNRELEASED_PARTITIONS,
    )
    done = step(waiting, parts(1, 2))
    assert (done.state, done.assigned) == (S.STABLE, at(6, 1, 2))


def test_a_partition_that_comes_back_while_it_is_given_up_is_its_own() -> None:
    before = member(S.UNREVOKED_PARTITIONS, assigned=at(3, 2), pending=at(3, 1))
    after = step(before, parts(1, 2), owned=parts(2), taken=parts(1))
    assert after.assigned == {(T, 2): 3, (T, 1): 6}


def test_topics_that_it_left_are_taken_back_whatever_the_target_says() -> None:
    before = member(assigned={**at(3, 1), **at(3, 1, topic=U)})
    after = step(
        before, parts(1), epoch=5, changed=True, subscribed=frozenset({T}), owned=parts(1, topic=U)
    )
    assert after.state is S.UNREVOKED_PARTITIONS
    assert (after.assigned, after.pending_revocation) == (at(3, 1), at(3, 1, topic=U))
    more = step(
        after, parts(1), epoch=5, changed=True, subscribed=frozenset(), owned=parts(1, topic=U)
    )
    assert more.assigned == {}
    assert more.pending_revocation == {**at(3, 1), **at(3, 1, topic=U)}
    given = step(before, parts(1), epoch=5, changed=True, subscribed=frozenset({T}), owned=parts(1))
    assert (given.state, given.assigned) == (S.STABLE, at(3, 1))
    same = member(assigned=at(3, 1))
    assert step(same, parts(1), epoch=5, changed=True) is same


def test_a_target_of_topics_that_it_left_is_not_taken() -> None:
    after = step(member(), parts(1, topic=U), subscribed=frozenset({T}))
    assert (after.assigned, after.state) == ({}, S.STABLE)


@pytest.mark.parametrize("owned", [None, parts(1)])
def test_a_member_in_a_state_of_a_later_release_begins_anew(
    owned: frozenset[TopicIdPartition] | None,
) -> None:
    outcome = reconcile(
        member(S.UNKNOWN),
        Goal(
            assignment_epoch=6,
            partitions=parts(1),
            subscribed=frozenset({T}),
            owned=owned,
            owner_of=lambda _: None,
        ),
    )
    assert isinstance(outcome, Rejection)
    assert outcome.error is ErrorCode.fenced_member_epoch


def test_a_member_in_an_unknown_state_that_has_nothing_goes_on() -> None:
    after = step(member(S.UNKNOWN), parts(1), owned=frozenset())
    assert (after.member_epoch, after.assigned, after.state) == (6, at(6, 1), S.STABLE)

"""A member's way to its target, step by step (CurrentAssignmentBuilder)."""

from __future__ import annotations

import uuid

import pytest

from txnsim.errors import ErrorCode, Rejection
from txnsim.group.consumer import MemberTarget, reconcile
from txnsim.group.consumer_group import ConsumerMember, MemberState
from txnsim.group.consumer_records import TopicIdPartition

T = uuid.UUID(int=1)
U = uuid.UUID(int=2)
S = MemberState


def parts(*numbers: int, topic: uuid.UUID = T) -> frozenset[TopicIdPartition]:
    return frozenset((topic, number) for number in numbers)


def assigned_at(epoch: int, *numbers: int, topic: uuid.UUID = T) -> dict[TopicIdPartition, int]:
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
    member_before: ConsumerMember,
    target: frozenset[TopicIdPartition],
    *,
    epoch: int = 6,
    owned_partitions: frozenset[TopicIdPartition] | None = None,
    partitions_of_others: frozenset[TopicIdPartition] = frozenset(),
    subscribed: frozenset[uuid.UUID] = frozenset({T, U}),
    has_new_subscription: bool = False,
) -> ConsumerMember:
    member_after = reconcile(
        member_before,
        MemberTarget(
            assignment_epoch=epoch,
            partitions=target,
            subscribed=subscribed,
            has_new_subscription=has_new_subscription,
            owned_partitions=owned_partitions,
            owner_of=lambda partition: "other" if partition in partitions_of_others else None,
        ),
    )
    assert isinstance(member_after, ConsumerMember)
    return member_after


def test_a_member_at_its_target_stays_as_it_is() -> None:
    member_before = member(assigned=assigned_at(3, 1))
    assert step(member_before, parts(1), epoch=5) is member_before


def test_what_is_free_is_taken_at_once() -> None:
    member_after = step(member(assigned=assigned_at(3, 1)), parts(1, 2))
    assert (member_after.member_epoch, member_after.previous_member_epoch, member_after.state) == (
        6,
        5,
        S.STABLE,
    )
    assert member_after.assigned == {(T, 1): 3, (T, 2): 6}


def test_what_is_lost_has_to_be_given_up_before_the_epoch_moves_on() -> None:
    revoking_member = step(member(assigned=assigned_at(3, 1, 2)), parts(2, 3))
    assert (
        revoking_member.member_epoch,
        revoking_member.previous_member_epoch,
        revoking_member.state,
    ) == (
        5,
        5,
        S.UNREVOKED_PARTITIONS,
    )
    assert revoking_member.assigned == assigned_at(3, 2)
    assert revoking_member.pending_revocation == assigned_at(3, 1)
    assert step(revoking_member, parts(2, 3), owned_partitions=parts(1, 2)) is revoking_member
    assert step(revoking_member, parts(2, 3)) is revoking_member  # it has not said anything
    settled_member = step(revoking_member, parts(2, 3), owned_partitions=parts(2))
    assert (
        settled_member.member_epoch,
        settled_member.state,
        settled_member.pending_revocation,
    ) == (6, S.STABLE, {})
    assert settled_member.assigned == {(T, 2): 3, (T, 3): 6}


def test_what_was_given_up_already_is_not_asked_for() -> None:
    member_after = step(member(assigned=assigned_at(3, 1, 2)), parts(2), owned_partitions=parts(2))
    assert (member_after.member_epoch, member_after.state, member_after.assigned) == (
        6,
        S.STABLE,
        assigned_at(3, 2),
    )


def test_what_others_still_have_is_waited_for_at_the_new_epoch() -> None:
    member_after = step(member(), parts(1, 2), partitions_of_others=parts(2))
    assert (member_after.member_epoch, member_after.state, member_after.assigned) == (
        6,
        S.UNRELEASED_PARTITIONS,
        assigned_at(6, 1),
    )
    waiting_member = step(member_after, parts(1, 2), partitions_of_others=parts(2))
    assert (
        waiting_member.member_epoch,
        waiting_member.previous_member_epoch,
        waiting_member.state,
    ) == (
        6,
        6,
        S.UNRELEASED_PARTITIONS,
    )
    settled_member = step(waiting_member, parts(1, 2))
    assert (settled_member.state, settled_member.assigned) == (S.STABLE, assigned_at(6, 1, 2))


def test_a_partition_that_comes_back_while_it_is_given_up_is_its_own() -> None:
    member_before = member(
        S.UNREVOKED_PARTITIONS, assigned=assigned_at(3, 2), pending=assigned_at(3, 1)
    )
    member_after = step(
        member_before, parts(1, 2), owned_partitions=parts(2), partitions_of_others=parts(1)
    )
    assert member_after.assigned == {(T, 2): 3, (T, 1): 6}


def test_topics_that_it_left_are_taken_back_whatever_the_target_says() -> None:
    member_before = member(assigned={**assigned_at(3, 1), **assigned_at(3, 1, topic=U)})
    revoking_member = step(
        member_before,
        parts(1),
        epoch=5,
        has_new_subscription=True,
        subscribed=frozenset({T}),
        owned_partitions=parts(1, topic=U),
    )
    assert revoking_member.state is S.UNREVOKED_PARTITIONS
    assert (revoking_member.assigned, revoking_member.pending_revocation) == (
        assigned_at(3, 1),
        assigned_at(3, 1, topic=U),
    )
    member_with_no_topic = step(
        revoking_member,
        parts(1),
        epoch=5,
        has_new_subscription=True,
        subscribed=frozenset(),
        owned_partitions=parts(1, topic=U),
    )
    assert member_with_no_topic.assigned == {}
    assert member_with_no_topic.pending_revocation == {
        **assigned_at(3, 1),
        **assigned_at(3, 1, topic=U),
    }
    settled_member = step(
        member_before,
        parts(1),
        epoch=5,
        has_new_subscription=True,
        subscribed=frozenset({T}),
        owned_partitions=parts(1),
    )
    assert (settled_member.state, settled_member.assigned) == (S.STABLE, assigned_at(3, 1))
    stable_member = member(assigned=assigned_at(3, 1))
    assert step(stable_member, parts(1), epoch=5, has_new_subscription=True) is stable_member


def test_a_target_of_topics_that_it_left_is_not_taken() -> None:
    member_after = step(member(), parts(1, topic=U), subscribed=frozenset({T}))
    assert (member_after.assigned, member_after.state) == ({}, S.STABLE)


@pytest.mark.parametrize("owned_partitions", [None, parts(1)])
def test_a_member_in_a_state_of_a_later_release_begins_anew(
    owned_partitions: frozenset[TopicIdPartition] | None,
) -> None:
    outcome = reconcile(
        member(S.UNKNOWN),
        MemberTarget(
            assignment_epoch=6,
            partitions=parts(1),
            subscribed=frozenset({T}),
            owned_partitions=owned_partitions,
            owner_of=lambda _: None,
        ),
    )
    assert isinstance(outcome, Rejection)
    assert outcome.error is ErrorCode.fenced_member_epoch


def test_a_member_in_an_unknown_state_that_has_nothing_goes_on() -> None:
    member_after = step(member(S.UNKNOWN), parts(1), owned_partitions=frozenset())
    assert (member_after.member_epoch, member_after.assigned, member_after.state) == (
        6,
        assigned_at(6, 1),
        S.STABLE,
    )

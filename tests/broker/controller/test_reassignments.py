"""Replicas on the move: what begins, what is refused, what a cancellation gives back."""

from __future__ import annotations

import pytest

from tests.support.images import cluster, image_of, partition, topic
from txnsim.controller.reassignments import NOT_MOVING, cancel, reassign, reassigning
from txnsim.errors import ErrorCode, Rejection
from txnsim.metadata.image import ClusterImage, PartitionImage
from txnsim.settings import DEFAULTS, Settings
from txnsim.types import BrokerId, TopicPartition

P0 = TopicPartition("orders", 0)


def moved(
    image: ClusterImage, *replicas: int, may_change_factor: bool = True
) -> PartitionImage | Rejection:
    found = reassign(
        image,
        P0,
        tuple(map(BrokerId, replicas)),
        DEFAULTS,
        may_change_factor=may_change_factor,
    )
    return found if isinstance(found, Rejection) else found.topics["orders"].partitions[0]


def places(found: PartitionImage | Rejection) -> tuple[tuple[int, ...], ...]:
    assert isinstance(found, PartitionImage), found
    return (found.replicas, found.adding, found.removing)


@pytest.mark.parametrize(
    ("before", "wanted", "expected"),
    [
        (partition(1, replicas=(1, 2)), (1, 3), ((1, 3, 2), (3,), (2,))),
        (partition(1, replicas=(1, 2)), (1, 2, 3), ((1, 2, 3), (3,), ())),
        (partition(1, replicas=(1, 2)), (3,), ((3, 1, 2), (3,), (1, 2))),
        # what needs no new replica is over at once
        (partition(1, replicas=(1, 2)), (2, 1), ((2, 1), (), ())),
        (partition(1, replicas=(1, 2)), (2,), ((2,), (), ())),
        (partition(1, replicas=(1, 2)), (1, 2), ((1, 2), (), ())),
    ],
)
def test_a_reassignment_begins_with_both_the_old_replicas_and_the_new(
    before: PartitionImage, wanted: tuple[int, ...], expected: tuple[tuple[int, ...], ...]
) -> None:
    assert places(moved(image_of(before), *wanted)) == expected


def test_what_is_as_wanted_is_no_change() -> None:
    image = image_of(partition(1, replicas=(1, 2)))
    assert reassign(image, P0, (BrokerId(1), BrokerId(2)), DEFAULTS) is image


ON_THE_WAY = partition(1, replicas=(1, 3, 2), isr=(1, 2), adding=(3,), removing=(2,))


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        # As measured on a real broker: a list that would be empty stays as it was.
        ((1, 2), ((1, 2, 3), (3,), (3,))),
        ((1, 2, 3), ((1, 2, 3), (3,), (2,))),
        ((2, 3), ((2, 3, 1), (3,), (1,))),
        ((2,), ((2, 1, 3), (3,), (1, 3))),
        ((3,), ((3, 1, 2), (3,), (1, 2))),
    ],
)
def test_a_reassignment_can_be_turned_elsewhere(
    wanted: tuple[int, ...], expected: tuple[tuple[int, ...], ...]
) -> None:
    assert places(moved(image_of(ON_THE_WAY, down=(3,)), *wanted)) == expected


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ((), "The manual partition assignment includes an empty replica list."),
        ((1, 1), "The manual partition assignment includes the broker 1 more than once."),
        (
            (1, 9),
            "The manual partition assignment includes broker 9, but no such broker is registered.",
        ),
    ],
)
def test_replicas_have_to_be_brokers_and_different(wanted: tuple[int, ...], why: str) -> None:
    found = moved(image_of(partition(1)), *wanted)
    assert found == Rejection(error=ErrorCode.invalid_replica_assignment, reason=why)


@pytest.mark.parametrize(
    ("before", "wanted", "texts"),
    [
        (partition(1, replicas=(1, 2)), (2, 3), None),
        (partition(1, replicas=(1, 2)), (2,), "2 to 1"),
        (partition(1, replicas=(1, 2)), (1, 2, 3), "2 to 3"),
        (ON_THE_WAY, (2, 1), None),
        (ON_THE_WAY, (1, 2, 3), "2 to 3"),
    ],
)
def test_the_factor_can_be_insisted_on(
    before: PartitionImage, wanted: tuple[int, ...], texts: str | None
) -> None:
    found = moved(image_of(before), *wanted, may_change_factor=False)
    if texts is None:
        assert isinstance(found, PartitionImage)
    else:
        assert found == Rejection(
            error=ErrorCode.invalid_replication_factor,
            reason=f"The replication factor is changed from {texts}",
        )


@pytest.mark.parametrize(
    ("where", "why"),
    [
        (TopicPartition("absent", 0), "Unable to find a topic named absent."),
        (TopicPartition("orders", 7), "Unable to find partition orders:7."),
    ],
)
def test_what_does_not_exist_can_neither_move_nor_stay(where: TopicPartition, why: str) -> None:
    image = image_of(partition(1))
    expected = Rejection(error=ErrorCode.unknown_topic_or_partition, reason=why)
    assert reassign(image, where, (BrokerId(1),), DEFAULTS) == expected
    assert cancel(image, where, DEFAULTS) == expected


def test_a_cancelled_reassignment_leaves_the_replicas_that_were_there() -> None:
    found = cancel(image_of(ON_THE_WAY), P0, DEFAULTS)
    assert isinstance(found, ClusterImage)
    after = found.topics["orders"].partitions[0]
    assert places(after) == ((1, 2), (), ())
    assert (after.leader, after.leader_epoch, after.isr) == (1, 1, (1, 2))


def test_only_what_moves_can_be_cancelled() -> None:
    assert cancel(image_of(partition(1)), P0, DEFAULTS) is NOT_MOVING


def test_a_cancellation_that_loses_records_needs_the_topics_leave() -> None:
    only_new = partition(3, replicas=(1, 3), isr=(3,), adding=(3,))
    refused = cancel(image_of(only_new), P0, DEFAULTS)
    assert isinstance(refused, Rejection)
    assert refused.error is ErrorCode.invalid_replica_assignment
    assert refused.reason.endswith("it would require an unclean leader election.")
    unclean = Settings(unclean_leader_election_enable=True)
    found = cancel(image_of(only_new), P0, unclean)
    assert isinstance(found, ClusterImage)
    after = found.topics["orders"].partitions[0]
    assert (after.leader, after.isr, after.replicas) == (1, (1,), (1,))


def test_a_cancellation_in_which_nothing_changes_hands_is_one_still() -> None:
    image = image_of(partition(1, replicas=(1, 2), isr=(1,), removing=(2,)))
    found = cancel(image, P0, DEFAULTS)
    assert isinstance(found, ClusterImage)
    assert reassigning(found) == {}


def test_all_reassignments_are_listed() -> None:
    image = cluster().with_topic(topic("orders", partition(1), ON_THE_WAY))
    assert reassigning(image) == {TopicPartition("orders", 1): ON_THE_WAY}

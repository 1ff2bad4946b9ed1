"""CreatePartitions decided: counts, placement, assignments by hand, every refusal."""

from __future__ import annotations

import pytest

from tests.support.images import broker, cluster, partition, topic
from txnsim.controller.controller import RECORDS_MAX
from txnsim.controller.growth import Assignments, grown_topic
from txnsim.errors import ErrorCode, Rejection
from txnsim.metadata.image import ClusterImage, TopicImage
from txnsim.types import BrokerId

E = ErrorCode
TWO = topic("orders", partition(1, replicas=(1, 2)), partition(2, replicas=(2, 3)))
IMAGE = cluster().with_topic(TWO)


def by_hand(*replicas: tuple[int, ...]) -> Assignments:
    return tuple(tuple(map(BrokerId, brokers)) for brokers in replicas)


def grown(
    count: int, assignments: Assignments | None = None, *, image: ClusterImage = IMAGE
) -> TopicImage:
    found = grown_topic(image, "orders", count=count, assignments=assignments)
    assert isinstance(found, TopicImage)
    return found


def refused(
    count: int, assignments: Assignments | None = None, *, image: ClusterImage = IMAGE
) -> Rejection:
    found = grown_topic(image, "orders", count=count, assignments=assignments)
    assert isinstance(found, Rejection)
    return found


def test_new_partitions_go_on_round_the_brokers_with_the_topics_factor() -> None:
    found = grown(5)
    assert found.partitions[:2] == TWO.partitions
    assert [one.replicas for one in found.partitions[2:]] == [(3, 1), (1, 2), (2, 3)]
    assert [(one.leader, one.leader_epoch) for one in found.partitions[2:]] == [
        (3, 0),
        (1, 0),
        (2, 0),
    ]
    assert (found.name, found.topic_id) == (TWO.name, TWO.topic_id)


def test_placement_starts_anew_where_the_last_broker_is_gone() -> None:
    image = IMAGE.with_broker(broker(2, alive=False))
    assert grown(3, image=image).partitions[2].replicas == (1, 3)


def test_partitions_may_be_placed_by_hand() -> None:
    found = grown(4, by_hand((3, 2), (2, 1)))
    assert [one.replicas for one in found.partitions[2:]] == [(3, 2), (2, 1)]
    assert found.partitions[2].leader == 3


def test_a_replica_that_is_down_does_not_lead() -> None:
    image = IMAGE.with_broker(broker(3, alive=False))
    added = grown(3, by_hand((3, 2)), image=image).partitions[2]
    assert (added.leader, added.isr) == (2, (2,))


def test_an_unknown_topic_is_refused_without_a_word() -> None:
    found = grown_topic(IMAGE, "nope", count=3)
    assert found == Rejection(error=E.unknown_topic_or_partition, reason="")


@pytest.mark.parametrize(
    ("count", "assignments", "error", "reason"),
    [
        (2, None, E.invalid_partitions, "Topic already has 2 partition(s)."),
        (2, by_hand((1, 2)), E.invalid_partitions, "Topic already has 2 partition(s)."),
        (
            1,
            None,
            E.invalid_partitions,
            "The topic orders currently has 2 partition(s); 1 would not be an increase.",
        ),
        (
            -1,
            None,
            E.invalid_partitions,
            "The topic orders currently has 2 partition(s); -1 would not be an increase.",
        ),
        (
            4,
            by_hand((1, 2)),
            E.invalid_replica_assignment,
            "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
        ),
        (
            3,
            (),
            E.invalid_replica_assignment,
            "Attempted to add 1 additional partition(s), but only 0 assignment(s) were specified.",
        ),
        (
            3,
            by_hand(()),
            E.invalid_replica_assignment,
            "The manual partition assignment includes an empty replica list.",
        ),
        (
            3,
            by_hand((1, 9)),
            E.invalid_replica_assignment,
            "The manual partition assignment includes broker 9, but no such broker is registered.",
        ),
        (
            3,
            by_hand((2, 2)),
            E.invalid_replica_assignment,
            "The manual partition assignment includes the broker 2 more than once.",
        ),
        (
            3,
            by_hand((1,)),
            E.invalid_replica_assignment,
            "The manual partition assignment includes a partition with 1 replica(s), but this is "
            "not consistent with previous partitions, which have 2 replica(s).",
        ),
        (RECORDS_MAX + 3, None, E.unknown_server_error, ""),
    ],
)
def test_what_is_refused(
    count: int, assignments: Assignments | None, error: ErrorCode, reason: str
) -> None:
    assert refused(count, assignments) == Rejection(error=error, reason=reason)


def test_a_partition_needs_a_live_replica() -> None:
    image = IMAGE.with_broker(broker(1, alive=False)).with_broker(broker(2, alive=False))
    found = refused(3, by_hand((1, 2)), image=image)
    assert found.error is E.invalid_replica_assignment
    assert found.reason.startswith("All brokers specified in the manual partition assignment for")
    assert "partition 2" in found.reason


def test_there_must_be_brokers_enough() -> None:
    image = IMAGE.with_broker(broker(1, leaving=True)).with_broker(broker(2, leaving=True))
    assert refused(3, image=image).error is E.invalid_replication_factor


def test_what_a_request_has_given_before_counts() -> None:
    room = RECORDS_MAX - 5
    assert isinstance(grown_topic(IMAGE, "orders", count=7, records_before=room), TopicImage)
    found = grown_topic(IMAGE, "orders", count=8, records_before=room)
    assert found == Rejection(error=E.unknown_server_error, reason="")

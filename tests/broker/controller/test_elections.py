"""Elections on request: preferred and unclean, and when there is none."""

from __future__ import annotations

import pytest

from tests.support.images import broker, cluster, image_of, partition, topic
from txnsim.controller.elections import (
    NOT_NEEDED,
    ElectionType,
    elect_leader,
    elect_unclean,
    rebalance_leaders,
    resign_leader,
)
from txnsim.errors import ErrorCode, Rejection
from txnsim.metadata.image import ClusterImage, PartitionImage
from txnsim.settings import DEFAULTS, Settings
from txnsim.types import TopicPartition

P0 = TopicPartition("orders", 0)
PREFERRED, UNCLEAN = ElectionType.PREFERRED, ElectionType.UNCLEAN


def elected(image: ClusterImage, kind: ElectionType) -> PartitionImage:
    found = elect_leader(image, P0, kind, DEFAULTS)
    assert isinstance(found, ClusterImage)
    changed = found.partition(P0)
    assert changed is not None
    return changed


def test_the_preferred_replica_leads_again_in_the_next_epoch() -> None:
    changed = elected(image_of(partition(2, epoch=4)), PREFERRED)
    assert (changed.leader, changed.leader_epoch, changed.partition_epoch) == (1, 5, 5)
    assert changed.isr == (1, 2, 3)


@pytest.mark.parametrize(
    ("leader", "isr", "down", "expected"),
    [
        (-1, (3, 2), (), (2, (3, 2))),  # in sync first, in the order of the replicas
        (-1, (3,), (3,), (1, (1,))),  # out of sync, and alone from now on
        (-1, (), (1, 2), (3, (3,))),
    ],
)
def test_an_unclean_election_takes_a_live_replica(
    leader: int, isr: tuple[int, ...], down: tuple[int, ...], expected: tuple[int, tuple[int, ...]]
) -> None:
    changed = elected(image_of(partition(leader, isr=isr, epoch=4), down=down), UNCLEAN)
    assert (changed.leader, changed.isr) == expected
    assert changed.leader_epoch == 5


@pytest.mark.parametrize(
    ("found", "down", "kind", "error"),
    [
        (partition(1), (), PREFERRED, ErrorCode.election_not_needed),
        (partition(2), (), UNCLEAN, ErrorCode.election_not_needed),
        (partition(2), (1,), PREFERRED, ErrorCode.preferred_leader_not_available),
        (partition(2, isr=(2, 3)), (), PREFERRED, ErrorCode.preferred_leader_not_available),
        (partition(-1), (1, 2, 3), UNCLEAN, ErrorCode.eligible_leaders_not_available),
    ],
)
def test_where_there_is_no_election(
    found: PartitionImage, down: tuple[int, ...], kind: ElectionType, error: ErrorCode
) -> None:
    refused = elect_leader(image_of(found, down=down), P0, kind, DEFAULTS)
    assert isinstance(refused, Rejection)
    assert refused.error is error
    assert (refused is NOT_NEEDED) is (error is ErrorCode.election_not_needed)


@pytest.mark.parametrize("kind", list(ElectionType))
@pytest.mark.parametrize(
    ("where", "reason"),
    [
        (TopicPartition("nope", 0), "No such topic as nope"),
        (TopicPartition("orders", 9), "No such partition as orders-9"),
        (TopicPartition("orders", -1), "No such partition as orders--1"),
    ],
)
def test_what_does_not_exist(kind: ElectionType, where: TopicPartition, reason: str) -> None:
    refused = elect_leader(image_of(partition(1)), where, kind, DEFAULTS)
    assert refused == Rejection(error=ErrorCode.unknown_topic_or_partition, reason=reason)


def leaders(image: ClusterImage) -> list[int]:
    return [one.leader for name in sorted(image.topics) for one in image.topics[name].partitions]


def test_topics_that_allow_it_get_a_live_leader_and_others_wait() -> None:
    lost = partition(-1, isr=(), epoch=4)
    image = (
        cluster(broker(1, alive=False), broker(2), broker(3, alive=False))
        .with_topic(
            topic("a", lost, partition(2), configs={"unclean.leader.election.enable": "true"})
        )
        .with_topic(topic("b", lost))
        .with_topic(topic("c", partition(2)))
        .with_topic(
            topic(
                "d",
                partition(-1, replicas=(1, 3), isr=()),
                configs={"unclean.leader.election.enable": "true"},
            )
        )
    )
    after = elect_unclean(image, DEFAULTS)
    assert leaders(after) == [2, 2, -1, 2, -1]
    first = after.topics["a"].partitions[0]
    assert (first.isr, first.leader_epoch, first.is_recovering) == ((2,), 5, True)
    allowed = Settings(unclean_leader_election_enable=True)
    assert leaders(elect_unclean(image, allowed)) == [2, 2, 2, 2, -1]
    assert elect_unclean(after, DEFAULTS) is after, "nothing is left to do"


def test_leaders_go_back_to_their_preferred_replicas_where_those_may_lead() -> None:
    image = cluster(broker(1), broker(2), broker(3, alive=False)).with_topic(
        topic(
            "a",
            partition(2),
            partition(1),
            partition(1, replicas=(3, 1), isr=(1,)),
            partition(-1, isr=()),
        )
    )
    after = rebalance_leaders(image, DEFAULTS)
    assert leaders(after) == [1, 1, 1, -1]
    assert rebalance_leaders(after, DEFAULTS) is after


def test_a_leader_that_resigns_is_elected_again_two_epochs_later() -> None:
    where = TopicPartition("a", 0)
    image = cluster().with_topic(topic("a", partition(2, epoch=4)))
    resigned = resign_leader(image, where)
    assert not isinstance(resigned, Rejection)
    without, again = (found.partition(where) for found in resigned)
    assert without is not None
    assert again is not None
    assert (without.leader, without.leader_epoch, without.partition_epoch) == (-1, 5, 5)
    assert (again.leader, again.leader_epoch, again.partition_epoch) == (2, 6, 6)
    assert again.isr == (1, 2, 3)


def test_who_is_not_there_can_not_resign() -> None:
    image = cluster(broker(1), broker(2, alive=False)).with_topic(topic("a", partition(2)))
    for where, error in (
        (TopicPartition("a", 7), ErrorCode.unknown_topic_or_partition),
        (TopicPartition("a", 0), ErrorCode.leader_not_available),
    ):
        refused = resign_leader(image, where)
        assert isinstance(refused, Rejection)
        assert refused.error is error

"""What a broker's coming or going means for every partition, and the rules of a topic."""

from __future__ import annotations

import uuid

import pytest

from tests.support.images import B1, B2, B3, broker, cluster, partition, topic
from txnsim.controller.leadership import (
    after_unclean_shutdown,
    has_elr,
    leads_something,
    rules_of,
    updated_partition,
    with_broker_back,
    without_broker,
    without_elr,
)
from txnsim.metadata.image import ELIGIBLE_LEADER_REPLICAS, ClusterImage
from txnsim.settings import DEFAULTS, Settings
from txnsim.types import BrokerId, TopicPartition

P0 = TopicPartition("orders", 0)


def world(*, elr: int = 1) -> ClusterImage:
    image = cluster().with_feature(ELIGIBLE_LEADER_REPLICAS, elr)
    image = image.with_broker_configs("", {"min.insync.replicas": "2"})
    return image.with_topic(
        topic("orders", partition(1), partition(2), partition(3, isr=(2, 3)))
    ).with_topic(topic("one", partition(1, replicas=(1,)), topic_id=uuid.UUID(int=9)))


def seen(image: ClusterImage, name: str = "orders") -> list[tuple[object, ...]]:
    return [(one.leader, one.isr, one.elr) for one in image.topics[name].partitions]


@pytest.mark.parametrize(
    ("configs", "settings", "expected"),
    [
        ({}, DEFAULTS, (2, False)),
        ({"min.insync.replicas": "9"}, DEFAULTS, (3, False)),
        ({"unclean.leader.election.enable": "TRUE"}, DEFAULTS, (2, True)),
        ({}, Settings(unclean_leader_election_enable=True), (2, True)),
        (
            {"unclean.leader.election.enable": "false"},
            Settings(unclean_leader_election_enable=True),
            (2, False),
        ),
    ],
)
def test_the_rules_of_a_topic(
    configs: dict[str, str], settings: Settings, expected: tuple[int, bool]
) -> None:
    found = rules_of(topic(configs=configs), world(), settings)
    assert (found.min_isr, found.allows_unclean) == expected


def test_a_broker_that_stops_leaves_every_isr_and_leads_nothing() -> None:
    gone = without_broker(world(), B1, DEFAULTS)
    assert seen(gone) == [(2, (2, 3), ()), (2, (2, 3), ()), (3, (2, 3), ())]
    assert seen(gone, "one") == [(-1, (), (1,))]
    assert not leads_something(gone, B1)
    assert leads_something(gone, B2)
    assert gone.offset == world().offset + 1, "all of it is one step"
    again = without_broker(gone, B1, DEFAULTS)
    assert again is gone


def test_without_elr_the_last_in_sync_replica_stays_in_the_isr() -> None:
    image = world(elr=0)
    assert not has_elr(image)
    assert seen(without_broker(image, B1, DEFAULTS), "one") == [(-1, (1,), ())]


def test_a_crashed_broker_is_not_eligible_any_more() -> None:
    gone = without_broker(without_broker(world(), B1, DEFAULTS), B2, DEFAULTS)
    assert seen(gone) == [(3, (3,), (2,)), (3, (3,), (2,)), (3, (3,), (2,))]
    crashed = after_unclean_shutdown(gone, B2, DEFAULTS)
    assert seen(crashed) == [(3, (3,), ()), (3, (3,), ()), (3, (3,), ())]
    assert seen(crashed, "one") == [(-1, (), (1,))], "it has no replica there"
    still_in = after_unclean_shutdown(world(), B1, DEFAULTS)
    assert seen(still_in)[0] == (2, (2, 3), ())
    assert seen(still_in, "one") == [(-1, (), ())]


def test_an_allowed_unclean_election_happens_at_once() -> None:
    image = world(elr=0).with_topic_configs("orders", {"unclean.leader.election.enable": "true"})
    image = image.with_partition(P0, partition(1, isr=(1,)))
    assert seen(without_broker(image, B1, DEFAULTS))[0] == (2, (2,), ())


def test_leaderless_partitions_get_a_broker_that_comes_back() -> None:
    image = without_broker(world(), B1, DEFAULTS).with_broker(broker(1, alive=False))
    back = with_broker_back(image, B1, DEFAULTS)
    assert seen(back, "one") == [(1, (1,), ())]
    assert seen(back) == seen(image), "others keep their leaders"
    nobody = with_broker_back(image, B3, DEFAULTS)
    assert nobody is image, "it has no replica there"


def test_one_partition_follows_the_rules_of_its_topic() -> None:
    image = world()
    assert updated_partition(image, P0, DEFAULTS) is None
    shrunk = updated_partition(image, P0, DEFAULTS, target_isr=(B1,))
    assert shrunk is not None
    assert (shrunk.isr, shrunk.elr) == ((1,), (2, 3))
    image = image.with_topic_configs("orders", {"unclean.leader.election.enable": "true"})
    image = image.with_partition(P0, partition(-1, isr=()))
    elected = updated_partition(image, P0, DEFAULTS)
    assert elected is not None
    assert elected.leader == BrokerId(1)


def test_replicas_that_were_eligible_are_not_any_more() -> None:
    """For one topic, or for all; where there was nothing, nothing changes."""
    image = without_broker(without_broker(world(), B3, DEFAULTS), B1, DEFAULTS)
    two = image.with_topic(
        topic("two", partition(2, isr=(2,), elr=(1, 3)), topic_id=uuid.UUID(int=8))
    )
    cleared = without_elr(two, "orders")
    assert {one.elr for one in cleared.topics["orders"].partitions} == {()}
    assert cleared.topics["two"] is two.topics["two"]
    before, after = two.topics["orders"].partitions[0], cleared.topics["orders"].partitions[0]
    assert (before.elr, after.isr) == ((1,), before.isr)
    assert after.partition_epoch == before.partition_epoch + 1
    assert after.leader_epoch == before.leader_epoch
    everywhere = without_elr(two)
    assert not any(one.elr for each in everywhere.topics.values() for one in each.partitions)
    assert without_elr(everywhere) is everywhere
    off = two.with_feature(ELIGIBLE_LEADER_REPLICAS, 0)
    assert without_elr(off) is off

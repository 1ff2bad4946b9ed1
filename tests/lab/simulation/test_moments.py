"""Each look at a cluster convicts one in which something is true too early, or no more."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from tests.lab.simulation.test_invariants import PLACE, leader, use
from tests.support.clusters import VirtualCluster, run_cluster
from tests.support.markers import append_marker
from txnsim.metadata.image import ClusterImage
from txnsim.types import CONSUMER_OFFSETS_TOPIC, TopicPartition, partition_for
from txnsim_lab.check.observations import Position, PositionsRead
from txnsim_lab.simulation import _moments as moments
from txnsim_lab.simulation._moments import Moments


def raise_the_watermark_of_a_follower(cluster: VirtualCluster) -> None:
    follower = next(one for one in cluster.sim.brokers.values() if PLACE not in one.replicas.led)
    follower.replicas.hosted[PLACE].high_watermark += 9


def show_a_transaction_before_its_marker_is_replicated(cluster: VirtualCluster) -> None:
    """As if the marker at 3 had been forgotten when it was not replicated yet."""
    lower_the_watermark(cluster)
    follower = next(one for one in cluster.sim.brokers.values() if PLACE not in one.replicas.led)
    follower.replicas.hosted[PLACE].truncate_to(3, now_ms=0)


def show_a_transaction_where_a_follower_has_another_record(cluster: VirtualCluster) -> None:
    """As if a follower had not cut off yet what another leader wrote in place of the marker."""
    show_a_transaction_before_its_marker_is_replicated(cluster)
    for broker in cluster.sim.brokers.values():
        log = broker.replicas.hosted[PLACE]
        if log.log_end_offset == 3:
            append_marker(log, now_ms=0, producer_id=99)


def lower_the_watermark(cluster: VirtualCluster) -> None:
    """A new leader begins with the high watermark that it knows. It may be lower."""
    assert leader(cluster).replicas.led[PLACE].last_stable_offset == 4
    for broker in cluster.sim.brokers.values():
        broker.replicas.hosted[PLACE].high_watermark = 3


def look_at(image: ClusterImage, cluster: VirtualCluster) -> None:
    cluster.sim.metadata.image = image


def let_somebody_lead_who_is_not_in_sync(cluster: VirtualCluster) -> None:
    image = cluster.sim.metadata.image
    one = image.topics[PLACE.topic].partitions[PLACE.partition]
    others = tuple(broker for broker in one.isr if broker != one.leader)
    look_at(image.with_partitions({PLACE: replace(one, isr=others)}), cluster)


def let_somebody_be_in_sync_who_is_no_replica(cluster: VirtualCluster) -> None:
    image = cluster.sim.metadata.image
    one = image.topics[PLACE.topic].partitions[PLACE.partition]
    look_at(image.with_partitions({PLACE: replace(one, replicas=(one.leader,))}), cluster)


@pytest.mark.parametrize(
    ("harm", "kind"),
    [
        (raise_the_watermark_of_a_follower, moments.UNREPLICATED),
        (show_a_transaction_before_its_marker_is_replicated, moments.UNSTABLE),
        (show_a_transaction_where_a_follower_has_another_record, moments.UNSTABLE),
        (let_somebody_lead_who_is_not_in_sync, moments.UNSOUND_ISR),
        (let_somebody_be_in_sync_who_is_no_replica, moments.UNSOUND_ISR),
    ],
)
def test_harm_is_found_once_and_nothing_before(
    harm: Callable[[VirtualCluster], None], kind: str
) -> None:
    async def main(cluster: VirtualCluster) -> None:
        await use(cluster)
        assert Moments(cluster.sim).look() == []
        image = cluster.sim.metadata.image
        harm(cluster)
        look = Moments(cluster.sim)
        assert [found for found, _ in look.look()] == [kind]
        assert look.look() == []
        look_at(image, cluster)

    run_cluster(main)


def test_a_marker_is_replicated_when_all_in_sync_have_it_whatever_the_watermark() -> None:
    """Seed 6505: the high watermark was above the marker, and fell when the leader moved."""

    async def main(cluster: VirtualCluster) -> None:
        await use(cluster)
        lower_the_watermark(cluster)
        assert Moments(cluster.sim).look() == []
        follower = next(one for one in cluster.sim.brokers if one != cluster.leader(PLACE))
        await cluster.sim.kill_broker(follower)
        # It is in sync until its session ends. Its log can not be seen.
        assert [kind for kind, _ in Moments(cluster.sim).look()] == [moments.UNSTABLE]

    run_cluster(main)


@pytest.mark.parametrize(
    ("offset", "above", "early"), [(3, 1, True), (3, 0, False), (2, 1, False), (-1, 1, False)]
)
def test_a_position_is_told_when_it_is_replicated(offset: int, above: int, early: bool) -> None:
    async def main(cluster: VirtualCluster) -> None:
        await use(cluster)
        topic = cluster.sim.metadata.image.topics[CONSUMER_OFFSETS_TOPIC]
        home = TopicPartition(CONSUMER_OFFSETS_TOPIC, partition_for("g", len(topic.partitions)))
        leader(cluster, home).replicas.led[home].high_watermark -= above
        at = Position(topic=PLACE.topic, partition=PLACE.partition, offset=offset)
        read = PositionsRead(at_ms=1, who="monitor", group="g", positions=(at,))
        found = [kind for kind, _ in Moments(cluster.sim).told(read)]
        assert found == ([moments.EARLY_POSITION] if early else [])

    run_cluster(main)

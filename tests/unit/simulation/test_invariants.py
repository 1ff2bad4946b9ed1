"""Each invariant convicts a cluster in which somebody has forgotten or changed something."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.clusters import VirtualCluster, run_cluster
from txnsim.client.group_requests import GroupMetadata
from txnsim.client.members.requests import offset_commit
from txnsim.client.positions import ask_group_coordinator
from txnsim.client.producer import Producer
from txnsim.simulation.invariants import (
    DIFFERENT_REPLICAS,
    FORGETFUL_COORDINATOR,
    FORGETFUL_GROUP,
    FORGETFUL_PRODUCERS,
    UNSOUND_LOG,
    WRONG_COORDINATOR,
    violations,
)
from txnsim.types import TopicPartition

PLACE = TopicPartition("orders", 0)


async def use(cluster: VirtualCluster) -> None:
    """A position, a committed transaction, and one that is open."""
    async with cluster.client() as client, Producer(client, transactional_id="tx") as producer:
        request = offset_commit("g", GroupMetadata(), {PLACE: 3})
        await ask_group_coordinator(client, "g", request)
        await producer.init_transactions()
        for _ in range(2):
            producer.begin()
            await producer.send("orders", 0, b"v")
            await producer.commit()
        producer.begin()
        await producer.send("orders", 0, b"open")
    cluster.advance(1_000)


def leader(cluster: VirtualCluster, place: TopicPartition = PLACE):  # type: ignore[no-untyped-def]
    return cluster.sim.brokers[cluster.leader(place)]


def forget_a_transaction(cluster: VirtualCluster) -> None:
    home = cluster.home("tx")
    for owned in leader(cluster, home).coordinator._ownership:
        owned.entries.clear() if not owned.entries else owned.entries.update(
            {
                name: type(txn)(
                    **{**{f: getattr(txn, f) for f in txn.__struct_fields__}, "producer_epoch": 77}
                )
                for name, txn in owned.entries.items()
            }
        )


def forget_a_position(cluster: VirtualCluster) -> None:
    for broker in cluster.sim.brokers.values():
        for shard in broker.groups.shards():
            shard.offsets._committed.clear()


def forget_an_open_transaction(cluster: VirtualCluster) -> None:
    log = leader(cluster).replicas.led[PLACE]
    log.producers.snapshots.take(log.log_end_offset, ())


def lose_a_record(cluster: VirtualCluster) -> None:
    follower = next(
        one
        for one in cluster.sim.brokers.values()
        if PLACE in one.replicas.hosted and PLACE not in one.replicas.led
    )
    log = follower.replicas.hosted[PLACE]
    segment = log.local.segments.active
    batch = bytearray(segment._batches[0])
    batch[-1] ^= 1
    segment._batches[0] = bytes(batch)


def coordinate_what_another_leads(cluster: VirtualCluster) -> None:
    home = cluster.home("tx")
    other = next(one for one in cluster.sim.brokers.values() if home not in one.replicas.led)
    (owned, *_) = leader(cluster, home).coordinator._ownership
    other.coordinator._ownership.owned[owned.partition] = owned


@pytest.mark.parametrize(
    ("harm", "kind"),
    [
        (coordinate_what_another_leads, WRONG_COORDINATOR),
        (forget_a_transaction, FORGETFUL_COORDINATOR),
        (forget_a_position, FORGETFUL_GROUP),
        (forget_an_open_transaction, FORGETFUL_PRODUCERS),
    ],
)
def test_harm_is_found_and_nothing_before(
    harm: Callable[[VirtualCluster], None], kind: str
) -> None:
    async def main(cluster: VirtualCluster) -> None:
        await use(cluster)
        assert violations(cluster.sim) == []
        harm(cluster)
        assert kind in {found for found, _ in violations(cluster.sim)}

    run_cluster(main)


def test_a_move_that_was_not_replicated_in_time_may_stay_in_the_log() -> None:
    async def main(cluster: VirtualCluster) -> None:
        await use(cluster)
        homes = [*leader(cluster, cluster.home("tx")).coordinator._ownership]
        known = [dict(owned.entries) for owned in homes]
        forget_a_transaction(cluster)
        for owned, entries in zip(homes, known, strict=True):
            owned.withdrawn.update(entries)
        assert violations(cluster.sim) == []

    run_cluster(main)


def test_a_replica_that_says_something_else_is_found() -> None:
    async def main(cluster: VirtualCluster) -> None:
        await use(cluster)
        lose_a_record(cluster)
        kinds = {found for found, _ in violations(cluster.sim)}
        assert DIFFERENT_REPLICAS in kinds

    run_cluster(main)


def test_a_log_against_its_bytes() -> None:
    async def main(cluster: VirtualCluster) -> None:
        await use(cluster)
        log = leader(cluster).replicas.led[PLACE]
        log.high_watermark = log.log_end_offset + 5
        assert UNSOUND_LOG in {found for found, _ in violations(cluster.sim)}

    run_cluster(main)

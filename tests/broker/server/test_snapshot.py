"""A cluster taken back to a state it was in: what is the same afterwards, and what is not."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from tests.support.clusters import VirtualCluster, client_of, real_cluster, run_cluster, values
from tests.support.within import within
from txnsim.client.errors import ClientError
from txnsim.client.producer import Producer
from txnsim.controller.controller import NewTopic
from txnsim.faults.actions import Hold
from txnsim.faults.points import FaultPoint
from txnsim.metadata.image import TopicImage
from txnsim.server.cluster import SimCluster
from txnsim.server.member import MemberState
from txnsim.server.snapshot import restored
from txnsim.types import BrokerId, TopicPartition


def create(sim: SimCluster, name: str, **changes: object) -> TopicImage:
    created = sim.metadata.create_topic(msgspec.convert({"name": name, **changes}, NewTopic))
    assert isinstance(created, TopicImage)
    return created


@within(run_cluster)
async def test_topics_come_back_empty_with_other_ids_and_their_own_configs(
    cluster: VirtualCluster,
) -> None:
    sim = cluster.sim
    kept = create(
        sim, "kept", partitions=2, replication_factor=3, configs={"cleanup.policy": "compact"}
    )
    snapshot = sim.snapshot()
    create(sim, "later")
    async with cluster.client() as app, Producer(app) as producer:
        await producer.send("kept", 0, b"v", key=b"k")
    sim.move_leader(TopicPartition("kept", 0), kept.partitions[0].replicas[1])
    await sim.reset(snapshot)
    image = sim.metadata.image
    assert sorted(image.topics) == ["kept", "orders"]
    again = image.topics["kept"]
    assert again.configs == {"cleanup.policy": "compact"}
    assert again.topic_id != kept.topic_id
    assert [one.leader for one in again.partitions] == [one.replicas[0] for one in kept.partitions]
    async with cluster.client() as app:
        assert await values(app, "kept", partitions=2) == []


@within(run_cluster, brokers=1)
async def test_what_was_held_is_thrown_away(cluster: VirtualCluster) -> None:
    sim = cluster.sim
    snapshot = sim.snapshot()
    cluster.arm(Hold(), FaultPoint.CLIENT_REQUEST, api="Produce")
    async with cluster.client() as app:
        producer = Producer(app, delivery_timeout_ms=400, request_timeout_ms=300)
        late = producer.send("orders", 0, b"late")
        await cluster.struck()
        with pytest.raises(ClientError):
            await late
        await producer.close()
        assert sim.injector.rules()[0].held
        await sim.reset(snapshot)
        assert sim.injector.rules() == ()
        assert await values(app, "orders") == []


@within(run_cluster)
async def test_ids_are_never_given_out_twice(cluster: VirtualCluster) -> None:
    seen = []
    snapshot = cluster.sim.snapshot()
    for _ in range(3):
        async with cluster.client() as app:
            producer = Producer(app, transactional_id="app")
            seen.append((await producer.init_transactions()).producer_id)
            await producer.close()
        await cluster.sim.reset(snapshot)
    assert len(set(seen)) == 3


@within(run_cluster)
async def test_metadata_never_looks_older_than_before(cluster: VirtualCluster) -> None:
    sim = cluster.sim
    snapshot = sim.snapshot()
    for number in range(5):
        create(sim, f"t{number}")
    before = sim.metadata.image
    await sim.reset(snapshot)
    after = sim.metadata.image
    assert after.offset > before.offset
    assert after.features_epoch >= before.features_epoch


@within(run_cluster, as_version=("4.2",))
async def test_features_and_releases_are_those_of_the_snapshot(cluster: VirtualCluster) -> None:
    sim = cluster.sim
    snapshot = sim.snapshot()
    sim.metadata.publish(sim.metadata.image.with_feature("transaction.version", 1))
    await sim.stop_broker(BrokerId(3))
    await sim.start_broker(BrokerId(3), as_version="4.3")
    await sim.reset(snapshot)
    assert sim.metadata.image.features["transaction.version"] == 2
    assert sim.fleet.of(BrokerId(3)).name == "4.2"
    async with cluster.client() as app:
        producer = Producer(app, transactional_id="app")
        await producer.init_transactions()
        producer.begin()
        await producer.send("orders", 0, b"v")
        await producer.commit()
        await producer.close()


@within(run_cluster)
async def test_every_broker_runs_afterwards_whatever_became_of_it(cluster: VirtualCluster) -> None:
    sim = cluster.sim
    snapshot = sim.snapshot()
    await sim.stop_broker(BrokerId(2))
    await sim.kill_broker(BrokerId(1))
    starting = asyncio.get_running_loop().create_task(sim.start_broker(BrokerId(1)))
    await asyncio.sleep(0.5)
    sim.isolate(BrokerId(3), from_clients=True)
    cluster.advance(1_000)
    await sim.reset(snapshot)
    await asyncio.wait([starting])
    assert starting.exception() is not None, "it was killed while it started"
    assert {member.state for member in sim.members.values()} == {MemberState.RUNNING}
    assert cluster.env.clock.advanced_ms == 0
    await asyncio.sleep(60)
    assert all(broker.alive for broker in sim.metadata.image.brokers.values())
    async with cluster.client() as app, Producer(app) as producer:
        await producer.send("orders", 0, b"v")


@within(run_cluster)
async def test_a_reassignment_that_was_under_way_is_forgotten(cluster: VirtualCluster) -> None:
    sim = cluster.sim
    snapshot = sim.snapshot()
    orders = TopicPartition("orders", 0)
    partition = sim.metadata.image.partition(orders)
    assert partition is not None
    moving = msgspec.structs.replace(
        partition, replicas=(1, 2, 3), adding=(BrokerId(3),), removing=(BrokerId(1),)
    )
    was = msgspec.structs.replace(snapshot, image=snapshot.image.with_partition(orders, moving))
    image = restored(sim.metadata.image, was, new_topic_id=sim.metadata.new_topic_id)
    found = image.partition(orders)
    assert found is not None
    assert (found.replicas, found.is_reassigning) == ((1, 2), False)


async def test_ports_stay_bound_and_clients_are_disconnected() -> None:
    async with real_cluster() as sim:
        snapshot, bootstrap = sim.snapshot(), sim.bootstrap
        async with client_of(sim.environment, sim) as app, Producer(app) as producer:
            for number in range(3):
                await producer.send("orders", 0, b"%d" % number)
                assert sum(len(one.connections) for one in sim.listeners) > 0
                await sim.reset(snapshot)
                assert sum(len(one.connections) for one in sim.listeners) == 0
                assert sim.bootstrap == bootstrap
            assert await values(app, "orders") == []


async def test_a_port_that_somebody_else_has_by_now_changes_nothing() -> None:
    async with real_cluster() as sim:
        snapshot = sim.snapshot()
        await sim.kill_broker(BrokerId(1))
        door = sim.members[BrokerId(1)].doors[0]
        thief = await asyncio.start_server(lambda *_: None, door.host, door.port)
        with pytest.raises(OSError, match=str(door.port)):
            await sim.reset(snapshot)
        assert sim.members[BrokerId(2)].state is MemberState.RUNNING
        thief.close()
        await thief.wait_closed()
        await sim.reset(snapshot)
        assert sim.members[BrokerId(1)].state is MemberState.RUNNING

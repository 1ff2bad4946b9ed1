"""A whole cluster: how it starts and stops, and that faults between brokers break no promise."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from tests.support.clusters import (
    VirtualCluster,
    client_of,
    options,
    real_cluster,
    run_cluster,
    until_state,
    values,
)
from tests.support.ports import free_port_before_a_busy_one
from tests.support.slow_machine import SLOW_S
from tests.support.within import within
from txnsim.client.producer import Producer
from txnsim.errors import ConfigError
from txnsim.faults.actions import Delay, Drop, Fail, Hold
from txnsim.faults.plan import Action
from txnsim.faults.points import FaultPoint
from txnsim.runtime.real import real_environment
from txnsim.runtime.virtual.run import VirtualEnvironment, run_virtual
from txnsim.server.cluster import SimCluster
from txnsim.types import BrokerId, IsolationLevel, TopicPartition

REQUEST, RESPONSE = FaultPoint.PEER_REQUEST, FaultPoint.PEER_RESPONSE
P0 = TopicPartition("orders", 0)


# Start and stop


@pytest.mark.parametrize("brokers", [1, 3, 5])
def test_a_cluster_of_any_size_commits(brokers: int) -> None:
    async def main(cluster: VirtualCluster) -> None:
        assert len(cluster.sim.brokers) == brokers
        assert len(cluster.sim.bootstrap.split(",")) == brokers
        async with cluster.client() as client:
            async with Producer(client, transactional_id="tx") as producer:
                await producer.init_transactions()
                producer.begin()
                await producer.send("orders", 0, b"v")
                await producer.commit()
            await until_state(client, "tx", "CompleteCommit")
            assert await values(client, "orders") == [b"v"]
        replicas = cluster.sim.metadata.image.topics["orders"].partitions[0].replicas
        assert len(replicas) == min(3, brokers)

    run_cluster(main, brokers=brokers)


@within(run_virtual, seed=1)
async def test_a_cluster_without_brokers_is_refused(env: VirtualEnvironment) -> None:
    with pytest.raises(ConfigError, match="at least one broker"):
        SimCluster(env, options(brokers=0))


@within(run_virtual, seed=1)
async def test_an_id_that_no_broker_has_is_refused(env: VirtualEnvironment) -> None:
    for first in (-1, 2_998):
        with pytest.raises(ConfigError, match="begin at 0, and the controller's is 3000"):
            SimCluster(env, msgspec.structs.replace(options(), first_broker_id=first))


def test_a_broker_zero_leads_coordinates_and_commits() -> None:
    async def main(kafka: VirtualCluster) -> None:
        assert sorted(kafka.sim.members) == [0, 1, 2]
        async with kafka.client() as client:
            producer = Producer(client, transactional_id="app")
            await producer.init_transactions()
            for partition in range(3):
                producer.begin()
                await producer.send("orders", partition, b"x")
                await producer.commit()
        await kafka.sim.kill_broker(BrokerId(0))
        await kafka.sim.start_broker(BrokerId(0))

    chosen = msgspec.structs.replace(options(), first_broker_id=0)
    run_cluster(main, cluster_options=chosen)


@pytest.mark.parametrize("topics", [(("a b", 1),), (("orders", 1), ("orders", 1))])
@within(run_virtual, seed=1)
async def test_a_topic_that_can_not_be_is_named_and_nothing_stays_bound(
    env: VirtualEnvironment,
    topics: tuple[tuple[str, int], ...],
) -> None:
    sim = SimCluster(env, msgspec.structs.replace(options(topics=topics), port=9092))
    with pytest.raises(ConfigError, match=topics[-1][0]):
        await sim.start()
    again = SimCluster(env, msgspec.structs.replace(options(), port=9092))
    await again.start()
    await again.stop()


async def test_a_busy_port_is_refused_and_the_others_are_free_again() -> None:
    with free_port_before_a_busy_one() as port:
        sim = SimCluster(real_environment(), msgspec.structs.replace(options(brokers=2), port=port))
        with pytest.raises(OSError, match=f":{port + 1} is in use"):
            await sim.start()
        server = await asyncio.start_server(lambda _r, _w: None, "127.0.0.1", port)
        server.close()
        await server.wait_closed()


async def test_the_port_of_a_broker_that_is_down_is_nobody_elses() -> None:
    async def listens(*, reuse_address: bool) -> None:
        server = await asyncio.start_server(
            lambda _r, _w: None, door.host, door.port, reuse_address=reuse_address
        )
        server.close()
        await server.wait_closed()

    sim = SimCluster(real_environment(), options(brokers=2))
    await sim.start()
    second = BrokerId(2)
    door = sim.members[second].doors[0]
    await sim.kill_broker(second)
    with pytest.raises(OSError, match="in use"):
        await listens(reuse_address=False)
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(door.host, door.port)
    await sim.start_broker(second)
    _, writer = await asyncio.open_connection(door.host, door.port)
    writer.close()
    await sim.kill_broker(second)
    await sim.stop()
    await listens(reuse_address=True)


@within(run_virtual, seed=1)
async def test_ports_are_consecutive_and_clients_are_told_the_advertised_host(
    env: VirtualEnvironment,
) -> None:
    wanted = msgspec.structs.replace(options(), port=19092, advertised_host="kafka.test")
    sim = SimCluster(env, wanted)
    await sim.start()
    assert sim.bootstrap == "kafka.test:19092,kafka.test:19093,kafka.test:19094"
    await sim.stop()


@within(run_virtual, seed=1)
async def test_ports_may_be_given_one_by_one_and_clients_told_others(
    env: VirtualEnvironment,
) -> None:
    cluster = SimCluster(
        env,
        msgspec.structs.replace(
            options(brokers=2),
            ports=(9100, 9200),
            advertised=(("outside.test", 31000), ("outside.test", 31001)),
        ),
    )
    await cluster.start()
    assert [door.port for member in cluster.members.values() for door in member.doors] == [
        9100,
        9200,
    ]
    assert cluster.bootstrap == "outside.test:31000,outside.test:31001"
    await cluster.stop()


@pytest.mark.parametrize("field", ["ports", "advertised"])
@within(run_virtual, seed=1)
async def test_as_many_ports_as_brokers_are_wanted(env: VirtualEnvironment, field: str) -> None:
    given = {"ports": (1,), "advertised": (("outside.test", 1),)}[field]
    with pytest.raises(ConfigError, match=f"{field}: 1 for 3 brokers, one for each"):
        SimCluster(env, msgspec.structs.replace(options(), **{field: given}))


async def test_a_stop_ends_what_still_waits() -> None:
    """A request that is held, an open transaction, a connection: nothing keeps it."""
    async with asyncio.timeout(SLOW_S):
        async with real_cluster() as sim, client_of(sim.environment, sim) as client:
            producer = Producer(client, transactional_id="tx")
            await producer.init_transactions()
            producer.begin()
            await producer.send("orders", 0, b"v")
            cluster = VirtualCluster(sim.environment, sim)  # type: ignore[arg-type]
            cluster.arm(Hold(), FaultPoint.CLIENT_REQUEST, api="EndTxn")
            ending = asyncio.get_running_loop().create_task(producer.commit())
            await cluster.struck()
            listeners = sim.listeners
            ending.cancel()
            await asyncio.wait((ending,))
    assert not any(listener.connections for listener in listeners)
    assert not sim.brokers


@within(run_cluster)
async def test_moving_a_leader_to_where_it_can_not_be_is_refused(cluster: VirtualCluster) -> None:
    with pytest.raises(ConfigError, match="broker 9 is no replica that is in sync and lives"):
        cluster.sim.move_leader(P0, BrokerId(9))
    with pytest.raises(ConfigError, match="does not exist"):
        cluster.sim.move_leader(TopicPartition("orders", 9), BrokerId(1))


# Faults between brokers

FAULTS: list[Action] = [Hold(), Delay(delay_ms=2_000), Drop(), Fail(error="NOT_COORDINATOR")]


@pytest.mark.parametrize("action", FAULTS, ids=lambda action: type(action).__name__)
@pytest.mark.parametrize("api", ["AddPartitionsToTxn", "WriteTxnMarkers"])
@pytest.mark.parametrize("point", [REQUEST, RESPONSE])
@pytest.mark.parametrize("level", [1, 2])
def test_one_fault_between_brokers_delays_a_transaction_and_no_more(
    level: int, point: FaultPoint, api: str, action: Action
) -> None:
    async def main(cluster: VirtualCluster) -> None:
        cluster.arm(action, point, api=api, limit=1)
        async with cluster.client() as client:
            async with Producer(client, transactional_id="tx") as producer:
                await producer.init_transactions()
                producer.begin()
                sent = asyncio.gather(*(producer.send("orders", i, b"v") for i in range(3)))
                if isinstance(action, Hold):
                    releasing = cluster.env.tasks.spawn(release(cluster), name="release")
                await sent
                await producer.commit()
                if isinstance(action, Hold):
                    await releasing
            await until_state(client, "tx", "CompleteCommit")
            assert await values(client, "orders") == [b"v"] * 3
            every = await values(client, "orders", isolation=IsolationLevel.READ_UNCOMMITTED)
            assert every == [b"v"] * 3, "once each"
        (rule,) = cluster.sim.injector.rules()
        assert rule.struck == 1

    run_cluster(main, level=level)


async def release(cluster: VirtualCluster) -> None:
    await cluster.struck()
    await asyncio.sleep(1)
    cluster.sim.injector.release("f")


@pytest.mark.slow
@within(run_cluster)
async def test_producer_ids_come_although_the_controller_is_slow(cluster: VirtualCluster) -> None:
    cluster.arm(Drop(), REQUEST, api="AllocateProducerIds", limit=1)
    async with cluster.client() as client, Producer(client, transactional_id="tx") as producer:
        identity = await producer.init_transactions()
        assert identity.producer_epoch == 0
        assert cluster.sim.injector.rules()[0].struck == 1

"""The proxy as a whole: what it stands in front of, and how it starts and ends."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from tests.broker.server.test_connection import open_wire
from tests.support.clusters import IMPATIENT, VirtualCluster, options, run_cluster
from tests.support.proxied import ProxiedCluster, run_proxied
from tests.support.wires import Wire
from tests.support.within import within
from txnsim.client.cluster import Cluster
from txnsim.client.errors import ConnectionLostError
from txnsim.client.producer import Producer
from txnsim.errors import ConfigError
from txnsim.faults.actions import Hold, Rewrite
from txnsim.faults.crossings import RewriteHow
from txnsim.faults.plan import FaultRule
from txnsim.faults.points import FaultPoint
from txnsim.injection.injector import CannotStrikeError
from txnsim.runtime.virtual.run import VirtualEnvironment, run_virtual
from txnsim.server.cluster import SimCluster
from txnsim.testing import SimulatedKafka
from txnsim.testing._foreign_cluster import ForeignKafka
from txnsim.testing.event_loop import LoopThread
from txnsim.testing.options import wanted
from txnsim.types import TopicPartition
from txnsim_lab.proxy.addresses import Endpoint
from txnsim_lab.proxy.fault_proxy import FaultProxy
from txnsim_lab.proxy.options import ProxyOptions


@within(run_proxied)
async def test_every_connection_of_a_client_goes_through_it_after_leaders_move(
    cluster: ProxiedCluster,
) -> None:
    tp = TopicPartition("orders", 0)
    own = {address for broker in cluster.sim.metadata.image.brokers.values()
           for address in [(broker.host, broker.port)]}  # fmt: skip
    async with Cluster(
        cluster.proxy.bootstrap,
        settings=IMPATIENT,
        clock=cluster.env.clock,
        tasks=cluster.env.tasks,
    ) as client:
        producer = Producer(client, transactional_id="shop")
        await producer.init_transactions()
        for _ in range(3):
            producer.begin()
            await producer.send("orders", 0, b"v")
            await producer.commit()
            cluster.move(tp)
        assert {(one.host, one.port) for one in client.view.brokers}.isdisjoint(own)
    assert sum(door.accepted for door in cluster.proxy.clients) >= 3


@within(run_proxied)
async def test_what_it_can_not_do_is_refused_when_it_is_armed(cluster: ProxiedCluster) -> None:
    with pytest.raises(CannotStrikeError, match="only the simulator"):
        cluster.arm(Hold(), FaultPoint.LOG_APPEND)
    with pytest.raises(CannotStrikeError, match="--peer"):
        cluster.arm(Hold(), FaultPoint.PEER_REQUEST)


@pytest.mark.parametrize("wait_ms", [0, 10_000])
@within(run_virtual, seed=1)
async def test_a_cluster_that_does_not_answer_is_waited_for_where_that_is_wanted(
    env: VirtualEnvironment, wait_ms: int
) -> None:
    proxy = FaultProxy(env, ProxyOptions(bootstrap="127.0.0.1:30001", port=0, wait_ms=wait_ms))
    cluster_options = options(brokers=1)
    sim = SimCluster(env, msgspec.structs.replace(cluster_options, port=30_001))
    starting = asyncio.get_running_loop().create_task(proxy.start())
    await asyncio.sleep(1)
    await sim.start()
    if wait_ms:
        await starting
        assert proxy.cluster_id is not None
        assert [door.node_id for door in proxy.clients] == [1]
    else:
        with pytest.raises(ConnectionLostError, match="30001"):
            await starting
    await proxy.stop()
    await sim.stop()


@pytest.mark.parametrize("wait_ms", [0, 10_000])
@within(run_cluster)
async def test_a_broker_that_has_not_heard_of_itself_is_asked_again_where_that_is_wanted(
    cluster: VirtualCluster, wait_ms: int
) -> None:
    rewrite = Rewrite(field="brokers", how=RewriteHow.CLEAR)
    cluster.arm(rewrite, FaultPoint.CLIENT_RESPONSE, api="Metadata", limit=2)
    there = ProxyOptions(bootstrap=cluster.sim.bootstrap, port=0, wait_ms=wait_ms)
    proxy = FaultProxy(cluster.env, there)
    if wait_ms:
        await proxy.start()
        assert len(list(proxy.clients)) == len(cluster.sim.brokers)
    else:
        with pytest.raises(ConfigError, match="the cluster names no broker"):
            await proxy.start()
    await proxy.stop()


@within(run_proxied)
async def test_between_brokers_rules_strike_and_addresses_stay(cluster: ProxiedCluster) -> None:
    """The doors for brokers lead on to where they are told; the sender is known by its name."""
    image = cluster.sim.metadata.image
    peers = tuple(Endpoint(int(n), one.host, one.port) for n, one in image.brokers.items())
    proxy = FaultProxy(
        cluster.env,
        ProxyOptions(bootstrap=cluster.sim.bootstrap, port=0, peer_port=0, peers=peers),
    )
    await proxy.start()
    for rule_id, source in (("by-2", "broker/2"), ("by-3", "broker/3")):
        proxy.injector.arm(
            FaultRule(id=rule_id, point=FaultPoint.PEER_REQUEST, action=Hold(), source=source)
        )
    wire = await Wire.open(*proxy.peers.address(1), client_id="broker-2-fetcher-0")
    wire.send(wire.metadata())
    await proxy.injector.wait_until_struck("by-2", timeout_ms=1_000)
    assert await wire.silent_for(5)
    proxy.injector.disarm("by-2")
    _, message = await wire.answer()
    told = {(row.host, row.port) for row in message.brokers}
    assert told == {(one.host, one.port) for one in peers}
    assert proxy.injector.get("by-3").matched == 0  # type: ignore[union-attr]
    await wire.close()
    await proxy.stop()


@within(run_proxied)
async def test_it_ends_with_its_connections(cluster: ProxiedCluster) -> None:
    cluster.arm(Hold(), FaultPoint.CLIENT_REQUEST)
    wire = await open_wire(cluster)
    wire.send(wire.metadata())
    await cluster.struck()
    await cluster.proxy.stop()
    assert await wire.closed()
    await wire.close()


def test_tests_on_a_foreign_cluster_have_faults_and_their_clients_are_led_there() -> None:
    thread = LoopThread()
    with (
        SimulatedKafka() as other,
        ForeignKafka.at(
            other.bootstrap, wanted(topics=["struck"]), thread, has_proxy=True
        ) as kafka,
    ):
        assert set(kafka.bootstrap.split(",")).isdisjoint(other.bootstrap.split(","))
        fault = kafka.faults.arm(point="client.request", api="Metadata", action="pass")
        with ForeignKafka.at(kafka.bootstrap, wanted(), thread):
            fault.wait_until_struck()
        with pytest.raises(ValueError, match="only the simulator"):
            kafka.faults.arm(point="log.append", action="hold")
    thread.stop()

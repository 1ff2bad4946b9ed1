"""A broker's listener: bound before its broker exists, silent until opened, gone when closed."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.clusters import VirtualCluster, real_cluster, run_cluster
from tests.support.wires import Wire
from tests.support.within import within
from txnsim.runtime.virtual.run import VirtualEnvironment, run_virtual
from txnsim.server._connection import Connection
from txnsim.server._listener import BrokerListener, Door
from txnsim.settings import DEFAULTS
from txnsim.types import BrokerId


@within(run_cluster)
async def test_what_clients_send_before_the_broker_lives_is_answered_once_it_does(
    cluster: VirtualCluster,
) -> None:
    listener = BrokerListener(environment=cluster.env, settings=DEFAULTS, connect=Connection)
    port = (await listener.bind(Door(host="127.0.0.1", port=0))).port
    wire = await Wire.open("127.0.0.1", port)
    wire.send(wire.metadata())
    assert await wire.silent_for(60)
    listener.open(cluster.sim.brokers[BrokerId(1)])
    assert (await wire.answer())[0] == 1
    assert listener.node == "broker/1"
    await listener.close()
    assert await wire.closed()
    assert not listener.connections
    await wire.close()
    with pytest.raises(ConnectionRefusedError):
        await Wire.open("127.0.0.1", port)


@within(run_virtual, seed=1)
async def test_closing_one_that_was_never_bound_is_harmless(env: VirtualEnvironment) -> None:
    await BrokerListener(environment=env, settings=DEFAULTS, connect=Connection).close()


async def test_the_port_is_free_again_after_a_close() -> None:
    async with real_cluster(brokers=1) as sim:
        (broker,) = sim.metadata.image.alive_brokers()
        wire = await Wire.open(broker.host, broker.port)
        wire.send(wire.metadata())
        assert (await wire.answer())[0] == 1
    assert await wire.closed()
    await wire.close()
    server = await asyncio.start_server(lambda _r, _w: None, broker.host, broker.port)
    server.close()
    await server.wait_closed()


async def test_a_port_in_use_is_refused() -> None:
    async with real_cluster(brokers=1) as sim:
        (broker,) = sim.metadata.image.alive_brokers()
        other = BrokerListener(environment=sim.environment, settings=DEFAULTS, connect=Connection)
        with pytest.raises(OSError, match=str(broker.port)):
            await other.bind(Door(host=broker.host, port=broker.port))

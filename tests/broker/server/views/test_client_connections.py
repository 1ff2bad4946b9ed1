"""Open connections of clients: of each broker, on each listener, as long as they are open."""

from __future__ import annotations

from tests.support.clusters import VirtualCluster, run_cluster
from tests.support.raw_connection import WireClient
from tests.support.waiting import until
from tests.support.within_environment import within
from txnsim.server.views.client_connections import open_connections
from txnsim.types import BrokerId


@within(run_cluster, brokers=2, kip_text=True)
async def test_each_broker_lists_its_open_connections(cluster: VirtualCluster) -> None:
    addresses = [
        cluster.sim.metadata.image.brokers[BrokerId(broker_id)].address(listener)
        for broker_id, listener in ((1, "PLAINTEXT"), (2, "PLAINTEXT"), (2, "KIP_TEXT"))
    ]
    wires = [await WireClient.open(*address, client_id="app") for address in addresses]
    wires[0].send(wires[0].metadata())
    await wires[0].answer()
    shown_connections = list(open_connections(cluster.sim))
    assert [(row.broker, row.listener, row.client_id) for row in shown_connections] == [
        (1, "PLAINTEXT", "app"),
        (2, "PLAINTEXT", None),
        (2, "KIP_TEXT", None),
    ]
    for wire in wires:
        await wire.close()

    async def none_is_left() -> bool:
        return not list(open_connections(cluster.sim))

    await until(none_is_left, "all connections are closed")

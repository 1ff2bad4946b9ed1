"""What is read off a cluster: gauges that follow a transaction from its start to its end."""

from __future__ import annotations

import asyncio

from sim.client.producer import Producer
from sim.faults.plan import Drop, Hold
from sim.faults.points import FaultPoint
from sim.metrics import table
from sim.metrics.table import METRICS
from sim.server.readings import late_transactions, readings
from sim.types import TopicPartition
from tests.support.clusters import VirtualCluster, run_cluster, until_state

P0 = TopicPartition("orders", 0)


def read(cluster: VirtualCluster, metric: str) -> dict[tuple[str, ...], float]:
    """The metric's values that are not zero."""
    return {
        one.labels: one.value for one in readings(cluster.sim) if one.metric == metric and one.value
    }


def test_every_reading_is_in_the_table_with_its_labels() -> None:
    async def main(cluster: VirtualCluster) -> None:
        cluster.arm(Hold(), FaultPoint.CLIENT_REQUEST, api="EndTxn")
        async with cluster.client() as client, Producer(client, transactional_id="tx") as producer:
            await producer.init_transactions()
            producer.begin()
            await producer.send("orders", 0, b"v")
            found = list(readings(cluster.sim))
        labels = {metric.name: len(metric.labels) for metric in METRICS}
        assert {one.metric for one in found} == set(labels)
        assert all(len(one.labels) == labels[one.metric] for one in found)

    run_cluster(main)


def test_gauges_follow_a_transaction() -> None:
    async def main(cluster: VirtualCluster) -> None:
        cluster.arm(Drop(), FaultPoint.PEER_REQUEST, "lost", api="WriteTxnMarkers")
        leader = str(cluster.leader(P0))
        async with cluster.client() as client, Producer(client, transactional_id="tx") as producer:
            await producer.init_transactions()
            home = str(cluster.leader(cluster.home("tx")))
            assert read(cluster, table.TRANSACTIONS) == {(home, "Empty"): 1}
            producer.begin()
            await producer.send("orders", 0, b"v")
            assert read(cluster, table.TRANSACTIONS) == {(home, "Ongoing"): 1}
            assert read(cluster, table.LSO_LAG) == {("orders", "0"): 1}
            assert read(cluster, table.PRODUCER_IDS)[(leader,)] == 1
            assert read(cluster, table.VERIFIED) == {(leader,): 1}
            assert read(cluster, table.UNVERIFIED) == {}
            assert read(cluster, table.VERIFICATIONS) == {(leader,): 1}
            assert read(cluster, table.VERIFICATION_MS)[(leader,)] > 0
            assert sum(read(cluster, table.CONNECTIONS).values()) >= 2
            await producer.commit()
            await cluster.struck("lost")
            assert read(cluster, table.TRANSACTIONS) == {(home, "PrepareCommit"): 1}
            assert read(cluster, table.MARKERS_PENDING) == {(home,): 1}
            assert read(cluster, table.FAULTS_STRUCK) == {("lost",): 1}
            cluster.sim.injector.disarm("lost")
            await until_state(client, "tx", "CompleteCommit")
            assert read(cluster, table.LSO_LAG) == {}
            assert read(cluster, table.MARKERS_PENDING) == {}
            assert read(cluster, table.MARKERS_SENT)[(home,)] >= 2
        await asyncio.sleep(1)
        assert read(cluster, table.CONNECTIONS) == {}

    run_cluster(main)


def test_the_late_gauge_follows_the_cluster_clock() -> None:
    """Late: longer open than transaction.max.timeout.ms and five minutes (KIP-664)."""

    async def main(cluster: VirtualCluster) -> None:
        cluster.arm(Drop(), FaultPoint.PEER_REQUEST, "lost", api="WriteTxnMarkers")
        async with cluster.client() as client, Producer(client, transactional_id="tx") as producer:
            await producer.init_transactions()
            producer.begin()
            await producer.send("orders", 0, b"v")
            cluster.advance(20 * 60_000 - 1_000)
            assert late_transactions(cluster.sim) == 0
            cluster.advance(1_000)
            assert late_transactions(cluster.sim) == 1
            assert read(cluster, table.LATE_TRANSACTIONS) == {(str(cluster.leader(P0)),): 1}
            assert sum(read(cluster, table.TIMEOUTS).values()) == 1

    run_cluster(main)

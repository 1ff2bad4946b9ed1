"""Decisions and markers, read from logs that grow, move, are cut and deleted."""

from __future__ import annotations

import pytest

from tests.support.clusters import VirtualCluster, begin_transaction, run_cluster, until_state
from tests.support.hanging_transaction import make_hanging
from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.inspection.txn_views import OpenSince
from txnsim.client.offsets import LATEST_TIMESTAMP
from txnsim.faults.actions import Hold
from txnsim.faults.points import FaultPoint
from txnsim.server.views import _decision_book
from txnsim.server.views._decision_book import DecisionBook
from txnsim.txn.past_decision import PastDecision
from txnsim.types import IsolationLevel, TopicPartition

ORDERS_0 = TopicPartition("orders", 0)


async def commit(cluster: Cluster, transactional_id: str, repeat_count: int = 1) -> None:
    producer = await begin_transaction(cluster, transactional_id)
    for number in range(repeat_count):
        if number:
            producer.begin()
        await producer.send("orders", 0, b"x")
        await producer.commit()
    await until_state(cluster, transactional_id, "CompleteCommit")


async def tear(cluster: VirtualCluster, app_cluster: Cluster, transactional_id: str) -> None:
    """Commit a transaction whose records an operator aborts."""
    producer = await begin_transaction(app_cluster, transactional_id)
    await producer.send("orders", 0, b"x")
    cluster.arm(Hold(), FaultPoint.PEER_REQUEST, "late", api="WriteTxnMarkers", limit=1)
    await producer.commit()
    await cluster.wait_until_struck("late")
    admin = Admin(app_cluster)
    start_offset = await admin.offset_of(ORDERS_0, LATEST_TIMESTAMP, IsolationLevel.READ_COMMITTED)
    await admin.abort_transaction(
        await admin.identify(OpenSince(partition=ORDERS_0, start_offset=start_offset))
    )
    cluster.injector.disarm("late")
    await until_state(app_cluster, transactional_id, "CompleteCommit")


def test_a_contradiction_is_remembered_over_moves_and_gone_with_its_topic() -> None:
    async def story(cluster: VirtualCluster) -> None:
        book = DecisionBook()

        async def found() -> list[tuple[str, int]]:
            await book.read_on(cluster.sim, None)
            return [
                (str(wrong_data.partition), wrong_data.offset)
                for wrong_data in book.wrong_data(cluster.sim.metadata.image)
            ]

        async with cluster.client() as app_cluster:
            await commit(app_cluster, "before")
            assert await found() == []
            await tear(cluster, app_cluster, "torn")
            assert await found() == [("orders-0", 3)]
            cluster.move(ORDERS_0)
            cluster.move(cluster.home("torn"))
            await commit(app_cluster, "behind")
            assert await found() == [("orders-0", 3)]
            await Admin(app_cluster).delete_topics(["orders"])
            assert await found() == []

    run_cluster(story)


def test_long_histories_keep_their_newest_part(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(cluster: VirtualCluster) -> None:
        book = DecisionBook()
        async with cluster.client() as app_cluster:
            await commit(app_cluster, "a", repeat_count=12)
            await book.read_on(cluster.sim, None)
            await commit(app_cluster, "a", repeat_count=12)
            await book.read_on(cluster.sim, None)
            assert book.wrong_data(cluster.sim.metadata.image) == ()
            kept_logs = [log for log in book._logs.values() if log.markers]
            assert [len(markers) for log in kept_logs for markers in log.markers.values()] == [5]

    monkeypatch.setattr(_decision_book, "KEPT_MAX", 5)
    monkeypatch.setattr(_decision_book, "RECORDS_KEPT_MAX", 15)
    run_cluster(story, level=1)


def test_a_log_that_begins_later_is_known_from_its_first_marker_on() -> None:
    async def story(cluster: VirtualCluster) -> None:
        async with cluster.client() as app_cluster:
            await tear(cluster, app_cluster, "torn")
            await Admin(app_cluster).delete_records(ORDERS_0, -1)
            await commit(app_cluster, "a", repeat_count=2)
            book = DecisionBook()
            await book.read_on(cluster.sim, None)
            assert book.wrong_data(cluster.sim.metadata.image) == ()

    run_cluster(story, level=1)


def test_what_hangs_is_told_its_past_decision() -> None:
    async def story(cluster: VirtualCluster) -> None:
        book = DecisionBook()
        async with cluster.client() as app_cluster:
            await commit(app_cluster, "a")
            await make_hanging(Admin(app_cluster), ORDERS_0, "ghost", age_ms=0)
            await book.read_on(cluster.sim, None)
            log = cluster.sim.brokers[cluster.leader(ORDERS_0)].replicas.led[ORDERS_0]
            (producer,) = log.producers.open_producers()
            evidence = book.decided(ORDERS_0, producer, None)
            assert evidence.decision is PastDecision.UNKNOWN
            assert "no coordinator knows the producer" in str(evidence)

    run_cluster(story)

"""``GET /api/v1/verdict``: what brokers in memory know, judged. Each row is a moment at which the
page once said something else.
"""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import msgspec
import pytest
from starlette.requests import Request

from tests.support.clusters import VirtualCluster, begin_transaction, run_cluster, until_state
from tests.support.control_port import run_story
from tests.support.hanging_transaction import make_hanging
from tests.support.within_environment import within
from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.fetching import fetch
from txnsim.client.inspection.txn_views import OpenSince
from txnsim.client.producer import Producer
from txnsim.faults.actions import Fail, Hold
from txnsim.faults.points import FaultPoint
from txnsim.http._verdict import VerdictRoutes
from txnsim.runtime.loop_turns import Pace
from txnsim.server.views.cluster_facts import ClusterFactsReader
from txnsim.types import IsolationLevel, TopicPartition
from txnsim.verdict.facts import ClusterFacts, WrongData

ORDERS_0 = TopicPartition("orders", 0)
READ_COMMITTED, READ_UNCOMMITTED = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED


async def verdict(client: httpx.AsyncClient) -> dict[str, Any]:
    answer = await client.get("/api/v1/verdict")
    assert answer.status_code == 200, answer.text
    cluster_verdict: dict[str, Any] = answer.json()
    return cluster_verdict


def partition(cluster_verdict: dict[str, Any], name: str = "orders-0") -> dict[str, Any]:
    return next(entry for entry in cluster_verdict["partitions"] if entry["partition"] == name)


async def hang(cluster: Cluster) -> None:
    """Make a transaction hang, with a record of another producer behind it."""
    await make_hanging(Admin(cluster), ORDERS_0, "ghost", age_ms=0)
    async with Producer(cluster) as producer:
        await producer.send("orders", 0, b"behind")


async def held_fetch(cluster: Cluster, offset: int, isolation: IsolationLevel) -> None:
    """A fetch that waits until something can be read, or for five seconds."""
    await fetch(cluster, "orders", 0, offset, isolation=isolation, max_wait_ms=5_000)


@within(run_story)
async def test_nothing_is_open(cluster: VirtualCluster, client: httpx.AsyncClient, /) -> None:
    cluster_verdict = await verdict(client)
    assert (cluster_verdict["state"], cluster_verdict["headline"]) == (
        "healthy",
        "No transaction holds readers back",
    )
    assert (
        cluster_verdict["position"],
        cluster_verdict["is_recording"],
        cluster_verdict["age_ms"],
    ) == (
        None,
        False,
        0,
    )
    assert partition(cluster_verdict)["ends"] is None


@within(run_story)
async def test_an_open_transaction_ends_by_its_timeout(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    async with cluster.client() as app_cluster:
        producer = await begin_transaction(app_cluster, "billing", transaction_timeout_ms=9_000)
        await producer.send("orders", 0, b"x")
        cluster_verdict = await verdict(client)
        state = partition(cluster_verdict)
        assert (cluster_verdict["state"], state["stands_at"], state["records_behind"]) == (
            "open",
            0,
            1,
        )
        assert cluster_verdict["headline"] == "billing is open on orders-0 since offset 0"
        (transaction,) = (await client.get("/api/v1/transactions")).json()
        timeout_at_ms = transaction["start_ms"] + 9_000
        assert (state["ends"]["by"], state["ends"]["at_ms"]) == ("producer", timeout_at_ms)
        assert state["holder"]["since_ms"] is not None
        assert (state["readers"], state["share_groups"]) == ([], []), "none is said"


@within(run_story)
async def test_a_reader_that_waits_is_named(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    async with cluster.client() as app_cluster, cluster.client("reader") as reader:
        await hang(app_cluster)
        tasks = cluster.env.tasks
        waiting_fetch_task = tasks.spawn(held_fetch(reader, 0, READ_COMMITTED), name="reader")
        hasty_fetch_task = tasks.spawn(held_fetch(app_cluster, 2, READ_UNCOMMITTED), name="hasty")
        await asyncio.sleep(0.1)
        cluster_verdict = await verdict(client)
        assert partition(cluster_verdict)["readers"] == ["reader"]
        assert partition(cluster_verdict)["sentences"][-1] == (
            "Consumers that wait: reader. No share group waits."
        )
        await asyncio.gather(waiting_fetch_task, hasty_fetch_task)
        assert partition(await verdict(client))["readers"] == []


@within(run_story)
async def test_what_hangs_is_told_of_the_whole_cluster_and_is_gone_with_its_topic(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    """Rows 01 and 04: the verdict is that of all partitions; a deleted topic has none."""
    async with cluster.client() as app_cluster:
        producer = await begin_transaction(app_cluster, "billing")
        await producer.send("orders", 1, b"x")
        await producer.commit()
        await until_state(app_cluster, "billing", "CompleteCommit")
        await hang(app_cluster)
        cluster_verdict = await verdict(client)
        assert (cluster_verdict["state"], cluster_verdict["partitions"][0]["partition"]) == (
            "hangs",
            "orders-0",
        )
        assert partition(cluster_verdict)["ends"]["by"] == "operator"
        assert partition(cluster_verdict, "orders-1")["state"] == "healthy"
        open_transactions = (await client.get("/api/v1/open-transactions")).json()
        assert [entry["reason"] for entry in open_transactions] == [
            partition(cluster_verdict)["holder"]["reason"]
        ]
        await Admin(app_cluster).delete_topics(["orders"])
        cluster_verdict = await verdict(client)
        assert (cluster_verdict["state"], cluster_verdict["partitions"]) == ("healthy", [])


@within(run_story)
async def test_a_reset_leaves_nothing(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    async with cluster.client() as app_cluster:
        await hang(app_cluster)
        assert (await verdict(client))["state"] == "hangs"
    await cluster.sim.reset(cluster.sim.snapshot())
    assert (await verdict(client))["state"] == "healthy"


@pytest.mark.parametrize("victim", ["only replica", "leader", "coordinator"])
def test_without_leader_or_coordinator_nothing_is_said_to_end_it(victim: str) -> None:
    async def story(cluster: VirtualCluster, client: httpx.AsyncClient) -> None:
        async with cluster.client() as app_cluster:
            factor = 1 if victim == "only replica" else 3
            await Admin(app_cluster).create_topic("orders", partitions=1, replication_factor=factor)
            producer = await begin_transaction(app_cluster, "billing")
            await producer.send("orders", 0, b"x")
            home_partition = cluster.home("billing")
            victim_id = cluster.leader(home_partition if victim == "coordinator" else ORDERS_0)
            await cluster.sim.kill_broker(victim_id)
            cluster_verdict = await verdict(client)
            state = partition(cluster_verdict)
            if victim == "coordinator":
                if cluster.leader(ORDERS_0) == victim_id:
                    assert state["state"] == "no-leader"
                    return
                assert (state["state"], state["ends"]["by"]) == ("waits", "coordinator")
                assert f"no broker serves {home_partition}" in state["headline"]
                (open_txn,) = (await client.get("/api/v1/open-transactions")).json()
                assert (open_txn["verdict"], open_txn["command"]) == ("alive", None)
            else:
                assert (cluster_verdict["state"], state["ends"]["by"]) == ("no-leader", "leader")
                assert (state["stands_at"], state["holder"]) == (None, None)
            await asyncio.sleep(20)  # the controller has noticed
            later_partition = partition(await verdict(client))
            if victim == "only replica":
                assert (later_partition["state"], later_partition["leader_id"]) == ("no-leader", -1)
            else:
                assert later_partition["state"] == "open"

    run_story(story, topics=())


@within(run_story)
async def test_a_marker_that_a_rule_holds_does_not_come_by_itself(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    """The rule has no limit of strikes."""
    async with cluster.client() as app_cluster:
        producer = await begin_transaction(app_cluster, "billing")
        await producer.send("orders", 0, b"x")
        cluster.arm(Hold(), FaultPoint.PEER_REQUEST, "late", api="WriteTxnMarkers")
        await producer.commit()
        await cluster.wait_until_struck("late")
        cluster_verdict = await verdict(client)
        state = partition(cluster_verdict)
        assert (cluster_verdict["state"], state["ends"]["by"]) == ("waits", "operator")
        assert "the fault rule 'late' holds" in cluster_verdict["headline"]
        cluster.injector.disarm("late")
        await until_state(app_cluster, "billing", "CompleteCommit")
        assert (await verdict(client))["state"] == "healthy"


@pytest.mark.parametrize(("is_retried", "ends_by"), [(False, "operator"), (True, "marker")])
def test_a_marker_that_nobody_sends_again_does_not_come_by_itself(
    *, is_retried: bool, ends_by: str
) -> None:
    """As in lesson L4, Kafka 2.4 does not try again after a storage error."""

    async def story(cluster: VirtualCluster, client: httpx.AsyncClient) -> None:
        async with cluster.client() as app_cluster:
            producer = await begin_transaction(app_cluster, "billing")
            await producer.send("orders", 0, b"x")
            cluster.arm(
                Fail(error="KAFKA_STORAGE_ERROR"), FaultPoint.LOG_APPEND, "disk", kind="marker"
            )
            await producer.commit()
            await cluster.wait_until_struck("disk")
            await asyncio.sleep(0.005)
            state = partition(await verdict(client))
            assert (state["state"], state["ends"]["by"]) == ("waits", ends_by)
            can_heal = "does not heal by itself" not in " ".join(state["sentences"])
            assert can_heal == is_retried
            assert ("sends it again" in state["ends"]["sentence"]) == is_retried

    run_story(story, rules={"storage_errors_are_retried": is_retried})


@within(run_story)
async def test_deleted_records_do_not_end_a_hang(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    """The log begins later, and there is one verdict."""
    async with cluster.client() as app_cluster:
        await hang(app_cluster)
        await Admin(app_cluster).delete_records(ORDERS_0, 2)
        cluster_verdict = await verdict(client)
        state = partition(cluster_verdict)
        assert (cluster_verdict["state"], state["log_start"], state["stands_at"]) == ("hangs", 2, 2)
        assert (state["records_behind"], state["holder"]["since_ms"]) == (0, None)
        assert "its first records are deleted" in state["sentences"][1]


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("decision", ["commit", "abort"])
def test_a_marker_against_the_decision_is_wrong_data(level: int, decision: str) -> None:
    """Coordinator and partition contradict each other: an operator writes an ABORT while the
    COMMIT marker is held.
    """

    async def story(cluster: VirtualCluster, client: httpx.AsyncClient) -> None:
        async with cluster.client() as app_cluster:
            producer = await begin_transaction(app_cluster, "billing")
            await producer.send("orders", 0, b"x")
            cluster.arm(Hold(), FaultPoint.PEER_REQUEST, "late", api="WriteTxnMarkers", limit=1)
            await (producer.commit() if decision == "commit" else producer.abort())
            await cluster.wait_until_struck("late")
            admin = Admin(app_cluster)
            spec = await admin.identify(OpenSince(partition=ORDERS_0, start_offset=0))
            await admin.abort_transaction(spec)
            cluster.injector.disarm("late")
            await until_state(app_cluster, "billing", f"Complete{decision.title()}")
            cluster_verdict = await verdict(client)
            expected_text = "wrong-data" if decision == "commit" else "healthy"
            assert cluster_verdict["state"] == expected_text
            if decision == "commit":
                (wrong_data,) = partition(cluster_verdict)["wrong_data"]
                assert (wrong_data["offset"], wrong_data["is_commit"]) == (1, True)
                await asyncio.sleep(0.01)
                assert (await verdict(client))["state"] == "wrong-data", "it stays so"
                await admin.delete_records(ORDERS_0, -1)
                assert (await verdict(client))["state"] == "healthy", "its records are gone"

    run_story(story, level=level)


def test_every_state_is_json_that_decodes() -> None:
    from txnsim.http._verdict import VerdictView

    async def story(cluster: VirtualCluster, client: httpx.AsyncClient) -> None:
        async with cluster.client() as app_cluster:
            await hang(app_cluster)
            answer = await client.get("/api/v1/verdict")
            assert msgspec.json.decode(answer.content, type=VerdictView).state == "hangs"

    run_story(story)


class _CountedTrace:
    """A trace whose facts are counted as they are read."""

    def __init__(self, cluster_facts: ClusterFacts) -> None:
        self._cluster_facts = cluster_facts
        self.read_count = 0

    async def facts_at(self, position: int) -> ClusterFacts:
        self.read_count += 1
        await asyncio.sleep(0)
        return msgspec.structs.replace(self._cluster_facts, now_ms=position)

    async def wrong_data(self) -> tuple[WrongData, ...]:
        return ()


@within(run_cluster)
async def test_the_facts_of_one_past_moment_are_in_memory_at_a_time(
    cluster: VirtualCluster, /
) -> None:
    facts_reader = ClusterFactsReader(cluster.sim)
    pace = Pace(cluster.env.tasks.turns, cluster.env.clock.stopwatch_ns)
    counted_trace = _CountedTrace(await facts_reader.read(pace))
    routes = VerdictRoutes(cluster.sim, facts_reader, counted_trace)
    read_counts_at_end = []

    async def ask(position: int) -> None:
        query = f"at={position}".encode()
        await routes.verdict(Request({"type": "http", "query_string": query, "headers": []}))
        read_counts_at_end.append(counted_trace.read_count)

    await asyncio.gather(*map(ask, range(3)))
    assert read_counts_at_end == [1, 2, 3]

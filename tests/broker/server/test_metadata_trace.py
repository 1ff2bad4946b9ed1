"""What the trace tells of the metadata, where no broker does, and of readers that wait."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.support.clusters import VirtualCluster, begin_transaction, run_cluster
from txnsim.client.admin import Admin
from txnsim.client.fetching import fetch
from txnsim.controller.controller import TopicToCreate
from txnsim.runtime.trace import TraceLevel
from txnsim.types import IsolationLevel, TopicPartition

KINDS = ("topic.deleted", "leader.changed", "cluster.reset", "trace.off")
ORDERS_0 = TopicPartition("orders", 0)


def told(cluster: VirtualCluster) -> list[tuple[str, Any]]:
    return [(event.k, event.d) for event in cluster.env.tracer.events(0) if event.k in KINDS]


def test_a_deleted_topic_and_one_that_is_made_again_are_told() -> None:
    async def story(cluster: VirtualCluster) -> None:
        async with cluster.client() as app_cluster:
            admin = Admin(app_cluster)
            await admin.delete_topics(["orders"])
            assert told(cluster) == [("topic.deleted", {"topic": "orders", "partitions": 3})]
            await admin.create_topic("orders", partitions=1)
            assert len(told(cluster)) == 1, "its leader tells of itself"

    run_cluster(story, trace_level=TraceLevel.BRIEF)


def test_another_leader_and_none_are_told() -> None:
    async def story(cluster: VirtualCluster) -> None:
        async with cluster.client() as app_cluster:
            await Admin(app_cluster).create_topic("solo", partitions=1, replication_factor=1)
            solo_partition = TopicPartition("solo", 0)
            new_broker_id = cluster.move(ORDERS_0)
            ((kind, data),) = told(cluster)
            assert (kind, data["tp"], data["leader"]) == (
                "leader.changed",
                "orders-0",
                new_broker_id,
            )
            assert new_broker_id in data["isr"]
            assert len(data["replicas"]) == 3
            victim_id = cluster.leader(solo_partition)
            await cluster.sim.kill_broker(victim_id)
            await asyncio.sleep(20)
            leaders = {data["tp"]: data["leader"] for kind, data in told(cluster)}
            assert leaders["solo-0"] == -1
            assert victim_id not in leaders.values()

    run_cluster(story, trace_level=TraceLevel.BRIEF)


def test_a_partition_that_begins_without_a_running_leader_is_told() -> None:
    async def story(cluster: VirtualCluster) -> None:
        victim_id = cluster.leader(ORDERS_0)
        await cluster.sim.kill_broker(victim_id)  # the controller has not noticed yet
        late_topic = TopicToCreate(name="late", partition_count=6, replication_factor=1)
        cluster.sim.metadata.create_topic(late_topic)
        assert {data["leader"] for _, data in told(cluster)} == {victim_id}

    run_cluster(story, trace_level=TraceLevel.BRIEF)


def test_a_reset_and_the_end_of_a_recording_are_told() -> None:
    async def story(cluster: VirtualCluster) -> None:
        await cluster.sim.reset(cluster.sim.snapshot())
        cluster.env.tracer.level = TraceLevel.OFF
        cluster.move(ORDERS_0)
        assert told(cluster) == [
            ("cluster.reset", {"brokers": 3}),
            ("trace.off", {"level": "brief"}),
        ]

    run_cluster(story, trace_level=TraceLevel.BRIEF)


def test_a_reader_that_waits_behind_an_open_transaction_is_told_with_its_end() -> None:
    async def story(cluster: VirtualCluster) -> None:
        async with cluster.client() as app_cluster, cluster.client("reader") as reader:
            producer = await begin_transaction(app_cluster, "billing")
            await producer.send("orders", 0, b"x")
            await fetch(
                reader,
                "orders",
                0,
                0,
                isolation=IsolationLevel.READ_COMMITTED,
                max_wait_ms=1_000,
            )
            await producer.abort()
        wait_event, end_event = (
            event for event in cluster.env.tracer.events(0) if event.k.startswith("reader.")
        )
        assert (wait_event.k, wait_event.d) == (
            "reader.wait",
            {"partitions": ["orders-0"], "client": "reader"},
        )
        assert (end_event.k, end_event.p) == ("reader.end", (wait_event.i,))
        assert end_event.t - wait_event.t >= 1_000_000

    run_cluster(story, trace_level=TraceLevel.FULL)

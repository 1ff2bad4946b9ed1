"""The verdict that a trace tells, at moments at which the page once said something else."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.support.clusters import VirtualCluster, begin_transaction, run_cluster, until_state
from tests.support.hanging_transaction import make_hanging
from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.fetching import fetch
from txnsim.client.producer import Producer
from txnsim.faults.actions import Fail, Hold
from txnsim.faults.points import FaultPoint
from txnsim.runtime.trace import TraceLevel
from txnsim.types import IsolationLevel, TopicPartition
from txnsim.verdict.judge import EndsBy, PartitionVerdict, Verdict, VerdictState, judge_cluster
from txnsim_lab.trace.followed_trace import FollowedTrace

ORDERS_0 = TopicPartition("orders", 0)
Story = Callable[[VirtualCluster, Cluster], Awaitable[None]]


def judged(cluster: VirtualCluster) -> Verdict:
    tracer = cluster.env.tracer
    return judge_cluster(FollowedTrace.of(tracer.events(0), tracer.nodes).facts())


def partition(cluster: VirtualCluster) -> PartitionVerdict:
    verdict = judged(cluster).of(ORDERS_0)
    assert verdict is not None
    return verdict


def run(story: Story, level: TraceLevel = TraceLevel.FULL, **config_changes: Any) -> None:
    async def main(cluster: VirtualCluster) -> None:
        async with cluster.client() as app_cluster:
            await story(cluster, app_cluster)

    run_cluster(main, trace_level=level, **config_changes)


async def hang(app_cluster: Cluster) -> None:
    await make_hanging(Admin(app_cluster), ORDERS_0, "ghost", age_ms=0)
    async with Producer(app_cluster) as producer:
        await producer.send("orders", 0, b"behind")


@pytest.mark.parametrize("level", [TraceLevel.BRIEF, TraceLevel.FULL])
def test_a_deleted_topic_takes_its_open_transactions_along(level: TraceLevel) -> None:
    async def story(cluster: VirtualCluster, app_cluster: Cluster) -> None:
        await hang(app_cluster)
        assert judged(cluster).state is VerdictState.HANGS
        await Admin(app_cluster).delete_topics(["orders"])
        verdict = judged(cluster)
        assert (verdict.state, verdict.partitions) == (VerdictState.HEALTHY, ())
        for broker in cluster.sim.brokers.values():
            kept_logs = [*broker.logs, *broker.replicas.hosted.values()]
            assert "orders" not in {log.topic_partition.topic for log in kept_logs}
        assert (
            FollowedTrace.of(cluster.env.tracer.events(0), cluster.env.tracer.nodes).state.logs
            == {}
        )

    run(story, level)


def test_a_reset_leaves_nothing_of_before() -> None:
    async def story(cluster: VirtualCluster, app_cluster: Cluster) -> None:
        await hang(app_cluster)
        await begin_transaction(app_cluster, "open")
        await cluster.sim.reset(cluster.sim.snapshot())
        verdict = judged(cluster)
        assert (verdict.state, verdict.unfinished) == (VerdictState.HEALTHY, ())
        assert verdict.of(ORDERS_0) is not None

    run(story)


def test_where_recording_stops_nothing_is_known_until_it_goes_on() -> None:
    async def story(cluster: VirtualCluster, app_cluster: Cluster) -> None:
        tracer = cluster.env.tracer
        producer = await begin_transaction(app_cluster, "billing")
        await producer.send("orders", 0, b"x")
        tracer.level = TraceLevel.OFF
        verdict = judged(cluster)
        assert verdict.state is VerdictState.UNKNOWN
        assert verdict.headline == (
            f"What is so now is not known: recording stopped at #{len(tracer) - 1}"
        )
        await producer.commit()
        await until_state(app_cluster, "billing", "CompleteCommit")
        tracer.level = TraceLevel.FULL
        await asyncio.sleep(0.1)
        assert judged(cluster).state is VerdictState.HEALTHY

    run(story)


@pytest.mark.parametrize("victim", ["leader", "coordinator"])
def test_what_is_dead_is_told_at_once_and_after_the_election(victim: str) -> None:
    async def story(cluster: VirtualCluster, app_cluster: Cluster) -> None:
        home_partition = cluster.home("billing")
        if cluster.leader(home_partition) == cluster.leader(ORDERS_0):
            cluster.move(ORDERS_0)
        producer = await begin_transaction(app_cluster, "billing")
        await producer.send("orders", 0, b"x")
        await cluster.sim.kill_broker(
            cluster.leader(ORDERS_0 if victim == "leader" else home_partition)
        )
        ends = partition(cluster).ends
        assert ends is not None
        assert ends.by is (EndsBy.LEADER if victim == "leader" else EndsBy.COORDINATOR)
        await asyncio.sleep(20)
        assert partition(cluster).state is VerdictState.OPEN

    async def prepared(cluster: VirtualCluster, app_cluster: Cluster) -> None:
        await (await begin_transaction(app_cluster, "first")).close()
        await story(cluster, app_cluster)

    run(prepared)


def test_the_only_replica_is_dead() -> None:
    async def story(cluster: VirtualCluster, app_cluster: Cluster) -> None:
        await Admin(app_cluster).create_topic("orders", partitions=1, replication_factor=1)
        producer = await begin_transaction(app_cluster, "billing")
        await producer.send("orders", 0, b"x")
        await cluster.sim.kill_broker(cluster.leader(ORDERS_0))
        await asyncio.sleep(20)
        verdict = partition(cluster)
        assert (verdict.state, verdict.leader_id) == (VerdictState.NO_LEADER, -1)
        assert verdict.ends is not None
        assert "Start broker " in verdict.ends.sentence

    run(story, topics=())


@pytest.mark.parametrize("level", [TraceLevel.BRIEF, TraceLevel.FULL])
def test_a_marker_that_does_not_come_by_itself(level: TraceLevel) -> None:
    async def held(cluster: VirtualCluster, app_cluster: Cluster) -> None:
        producer = await begin_transaction(app_cluster, "billing")
        await producer.send("orders", 0, b"x")
        cluster.arm(Hold(), FaultPoint.PEER_REQUEST, "late", api="WriteTxnMarkers")
        await producer.commit()
        await cluster.wait_until_struck("late")
        assert "which the fault rule 'late' holds" in partition(cluster).headline

    async def abandoned(cluster: VirtualCluster, app_cluster: Cluster) -> None:
        producer = await begin_transaction(app_cluster, "billing")
        await producer.send("orders", 0, b"x")
        disk_failure = Fail(error="KAFKA_STORAGE_ERROR")
        cluster.arm(disk_failure, FaultPoint.LOG_APPEND, "disk", kind="marker", limit=1)
        await producer.commit()
        await cluster.wait_until_struck("disk")
        await asyncio.sleep(0.01)
        assert "which its coordinator does not send again" in partition(cluster).headline
        cluster.env.tracer.level = TraceLevel.OFF
        cluster.env.tracer.level = level
        await asyncio.sleep(0.1)
        assert "which its coordinator does not send again" in partition(cluster).headline

    run(held, level)
    run(abandoned, level, rules={"storage_errors_are_retried": False})


def test_readers_that_wait_are_told_and_so_is_none() -> None:
    async def story(cluster: VirtualCluster, app_cluster: Cluster) -> None:
        await hang(app_cluster)
        assert partition(cluster).readers == ()
        committed_level = IsolationLevel.READ_COMMITTED
        async with cluster.client("reader") as reader:
            waiting_fetch_task = cluster.env.tasks.spawn(
                fetch(reader, "orders", 0, 0, isolation=committed_level, max_wait_ms=5_000),
                name="reader",
            )
            await asyncio.sleep(0.1)
            assert partition(cluster).readers == ("reader",)
            await waiting_fetch_task
        assert partition(cluster).readers == ()

    run(story)


def test_deleted_records_do_not_end_a_hang() -> None:
    async def story(cluster: VirtualCluster, app_cluster: Cluster) -> None:
        await hang(app_cluster)
        await Admin(app_cluster).delete_records(ORDERS_0, 2)
        verdict = partition(cluster)
        assert (verdict.state, verdict.log_start, verdict.stands_at) == (VerdictState.HANGS, 2, 2)
        assert verdict.holder is not None
        assert verdict.holder.since_ms is None

    run(story)

"""Facts for the judge, read from brokers in memory. What follows from them is in
``tests/broker/http/test_verdict.py``.
"""

from __future__ import annotations

import asyncio

import msgspec

from tests.support.clusters import (
    VirtualCluster,
    begin_transaction,
    options,
    run_cluster,
    until_state,
)
from txnsim.client.admin import Admin
from txnsim.client.fetching import NearReplicas, fetch
from txnsim.client.members.membership import MemberOptions
from txnsim.client.members.share import ShareMember
from txnsim.faults.actions import Drop
from txnsim.faults.points import FaultPoint
from txnsim.log.replicated import describe_batch
from txnsim.replica.read_replicas import RACK_SELECTOR
from txnsim.runtime.loop_turns import Pace
from txnsim.server.views.cluster_facts import ClusterFactsReader
from txnsim.types import TopicPartition
from txnsim.verdict.facts import ClusterFacts, MarkerSending, PartitionFacts
from txnsim.wire.batch import Record, build_batch, read_batch_header

ORDERS_0 = TopicPartition("orders", 0)
RACKS = ("a", "b", "c")


def partition_of(facts: ClusterFacts) -> PartitionFacts:
    return next(partition for partition in facts.partitions if partition.partition == ORDERS_0)


def test_facts_are_the_same_in_slices_and_in_a_step() -> None:
    async def story(cluster: VirtualCluster) -> None:
        reader = ClusterFactsReader(cluster.sim)
        async with cluster.client() as app_cluster:
            for transactional_id in ("a", "b"):
                producer = await begin_transaction(app_cluster, transactional_id)
                await producer.send("orders", 0, b"x")
            environment = cluster.env
            pace = Pace(environment.tasks.turns, environment.clock.stopwatch_ns)
            facts_in_slices = await reader.read(pace)
            assert (
                facts_in_slices
                == await reader.read()
                == await ClusterFactsReader(cluster.sim).read()
            )
            assert sorted(txn.transactional_id for txn in facts_in_slices.transactions) == [
                "a",
                "b",
            ]
            assert [txn.first_offset for txn in partition_of(facts_in_slices).open_txns] == [0, 1]

    run_cluster(story)


def test_very_many_open_transactions_are_looked_at_in_slices() -> None:
    async def story(cluster: VirtualCluster) -> None:
        leader_log = next(
            log
            for broker in cluster.sim.brokers.values()
            if (log := broker.replicas.led.get(ORDERS_0)) is not None
        )
        for number in range(1_100):
            batch = build_batch(
                [Record(value=b"x")],
                timestamp_ms=0,
                producer_id=10_000 + number,
                producer_epoch=0,
                base_sequence=0,
                is_transactional=True,
                base_offset=number,
                leader_epoch=0,
            )
            leader_log.producers.state.apply(describe_batch(batch, read_batch_header(batch)))
        pace = Pace(cluster.env.tasks.turns, cluster.env.clock.stopwatch_ns)
        facts = await ClusterFactsReader(cluster.sim).read(pace)
        assert len(partition_of(facts).open_txns) == 1_100
        assert pace.has_rested
        # The log has none of these records.
        leader_log.producers.restart()

    run_cluster(story)


def test_a_lost_marker_is_sent_again_when_its_request_times_out() -> None:
    async def story(cluster: VirtualCluster) -> None:
        reader = ClusterFactsReader(cluster.sim)
        async with cluster.client() as app_cluster:
            producer = await begin_transaction(app_cluster, "a")
            await producer.send("orders", 0, b"x")
            cluster.arm(Drop(), FaultPoint.PEER_REQUEST, api="WriteTxnMarkers", limit=1)
            await producer.commit()
            await cluster.wait_until_struck()
            facts = await reader.read()
            (owed_marker,) = facts.owed_markers
            assert (owed_marker.sending, owed_marker.is_commit) == (MarkerSending.RETRIED, True)
            assert owed_marker.sent_again_ms is not None
            await asyncio.sleep((owed_marker.sent_again_ms - facts.now_ms) / 1_000 + 1)
            await until_state(app_cluster, "a", "CompleteCommit")
            assert (await reader.read()).owed_markers == ()

    run_cluster(story)


def test_a_reader_that_waits_at_a_follower_waits() -> None:
    async def story(cluster: VirtualCluster) -> None:
        facts_reader = ClusterFactsReader(cluster.sim)
        async with cluster.client() as app_cluster, cluster.client("near") as client:
            producer = await begin_transaction(app_cluster, "a")
            await producer.send("orders", 0, b"x")
            await producer.send("orders", 0, b"y")
            follower = next(
                broker_id for broker_id in (1, 2, 3) if broker_id != cluster.leader(ORDERS_0)
            )
            near_replicas = NearReplicas(RACKS[follower - 1])
            await fetch(client, "orders", 0, 0, near_replicas=near_replicas, max_wait_ms=0)
            waiting_fetch_task = cluster.env.tasks.spawn(
                fetch(client, "orders", 0, 0, near_replicas=near_replicas, max_wait_ms=5_000),
                name="near",
            )
            await asyncio.sleep(0.1)
            assert partition_of(await facts_reader.read()).readers == ("near",)
            fetch_result = await waiting_fetch_task
            assert fetch_result.follower_id == follower
            assert partition_of(await facts_reader.read()).readers == ()

    run_cluster(
        story,
        cluster_options=msgspec.structs.replace(
            options(replica_selector_class=RACK_SELECTOR), racks=RACKS
        ),
    )


def test_share_groups_stand_where_their_leader_has_them() -> None:
    async def story(cluster: VirtualCluster) -> None:
        async with cluster.client() as app_cluster:
            producer = await begin_transaction(app_cluster, "a")
            await producer.send("orders", 0, b"x")
            admin = Admin(app_cluster)
            for group, isolation in (("careful", "read_committed"), ("hasty", "read_uncommitted")):
                await admin.set_group_config(group, "share.auto.offset.reset", "earliest")
                await admin.set_group_config(group, "share.isolation.level", isolation)
                member = ShareMember(app_cluster, MemberOptions(group_id=group, member_id=group))
                await member.subscribe(["orders"], until=frozenset({ORDERS_0}))
                await member.poll(max_wait_ms=100)
            groups = partition_of(await ClusterFactsReader(cluster.sim).read()).share_groups
            assert groups is not None
            (group_facts,) = groups
            assert (group_facts.group_id, group_facts.start_offset) == ("careful", 0)

    run_cluster(story, topics=(("orders", 1),))

"""Transactions while brokers are killed, isolated and started again, in virtual time.

What a client was told must stay true while records are committed by the rules, and the one way to
lose them (an unclean election) must be visible to a client, as on a real cluster.
"""

from __future__ import annotations

import asyncio

import pytest

from tests.support.clusters import VirtualCluster, run_cluster, values
from tests.support.images import B1, B2
from tests.support.waiting import EVERYTHING, PATIENT, fenced, in_sync, reads
from tests.support.within import within
from txnsim.client._txn_admin import TransactionAdmin
from txnsim.client.errors import ClientError
from txnsim.client.producer import Producer
from txnsim.controller.controller import NewTopic
from txnsim.errors import ErrorCode, Rejection
from txnsim.faults.actions import Drop, Hold
from txnsim.faults.points import FaultPoint
from txnsim.metadata.image import TopicImage
from txnsim.runtime.trace import TraceLevel
from txnsim.txn.commands import TransactionDescription
from txnsim.types import (
    TRANSACTION_STATE_TOPIC,
    BrokerId,
    TopicPartition,
    TransactionalId,
)

P0 = TopicPartition("orders", 0)
TX = TransactionalId("tx")


def described(cluster: VirtualCluster, broker_id: BrokerId) -> TransactionDescription | Rejection:
    return cluster.sim.brokers[broker_id].coordinator.describe(TX)


@pytest.mark.parametrize("level", [0, 2])
@pytest.mark.parametrize("victim", ["leader", "coordinator"])
@pytest.mark.parametrize("way", ["kill", "stop", "isolate"])
def test_a_transaction_outlives_a_broker_that_goes_in_its_middle(
    way: str, victim: str, level: int
) -> None:
    async def main(cluster: VirtualCluster) -> None:
        sim = cluster.sim
        async with cluster.client(**PATIENT) as client:
            producer = Producer(client, transactional_id=TX)
            await producer.init_transactions()
            producer.begin()
            await producer.send("orders", 0, b"first")
            gone = cluster.leader(P0 if victim == "leader" else cluster.home(TX))
            match way:
                case "kill":
                    await sim.kill_broker(gone)
                case "stop":
                    await sim.stop_broker(gone)
                case _:
                    sim.isolate(gone, from_clients=True)
            await fenced(cluster, gone)
            await producer.send("orders", 0, b"second")
            await producer.commit()
            await reads(cluster, b"first", b"second")
            if way == "isolate":
                sim.heal(gone)
            else:
                await sim.start_broker(gone)
            await in_sync(cluster, P0, 3)
            producer.begin()
            await producer.send("orders", 0, b"third")
            await producer.commit()
            await reads(cluster, b"first", b"second", b"third")

    run_cluster(main, level=level)


@within(run_cluster)
async def test_markers_that_are_owed_are_sent_by_the_next_coordinator(
    cluster: VirtualCluster,
) -> None:
    sim = cluster.sim
    async with cluster.client(**PATIENT) as client:
        producer = Producer(client, transactional_id=TX)
        await producer.init_transactions()
        producer.begin()
        await producer.send("orders", 0, b"v")
        cluster.arm(Hold(), FaultPoint.PEER_REQUEST, api="WriteTxnMarkers")
        await producer.commit()
        await cluster.struck()
        assert await values(client, "orders", partitions=1) == []
        first = cluster.leader(cluster.home(TX))
        await sim.kill_broker(first)
        sim.injector.disarm("f")  # what was held for the dead coordinator is lost with it
        await fenced(cluster, first)
        await asyncio.sleep(1)
        second = cluster.leader(cluster.home(TX))
        assert second != first
        found = described(cluster, second)
        assert isinstance(found, TransactionDescription)
        assert found.state == "CompleteCommit"
        await reads(cluster, b"v")


@within(run_cluster)
async def test_a_coordinator_that_loads_says_so_until_it_has_loaded(
    cluster: VirtualCluster,
) -> None:
    async with cluster.client(**PATIENT) as client:
        producer = Producer(client, transactional_id=TX)
        await producer.init_transactions()
        cluster.arm(Hold(), FaultPoint.COORDINATOR_LOAD, topic=TRANSACTION_STATE_TOPIC)
        second = cluster.move(cluster.home(TX))
        await cluster.struck()
        refused = described(cluster, second)
        assert isinstance(refused, Rejection)
        assert refused.error is ErrorCode.coordinator_load_in_progress
        loop = asyncio.get_running_loop()
        again = Producer(client, transactional_id=TX)
        waiting = loop.create_task(again.init_transactions())
        await asyncio.sleep(2)
        assert not waiting.done()
        cluster.sim.injector.release("f")
        await waiting
        assert isinstance(described(cluster, second), TransactionDescription)


@within(run_cluster, coordinator_load_min_ms=2_500)
async def test_a_load_lasts_as_long_as_the_setting_says(cluster: VirtualCluster) -> None:
    async with cluster.client(**PATIENT) as client:
        producer = Producer(client, transactional_id=TX)
        await producer.init_transactions()
        second = cluster.move(cluster.home(TX))
        assert isinstance(described(cluster, second), Rejection)
        await asyncio.sleep(3)
        assert isinstance(described(cluster, second), TransactionDescription)


@within(run_cluster)
async def test_ids_that_a_killed_broker_had_in_stock_are_never_given_out(
    cluster: VirtualCluster,
) -> None:
    sim = cluster.sim
    async with cluster.client(**PATIENT) as client:
        one = Producer(client, transactional_id="a")
        before = (await one.init_transactions()).producer_id
        home = cluster.leader(cluster.home("a"))
        await sim.kill_broker(home)
        await sim.start_broker(home)
        await in_sync(cluster, cluster.home("a"), 3)
        sim.move_leader(cluster.home("a"), home)
        ids = {before}
        for number in range(40):
            name = f"again-{number}"
            if cluster.leader(cluster.home(name)) == home:
                ids.add(
                    (await Producer(client, transactional_id=name).init_transactions()).producer_id
                )
        assert len(ids) > 1
        assert {found // 1_000 for found in ids - {before}}.isdisjoint({before // 1_000})


@within(run_cluster)
async def test_a_zombie_coordinators_move_is_lost_with_it(cluster: VirtualCluster) -> None:
    """Its record never reaches the others, so nobody is told that it was committed."""
    sim = cluster.sim
    async with cluster.client(**PATIENT) as client:
        producer = Producer(client, transactional_id=TX)
        await producer.init_transactions()
        producer.begin()
        await producer.send("orders", 0, b"v")
        zombie = cluster.leader(cluster.home(TX))
        sim.isolate(zombie)
        loop = asyncio.get_running_loop()
        committing = loop.create_task(producer.commit())
        await asyncio.sleep(1)
        pending = [one.pending_state for one in sim.brokers[zombie].coordinator.entries()]
        assert not committing.done()
        assert any(pending), "begun, and never finished"
        await fenced(cluster, zombie)
        second = cluster.leader(cluster.home(TX))
        found = described(cluster, second)
        assert isinstance(found, TransactionDescription)
        assert found.state == "Ongoing"
        sim.heal(zombie)
        await committing
        await reads(cluster, b"v")


def far_from(cluster: VirtualCluster, brokers: set[BrokerId]) -> TransactionalId:
    """A transactional id whose coordinator and its replicas are none of these brokers."""
    topic = cluster.sim.metadata.image.topics[TRANSACTION_STATE_TOPIC]
    for number in range(1_000):
        name = TransactionalId(f"tx-{number}")
        if brokers.isdisjoint(topic.partitions[cluster.home(name).partition].replicas):
            return name
    raise AssertionError("there is none")


@within(run_cluster, brokers=5)
async def test_an_unclean_election_loses_a_commit_marker_and_a_client_can_see_it(
    cluster: VirtualCluster,
) -> None:
    """The record is there, its transaction was committed, and read_committed stops in front of it.

    1. The follower of ``t-0`` dies; the ISR is the leader alone, which is enough.
    2. A transaction commits: the COMMIT marker is on the leader only. A consumer reads the record.
    3. The leader dies, the follower comes back, and is elected although it lacks the marker.
    4. For the new leader the transaction is open still; its coordinator has long forgotten it.
    """
    sim = cluster.sim
    t = TopicPartition("t", 0)
    created = sim.metadata.create_topic(
        NewTopic(
            name="t",
            assignments=((0, (B1, B2)),),
            configs={"unclean.leader.election.enable": "true", "min.insync.replicas": "1"},
        )
    )
    assert isinstance(created, TopicImage)
    async with cluster.client(**PATIENT) as client:
        await Producer(client, transactional_id="first").init_transactions()
        name = far_from(cluster, {B1, B2})
        producer = Producer(client, transactional_id=name)
        await producer.init_transactions()
        producer.begin()
        await producer.send("t", 0, b"v")
        await in_sync(cluster, t, 2)
        await sim.kill_broker(B2)
        await in_sync(cluster, t, 1)
        await producer.commit()
        assert await values(client, "t", partitions=1) == [b"v"]
        await sim.kill_broker(B1)
        await fenced(cluster, B1)
        assert cluster.leader(t) == -1
        await sim.start_broker(B2)
        assert cluster.leader(t) == B2

        assert await values(client, "t", partitions=1) == [], "it was there before"
        assert await values(client, "t", partitions=1, isolation=EVERYTHING) == [b"v"]
        admin = TransactionAdmin(client)
        transaction = (await admin.describe_transactions([name]))[name]
        assert not isinstance(transaction, ClientError)
        assert transaction.state == "CompleteCommit"
        producers = (await admin.describe_producers([t]))[t]
        assert not isinstance(producers, ClientError)
        assert [one.txn_start_offset for one in producers] == [0], "open for ever"
        await sim.start_broker(B1)
        await in_sync(cluster, t, 2)
        assert sim.brokers[B1].replicas.hosted[t].log_end_offset == 1, "its marker was cut off"


@within(run_cluster)
async def test_a_load_that_never_ends_is_ended_by_another_leader(cluster: VirtualCluster) -> None:
    async with cluster.client(**PATIENT) as client:
        producer = Producer(client, transactional_id=TX)
        await producer.init_transactions()
        cluster.arm(Drop(), FaultPoint.COORDINATOR_LOAD, limit=1)
        stuck = cluster.move(cluster.home(TX))
        await asyncio.sleep(60)
        assert isinstance(described(cluster, stuck), Rejection)
        cluster.move(cluster.home(TX))
        await Producer(client, transactional_id=TX).init_transactions()


def test_the_same_seed_gives_the_same_lives() -> None:
    async def main(cluster: VirtualCluster) -> bytes:
        sim = cluster.sim
        async with cluster.client(**PATIENT) as client:
            producer = Producer(client, transactional_id=TX)
            await producer.init_transactions()
            for gone in (B1, B2):
                producer.begin()
                await producer.send("orders", 0, b"v")
                await sim.kill_broker(gone, lose_unflushed=True)
                await fenced(cluster, gone)
                await producer.commit()
                await sim.start_broker(gone)
                await in_sync(cluster, P0, 3)
        lines: list[bytes] = []
        cluster.env.tracer.export(lines.append)
        return b"".join(lines)

    def trace(seed: int) -> bytes:
        return run_cluster(main, seed=seed, trace_level=TraceLevel.FULL)

    assert trace(5) == trace(5) != trace(6)

"""Transactions while brokers are killed, isolated and started again."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.clusters import VirtualCluster, run_cluster, values
from tests.support.images import B1, B2
from tests.support.waiting import EVERYTHING, PATIENT, in_sync, reads, until_fenced
from tests.support.within_environment import within
from txnsim.client._txn_admin import TransactionAdmin
from txnsim.client.admin import Admin
from txnsim.client.errors import ClientError
from txnsim.client.producer import Producer
from txnsim.client.requests import ConfigChange, delete_records
from txnsim.controller.controller import TopicToCreate
from txnsim.errors import ErrorCode, Rejection
from txnsim.faults.actions import Drop, Hold
from txnsim.faults.points import FaultPoint
from txnsim.metadata.image import TopicImage
from txnsim.runtime.trace import TraceLevel
from txnsim.txn.commands import DescribedTxn
from txnsim.types import TRANSACTION_STATE_TOPIC, BrokerId, TopicPartition, TransactionalId

# Transactions while brokers are killed, isolated and started again, in virtual time. What a client
# was told must stay true while records are committed by the rules, and the one way to lose them (an
# unclean election) must be visible to a client, as on a real cluster.


P0 = TopicPartition("orders", 0)
TX = TransactionalId("tx")


def described(cluster: VirtualCluster, broker_id: BrokerId) -> DescribedTxn | Rejection:
    return cluster.sim.brokers[broker_id].coordinator.describe(TX)


@pytest.mark.parametrize("transaction_version", [0, 2])
@pytest.mark.parametrize("victim", ["leader", "coordinator"])
@pytest.mark.parametrize("way", ["kill", "stop", "isolate"])
def test_a_transaction_outlives_a_broker_that_goes_in_its_middle(
    way: str, victim: str, transaction_version: int
) -> None:
    async def main(cluster: VirtualCluster) -> None:
        sim = cluster.sim
        async with cluster.client(**PATIENT) as client:
            producer = Producer(client, transactional_id=TX)
            await producer.init_transactions()
            producer.begin()
            await producer.send("orders", 0, b"first")
            stopped_broker = cluster.leader(P0 if victim == "leader" else cluster.home(TX))
            match way:
                case "kill":
                    await sim.kill_broker(stopped_broker)
                case "stop":
                    await sim.stop_broker(stopped_broker)
                case _:
                    sim.isolate(stopped_broker, from_clients=True)
            await until_fenced(cluster, stopped_broker)
            await producer.send("orders", 0, b"second")
            await producer.commit()
            await reads(cluster, b"first", b"second")
            if way == "isolate":
                sim.heal(stopped_broker)
            else:
                await sim.start_broker(stopped_broker)
            await in_sync(cluster, P0, 3)
            producer.begin()
            await producer.send("orders", 0, b"third")
            await producer.commit()
            await reads(cluster, b"first", b"second", b"third")

    run_cluster(main, level=transaction_version)


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
        await cluster.wait_until_struck()
        assert await values(client, "orders", partitions=1) == []
        first_coordinator_id = cluster.leader(cluster.home(TX))
        await sim.kill_broker(first_coordinator_id)
        sim.injector.disarm("f")  # what was held for the dead coordinator is lost with it
        await until_fenced(cluster, first_coordinator_id)
        await asyncio.sleep(1)
        second_coordinator_id = cluster.leader(cluster.home(TX))
        assert second_coordinator_id != first_coordinator_id
        description = described(cluster, second_coordinator_id)
        assert isinstance(description, DescribedTxn)
        assert description.state == "CompleteCommit"
        await reads(cluster, b"v")


@within(run_cluster)
async def test_a_coordinator_that_loads_says_so_until_it_has_loaded(
    cluster: VirtualCluster,
) -> None:
    async with cluster.client(**PATIENT) as client:
        producer = Producer(client, transactional_id=TX)
        await producer.init_transactions()
        cluster.arm(Hold(), FaultPoint.COORDINATOR_LOAD, topic=TRANSACTION_STATE_TOPIC)
        second_coordinator_id = cluster.move(cluster.home(TX))
        await cluster.wait_until_struck()
        rejection = described(cluster, second_coordinator_id)
        assert isinstance(rejection, Rejection)
        assert rejection.error is ErrorCode.coordinator_load_in_progress
        loop = asyncio.get_running_loop()
        second_producer = Producer(client, transactional_id=TX)
        init_task = loop.create_task(second_producer.init_transactions())
        await asyncio.sleep(2)
        assert not init_task.done()
        cluster.sim.injector.release("f")
        await init_task
        assert isinstance(described(cluster, second_coordinator_id), DescribedTxn)


@within(run_cluster, coordinator_load_min_ms=2_500)
async def test_a_load_lasts_as_long_as_the_setting_says(cluster: VirtualCluster) -> None:
    async with cluster.client(**PATIENT) as client:
        producer = Producer(client, transactional_id=TX)
        await producer.init_transactions()
        second_coordinator_id = cluster.move(cluster.home(TX))
        assert isinstance(described(cluster, second_coordinator_id), Rejection)
        await asyncio.sleep(3)
        assert isinstance(described(cluster, second_coordinator_id), DescribedTxn)


@within(run_cluster)
async def test_ids_that_a_killed_broker_had_in_stock_are_never_given_out(
    cluster: VirtualCluster,
) -> None:
    sim = cluster.sim
    async with cluster.client(**PATIENT) as client:
        first_producer = Producer(client, transactional_id="a")
        producer_id_before = (await first_producer.init_transactions()).producer_id
        home_broker_id = cluster.leader(cluster.home("a"))
        await sim.kill_broker(home_broker_id)
        await sim.start_broker(home_broker_id)
        await in_sync(cluster, cluster.home("a"), 3)
        sim.move_leader(cluster.home("a"), home_broker_id)
        ids = {producer_id_before}
        for number in range(40):
            transactional_id = f"again-{number}"
            if cluster.leader(cluster.home(transactional_id)) == home_broker_id:
                ids.add(
                    (
                        await Producer(
                            client, transactional_id=transactional_id
                        ).init_transactions()
                    ).producer_id
                )
        assert len(ids) > 1
        assert {producer_id // 1_000 for producer_id in ids - {producer_id_before}}.isdisjoint(
            {producer_id_before // 1_000}
        )


@within(run_cluster)
async def test_a_zombie_coordinators_move_is_lost_with_it(cluster: VirtualCluster) -> None:
    """The record never reaches the other replicas, so no client gets an acknowledgement."""
    sim = cluster.sim
    async with cluster.client(**PATIENT) as client:
        producer = Producer(client, transactional_id=TX)
        await producer.init_transactions()
        producer.begin()
        await producer.send("orders", 0, b"v")
        zombie_id = cluster.leader(cluster.home(TX))
        sim.isolate(zombie_id)
        loop = asyncio.get_running_loop()
        committing_task = loop.create_task(producer.commit())
        await asyncio.sleep(1)
        pending = [
            txn_metadata.pending_state
            for txn_metadata in sim.brokers[zombie_id].coordinator.entries()
        ]
        assert not committing_task.done()
        assert any(pending), "begun, and never finished"
        await until_fenced(cluster, zombie_id)
        second_coordinator_id = cluster.leader(cluster.home(TX))
        description = described(cluster, second_coordinator_id)
        assert isinstance(description, DescribedTxn)
        assert description.state == "Ongoing"
        sim.heal(zombie_id)
        await committing_task
        await reads(cluster, b"v")


def far_from(cluster: VirtualCluster, brokers: set[BrokerId]) -> TransactionalId:
    """A transactional id whose coordinator and its replicas are none of these brokers."""
    topic = cluster.sim.metadata.image.topics[TRANSACTION_STATE_TOPIC]
    for id_number in range(1_000):
        transactional_id = TransactionalId(f"tx-{id_number}")
        if brokers.isdisjoint(topic.partitions[cluster.home(transactional_id).partition].replicas):
            return transactional_id
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
    created_topic = sim.metadata.create_topic(
        TopicToCreate(
            name="t",
            assignments=((0, (B1, B2)),),
            configs={"unclean.leader.election.enable": "true", "min.insync.replicas": "1"},
        )
    )
    assert isinstance(created_topic, TopicImage)
    async with cluster.client(**PATIENT) as client:
        await Producer(client, transactional_id="first").init_transactions()
        transactional_id = far_from(cluster, {B1, B2})
        producer = Producer(client, transactional_id=transactional_id)
        await producer.init_transactions()
        producer.begin()
        await producer.send("t", 0, b"v")
        await in_sync(cluster, t, 2)
        await sim.kill_broker(B2)
        await in_sync(cluster, t, 1)
        await producer.commit()
        assert await values(client, "t", partitions=1) == [b"v"]
        await sim.kill_broker(B1)
        await until_fenced(cluster, B1)
        assert cluster.leader(t) == -1
        await sim.start_broker(B2)
        assert cluster.leader(t) == B2

        assert await values(client, "t", partitions=1) == [], "it was there before"
        assert await values(client, "t", partitions=1, isolation=EVERYTHING) == [b"v"]
        admin = TransactionAdmin(client)
        transaction = (await admin.describe_transactions([transactional_id]))[transactional_id]
        assert not isinstance(transaction, ClientError)
        assert transaction.state == "CompleteCommit"
        producers = (await admin.describe_producers([t]))[t]
        assert not isinstance(producers, ClientError)
        assert [producer.txn_start_offset for producer in producers] == [0], "open for ever"
        await sim.start_broker(B1)
        await in_sync(cluster, t, 2)
        assert sim.brokers[B1].replicas.hosted[t].log_end_offset == 1, "its marker was cut off"


@within(run_cluster)
async def test_a_load_that_never_ends_is_ended_by_another_leader(cluster: VirtualCluster) -> None:
    async with cluster.client(**PATIENT) as client:
        producer = Producer(client, transactional_id=TX)
        await producer.init_transactions()
        cluster.arm(Drop(), FaultPoint.COORDINATOR_LOAD, limit=1)
        stuck_coordinator_id = cluster.move(cluster.home(TX))
        await asyncio.sleep(60)
        assert isinstance(described(cluster, stuck_coordinator_id), Rejection)
        cluster.move(cluster.home(TX))
        await Producer(client, transactional_id=TX).init_transactions()


def test_the_same_seed_gives_the_same_lives() -> None:
    async def main(cluster: VirtualCluster) -> bytes:
        sim = cluster.sim
        async with cluster.client(**PATIENT) as client:
            producer = Producer(client, transactional_id=TX)
            await producer.init_transactions()
            for killed_broker in (B1, B2):
                producer.begin()
                await producer.send("orders", 0, b"v")
                await sim.kill_broker(killed_broker, lose_unflushed=True)
                await until_fenced(cluster, killed_broker)
                await producer.commit()
                await sim.start_broker(killed_broker)
                await in_sync(cluster, P0, 3)
        lines: list[bytes] = []
        cluster.env.tracer.export(lines.append)
        return b"".join(lines)

    def trace(seed: int) -> bytes:
        return run_cluster(main, seed=seed, trace_level=TraceLevel.FULL)

    assert trace(5) == trace(5) != trace(6)


# What a broker has that comes back: its disk as it was left, and what its leader still has.


TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4


def offsets(cluster: VirtualCluster, broker_id: BrokerId) -> list[int]:
    """Base offsets of the batches that a replica has."""
    log = cluster.sim.brokers[broker_id].replicas.hosted[P0]
    return [int.from_bytes(batch[:8], "big") for batch in log.batches()]


# The cleaner


@within(run_cluster, brokers=2, topics=())
async def test_a_returning_follower_is_not_sent_what_the_cleaner_has_removed(
    cluster: VirtualCluster,
) -> None:
    """This holds even for the newest batches of the time when the follower stopped."""
    sim = cluster.sim
    created_topic = sim.metadata.create_topic(
        TopicToCreate(
            name="orders",
            assignments=((0, (B1, B2)),),
            configs={"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "1.0"},
        )
    )
    assert not isinstance(created_topic, Rejection)
    await in_sync(cluster, P0, 2)
    async with cluster.client() as client, Producer(client) as producer:
        await producer.send("orders", 0, b"1", key=b"a")
        await sim.stop_broker(B2)
        await in_sync(cluster, P0, 1)
        await producer.send("orders", 0, b"2", key=b"a")
        await producer.send("orders", 0, b"3", key=b"a")
        log_maintenance = sim.brokers[B1].log_maintenance
        log_maintenance.roll_segment_now(P0)
        await producer.send("orders", 0, b"4", key=b"b")
        log_maintenance.clean_now(P0)
        await sim.start_broker(B2)
        await in_sync(cluster, P0, 2)
        assert offsets(cluster, B1) == [2, 3]
        assert offsets(cluster, B2) == [0, 2, 3], "what it had before is its own affair"


# Where a log starts


async def six_records(cluster: VirtualCluster, *replicas: BrokerId) -> None:
    created_topic = cluster.sim.metadata.create_topic(
        TopicToCreate(name="orders", assignments=((0, replicas),))
    )
    assert not isinstance(created_topic, Rejection)
    async with cluster.client() as client, Producer(client) as producer:
        for record_number in range(6):
            await producer.send("orders", 0, str(record_number).encode())


async def delete_before(cluster: VirtualCluster, offset: int) -> None:
    async with cluster.client() as client:
        leader = cluster.leader(P0)
        answer = await client.ask(leader, delete_records({P0: offset}, timeout_ms=10_000))
        (topic,) = answer.topics
        assert [partition.low_watermark for partition in topic.partitions] == [offset]


def bounds(cluster: VirtualCluster, broker_id: BrokerId) -> tuple[int, int, int]:
    log = cluster.sim.brokers[broker_id].replicas.hosted[P0]
    return log.log_start_offset, log.high_watermark, log.log_end_offset


async def back_in_the_lead(cluster: VirtualCluster, *broker_ids: BrokerId) -> None:
    for broker_id in broker_ids:
        await cluster.sim.start_broker(broker_id)
    await in_sync(cluster, P0, len(broker_ids))
    await asyncio.sleep(10)


@within(run_cluster, brokers=2, topics=())
async def test_if_all_replicas_are_killed_deleted_records_are_back(cluster: VirtualCluster) -> None:
    """With Kafka 4.3.1, after deleteRecords to 4 and a kill of all brokers: ``0..6..6``."""
    await six_records(cluster, B1, B2)
    await delete_before(cluster, 4)
    for broker_id in (B1, B2):
        await cluster.sim.kill_broker(broker_id)
    await back_in_the_lead(cluster, B1, B2)
    assert [bounds(cluster, broker_id) for broker_id in (B1, B2)] == [(0, 6, 6)] * 2
    async with cluster.client("reader") as reader:
        assert len(await values(reader, "orders", partitions=1)) == 6


@within(run_cluster, brokers=2, topics=())
async def test_a_replica_that_lives_keeps_the_start(cluster: VirtualCluster) -> None:
    await six_records(cluster, B1, B2)
    await delete_before(cluster, 4)
    await cluster.sim.kill_broker(B1)
    await in_sync(cluster, P0, 1)
    await back_in_the_lead(cluster, B1)
    await in_sync(cluster, P0, 2)
    assert [bounds(cluster, broker_id) for broker_id in (B1, B2)] == [(4, 6, 6)] * 2


@within(run_cluster, brokers=2, topics=())
async def test_what_was_noted_at_a_stop_in_order_is_known_after_a_kill(
    cluster: VirtualCluster,
) -> None:
    """With Kafka 4.3.1, after deleteRecords to 3, a restart, deleteRecords to 5, a kill:
    ``3..6..6``.
    """
    await six_records(cluster, B2)
    await delete_before(cluster, 3)
    await cluster.sim.stop_broker(B2)
    await back_in_the_lead(cluster, B2)
    assert bounds(cluster, B2) == (3, 6, 6)
    await delete_before(cluster, 5)
    await cluster.sim.kill_broker(B2)
    await back_in_the_lead(cluster, B2)
    assert bounds(cluster, B2) == (3, 6, 6)


@within(run_cluster, brokers=2, topics=())
async def test_a_deletion_right_after_an_election_reaches_the_follower(
    cluster: VirtualCluster,
) -> None:
    """In Kafka 4.3.1 the log of broker 1, which was never down, begins at 5."""
    await six_records(cluster, B2, B1)
    await delete_before(cluster, 3)
    await cluster.sim.stop_broker(B2)
    await cluster.sim.start_broker(B2)
    await in_sync(cluster, P0, 2)
    deletion_request = delete_records({P0: 5}, timeout_ms=10_000)
    async with cluster.client() as client:
        await client.ask(B2, deletion_request)  # refused, but the connection is there
        cluster.sim.move_leader(P0, B2)
        for _ in range(1_000):  # turns: the follower shall not have asked yet
            if P0 in cluster.sim.brokers[B2].replicas.led:
                break
            await asyncio.sleep(0)
        (topic,) = (await client.ask(B2, deletion_request)).topics
        assert [partition.low_watermark for partition in topic.partitions] == [5]
    await cluster.sim.kill_broker(B2)
    await in_sync(cluster, P0, 1)
    assert bounds(cluster, B1) == (5, 6, 6)


@pytest.mark.parametrize(
    ("advance_ms", "start"), [(0, 0), (29_000, 0), (31_000, 4), (91_000, 5)], ids=str
)
@within(run_cluster, brokers=2, topics=())
async def test_it_is_noted_half_a_minute_after_the_start_and_then_every_minute(
    cluster: VirtualCluster, advance_ms: int, start: int
) -> None:
    await six_records(cluster, B2)
    begun_ms = cluster.env.clock.now_ms()
    await delete_before(cluster, 4)
    cluster.advance(min(advance_ms, 31_000))
    await delete_before(cluster, 5)
    cluster.advance(max(0, advance_ms - 31_000))
    assert cluster.env.clock.now_ms() - begun_ms < advance_ms + 900
    await cluster.sim.kill_broker(B2)
    await back_in_the_lead(cluster, B2)
    assert bounds(cluster, B2) == (start, 6, 6)


# Eligible leader replicas


@pytest.mark.parametrize(
    ("minimum", "resource", "elr"), [("2", "orders", (B2,)), ("1", "orders", ()), ("1", "", ())]
)
@within(run_cluster, brokers=2, topics=())
async def test_who_changes_the_minimum_makes_nobody_eligible(
    cluster: VirtualCluster, minimum: str, resource: str, elr: tuple[BrokerId, ...]
) -> None:
    sim = cluster.sim
    created_topic = sim.metadata.create_topic(
        TopicToCreate(
            name="orders",
            assignments=((0, (B1, B2)),),
            configs={"min.insync.replicas": "2"},
        )
    )
    assert not isinstance(created_topic, Rejection)
    await sim.kill_broker(B2)
    await in_sync(cluster, P0, 1)
    partition = sim.metadata.image.partition(P0)
    assert partition is not None
    assert partition.elr == (B2,)
    change = ConfigChange(
        resource_type=TOPIC_RESOURCE if resource else BROKER_RESOURCE,
        resource_name=resource,
        name="min.insync.replicas",
        value=minimum,
    )
    async with cluster.client() as client:
        assert set((await Admin(client).incremental_alter_configs((change,))).values()) == {None}
    partition = sim.metadata.image.partition(P0)
    assert partition is not None
    assert partition.elr == elr

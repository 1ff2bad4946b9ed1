"""One broker among three: what peers may ask, what survives a move of leadership, what time does.

Everything a client could see is asked over the wire; the cluster runs in virtual time.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterator

import pytest

from tests.support.clusters import VirtualCluster, run_cluster, until_state, values
from tests.support.coordinator import ManualClock
from tests.support.gates import Gates
from tests.support.logs import batch
from tests.support.within_environment import within
from txnsim.broker._housekeeping import Housekeeping
from txnsim.broker.broker import Broker
from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.errors import ClientError, FatalError
from txnsim.client.fetching import fetch
from txnsim.client.inspection.txn_views import ProducerState, TransactionDescription
from txnsim.client.producer import Producer
from txnsim.client.session import TxnProtocol
from txnsim.controller.partition_growth import grown_topic
from txnsim.errors import ErrorCode, Rejection
from txnsim.faults.actions import Drop, Hold
from txnsim.faults.points import FaultPoint
from txnsim.log.config import LogConfig
from txnsim.log.leader_append import append_client
from txnsim.log.partition_log import PartitionLog
from txnsim.node.broker_fault_points import run_when_due
from txnsim.node.log_events import LogEvents
from txnsim.releases.rules import LATEST_RULES
from txnsim.replica.broker_logs import BrokerLogs
from txnsim.runtime.tasks import LoopTasks
from txnsim.runtime.trace import TraceLevel, Tracer
from txnsim.settings import DEFAULTS
from txnsim.txn.list_filter import ListTransactions
from txnsim.types import (
    CONSUMER_OFFSETS_TOPIC,
    TRANSACTION_STATE_TOPIC,
    BrokerId,
    IsolationLevel,
    TopicPartition,
    TransactionalId,
)

E = ErrorCode
P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
MARKERS = FaultPoint.PEER_REQUEST


async def describe(client: Cluster, transactional_id: str = "tx") -> TransactionDescription:
    description = (await Admin(client).describe_transactions((transactional_id,)))[transactional_id]
    assert isinstance(description, TransactionDescription), description
    return description


async def producers(client: Cluster, partition: TopicPartition = P0) -> tuple[ProducerState, ...]:
    producers = (await Admin(client).describe_producers((partition,)))[partition]
    assert not isinstance(producers, ClientError), producers
    return producers


async def begun(client: Cluster, *partitions: TopicPartition, timeout_ms: int = 60_000) -> Producer:
    """A producer with an open transaction on these partitions."""
    producer = Producer(client, transactional_id="tx", transaction_timeout_ms=timeout_ms)
    await producer.init_transactions()
    producer.begin()
    await asyncio.gather(
        *(
            producer.send(partition.topic, partition.partition, b"v")
            for partition in partitions or (P0,)
        )
    )
    return producer


# Leadership


@pytest.mark.parametrize("transaction_version", [0, 2])
def test_an_open_transaction_survives_its_coordinator(transaction_version: int) -> None:
    async def main(cluster: VirtualCluster) -> None:
        async with cluster.client() as client:
            producer = await begun(client, P0, P1)
            description_before = await describe(client)
            new_leader_id = cluster.move(cluster.home("tx"))
            description_after = await describe(client)
            assert (
                description_before.coordinator_id
                != description_after.coordinator_id
                == new_leader_id
            )
            assert (
                description_after.state,
                description_after.producer_id,
                description_after.producer_epoch,
                description_after.partitions,
            ) == (
                "Ongoing",
                description_before.producer_id,
                description_before.producer_epoch,
                description_before.partitions,
            )
            await producer.commit()
            await until_state(client, "tx", "CompleteCommit")
            assert await values(client, "orders") == [b"v", b"v"]
            await producer.close()

    run_cluster(main, level=transaction_version)


@pytest.mark.parametrize(("committed", "state"), [(True, "Commit"), (False, "Abort")])
@within(run_cluster)
async def test_a_prepared_transaction_is_finished_by_the_next_coordinator(
    cluster: VirtualCluster, committed: bool, state: str
) -> None:
    cluster.arm(Drop(), MARKERS, "lost", api="WriteTxnMarkers")
    async with cluster.client() as client:
        producer = await begun(client, P0, P1)
        await (producer.commit() if committed else producer.abort())
        assert (await describe(client)).state == f"Prepare{state}"
        await cluster.wait_until_struck("lost")
        cluster.sim.injector.disarm("lost")
        cluster.move(cluster.home("tx"))
        await until_state(client, "tx", f"Complete{state}")
        assert {producer.txn_start_offset for producer in await producers(client)} == {None}
        assert {producer.coordinator_epoch for producer in await producers(client)} == {1}
        await producer.close()


@within(run_cluster)
async def test_an_open_transaction_of_a_partition_survives_its_leader(
    cluster: VirtualCluster,
) -> None:
    async with cluster.client() as client:
        producer = await begun(client, P0)
        producers_before = await producers(client)
        assert [producer.txn_start_offset for producer in producers_before] == [0]
        new_broker = cluster.move(P0)
        assert await producers(client) == producers_before
        assert cluster.sim.brokers[new_broker].replicas.led[P0].leader_epoch == 1
        assert await values(client, "orders") == []
        await producer.send("orders", 0, b"more")
        await producer.commit()
        await until_state(client, "tx", "CompleteCommit")
        assert await values(client, "orders") == [b"v", b"more"]
        await producer.close()


@within(run_cluster, level=1)
async def test_a_verification_does_not_outlive_the_leadership_it_was_asked_under(
    cluster: VirtualCluster,
) -> None:
    """The batch is refused by the old leader, and the client finds the new one."""
    async with cluster.client() as client:
        async with Producer(client, transactional_id="tx") as producer:
            await producer.init_transactions()
            producer.begin()
            cluster.arm(Hold(), MARKERS, api="AddPartitionsToTxn", limit=1)
            record_future = producer.send("orders", 0, b"v")
            await cluster.wait_until_struck()
            cluster.move(P0)
            cluster.sim.injector.release("f")
            await record_future
            await producer.commit()
        await until_state(client, "tx", "CompleteCommit")
        assert await values(client, "orders") == [b"v"]


@within(run_cluster)
async def test_a_reader_that_waits_at_the_old_leader_is_sent_away(cluster: VirtualCluster) -> None:
    async with cluster.client() as client:
        producer = Producer(client)
        await producer.send("orders", 0, b"v")
        old_leader_broker = cluster.sim.brokers[cluster.leader(P0)]
        task = asyncio.get_running_loop().create_task(
            values_from(client, offset=1, max_wait_ms=600_000)
        )
        await asyncio.sleep(1)
        assert len(old_leader_broker.purgatory) == 1
        started_ms = cluster.env.clock.monotonic_ms()
        cluster.move(P0)
        await producer.send("orders", 0, b"after")
        assert await task == [b"after"]
        assert cluster.env.clock.monotonic_ms() - started_ms < 10_000
        await producer.close()


async def values_from(client: Cluster, *, offset: int, max_wait_ms: int) -> list[bytes | None]:
    while True:
        result = await fetch(
            client,
            "orders",
            0,
            offset,
            isolation=IsolationLevel.READ_UNCOMMITTED,
            max_wait_ms=max_wait_ms,
        )
        if result.records:
            return [record.value for record in result.records]


# Time


@pytest.mark.parametrize("transaction_version", [0, 2])
def test_a_transaction_times_out_by_the_cluster_clock(transaction_version: int) -> None:
    async def main(cluster: VirtualCluster) -> None:
        async with cluster.client() as client:
            producer = await begun(client, P0, timeout_ms=60_000)
            description_before = await describe(client)
            cluster.advance(59_000)
            assert (await describe(client)).state == "Ongoing"
            cluster.advance(11_000)
            await until_state(client, "tx", "CompleteAbort")
            description_after = await describe(client)
            assert description_after.producer_epoch == description_before.producer_epoch + 1
            if transaction_version == 0:
                with pytest.raises(FatalError):
                    await producer.commit()
            assert await values(client, "orders") == []
            await producer.close()

    run_cluster(main, level=transaction_version)


@within(run_cluster)
async def test_idle_transactional_ids_and_producers_are_forgotten(cluster: VirtualCluster) -> None:
    async with cluster.client() as client:
        producer = await begun(client, P0)
        await producer.commit()
        await until_state(client, "tx", "CompleteCommit")
        await producer.close()
        day_ms = 86_400_000
        cluster.advance(day_ms - 600_000)
        assert len(await producers(client)) == 1
        cluster.advance(1_300_000)
        assert await producers(client) == ()
        assert (await describe(client)).state == "CompleteCommit"
        cluster.advance(7 * day_ms)
        await asyncio.sleep(1)
        description = (await Admin(client).describe_transactions(("tx",)))["tx"]
        assert isinstance(description, ClientError)
        assert description.error is E.transactional_id_not_found


@within(run_cluster)
async def test_an_open_transaction_keeps_its_producer_and_its_id(cluster: VirtualCluster) -> None:
    cluster.arm(Drop(), MARKERS, "lost", api="WriteTxnMarkers")
    async with cluster.client() as client:
        producer = await begun(client, P0)
        cluster.advance(8 * 86_400_000)
        assert [producer.txn_start_offset for producer in await producers(client)] == [0]
        assert (await describe(client)).state == "PrepareAbort"
        await producer.close()


# Features


@within(run_cluster, level=0)
async def test_the_level_may_go_up_and_down_while_producers_work(cluster: VirtualCluster) -> None:
    levels_and_protocols: list[tuple[int, TxnProtocol]] = []
    async with cluster.client("admin") as admin_cluster:
        for number, level in enumerate((0, 1, 2, 1, 0)):
            current = cluster.sim.metadata.image.features["transaction.version"]
            if level != current:
                await Admin(admin_cluster).update_features(
                    {"transaction.version": level}, upgrade_type=1 if level > current else 2
                )
            async with cluster.client() as client:
                producer = Producer(client, transactional_id="tx")
                await producer.init_transactions()
                levels_and_protocols.append((level, producer.protocol))
                producer.begin()
                await producer.send("orders", 0, str(number).encode())
                await producer.commit()
                await until_state(client, "tx", "CompleteCommit")
                await producer.close()
        assert await values(admin_cluster, "orders") == [b"0", b"1", b"2", b"3", b"4"]
    protocol_v1, protocol_v2 = TxnProtocol.V1, TxnProtocol.V2
    assert levels_and_protocols == [
        (0, protocol_v1),
        (1, protocol_v1),
        (2, protocol_v2),
        (1, protocol_v1),
        (0, protocol_v1),
    ]


# Replicas and coordinators that are not there


async def append_state(broker: Broker, partition: int) -> ErrorCode:
    appended = broker.transaction_host.append(partition, batch(-1, producer_id=-1))
    assert isinstance(appended, Rejection)
    return appended.error


@within(run_cluster)
async def test_a_coordinator_can_not_write_to_a_log_that_it_lost(cluster: VirtualCluster) -> None:
    async with cluster.client() as client:
        await (await begun(client)).close()
    home_partition = cluster.home("tx")
    broker = cluster.sim.brokers[cluster.leader(home_partition)]
    cluster.move(home_partition)
    assert await append_state(broker, home_partition.partition) is E.not_leader_or_follower


@within(run_cluster)
async def test_a_coordinator_loads_nothing_once_its_log_has_more_partitions(
    cluster: VirtualCluster,
) -> None:
    """A real coordinator also maps ids by the partition count at its start
    (TransactionStateManager).
    """
    async with cluster.client() as client:
        await (await begun(client)).close()
        home_partition = cluster.home("tx")
        metadata = cluster.sim.metadata
        grown = grown_topic(metadata.image, TRANSACTION_STATE_TOPIC, partition_count=8)
        assert not isinstance(grown, Rejection)
        metadata.publish(metadata.image.with_topic(grown))
        loading = [
            broker.coordinator.snapshot().partitions_loading
            for broker in cluster.sim.brokers.values()
        ]
        assert sum(loading) == 2
        assert (await describe(client)).state == "Ongoing"
        new_coordinator = cluster.sim.brokers[cluster.move(home_partition)].coordinator
        description = new_coordinator.describe(TransactionalId("tx"))
        assert isinstance(description, Rejection)
        assert description.error is E.coordinator_load_in_progress
        listing = new_coordinator.list_transactions(ListTransactions())
        assert isinstance(listing, Rejection)
        assert listing.error is E.coordinator_load_in_progress


@within(run_cluster)
async def test_groups_stay_where_they_were_when_their_log_has_more_partitions(
    cluster: VirtualCluster,
) -> None:
    metadata = cluster.sim.metadata
    metadata.auto_create(CONSUMER_OFFSETS_TOPIC)
    broker = cluster.sim.brokers[BrokerId(1)]
    groups = [f"g{coverage_number}" for coverage_number in range(20)]

    def homes() -> list[BrokerId | None]:
        return [broker.group_host.coordinator_of(group) for group in groups]

    homes_before = homes()
    grown = grown_topic(metadata.image, CONSUMER_OFFSETS_TOPIC, partition_count=73)
    assert not isinstance(grown, Rejection)
    metadata.publish(metadata.image.with_topic(grown))
    assert len(broker.image.topics[CONSUMER_OFFSETS_TOPIC].partitions) == 73
    assert homes() == homes_before


@within(run_cluster)
async def test_before_the_transaction_log_exists_there_is_no_coordinator(
    cluster: VirtualCluster,
) -> None:
    broker = cluster.sim.brokers[BrokerId(1)]
    assert TRANSACTION_STATE_TOPIC not in broker.image.topics
    assert broker.transaction_coordinator_of(TransactionalId("tx")) is None
    async with cluster.client() as client:
        await (await begun(client)).close()
    assert broker.transaction_coordinator_of(TransactionalId("tx")) == cluster.leader(
        cluster.home("tx")
    )


@within(run_cluster)
async def test_dynamic_configs_change_a_running_broker(cluster: VirtualCluster) -> None:
    name = "transaction.partition.verification.enable"
    async with cluster.client() as client:
        await Admin(client).set_broker_default(name, "false")
    assert not any(
        broker.settings.transaction_partition_verification_enable
        for broker in cluster.sim.brokers.values()
    )


# What a broker does to its logs by the clock, and what a full disk does to that.


TP = TopicPartition("t", 0)
EXPIRY_MS = DEFAULTS.producer_id_expiration_check_interval_ms
CHECKPOINT_MS = DEFAULTS.replica_high_watermark_checkpoint_interval_ms


class Bench:
    """A hosted log in which an idempotent producer has written one batch."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.tracer = Tracer(self.clock.monotonic_us, level=TraceLevel.FULL, is_strict=True)
        tasks = LoopTasks(asyncio.get_running_loop())
        self.gates = Gates(tasks)
        self.disk = self.gates.disk
        self.log = PartitionLog(
            topic_partition=TP,
            config=LogConfig(rules=LATEST_RULES, producer_id_expiration_ms=1_000),
            leader_epoch=0,
        )
        now_ms = self.clock.now_ms()
        append_client(self.log, batch(0, timestamp=now_ms), guard=0, now_ms=now_ms)
        self.log.advance_high_watermark(self.log.log_end_offset)
        self.disk.adopt_log(uuid.UUID(int=1), self.log, high_watermark=0)
        self.housekeeping = Housekeeping(
            clock=self.clock,
            tasks=tasks,
            settings=lambda: DEFAULTS,
            hosted={TP: self.log},
            logs=self.disk,
            gate=self.gates.log,
            timers=run_when_due,
            log_events=LogEvents(self.tracer, "broker/1"),
        )
        self.housekeeping.start()

    def kinds(self) -> list[str]:
        return [event.k for event in self.tracer.events()]


@pytest.fixture
async def bench() -> Bench:
    return Bench()


async def test_idle_producers_are_forgotten_again_and_again(bench: Bench) -> None:
    bench.clock.advance(EXPIRY_MS - 1)
    assert len(bench.log.producers.all_producers()) == 1
    bench.clock.advance(1)
    assert len(bench.log.producers.all_producers()) == 0
    assert bench.kinds()[:1] == ["timer.fire"]
    kinds_before = len(bench.kinds())
    now_ms = bench.clock.now_ms()
    append_client(bench.log, batch(0, timestamp=now_ms), guard=0, now_ms=now_ms)
    bench.clock.advance(EXPIRY_MS)
    assert len(bench.log.producers.all_producers()) == 0
    assert len(bench.kinds()) > kinds_before


async def test_nothing_happens_after_the_stop(bench: Bench) -> None:
    bench.housekeeping.stop()
    bench.clock.advance(EXPIRY_MS)
    assert len(bench.log.producers.all_producers()) == 1


async def test_checkpoints_are_written_while_there_is_room(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    written_checkpoints: list[str] = []

    def checkpoint(_broker_logs: BrokerLogs, _is_over: Callable[[], bool]) -> Iterator[int]:
        written_checkpoints.append("watermarks")
        yield 1

    monkeypatch.setattr(BrokerLogs, "checkpoint_high_watermarks", checkpoint)
    monkeypatch.setattr(
        BrokerLogs, "checkpoint_log_starts", lambda _disk: written_checkpoints.append("starts")
    )
    bench.clock.pass_ms(CHECKPOINT_MS)
    bench.clock.pass_ms(CHECKPOINT_MS)
    bench.housekeeping.note_log_starts()
    assert written_checkpoints == ["watermarks", "watermarks", "starts"]
    bench.disk.is_full = True
    bench.clock.pass_ms(CHECKPOINT_MS)
    bench.housekeeping.note_log_starts()
    assert len(written_checkpoints) == 3
    assert bench.gates.failures == 2, "the first write that finds no room fails the directory"
    bench.disk.is_full = False
    bench.clock.pass_ms(CHECKPOINT_MS)
    assert written_checkpoints[3:] == ["watermarks"]

"""Chaos drawn from a seed: leaders move, time jumps, requests are held, delayed, lost and refused,
while three producers of ours commit and abort. In the end, when the faults are over, every
transaction is whole on every partition or on none, and nothing is left open.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from enum import Enum
from random import Random  # noqa: TID251 - the type of a stream, which txnsim.runtime draws from the seed

import pytest

from tests.support.clusters import VirtualCluster, run_cluster, values
from txnsim.client.errors import AbortableError, ClientError
from txnsim.client.producer import Producer
from txnsim.errors import Rejection
from txnsim.faults.actions import Delay, Drop, Fail, Hold
from txnsim.faults.plan import Action
from txnsim.faults.points import FaultPoint
from txnsim.interbroker.transactions import TxnMarker
from txnsim.log.answers import Appended
from txnsim.log.leader_append import append_marker
from txnsim.log.partition_log import PartitionLog
from txnsim.types import TRANSACTION_STATE_TOPIC, TopicPartition

PRODUCERS = ("tx-a", "tx-b", "tx-c")
PARTITIONS = 3
PATIENCE = {"request_timeout_ms": 8_000, "api_timeout_ms": 20_000}


class Fate(Enum):
    """What the producer knows of a transaction: the number of partitions that may show it."""

    COMMITTED = (PARTITIONS,)
    ABORTED = (0,)
    UNKNOWN = (0, PARTITIONS)
    """The commit was asked for, and its answer never came."""


class Chaos:
    """One run: its disturbances, and the answers that producers got."""

    def __init__(self, cluster: VirtualCluster) -> None:
        self.cluster = cluster
        self.random: Random = cluster.env.rng.stream("chaos")
        self.fates: dict[str, Fate] = {}
        self.struck = 0
        self.is_over = False

    async def disturb(self) -> None:
        """Until it is over: a leader moves, the clock jumps, or faults are in force for a while."""
        fault_number = 0
        while not self.is_over:
            await asyncio.sleep(self.random.random() * 0.4)
            fault_number += 1
            kind = self.random.randrange(7)
            if kind == 0:
                self.cluster.move(TopicPartition("orders", self.random.randrange(PARTITIONS)))
            elif kind == 1 and TRANSACTION_STATE_TOPIC in self.cluster.sim.metadata.image.topics:
                self.cluster.move(self.cluster.home(self.random.choice(PRODUCERS)))
            elif kind == 2:
                self.cluster.advance(self.random.choice((100, 5_000, 20_000)))
            else:
                await self._fault(f"fault-{fault_number}")

    async def _fault(self, name: str) -> None:
        delay = Delay(delay_ms=self.random.choice((50, 500, 3_000, 20_000)))
        if self.random.random() < 0.6:
            point = self.random.choice((FaultPoint.PEER_REQUEST, FaultPoint.PEER_RESPONSE))
            error = self.random.choice(("NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS"))
            actions: tuple[Action, ...] = (Hold(), delay, Drop(), Fail(error=error))
        else:
            point = self.random.choice((FaultPoint.CLIENT_REQUEST, FaultPoint.CLIENT_RESPONSE))
            actions = (Hold(), delay)
        api = self.random.choice((None, "AddPartitionsToTxn", "WriteTxnMarkers", "Produce"))
        action = self.random.choice(actions)
        self.cluster.arm(action, point, name, api=api, limit=self.random.randrange(1, 4))
        await asyncio.sleep(self.random.random() * 3)
        self.struck += self.cluster.sim.injector.disarm(name).struck

    async def work(self, transactional_id: str) -> None:
        """Run producers of a transactional id one after the other, each until it can't go on."""
        for life in range(3):
            async with (
                self.cluster.client(transactional_id, **PATIENCE) as client,
                Producer(
                    client, transactional_id=transactional_id, delivery_timeout_ms=15_000
                ) as producer,
            ):
                try:
                    await producer.init_transactions()
                    for number in range(10):
                        await asyncio.sleep(self.random.random())
                        await self._transact(producer, f"{transactional_id}/{life}/{number}")
                except ClientError:
                    continue  # a new life fences this one

    async def _transact(self, producer: Producer, record_value: str) -> None:
        producer.begin()
        self.fates[record_value] = Fate.ABORTED
        try:
            send_futures = [
                producer.send("orders", partition_index, record_value.encode())
                for partition_index in range(PARTITIONS)
            ]
            for failure in await asyncio.gather(*send_futures, return_exceptions=True):
                if isinstance(failure, BaseException):
                    raise failure
            if self.random.random() < 0.3:
                await producer.abort()
                return
            self.fates[record_value] = Fate.UNKNOWN
            await producer.commit()
            self.fates[record_value] = Fate.COMMITTED
        except AbortableError:
            # The coordinator said no: it was not committed.
            self.fates[record_value] = Fate.ABORTED
            await producer.abort()


async def chaos(cluster: VirtualCluster) -> Chaos:
    run = Chaos(cluster)
    disturbing_task = cluster.env.tasks.spawn(run.disturb(), name="chaos")
    await asyncio.gather(*(run.work(producer_name) for producer_name in PRODUCERS))
    run.is_over = True
    await disturbing_task
    # What is still open times out, and its markers are written.
    cluster.advance(200_000)
    await asyncio.sleep(200)
    async with cluster.client("reader") as reader:
        read = Counter(
            record_value.decode() for record_value in await values(reader, "orders") if record_value
        )
    wrong_values = {
        record_value: (fate, read[record_value])
        for record_value, fate in run.fates.items()
        if read[record_value] not in fate.value
    }
    assert wrong_values == {}
    assert set(read) <= set(run.fates)
    for broker in cluster.sim.brokers.values():
        assert {
            txn_metadata.state.wire_name[:8] for txn_metadata in broker.coordinator.entries()
        } <= {
            "Complete",
            "Empty",
        }
        for topic_partition, log in broker.replicas.led.items():
            open_entries = [
                all_producer
                for all_producer in log.producers.all_producers()
                if log.producers.open_transaction_of(all_producer.producer_id) >= 0
            ]
            assert not open_entries, topic_partition
    return run


@pytest.mark.slow
@pytest.mark.seeds
@pytest.mark.parametrize("transaction_version", [0, 2])
def test_chaos_breaks_no_transaction(transaction_version: int, seed: int) -> None:
    run = run_cluster(chaos, seed=seed, level=transaction_version)
    fate_counts = Counter(run.fates.values())
    assert fate_counts[Fate.COMMITTED] > 20
    assert fate_counts[Fate.ABORTED] > 5
    assert run.struck > 5


def forget_markers(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on one marker in ten is acknowledged and never written."""
    markers_met = 0

    def forget(log: PartitionLog, marker: TxnMarker, *, now_ms: int) -> Appended | Rejection:
        nonlocal markers_met
        markers_met += 1
        if markers_met % 10:
            return append_marker(log, marker, now_ms=now_ms)
        return Appended(
            base_offset=log.log_end_offset,
            last_offset=log.log_end_offset - 1,
            log_append_time_ms=-1,
            log_start_offset=log.log_start_offset,
        )

    monkeypatch.setattr("txnsim.broker._marker_writes.append_marker", forget)


@pytest.mark.slow
@pytest.mark.seeds
def test_chaos_finds_a_leader_that_forgets_markers(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_markers(monkeypatch)
    with pytest.raises(AssertionError):
        run_cluster(chaos, seed=1)

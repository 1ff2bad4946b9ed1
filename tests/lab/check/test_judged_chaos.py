"""The judges of histories over the chaos of ``test_seeds``: they see only what clients were told,
while faults strike, readers read on and operators look. A healthy broker is never convicted; one
that forgets markers is.
"""

from __future__ import annotations

import asyncio

import pytest

from tests.broker.simulation.test_seeds import (
    PARTITIONS,
    PATIENCE,
    PRODUCERS,
    Chaos,
    forget_markers,
)
from tests.support.clusters import VirtualCluster, run_cluster
from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.errors import AbortableError, ClientError
from txnsim.client.fetching import fetch
from txnsim.client.producer import Producer, RecordMetadata
from txnsim.types import IsolationLevel, TopicPartition
from txnsim_lab.check.history import History
from txnsim_lab.check.judge import judge
from txnsim_lab.check.observations import Ended, Initialised, Outcome, Wrote
from txnsim_lab.scenario.recorder import Recorder

ORDERS_PARTITIONS = tuple(
    TopicPartition("orders", partition_index) for partition_index in range(PARTITIONS)
)
TIMEOUT_MS = 60_000


class JudgedChaos(Chaos):
    """Random disturbances, in which each client notes the answers that it gets."""

    def __init__(self, cluster: VirtualCluster) -> None:
        super().__init__(cluster)
        self.recorder = Recorder(cluster.env.clock)

    @property
    def history(self) -> History:
        return self.recorder.history

    def _now_ms(self) -> int:
        return self.cluster.env.clock.now_ms()

    async def work(self, transactional_id: str) -> None:
        for life in range(3):
            client_name = f"{transactional_id}/{life}"
            async with (
                self.cluster.client(client_name, **PATIENCE) as client,
                Producer(
                    client, transactional_id=transactional_id, delivery_timeout_ms=15_000
                ) as producer,
            ):
                try:
                    await self._initialise(producer, client_name, transactional_id)
                    for number in range(10):
                        await asyncio.sleep(self.random.random())
                        await self._record_transaction(
                            producer, client_name, f"{client_name}/{number}"
                        )
                except ClientError:
                    continue  # a new life fences this one

    async def _initialise(
        self, producer: Producer, client_name: str, transactional_id: str
    ) -> None:
        outcome = Outcome.UNKNOWN
        try:
            await producer.init_transactions()
            outcome = Outcome.OK
        finally:
            producer_identity = producer.session.identity
            self.history.add(
                Initialised(
                    at_ms=self._now_ms(),
                    who=client_name,
                    transactional_id=transactional_id,
                    producer_id=producer_identity.producer_id,
                    producer_epoch=producer_identity.producer_epoch,
                    timeout_ms=TIMEOUT_MS,
                    outcome=outcome,
                )
            )

    async def _record_transaction(
        self, producer: Producer, client_name: str, transaction_label: str
    ) -> None:
        producer.begin()
        self.recorder.note_begin(
            client_name, client_name.split("/", maxsplit=1)[0], transaction_label
        )
        try:
            send_futures = [
                producer.send(
                    topic_partition.topic, topic_partition.partition, transaction_label.encode()
                )
                for topic_partition in ORDERS_PARTITIONS
            ]
            answers = await asyncio.gather(*send_futures, return_exceptions=True)
            for topic_partition, answer in zip(ORDERS_PARTITIONS, answers, strict=True):
                self._wrote(producer, client_name, transaction_label, topic_partition, answer)
            for answer in answers:
                if isinstance(answer, BaseException):
                    raise answer
            await self._end(
                producer, client_name, transaction_label, is_commit=self.random.random() >= 0.3
            )
        except AbortableError:
            await self._end(producer, client_name, transaction_label, is_commit=False)

    def _wrote(
        self,
        producer: Producer,
        client_name: str,
        transaction_label: str,
        topic_partition: TopicPartition,
        answer: RecordMetadata | BaseException,
    ) -> None:
        is_taken = isinstance(answer, RecordMetadata)
        self.history.add(
            Wrote(
                at_ms=self._now_ms(),
                who=client_name,
                transaction=transaction_label,
                topic=topic_partition.topic,
                partition=topic_partition.partition,
                value=transaction_label,
                item=f"{transaction_label} on {topic_partition}",
                outcome=Outcome.OK if is_taken else Outcome.UNKNOWN,
                offset=answer.offset if isinstance(answer, RecordMetadata) else -1,
                producer_id=producer.session.identity.producer_id,
            )
        )

    async def _end(
        self, producer: Producer, client_name: str, transaction_label: str, *, is_commit: bool
    ) -> None:
        asked_ms, outcome = self._now_ms(), Outcome.UNKNOWN
        try:
            await (producer.commit() if is_commit else producer.abort())
            outcome = Outcome.OK
        except AbortableError:
            outcome = Outcome.FAILED  # the coordinator said no: it was not committed
            raise
        finally:
            self.history.add(
                Ended(
                    at_ms=self._now_ms(),
                    who=client_name,
                    transaction=transaction_label,
                    commit=is_commit,
                    outcome=outcome,
                    asked_ms=asked_ms,
                )
            )

    # Onlookers

    async def watch(self) -> None:
        """Read the partitions until the run is over."""
        async with self.cluster.client("watcher", **PATIENCE) as client:
            position_by_partition = dict.fromkeys(ORDERS_PARTITIONS, 0)
            while not self.is_over:
                await asyncio.sleep(self.random.random())
                try:
                    await self.look(client, position_by_partition)
                except ClientError:
                    continue  # whoever is not answered has seen nothing

    async def look(self, client: Cluster, position_by_partition: dict[TopicPartition, int]) -> None:
        admin = Admin(client)
        for topic_partition in ORDERS_PARTITIONS:
            await self._look_at_producers(admin, topic_partition)
        for transactional_id, description in (await admin.describe_transactions(PRODUCERS)).items():
            if not isinstance(description, ClientError):
                assert description.transactional_id == transactional_id
                self.recorder.note_description("watcher", description)
        for topic_partition in ORDERS_PARTITIONS:
            await self._look_at_producers(admin, topic_partition)
            isolation = IsolationLevel.READ_COMMITTED
            offset = position_by_partition[topic_partition]
            result = await fetch(
                client,
                topic_partition.topic,
                topic_partition.partition,
                offset,
                isolation=isolation,
                max_wait_ms=0,
                timeout_ms=5_000,
            )
            self.recorder.note_fetch("watcher", offset, isolation, result)
            position_by_partition[topic_partition] = result.next_offset

    async def _look_at_producers(self, admin: Admin, topic_partition: TopicPartition) -> None:
        producers = (await admin.describe_producers([topic_partition]))[topic_partition]
        if not isinstance(producers, ClientError):
            self.recorder.note_producers("watcher", topic_partition, producers)


async def chaos(cluster: VirtualCluster) -> JudgedChaos:
    judged_chaos = JudgedChaos(cluster)
    spawn = cluster.env.tasks.spawn
    around = [
        spawn(judged_chaos.disturb(), name="chaos"),
        spawn(judged_chaos.watch(), name="watcher"),
    ]
    await asyncio.gather(*(judged_chaos.work(producer_name) for producer_name in PRODUCERS))
    judged_chaos.is_over = True
    await asyncio.gather(*around)
    judged_chaos.recorder.note_healing("watcher")
    # What is still open times out, and its markers are written.
    cluster.advance(200_000)
    await asyncio.sleep(200)
    async with cluster.client("reader") as client:
        position_by_partition = dict.fromkeys(ORDERS_PARTITIONS, 0)
        for _ in range(3):
            await judged_chaos.look(client, position_by_partition)
            await asyncio.sleep(100)
    return judged_chaos


@pytest.mark.costly
@pytest.mark.slow
@pytest.mark.seeds
def test_the_judges_find_nothing_wrong_in_chaos(seed: int) -> None:
    """Each seed at one level; ``test_seeds`` plays the chaos itself at both."""
    judged_chaos = run_cluster(chaos, seed=seed, level=0 if seed % 2 else 2)
    verdict = judge(judged_chaos.history)
    assert verdict.anomalies == ()
    assert len(judged_chaos.history) > 500
    assert judged_chaos.struck > 0


@pytest.mark.costly
@pytest.mark.slow
@pytest.mark.seeds
def test_the_judges_find_a_leader_that_forgets_markers(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_markers(monkeypatch)
    verdict = judge(run_cluster(chaos, seed=1).history)
    assert {"stuck-last-stable-offset", "torn-transaction"} & set(verdict.kinds)

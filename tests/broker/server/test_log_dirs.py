"""Log directories of all brokers are of one moment, whatever producers do meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import cache
from typing import Final

import pytest

from tests.support.clusters import VirtualCluster, client_of, run_cluster
from tests.support.within_environment import within
from txnsim.client.producer import Producer
from txnsim.log.producer_state import NO_OFFSET
from txnsim.releases.rules import LATEST_RULES
from txnsim.server.log_dirs import LogDirsCut
from txnsim.txn.log_format import decode_record
from txnsim.txn.state import IDLE_STATES, TransactionState, TxnTransition
from txnsim.types import TRANSACTION_STATE_TOPIC, TopicPartition, partition_for
from txnsim.wire.batch import read_batch_header
from txnsim.wire.control import COMMIT, read_control_record
from txnsim.wire.records import read_records

TOPICS: Final = ("a", "b", "c")
ID: Final = "t"
CUTS: Final = 1_000
COORDINATOR_PARTITIONS: Final = 6


header_of: Final = cache(read_batch_header)
"""Batches of many cuts are the same."""


@cache
def committed_by(marker_batch: bytes) -> bool:
    marker = read_control_record(marker_batch)
    assert marker is not None
    return marker.type == COMMIT


class LeadersAtCut:
    """The logs of the partitions' leaders in a cut of the log directories."""

    def __init__(self, cut: LogDirsCut) -> None:
        self._image = cut.image
        self._replicas = {
            (broker_id, replica.topic_partition): replica
            for broker_id, replicas in cut.replicas.items()
            for replica in replicas
        }

    def batches(self, topic: str, partition_index: int = 0) -> Iterator[bytes]:
        topic_partition = TopicPartition(topic, partition_index)
        partition = self._image.partition(topic_partition)
        assert partition is not None
        replica = self._replicas[partition.leader, topic_partition]
        for segment in replica.segments:
            yield from segment.batches

    def plain_count(self, topic: str) -> int:
        headers = map(header_of, self.batches(topic))
        return sum(header.records_count for header in headers if not header.is_transactional)

    def outcomes(self, topic: str) -> list[bool]:
        """Whether each transaction was committed, by the markers of the partition."""
        return [committed_by(batch) for batch in self.batches(topic) if header_of(batch).is_control]

    def is_open(self, topic: str) -> bool:
        """Whether a transactional batch lies behind the last marker, by the bytes; the producer
        snapshot says the same.
        """
        is_open = False
        for batch in self.batches(topic):
            header = header_of(batch)
            if header.is_transactional:
                is_open = not header.is_control
        partition = self._image.partition(TopicPartition(topic, 0))
        assert partition is not None
        replica = self._replicas[partition.leader, TopicPartition(topic, 0)]
        *_, (_, producers) = replica.producer_snapshots.all_snapshots()
        assert any(entry.txn_first_offset != NO_OFFSET for entry in producers) == is_open
        return is_open

    def transition(self) -> TxnTransition:
        """The newest record of the transactional id in ``__transaction_state``."""
        transition = None
        for batch in self.batches(
            TRANSACTION_STATE_TOPIC, partition_for(ID, COORDINATOR_PARTITIONS)
        ):
            for record in read_records(batch):
                assert record.key is not None
                transition = decode_record(record.key, record.value, release_rules=LATEST_RULES)
        assert isinstance(transition, TxnTransition)
        return transition


async def _write_in_turn(cluster: VirtualCluster, stop_event: asyncio.Event) -> None:
    async with client_of(cluster.env, cluster.sim, "in-turn") as client:
        producer = Producer(client)
        while not stop_event.is_set():
            for topic in TOPICS:
                await producer.send(topic, 0, b"v")
        await producer.close()


async def _write_transactions(
    cluster: VirtualCluster, stop_event: asyncio.Event, outcomes: list[bool]
) -> None:
    async with client_of(cluster.env, cluster.sim, "transactions") as client:
        producer = Producer(client, transactional_id=ID)
        await producer.init_transactions()
        while not stop_event.is_set():
            producer.begin()
            for topic in TOPICS:
                producer.send(topic, 0, b"v")
            await producer.flush()  # an abort would drop what is queued
            outcomes.append(len(outcomes) % 3 != 0)
            await (producer.commit() if outcomes[-1] else producer.abort())
        await producer.close()


def _check_cut(leaders: LeadersAtCut, outcomes: list[bool]) -> TransactionState:
    a_count, b_count, c_count = (leaders.plain_count(topic) for topic in TOPICS)
    assert a_count >= b_count >= c_count >= a_count - 1
    markers = {topic: leaders.outcomes(topic) for topic in TOPICS}
    transition = leaders.transition()
    ended_count = max(len(marker_outcomes) for marker_outcomes in markers.values())
    for topic, marker_outcomes in markers.items():
        assert marker_outcomes == outcomes[: len(marker_outcomes)], topic
        is_owed = TopicPartition(topic, 0) in transition.partitions
        if transition.state in IDLE_STATES:
            assert len(marker_outcomes) == ended_count, f"{topic}: complete without a marker"
            assert not leaders.is_open(topic)
        elif transition.state is TransactionState.ONGOING:
            assert len(marker_outcomes) == ended_count, f"{topic}: a marker before the decision"
            assert is_owed or not leaders.is_open(topic), f"{topic}: open, but never added"
        else:
            assert is_owed or not leaders.is_open(topic)
    return transition.state


@pytest.mark.slow
@within(
    run_cluster,
    topics=tuple((topic, 1) for topic in TOPICS),
    offsets_topic_num_partitions=1,
    share_coordinator_state_topic_num_partitions=1,
)
async def test_every_cut_is_of_one_moment_and_has_each_transaction_whole(
    cluster: VirtualCluster,
) -> None:
    random_source, stop_event = cluster.env.rng.stream("cuts"), asyncio.Event()
    outcomes: list[bool] = []
    leader_ids = {cluster.leader(TopicPartition(topic, 0)) for topic in TOPICS}
    assert len(leader_ids) == 3, "what is compared lies on different brokers"
    spawn = cluster.env.tasks.spawn
    writers = [
        spawn(_write_in_turn(cluster, stop_event), name="in turn"),
        spawn(_write_transactions(cluster, stop_event, outcomes), name="transactions"),
    ]
    await asyncio.sleep(1)  # coordinators have come up
    assert len(outcomes) > 2
    states: set[TransactionState] = set()
    for _ in range(CUTS):
        await asyncio.sleep(random_source.random() * 0.004)
        cut = LogDirsCut.of_cluster(cluster.sim, sorted(cluster.sim.members))
        states.add(_check_cut(LeadersAtCut(cut), outcomes))
    stop_event.set()
    await asyncio.gather(*writers)
    assert states >= {TransactionState.ONGOING, TransactionState.PREPARE_COMMIT}
    assert states & IDLE_STATES

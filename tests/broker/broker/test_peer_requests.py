"""What brokers ask of one another: markers, partitions of transactions."""

from __future__ import annotations

import asyncio
import time  # noqa: TID251 - measures CPU time
from collections.abc import Coroutine
from typing import Any

import pytest

from tests.broker.broker.test_broker import begun, describe
from tests.support.clusters import VirtualCluster, run_cluster
from tests.support.within_environment import within
from txnsim.broker._marker_writes import MARKERS_AT_ONCE
from txnsim.errors import ErrorCode, InvariantViolation
from txnsim.interbroker.transactions import (
    AddPartitionsToTxnCommand,
    TxnMarker,
    TxnPartitions,
    WriteTxnMarkersCommand,
)
from txnsim.types import (
    BrokerId,
    CoordinatorEpoch,
    ProducerEpoch,
    ProducerId,
    TopicPartition,
    TransactionalId,
)

E = ErrorCode
P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def verification_command(
    *partitions: TopicPartition, verify_only: bool = True
) -> AddPartitionsToTxnCommand:
    return AddPartitionsToTxnCommand(
        transactions=(
            TxnPartitions(
                transactional_id=TransactionalId("tx"),
                producer_id=ProducerId(0),
                producer_epoch=ProducerEpoch(0),
                verify_only=verify_only,
                partitions=partitions,
            ),
        )
    )


@pytest.mark.parametrize("verify_only", [True, False])
@within(run_cluster)
async def test_an_unknown_partition_stops_the_others(
    cluster: VirtualCluster, verify_only: bool
) -> None:
    unknown_partition = TopicPartition("orders", 9)
    async with cluster.client() as client:
        producer = await begun(client, P0)
        home_broker = cluster.sim.brokers[cluster.leader(cluster.home("tx"))]
        reply = await home_broker.peer_requests.add_partitions_to_txn(
            verification_command(P0, unknown_partition, verify_only=verify_only)
        )
        assert reply.results == (
            (
                "tx",
                (
                    (P0, E.operation_not_attempted),
                    (unknown_partition, E.unknown_topic_or_partition),
                ),
            ),
        )
        await producer.close()


@within(run_cluster)
async def test_verification_answers_each_partition_and_an_add_all_alike(
    cluster: VirtualCluster,
) -> None:
    async with cluster.client() as client:
        producer = await begun(client, P0)
        home_broker = cluster.sim.brokers[cluster.leader(cluster.home("tx"))]
        epoch = (await describe(client)).producer_epoch
        assert epoch == 0
        verification_reply = await home_broker.peer_requests.add_partitions_to_txn(
            verification_command(P0, P1)
        )
        assert verification_reply.results[0][1] == ((P0, E.none), (P1, E.transaction_abortable))
        add_reply = await home_broker.peer_requests.add_partitions_to_txn(
            verification_command(P0, P1, verify_only=False)
        )
        assert add_reply.results[0][1] == ((P0, E.none), (P1, E.none))
        other_broker = next(
            broker for broker in cluster.sim.brokers.values() if broker is not home_broker
        )
        for verify_only in (True, False):
            reply = await other_broker.peer_requests.add_partitions_to_txn(
                verification_command(P0, verify_only=verify_only)
            )
            assert reply.results[0][1] == ((P0, E.not_coordinator),)
        await producer.abort()
        await producer.close()


def marker(*partitions: TopicPartition, epoch: int = 0) -> TxnMarker:
    return TxnMarker(
        producer_id=ProducerId(5),
        producer_epoch=ProducerEpoch(epoch),
        committed=True,
        coordinator_epoch=CoordinatorEpoch(epoch),
        transaction_version=0,
        partitions=partitions,
    )


@within(run_cluster)
async def test_markers_are_written_by_leaders_and_answered_per_partition(
    cluster: VirtualCluster,
) -> None:
    broker = cluster.sim.brokers[cluster.leader(P0)]
    unknown_partition = TopicPartition("orders", 9)
    reply = await broker.peer_requests.write_txn_markers(
        WriteTxnMarkersCommand(markers=(marker(P0, P1), marker(unknown_partition)))
    )
    assert reply.results == (
        (5, ((P0, E.none), (P1, E.not_leader_or_follower), (unknown_partition, 3))),
    ), "markers of one producer are answered together"
    assert broker.replicas.led[P0].log_end_offset == 1
    fenced_reply = await broker.peer_requests.write_txn_markers(
        WriteTxnMarkersCommand(markers=(marker(P0, epoch=3), marker(P0, epoch=2)))
    )
    assert fenced_reply.results == ((5, ((P0, E.invalid_producer_epoch),)),)


async def turns_during(work_coroutine: Coroutine[Any, Any, object]) -> int:
    """Turns of the loop that come between the steps of some work."""
    task = asyncio.get_running_loop().create_task(work_coroutine)
    turn_count = 0
    while not task.done():
        await asyncio.sleep(0)
        turn_count += 1
    await task
    return turn_count


MANY = [TopicPartition("orders", partition) for partition in range(100, 20_000)]


@within(run_cluster)
async def test_many_markers_are_written_with_breaks(cluster: VirtualCluster) -> None:
    broker = cluster.sim.brokers[cluster.leader(P0)]
    for count, breaks in ((MARKERS_AT_ONCE, 0), (len(MANY), len(MANY) // 1_024)):
        command = WriteTxnMarkersCommand(markers=(marker(*MANY[:count]),))
        turn_count = await turns_during(broker.peer_requests.write_txn_markers(command))
        assert 1 + breaks <= turn_count <= 1 + 2 * breaks


@within(run_cluster)
async def test_many_unknown_partitions_are_found_in_one_pass(cluster: VirtualCluster) -> None:
    broker = cluster.sim.brokers[cluster.leader(P0)]
    begun_s = time.process_time()
    reply = await broker.peer_requests.add_partitions_to_txn(verification_command(*MANY))
    assert {error for _, error in reply.results[0][1]} == {E.unknown_topic_or_partition}
    assert time.process_time() - begun_s < 2, "a look at all of them for each one takes 9 s"


@within(run_cluster)
async def test_what_no_peer_may_ask_is_a_bug(cluster: VirtualCluster) -> None:
    broker = cluster.sim.brokers[BrokerId(1)]
    for api_key, command in ((24, WriteTxnMarkersCommand(markers=())), (67, None)):
        with pytest.raises(InvariantViolation, match="broker 2 asked broker/1"):
            await broker.peer_requests.handle(api_key, 1, command, BrokerId(2))

"""Switches of the coordinator that a whole broker shows: the produce path, the controller, leaders
that are gone. The others are asked in the folder of their room (``test_release_rules.py``).
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest

from tests.support.clusters import VirtualCluster, run_cluster, until_state
from tests.support.leader_bench import ADD, OLD, P0, P1, LeaderBench, part, produce, settle
from tests.support.waiting import leaderless
from txnsim.broker.produce import Outcomes, ProduceCommand
from txnsim.client.producer import Producer
from txnsim.client.requests import update_features
from txnsim.client.versions import VersionRange
from txnsim.controller.controller import TopicToCreate
from txnsim.errors import ErrorCode, PeerTimeoutError, Rejection
from txnsim.interbroker.transactions import TxnMarker, WriteTxnMarkersCommand
from txnsim.releases import LATEST_RULES, Rules
from txnsim.types import BrokerId, CoordinatorEpoch, ProducerEpoch, ProducerId, TopicPartition

B1, B2 = BrokerId(1), BrokerId(2)
SOLO: Final = TopicPartition("solo", 0)
PID: Final = 7


def start(leader: LeaderBench, command: ProduceCommand) -> asyncio.Task[Outcomes]:
    return asyncio.get_running_loop().create_task(leader.producing.produce(command))


def txn(topic_partition: TopicPartition = P0, **transaction_fields: Any) -> Any:
    return part(topic_partition, 0, is_transactional=True, **transaction_fields)


# Produce


@pytest.mark.parametrize(
    ("rules", "error"),
    [
        (LATEST_RULES, ErrorCode.not_enough_replicas),
        (Rules(lost_verification_is_retriable=False), ErrorCode.network_exception),
    ],
)
async def test_a_verification_without_an_answer(rules: Rules, error: ErrorCode) -> None:
    leader = LeaderBench(rules=rules)
    task = start(leader, produce(txn(), operation=OLD))
    await settle()
    leader.requests[0].answer.fail(PeerTimeoutError("none"))
    assert (await task)[P0].error is error


async def test_an_implicit_add_that_meets_a_transaction_still_ending() -> None:
    for rules, questions_asked in ((LATEST_RULES, 2), (Rules(implicit_add_is_repeated=False), 1)):
        leader = LeaderBench(rules=rules)
        task = start(leader, produce(txn(), operation=ADD))
        await settle()
        leader.answer(ErrorCode.concurrent_transactions)
        await settle()
        leader.clock.pass_ms(20)
        await settle()
        assert len(leader.requests) == questions_asked
        if questions_asked == 2:
            leader.answer()
        expected_error = (
            ErrorCode.none if questions_asked == 2 else ErrorCode.concurrent_transactions
        )
        assert (await task)[P0].error is expected_error


async def test_two_epochs_of_one_producer_in_a_request() -> None:
    produce_command = produce(txn(P0), txn(P1, epoch=1), operation=OLD)
    mixed_error = ErrorCode.invalid_producer_id_mapping
    assert (await LeaderBench().producing.produce(produce_command))[P0].error is mixed_error
    leader = LeaderBench(rules=Rules(request_has_one_epoch=False))
    task = start(leader, produce_command)
    await settle()
    leader.answer()
    assert {outcome.error for outcome in (await task).values()} == {ErrorCode.none}
    other_command = produce(txn(P0), txn(P1, producer_id=8), operation=OLD)
    assert (await leader.producing.produce(other_command))[P0].error is mixed_error


async def test_before_verification_nobody_is_asked() -> None:
    leader = LeaderBench(rules=Rules(transactions_are_verified=False))
    outcome_by_partition = await leader.producing.produce(
        produce(txn(P0), txn(P1, producer_id=8), operation=OLD)
    )
    assert {outcome.error for outcome in outcome_by_partition.values()} == {ErrorCode.none}
    assert leader.requests == []


# Markers


def test_a_marker_for_a_replica_that_is_not_here() -> None:
    async def story(cluster: VirtualCluster) -> ErrorCode:
        solo(cluster, leader=B2)
        marker = TxnMarker(
            producer_id=ProducerId(PID),
            producer_epoch=ProducerEpoch(0),
            committed=True,
            coordinator_epoch=CoordinatorEpoch(0),
            transaction_version=0,
            partitions=(SOLO,),
        )
        command = WriteTxnMarkersCommand(markers=(marker,))
        reply = await cluster.sim.brokers[B1].peer_requests.write_txn_markers(command)
        ((_, ((_, error),)),) = reply.results
        return ErrorCode(error)

    assert run_cluster(story) is ErrorCode.unknown_topic_or_partition
    old_rules = {"unhosted_markers_are_retried": False}
    assert run_cluster(story, rules=old_rules) is ErrorCode.unsupported_for_message_format


def test_a_partition_whose_leader_is_gone_when_its_transaction_ends() -> None:
    async def story(cluster: VirtualCluster) -> tuple[str, bool]:
        async with cluster.client() as client:
            solo(cluster, leader=B2)
            await client.coordinator("a")
            home_partition = cluster.home("a")
            if cluster.leader(home_partition) != B1:
                cluster.sim.move_leader(home_partition, B1)
            producer = Producer(client, transactional_id="a")
            producer_identity = await producer.init_transactions()
            producer.begin()
            await producer.send(SOLO.topic, SOLO.partition, b"v")
            await cluster.sim.kill_broker(B2)
            await leaderless(cluster, SOLO, seconds=20)
            await producer.commit()
            await asyncio.sleep(1)
            (txn_metadata,) = cluster.sim.brokers[B1].coordinator.entries()
            state = txn_metadata.state.wire_name
            await cluster.sim.start_broker(B2)
            await until_state(client, "a", "CompleteCommit")
            await producer.close()
            log = cluster.sim.brokers[B2].replicas.led[SOLO]
            return state, log.producers.open_transaction_of(producer_identity.producer_id) >= 0

    assert run_cluster(story) == ("CompleteCommit", True), "4.3 leaves it hanging"
    rules = {"leaderless_partitions_keep_markers": True}
    assert run_cluster(story, rules=rules) == ("PrepareCommit", False)


def solo(cluster: VirtualCluster, *, leader: BrokerId) -> None:
    """A topic with one replica, on that broker."""
    created_topic = cluster.sim.metadata.create_topic(
        TopicToCreate(name=SOLO.topic, assignments=((0, (leader,)),))
    )
    assert not isinstance(created_topic, Rejection)


# Features


def test_one_feature_of_several_that_can_not_change() -> None:
    async def story(cluster: VirtualCluster) -> Any:
        transaction_versions = {
            "transaction.version": 1,
            "no.such.feature": 1,
            "unknown.and.off": 0,
        }
        request = update_features(
            transaction_versions, upgrade_type=1, validate_only=False, timeout_ms=1_000
        )
        request_of_v1 = type(request)(
            api=request.api, accepted_versions=VersionRange(1, 1), build=request.build
        )
        async with cluster.client() as client:
            answer = await client.ask(B1, request_of_v1)
        results = {result.feature: ErrorCode(result.error_code) for result in answer.results}
        transaction_version = cluster.sim.brokers[B2].transaction_version()
        return ErrorCode(answer.error_code), results, int(transaction_version)

    refusal_error = ErrorCode.invalid_update_version
    assert run_cluster(story, level=0) == (refusal_error, {}, 0)
    assert run_cluster(story, level=0, rules={"features_change_together": False}) == (
        ErrorCode.none,
        {
            "no.such.feature": refusal_error,
            "transaction.version": ErrorCode.none,
            "unknown.and.off": ErrorCode.none,
        },
        1,
    )

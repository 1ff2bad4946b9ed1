"""Faults inside brokers, one per point, as a client sees them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any

import pytest

from tests.support.broker_api import Api, batch, produce, transaction
from tests.support.clusters import VirtualCluster, begin_transaction, run_cluster, values
from tests.support.group_api import GROUP, ClassicMember, GroupApi, commit_values
from tests.support.images import B1, B2
from tests.support.waiting import PATIENT, read, reads
from tests.support.within_environment import within
from txnsim.client.admin import Admin
from txnsim.client.errors import ClientError
from txnsim.client.fetching import fetch
from txnsim.client.producer import Producer
from txnsim.controller.controller import TopicToCreate
from txnsim.errors import ConfigError, ErrorCode
from txnsim.faults.actions import Delay, Drop, Fail, Hold, Pass
from txnsim.faults.cluster_actions import Crash, ResignLeader
from txnsim.faults.points import FaultPoint
from txnsim.metadata.image import TopicImage
from txnsim.server.member import MemberLifeState
from txnsim.types import (
    CONSUMER_OFFSETS_TOPIC,
    TRANSACTION_STATE_TOPIC,
    BrokerId,
    IsolationLevel,
    TopicPartition,
    TransactionalId,
)

E = ErrorCode
P0 = TopicPartition("orders", 0)
TX = TransactionalId("tx")
SECOND_MS = 1_000


async def coordinated(cluster: VirtualCluster) -> GroupApi:
    groups = GroupApi(Api(cluster.sim))
    await groups.api.until(
        lambda answer: answer.error_code is E.none, "FindCoordinator", 1, key=GROUP, key_type=0
    )
    return groups


async def identity(api: Api) -> dict[str, Any]:
    """Get a producer id for ``TX``; return the fields by which requests name the producer."""
    producer_id, epoch = await api.producer(TX)
    return {"transactional_id": TX, "producer_id": producer_id, "producer_epoch": epoch}


# log.append


@within(run_cluster)
async def test_a_produce_that_stands_still_before_the_log_is_passed_by_others(
    cluster: VirtualCluster,
) -> None:
    cluster.arm(Hold(), FaultPoint.LOG_APPEND, topic="orders", role="leader", limit=1)
    async with (
        cluster.client("slow", **PATIENT) as slow_cluster,
        cluster.client("b") as quick_cluster,
    ):
        slow_send_future = Producer(slow_cluster).send("orders", 0, b"slow")
        await cluster.wait_until_struck()
        await Producer(quick_cluster).send("orders", 0, b"quick")
        assert await read(cluster) == [b"quick"]
        cluster.sim.injector.release("f")
        assert (await slow_send_future).offset == 1
        assert await read(cluster) == [b"quick", b"slow"]


@pytest.mark.parametrize(
    ("is_verified", "answered_error", "expected_values"),
    [(False, E.none, [b"late"]), (True, E.invalid_txn_state, [])],
)
def test_a_produce_may_be_overtaken_by_its_own_commit(
    is_verified: bool, answered_error: ErrorCode, expected_values: list[bytes]
) -> None:
    """KAFKA-12671: without verification, a record appended after the marker hangs for ever."""

    async def main(cluster: VirtualCluster) -> None:
        home = cluster.sim.metadata.auto_create(TRANSACTION_STATE_TOPIC)
        assert isinstance(home, TopicImage)
        leader = Api(cluster.sim, cluster.leader(P0))
        coordinator = leader.on_broker(cluster.leader(cluster.home(TX)))
        identity = await coordinator.producer(TX)
        add_answer = await coordinator.ask(
            "AddPartitionsToTxn", 3, **transaction(TX, identity, {"orders": [0]})
        )
        assert (
            add_answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
            == 0
        )
        records = batch(
            b"late",
            producer_id=identity[0],
            producer_epoch=identity[1],
            base_sequence=0,
            is_transactional=True,
        )
        cluster.arm(Hold(), FaultPoint.LOG_APPEND, transactional_id=TX, kind="data")
        late_task = cluster.env.tasks.spawn(
            leader.ask("Produce", 11, **produce("orders", records, transactional_id=TX)),
            name="late",
        )
        await cluster.wait_until_struck()
        end_answer = await coordinator.ask(
            "EndTxn",
            3,
            transactional_id=TX,
            producer_id=identity[0],
            producer_epoch=identity[1],
            committed=True,
        )
        assert end_answer.error_code is E.none
        await coordinator.state(TX, "CompleteCommit")
        cluster.sim.injector.release("f")
        partition_answer = (await late_task).responses[0].partition_responses[0]
        assert partition_answer.error_code is answered_error
        assert await read(cluster) == expected_values
        assert await read(cluster, IsolationLevel.READ_COMMITTED) == []

    run_cluster(main, level=0, transaction_partition_verification_enable=is_verified)


@within(run_cluster)
async def test_an_append_that_is_refused_is_tried_again_by_the_client(
    cluster: VirtualCluster,
) -> None:
    fail_action = Fail(error="NOT_ENOUGH_REPLICAS")
    cluster.arm(fail_action, FaultPoint.LOG_APPEND, topic="orders", kind="data", limit=2)
    async with cluster.client(**PATIENT) as client:
        await Producer(client).send("orders", 0, b"v")
    await cluster.wait_until_struck(count=2)
    assert await read(cluster) == [b"v"]


@within(run_cluster)
async def test_a_follower_that_does_not_append_holds_acks_all_back(cluster: VirtualCluster) -> None:
    cluster.arm(Hold(), FaultPoint.LOG_APPEND, role="follower", broker=2, topic="orders")
    async with cluster.client(**PATIENT) as client:
        record_future = Producer(client).send("orders", 0, b"v")
        await cluster.wait_until_struck()
        await asyncio.sleep(1)
        assert not record_future.done()
        assert await read(cluster) == []
        cluster.sim.injector.release("f")
        await record_future
    assert await read(cluster) == [b"v"]


@within(run_cluster)
async def test_what_a_standing_follower_is_told_meanwhile_is_taken_up_in_its_order(
    cluster: VirtualCluster,
) -> None:
    def end_at(broker: BrokerId) -> int:
        return cluster.sim.brokers[broker].replicas.hosted[P0].log_end_offset

    cluster.arm(Hold(), FaultPoint.LOG_APPEND, role="follower", broker=2, limit=1)
    async with cluster.client(**PATIENT) as client:
        record_future = Producer(client).send("orders", 0, b"v")
        for _ in range(1_000):
            await asyncio.sleep(0.000_01)
            if end_at(B1):
                break
        # The answer is on its way; with another topic to follow, the follower asks again.
        created_topic = cluster.sim.metadata.create_topic(
            TopicToCreate(name="another", partition_count=3, replication_factor=3)
        )
        assert isinstance(created_topic, TopicImage)
        await cluster.wait_until_struck()
        later_send_future = Producer(client).send("orders", 0, b"w")
        await asyncio.sleep(1)
        assert end_at(B2) == 0, "the answer to the second request waits behind it"
        cluster.sim.injector.release("f")
        await record_future
        await later_send_future
    assert end_at(B2) == 2
    assert await read(cluster) == [b"v", b"w"]


@within(run_cluster)
async def test_a_follower_that_is_refused_tries_again(cluster: VirtualCluster) -> None:
    fail_action = Fail(error="KAFKA_STORAGE_ERROR")
    cluster.arm(fail_action, FaultPoint.LOG_APPEND, role="follower", topic="orders", limit=4)
    async with cluster.client(**PATIENT) as client:
        await Producer(client).send("orders", 0, b"v")
    await cluster.wait_until_struck(count=4)
    assert await read(cluster) == [b"v"]


@within(run_cluster)
async def test_a_marker_that_waits_before_the_log_keeps_readers_waiting(
    cluster: VirtualCluster,
) -> None:
    cluster.arm(
        Hold(), FaultPoint.LOG_APPEND, kind="marker", role="leader", topic="orders",
        committed=True,
    )  # fmt: skip
    async with cluster.client(**PATIENT) as client:
        producer = await begin_transaction(client, TX)
        await producer.send("orders", 0, b"v")
        await producer.commit()
        await cluster.wait_until_struck()
        assert await read(cluster, IsolationLevel.READ_COMMITTED) == []
        cluster.sim.injector.release("f")
        await reads(cluster, b"v")


@within(run_cluster)
async def test_a_coordinators_record_is_found_by_its_transactional_id(
    cluster: VirtualCluster,
) -> None:
    async with cluster.client(**PATIENT) as client:
        producer, other_producer = (
            Producer(client, transactional_id=transactional_id)
            for transactional_id in (TX, "other")
        )
        await producer.init_transactions()
        cluster.arm(
            Hold(), FaultPoint.LOG_APPEND, kind="coordinator", role="leader",
            transactional_id=TX,
        )  # fmt: skip
        await other_producer.init_transactions()
        producer.begin()
        sending_future = producer.send("orders", 0, b"v")
        await cluster.wait_until_struck()
        await asyncio.sleep(1)
        assert not sending_future.done(), "the partition is not in the transaction yet"
        cluster.sim.injector.disarm("f")
        await sending_future
        await producer.commit()
        await reads(cluster, b"v")


@within(run_cluster, brokers=1)
async def test_positions_wait_before_the_log_and_are_decided_anew_behind_it(
    cluster: VirtualCluster,
) -> None:
    groups = await coordinated(cluster)
    assert (await groups.commit(7)).topics[0].partitions[0].error_code is E.none
    cluster.arm(
        Hold(), FaultPoint.LOG_APPEND, topic=CONSUMER_OFFSETS_TOPIC, kind="coordinator", limit=1
    )
    commit_task = groups.later(groups.commit(8))
    await cluster.wait_until_struck()
    assert await groups.committed_offset() == (7, E.none)
    deleted_task = groups.later(groups.api.ask("DeleteGroups", 2, groups_names=[GROUP]))
    assert (await deleted_task).results[0].error_code is E.none
    cluster.sim.injector.release("f")
    assert (await commit_task).topics[0].partitions[0].error_code is E.none
    assert await groups.committed_offset() == (8, E.none)


@within(run_cluster, brokers=1)
async def test_positions_that_the_log_refuses_are_answered_in_a_coordinators_words(
    cluster: VirtualCluster,
) -> None:
    groups = await coordinated(cluster)
    await groups.commit(7)
    cluster.arm(Fail(error="KAFKA_STORAGE_ERROR"), FaultPoint.LOG_APPEND, kind="coordinator")
    answer = await groups.commit(8)
    assert answer.topics[0].partitions[0].error_code is E.not_coordinator
    assert await groups.committed_offset() == (7, E.none)


@within(run_cluster, brokers=1)
async def test_what_members_and_admins_write_about_a_group_waits_before_the_log(
    cluster: VirtualCluster,
) -> None:
    groups = await coordinated(cluster)

    async def held(request_coroutine: Coroutine[Any, Any, Any]) -> Any:
        cluster.arm(Hold(), FaultPoint.LOG_APPEND, topic=CONSUMER_OFFSETS_TOPIC)
        request_task = groups.later(request_coroutine)
        await cluster.wait_until_struck()
        await asyncio.sleep(1)
        assert not request_task.done()
        cluster.sim.injector.disarm("f")
        return await request_task

    join_reply = await groups.join()
    leader = ClassicMember(id=join_reply.member_id, generation=join_reply.generation_id)
    sync_reply = await held(groups.sync(leader, {leader.id: b"yours"}))
    assert (sync_reply.error_code, sync_reply.assignment) == (E.none, b"yours")
    assert await groups.state() == "Stable"
    leave_answer = await groups.api.ask("LeaveGroup", 1, group_id=GROUP, member_id=leader.id)
    assert leave_answer.error_code is E.none
    deleted = await held(groups.api.ask("DeleteGroups", 2, groups_names=[GROUP]))
    assert deleted.results[0].error_code is E.none
    beat = await held(groups.consume("m"))
    assert (beat.error_code, beat.member_epoch) == (E.none, 2)
    cluster.arm(Fail(error="KAFKA_STORAGE_ERROR"), FaultPoint.LOG_APPEND, kind="coordinator")
    refused_answer = await groups.consume("other")
    assert refused_answer.error_code is E.not_coordinator


# log.read


@pytest.mark.parametrize(
    ("rules", "read_open"), [({"reads_know_one_high_watermark": False}, [b"open"]), ({}, [])]
)
def test_between_a_look_at_the_log_and_the_read_a_transaction_may_be_replicated(
    rules: dict[str, bool], read_open: list[bytes]
) -> None:
    """The Fetch reads by a last stable offset that it looked up before (KAFKA-9807)."""

    async def main(cluster: VirtualCluster) -> None:
        async with cluster.client(**PATIENT) as client, cluster.client("reader") as reader:
            producer = await begin_transaction(client, TX)
            cluster.arm(Hold(), FaultPoint.LOG_APPEND, "slow", role="follower", topic="orders")
            sending_future = producer.send("orders", 0, b"open")
            await cluster.wait_until_struck("slow")
            cluster.arm(Hold(), FaultPoint.LOG_READ, "gap", topic="orders", limit=1)
            reading_task = cluster.env.tasks.spawn(
                fetch(
                    reader, "orders", 0, 0, isolation=IsolationLevel.READ_COMMITTED, max_wait_ms=0
                ),
                name="read",
            )
            await cluster.wait_until_struck("gap")
            cluster.sim.injector.disarm("slow")
            await sending_future
            cluster.sim.injector.release("gap")
            first_read = await reading_task
            assert [record.value for record in first_read.records] == read_open
            second_fetch_result = await fetch(
                reader, "orders", 0, 0, isolation=IsolationLevel.READ_COMMITTED, max_wait_ms=0
            )
            assert second_fetch_result.records == ()

    run_cluster(main, rules=rules)


@within(run_cluster)
async def test_a_read_that_fails_is_told_for_its_partition(cluster: VirtualCluster) -> None:
    async with cluster.client(**PATIENT) as client:
        await Producer(client).send("orders", 0, b"v")
        cluster.arm(Fail(error="KAFKA_STORAGE_ERROR"), FaultPoint.LOG_READ, limit=1)
        assert await values(client, "orders", partitions=1) == [b"v"]
    await cluster.wait_until_struck()


# log.flush, log.index


def alone(cluster: VirtualCluster) -> None:
    """Create a topic that has one replica and small segments."""
    created_topic = cluster.sim.metadata.create_topic(
        TopicToCreate(name="alone", replication_factor=1, configs={"segment.bytes": "1048576"})
    )
    assert isinstance(created_topic, TopicImage)


@pytest.mark.parametrize("is_lost", [False, True])
@within(run_cluster, brokers=1)
async def test_a_flush_that_is_lost_makes_a_machine_lose_what_it_has_acknowledged(
    cluster: VirtualCluster, is_lost: bool
) -> None:
    alone(cluster)
    cluster.arm(Drop() if is_lost else Pass(), FaultPoint.LOG_FLUSH, topic="alone")
    async with cluster.client(**PATIENT) as client:
        for record_number in range(6):
            await Producer(client).send("alone", 0, b"%d" % record_number * 400_000)
        await cluster.wait_until_struck()
        await cluster.sim.kill_broker(B1, lose_unflushed=True)
        await cluster.sim.start_broker(B1)
        values_kept = await values(client, "alone", partitions=1)
    assert bool(values_kept) is not is_lost


@within(run_cluster)
async def test_an_abort_that_is_not_indexed_is_read(cluster: VirtualCluster) -> None:
    cluster.arm(Drop(), FaultPoint.LOG_INDEX, kind="aborted-range", topic="orders", broker=1)
    async with cluster.client(**PATIENT) as client:
        producer = await begin_transaction(client, TX)
        await producer.send("orders", 0, b"aborted")
        await producer.abort()
        await cluster.wait_until_struck()
        await reads(cluster, b"aborted")
        cluster.sim.move_leader(P0, B2)
        await reads(cluster)


# group.completion


@within(run_cluster, brokers=1)
async def test_positions_of_an_ended_transaction_are_pending_until_they_are_materialised(
    cluster: VirtualCluster,
) -> None:
    groups = await coordinated(cluster)
    api = groups.api
    await groups.commit(7)
    identity_fields = await identity(api)
    answer = await api.ask("TxnOffsetCommit", 5, **commit_values(api, 9, **identity_fields))
    assert answer.topics[0].partitions[0].error_code is E.none
    cluster.arm(
        Hold(),
        FaultPoint.GROUP_COMPLETION,
        producer_id=identity_fields["producer_id"],
        committed=True,
    )
    assert (await api.ask("EndTxn", 5, committed=True, **identity_fields)).error_code is E.none
    await cluster.wait_until_struck()
    await asyncio.sleep(1)
    assert await groups.committed_offset() == (7, E.none)
    assert (await groups.committed_offset(require_stable=True))[1] is E.unstable_offset_commit
    assert (await api.state(TX, "PrepareCommit")).producer_id == identity_fields["producer_id"]
    cluster.sim.injector.release("f")
    await api.state(TX, "CompleteCommit")
    assert await groups.committed_offset(require_stable=True) == (9, E.none)


@within(run_cluster, brokers=1, level=0, rules={"positions_come_before_answer": False})
async def test_where_the_answer_comes_first_a_late_completion_decides_the_next_transaction(
    cluster: VirtualCluster,
) -> None:
    """Positions of a transaction that is still open become the group's positions (KAFKA-17507)."""
    groups = await coordinated(cluster)
    api = groups.api
    identity_fields = await identity(api)

    async def commit_position(offset: int) -> None:
        add_answer = await api.until(
            lambda answer: answer.error_code is not E.concurrent_transactions,
            "AddOffsetsToTxn",
            3,
            group_id=GROUP,
            **identity_fields,
        )
        assert add_answer.error_code is E.none
        answer = await api.ask(
            "TxnOffsetCommit", 3, **commit_values(api, offset, **identity_fields)
        )
        assert answer.topics[0].partitions[0].error_code is E.none

    await commit_position(10)
    cluster.arm(Hold(), FaultPoint.GROUP_COMPLETION)
    assert (await api.ask("EndTxn", 3, committed=True, **identity_fields)).error_code is E.none
    await cluster.wait_until_struck()
    await api.state(TX, "CompleteCommit")
    await commit_position(20)
    assert await groups.committed_offset() == (-1, E.none)
    cluster.sim.injector.release("f")
    await asyncio.sleep(0.1)
    assert await groups.committed_offset() == (20, E.none)
    await api.state(TX, "Ongoing")


@within(run_cluster, brokers=1)
async def test_a_broker_that_dies_over_a_completion_leaves_the_marker_to_be_sent_again(
    cluster: VirtualCluster,
) -> None:
    groups = await coordinated(cluster)
    api = groups.api
    identity_fields = await identity(api)
    await api.ask("TxnOffsetCommit", 5, **commit_values(api, 9, **identity_fields))
    cluster.arm(Crash(restart_after_ms=1_000), FaultPoint.GROUP_COMPLETION, limit=1)
    assert (await api.ask("EndTxn", 5, committed=True, **identity_fields)).error_code is E.none
    await cluster.wait_until_struck()
    await asyncio.sleep(20)
    next_groups = GroupApi(Api(cluster.sim))
    await next_groups.api.state(TX, "CompleteCommit")
    assert await next_groups.committed_offset(require_stable=True) == (9, E.none)


@pytest.mark.parametrize(
    ("action", "state"), [(Drop(), "CompleteCommit"), (Fail(error="NOT_COORDINATOR"), None)]
)
@within(run_cluster, brokers=1)
async def test_positions_whose_completion_is_lost_stay_pending(
    cluster: VirtualCluster, action: Any, state: str | None
) -> None:
    groups = await coordinated(cluster)
    api = groups.api
    identity_fields = await identity(api)
    await api.ask("TxnOffsetCommit", 5, **commit_values(api, 9, **identity_fields))
    cluster.arm(action, FaultPoint.GROUP_COMPLETION, limit=1)
    assert (await api.ask("EndTxn", 5, committed=True, **identity_fields)).error_code is E.none
    await cluster.wait_until_struck()
    if state is None:
        # The marker is answered with an error that no coordinator tries again.
        cluster.sim.injector.disarm("f")
        return
    await api.state(TX, state)
    assert (await groups.committed_offset(require_stable=True))[1] is E.unstable_offset_commit
    control = cluster.sim.injector.cluster_control
    assert control is not None
    home_partition = next(
        topic_partition
        for topic_partition in cluster.sim.brokers[B1].replicas.led
        if topic_partition.topic == CONSUMER_OFFSETS_TOPIC
        and cluster.sim.brokers[B1].replicas.led[topic_partition].log_end_offset
    )
    await control.carry_out(
        ResignLeader(topic=home_partition.topic, partition=home_partition.partition),
        struck_broker=None,
    )
    assert await groups.committed_offset(require_stable=True) == (9, E.none)


# metadata.apply


@within(run_cluster)
async def test_a_broker_that_does_not_hear_of_its_leadership_refuses_clients(
    cluster: VirtualCluster,
) -> None:
    cluster.arm(Hold(), FaultPoint.METADATA_APPLY, broker=2, topic="orders", partition=0)
    cluster.sim.move_leader(P0, B2)
    await cluster.wait_until_struck()
    leader = Api(cluster.sim, B2)
    refusal_answer = await leader.ask("Produce", 8, **produce("orders", batch(b"v")))
    partition_answer = refusal_answer.responses[0].partition_responses[0]
    assert partition_answer.error_code is E.not_leader_or_follower
    async with cluster.client(**PATIENT) as client:
        record_future = Producer(client).send("orders", 0, b"v")
        await asyncio.sleep(1)
        assert not record_future.done()
        cluster.sim.injector.release("f")
        await record_future
    assert await read(cluster) == [b"v"]


@within(run_cluster)
async def test_a_leader_that_misses_the_news_goes_on_until_the_next_image(
    cluster: VirtualCluster,
) -> None:
    cluster.arm(Drop(), FaultPoint.METADATA_APPLY, broker=1, topic="orders", limit=1)
    cluster.sim.move_leader(P0, B2)
    await cluster.wait_until_struck()
    zombie_api = Api(cluster.sim, B1)
    plain_produce = produce("orders", batch(b"v"), acks=1)
    partition_answer = (
        (await zombie_api.ask("Produce", 8, **plain_produce)).responses[0].partition_responses[0]
    )
    assert partition_answer.error_code is E.none
    created_topic = cluster.sim.metadata.create_topic(TopicToCreate(name="another"))
    assert isinstance(created_topic, TopicImage)
    partition_answer = (
        (await zombie_api.ask("Produce", 8, **plain_produce)).responses[0].partition_responses[0]
    )
    assert partition_answer.error_code is E.not_leader_or_follower


# clock.timer


@pytest.mark.parametrize(
    ("action", "later"), [(Drop(), None), (Delay(delay_ms=500), 0.6), (Hold(), None)]
)
@within(run_cluster)
async def test_a_scan_that_does_not_run_leaves_a_transaction_open(
    cluster: VirtualCluster, action: Any, later: float | None
) -> None:
    async with cluster.client(**PATIENT) as client:
        admin = Admin(client)
        producer = await begin_transaction(client, TX, transaction_timeout_ms=1_000)
        await producer.send("orders", 0, b"v")

        async def state() -> str:
            description = (await admin.describe_transactions((TX,)))[TX]
            assert not isinstance(description, ClientError)
            return description.state

        home_broker_id = cluster.leader(cluster.home(TX))
        cluster.arm(
            action,
            FaultPoint.CLOCK_TIMER,
            kind="transaction-timeouts",
            broker=home_broker_id,
            limit=1,
        )
        cluster.advance(20 * SECOND_MS)
        await cluster.wait_until_struck()
        assert await state() == "Ongoing"
        if later is not None:
            await asyncio.sleep(later)
        elif isinstance(action, Hold):
            cluster.sim.injector.release("f")
            await asyncio.sleep(0.1)
        else:
            cluster.advance(20 * SECOND_MS)
            await asyncio.sleep(0.1)
        assert await state() == "CompleteAbort"


@pytest.mark.parametrize(
    "kind",
    [
        "transaction-timeouts",
        "transactional-id-expiration",
        "producer-id-expiration",
        "offsets-expiration",
        "retention",
        "cleaner",
    ],
)
@within(run_cluster, brokers=1)
async def test_every_kind_of_scan_crosses_and_comes_again(
    cluster: VirtualCluster, kind: str
) -> None:
    cluster.arm(Drop(), FaultPoint.CLOCK_TIMER, kind=kind, limit=1)
    cluster.arm(Pass(), FaultPoint.CLOCK_TIMER, "seen", kind=kind)
    for _ in range(3):
        cluster.advance(2 * 3_600 * SECOND_MS)
    await cluster.wait_until_struck()
    await cluster.wait_until_struck("seen", count=3)


# process.start, process.stop


@within(run_cluster)
async def test_a_start_that_is_held_happens_later_or_never(cluster: VirtualCluster) -> None:
    sim = cluster.sim
    await sim.kill_broker(B2)
    cluster.arm(Hold(), FaultPoint.PROCESS_START, broker=2)
    starting_task = cluster.env.tasks.spawn(sim.start_broker(B2), name="start")
    await cluster.wait_until_struck()
    await asyncio.sleep(60)
    assert sim.member(B2).state is MemberLifeState.STARTING
    assert not sim.metadata.image.is_alive(B2)
    sim.injector.release("f")
    await starting_task
    assert sim.metadata.image.is_alive(B2)


@within(run_cluster)
async def test_a_broker_that_is_killed_while_its_start_is_held_stays_down(
    cluster: VirtualCluster,
) -> None:
    sim = cluster.sim
    await sim.kill_broker(B2)
    cluster.arm(Hold(), FaultPoint.PROCESS_START)
    starting_task = cluster.env.tasks.spawn(refused(sim.start_broker(B2)), name="start")
    await cluster.wait_until_struck()
    await sim.kill_broker(B2)
    sim.injector.release("f")
    assert "killed before it had started" in await starting_task
    assert sim.member(B2).state is MemberLifeState.DOWN


@within(run_cluster)
async def test_a_stop_that_is_held_lets_the_broker_serve_meanwhile(cluster: VirtualCluster) -> None:
    sim = cluster.sim
    cluster.arm(Hold(), FaultPoint.PROCESS_STOP, broker=1)
    stopping_task = cluster.env.tasks.spawn(sim.stop_broker(B1), name="stop")
    await cluster.wait_until_struck()
    async with cluster.client(**PATIENT) as client:
        await Producer(client).send("orders", 0, b"v")
    assert cluster.leader(P0) == B1
    sim.injector.release("f")
    await stopping_task
    assert cluster.leader(P0) != B1


@within(run_cluster)
async def test_a_broker_that_is_killed_while_its_stop_is_held_was_not_stopped(
    cluster: VirtualCluster,
) -> None:
    sim = cluster.sim
    cluster.arm(Hold(), FaultPoint.PROCESS_STOP)
    stopping_task = cluster.env.tasks.spawn(refused(sim.stop_broker(B1)), name="stop")
    await cluster.wait_until_struck()
    await sim.kill_broker(B1)
    sim.injector.release("f")
    assert "did not wait to be stopped" in await stopping_task


async def refused(work_awaitable: Awaitable[None]) -> str:
    with pytest.raises(ConfigError) as error_info:
        await work_awaitable
    return str(error_info.value)

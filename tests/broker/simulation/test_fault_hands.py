"""Faults of the cluster, one per action, as a client sees them: in virtual time, some over TCP."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.broker_api import Api, batch, produce
from tests.support.clusters import (
    VirtualCluster,
    begin_transaction,
    client_of,
    real_cluster,
    run_cluster,
    until_state,
    values,
)
from tests.support.images import B1, B2, B3
from tests.support.waiting import PATIENT, read, until
from tests.support.within_environment import within
from txnsim.client.admin import Admin
from txnsim.client.errors import ClientError
from txnsim.client.producer import Producer
from txnsim.errors import ErrorCode
from txnsim.faults.actions import Drop, Hold
from txnsim.faults.cluster_actions import (
    ClockJump,
    ClusterAction,
    Crash,
    FillDisk,
    LagReplica,
    MoveLeader,
    Partition,
    ResignLeader,
)
from txnsim.faults.plan import FaultRule
from txnsim.faults.points import FaultPoint
from txnsim.metrics import table
from txnsim.runtime.trace import TraceLevel
from txnsim.server.cluster import SimCluster
from txnsim.server.views.metric_values import readings
from txnsim.types import BrokerId, IsolationLevel, TopicPartition, TransactionalId

E = ErrorCode
P0 = TopicPartition("orders", 0)
TX = TransactionalId("tx")


async def act(cluster: VirtualCluster, action: ClusterAction) -> None:
    """Carry out a fault's action on the cluster, and wait until it is done."""
    cluster.arm(action, FaultPoint.NOW)
    await cluster.wait_until_struck()


async def in_sync(cluster: VirtualCluster, *expected: BrokerId) -> None:
    """Wait until the metadata show exactly these replicas in the ISR."""

    async def is_so() -> bool:
        async with cluster.client("admin", **PATIENT) as client:
            (topic,) = await Admin(client).describe_topics(["orders"])
        return set(topic.partitions[0].isr) == set(expected)

    await until(is_so, f"{expected} are in sync")


async def state_of(cluster: VirtualCluster) -> str:
    """The state of the transaction by DescribeTransactions."""
    async with cluster.client("admin", **PATIENT) as client:
        description = (await Admin(client).describe_transactions((TX,)))[TX]
    assert not isinstance(description, ClientError)
    return description.state


# crash


@pytest.mark.slow
@within(run_cluster)
async def test_a_broker_that_crashes_in_the_middle_of_an_append_has_not_appended(
    cluster: VirtualCluster,
) -> None:
    crash = Crash(restart_after_ms=15_000)
    cluster.arm(crash, FaultPoint.LOG_APPEND, topic="orders", role="leader", limit=1)
    async with cluster.client(**PATIENT) as client:
        record_metadata = await Producer(client).send("orders", 0, b"v")
    assert record_metadata.offset == 0, "sent again to the next leader"
    assert cluster.leader(P0) == B2
    await in_sync(cluster, B1, B2, B3)
    assert await read(cluster) == [b"v"]


@pytest.mark.parametrize(("is_lost", "expected_values"), [(False, [b"v"]), (True, [])])
@within(run_cluster, brokers=1)
async def test_a_machine_that_breaks_down_loses_what_was_not_flushed(
    cluster: VirtualCluster, is_lost: bool, expected_values: list[bytes]
) -> None:
    async with cluster.client(**PATIENT) as client:
        await Producer(client).send("orders", 0, b"v")
        await act(cluster, Crash(broker=1, lose_unflushed=is_lost, restart_after_ms=1_000))
        assert await values(client, "orders", partitions=1) == expected_values


# move-leader, resign-leader


@within(run_cluster)
async def test_a_leader_that_moves_under_a_produce_is_found_again(cluster: VirtualCluster) -> None:
    move = MoveLeader(topic="orders", partition=0, to=3)
    cluster.arm(move, FaultPoint.CLIENT_REQUEST, api="Produce", limit=1)
    async with cluster.client(**PATIENT) as client:
        await Producer(client).send("orders", 0, b"v")
    await cluster.wait_until_struck()
    assert cluster.leader(P0) == B3
    assert await read(cluster) == [b"v"]


@within(run_cluster)
async def test_a_coordinator_that_resigns_loads_again_and_goes_on(cluster: VirtualCluster) -> None:
    async with cluster.client(**PATIENT) as client:
        producer = await begin_transaction(client, TX)
        await producer.send("orders", 0, b"v")
        home_partition = cluster.home(TX)
        cluster.arm(Hold(), FaultPoint.COORDINATOR_LOAD, "load", topic=home_partition.topic)
        await act(
            cluster, ResignLeader(topic=home_partition.topic, partition=home_partition.partition)
        )
        await cluster.wait_until_struck("load")
        leader = Api(cluster.sim, cluster.leader(home_partition))
        answer = await leader.ask("DescribeTransactions", 0, transactional_ids=[TX])
        (transaction_state,) = answer.transaction_states
        assert transaction_state.error_code is E.coordinator_load_in_progress
        cluster.sim.injector.disarm("load")
        await producer.commit()
        await until_state(client, TX, "CompleteCommit")
    assert await read(cluster) == [b"v"]


# partition


@pytest.mark.slow
@within(run_cluster)
async def test_a_minority_can_not_commit_and_its_clients_are_served_after_the_heal(
    cluster: VirtualCluster,
) -> None:
    groups = ((1,), (2, 3, 3000))
    await act(cluster, Partition(groups=groups, heal_after_ms=60_000))
    zombie_api = Api(cluster.sim, B1)
    plain_produce = produce("orders", batch(b"lost"))
    partition_answer = (
        (await zombie_api.ask("Produce", 8, **plain_produce)).responses[0].partition_responses[0]
    )
    assert partition_answer.error_code is E.request_timed_out
    async with cluster.client(**PATIENT) as client:
        await Producer(client).send("orders", 0, b"kept")
    assert cluster.leader(P0) in (B2, B3)
    await in_sync(cluster, B1, B2, B3)
    assert await read(cluster) == [b"kept"]


# clock


@within(run_cluster, level=0, rules={"start_may_step_back": False})
async def test_a_coordinator_whose_clock_is_set_back_may_wedge_a_transaction(
    cluster: VirtualCluster,
) -> None:
    """The coordinator insists that a transaction starts after the previous one (KAFKA-8803)."""
    async with cluster.client("app", request_timeout_ms=1_000, api_timeout_ms=5_000) as client:
        producer = await begin_transaction(client, TX)
        await producer.send("orders", 0, b"v")
        await producer.commit()
        await until_state(client, TX, "CompleteCommit")
        home_broker_id = cluster.leader(cluster.home(TX))
        await act(cluster, ClockJump(by_ms=-60_000, broker=home_broker_id))
        producer.begin()
        with pytest.raises(ClientError):
            await producer.send("orders", 0, b"w")
        assert await state_of(cluster) == "CompleteCommit"


@pytest.mark.parametrize("clock_owner", ["one", "all"])
@within(run_cluster)
async def test_a_clock_that_is_set_ahead_ages_transactions_with_the_next_scan(
    cluster: VirtualCluster, clock_owner: str
) -> None:
    async with cluster.client(**PATIENT) as client:
        producer = await begin_transaction(client, TX, transaction_timeout_ms=60_000)
        await producer.send("orders", 0, b"v")
        home_broker_id = cluster.leader(cluster.home(TX))
        jump = ClockJump(by_ms=3_600_000, broker=home_broker_id if clock_owner == "one" else None)
        await act(cluster, jump)
        assert await state_of(cluster) == "Ongoing"
        await asyncio.sleep(11)
        assert await state_of(cluster) == "CompleteAbort"
        cluster.sim.injector.disarm("f")
        await asyncio.sleep(0.1)
        assert cluster.sim.brokers[home_broker_id].environment.clock.advanced_ms == 0


# fill-disk


def offline(sim: SimCluster) -> dict[str, float]:
    """The number of offline replicas by broker, as the metric tells it."""
    return {
        reading.labels[0]: reading.value
        for reading in readings(sim)
        if reading.metric == table.OFFLINE_REPLICAS
    }


@within(run_cluster)
async def test_a_full_disk_refuses_the_append_and_its_leaders_move_away(
    cluster: VirtualCluster,
) -> None:
    await act(cluster, FillDisk(broker=1))
    assert offline(cluster.sim) == {"1": 0, "2": 0, "3": 0}
    broker = Api(cluster.sim, B1)
    produce_answer = (await broker.ask("Produce", 8, **produce("orders", batch(b"v")))).responses[0]
    (partition,) = produce_answer.partition_responses
    assert partition.error_code is E.kafka_storage_error
    second_answer = (await broker.ask("Produce", 8, **produce("orders", batch(b"v")))).responses[0]
    assert second_answer.partition_responses[0].error_code is E.kafka_storage_error
    (directory,) = (await broker.ask("DescribeLogDirs", 4, topics=None)).results
    assert (directory.error_code, directory.topics) == (E.kafka_storage_error, ())
    assert (directory.total_bytes, directory.usable_bytes) == (-1, -1)
    hosted = sum(
        B1 in partition.replicas
        for topic in cluster.sim.metadata.image.topics.values()
        for partition in topic.partitions
    )
    assert offline(cluster.sim) == {"1": hosted, "2": 0, "3": 0}
    async with cluster.client(**PATIENT) as client:
        await Producer(client).send("orders", 0, b"elsewhere")
    metadata = await broker.on_broker(2).ask("Metadata", 9, topics=[{"name": "orders"}])
    (first_partition, *_) = metadata.topics[0].partitions
    assert (first_partition.leader_id, first_partition.offline_replicas) == (2, (1,))
    cluster.sim.injector.release("f")
    await in_sync(cluster, B1, B2, B3)
    assert offline(cluster.sim) == {"1": 0, "2": 0, "3": 0}
    assert await read(cluster) == [b"elsewhere"]


@within(run_cluster)
async def test_a_marker_that_meets_a_full_disk_is_written_by_the_next_leader(
    cluster: VirtualCluster,
) -> None:
    async with cluster.client(**PATIENT) as client:
        producer = await begin_transaction(client, TX)
        await producer.send("orders", 0, b"v")
        cluster.arm(
            FillDisk(broker=1), FaultPoint.PEER_REQUEST, api="WriteTxnMarkers", topic="orders",
            limit=1,
        )  # fmt: skip
        await producer.commit()
        await cluster.wait_until_struck()
        await until_state(client, TX, "CompleteCommit")
    assert cluster.leader(P0) == B2
    assert await read(cluster, IsolationLevel.READ_COMMITTED) == [b"v"]


@within(run_cluster)
async def test_a_coordinator_whose_disk_is_full_sends_its_producers_to_the_next_one(
    cluster: VirtualCluster,
) -> None:
    async with cluster.client(**PATIENT) as client:
        producer = Producer(client, transactional_id=TX)
        await producer.init_transactions()
        home_broker_id = cluster.leader(cluster.home(TX))
        producer.begin()
        await act(cluster, FillDisk(broker=home_broker_id))
        await producer.send("orders", 0, b"v")
        await producer.commit()
        await until_state(client, TX, "CompleteCommit")
    assert cluster.leader(cluster.home(TX)) != home_broker_id
    assert await read(cluster) == [b"v"]


@within(run_cluster)
async def test_what_waits_for_replicas_is_told_of_the_failed_directory(
    cluster: VirtualCluster,
) -> None:
    cluster.arm(Hold(), FaultPoint.LOG_APPEND, "slow", role="follower", topic="orders")
    broker = Api(cluster.sim, B1)
    produce_task = cluster.env.tasks.spawn(
        broker.ask("Produce", 8, **{**produce("orders", batch(b"v")), "timeout": 60_000}),
        name="produce",
    )
    await cluster.wait_until_struck("slow")
    await act(cluster, FillDisk(broker=1))
    partition_answer = (await produce_task).responses[0].partition_responses[0]
    assert partition_answer.error_code is E.kafka_storage_error


# lag-replica


@within(run_cluster)
async def test_a_replica_that_lags_leaves_the_isr_and_comes_back(cluster: VirtualCluster) -> None:
    await act(cluster, LagReplica(broker=2, topic="orders", partition=0))
    async with cluster.client(**PATIENT) as client:
        await Producer(client).send("orders", 1, b"other partitions go on")
        record_future = Producer(client).send("orders", 0, b"v")
        await asyncio.sleep(5)
        assert not record_future.done()
        await record_future
    await in_sync(cluster, B1, B3)
    cluster.sim.injector.release("f")
    await in_sync(cluster, B1, B2, B3)
    cluster.sim.move_leader(P0, B2)
    assert await read(cluster) == [b"v"]


# All of it


@pytest.mark.parametrize(
    "action",
    [Crash(broker=9), MoveLeader(topic="nothing", partition=0), FillDisk(broker=9)],
)
@within(run_cluster)
async def test_an_action_that_is_not_possible_says_why_and_never_struck(
    cluster: VirtualCluster, action: ClusterAction
) -> None:
    cluster.arm(action, FaultPoint.NOW)
    with pytest.raises(LookupError, match="there is no"):
        await cluster.wait_until_struck()
    assert [armed_rule.rule.id for armed_rule in cluster.sim.injector.never_struck()] == ["f"]


@pytest.mark.slow
def test_the_same_seed_gives_the_same_story_with_every_fault_in_it() -> None:
    def story() -> list[object]:
        async def main(cluster: VirtualCluster) -> list[object]:
            cluster.arm(
                Drop(), FaultPoint.CLOCK_TIMER, "scan", kind="transaction-timeouts", probability=0.5
            )
            cluster.arm(Partition(groups=((1,), (2, 3, 3000)), heal_after_ms=9_000), FaultPoint.NOW)
            cluster.arm(
                FillDisk(free_after_ms=8_000), FaultPoint.LOG_APPEND, "full", topic="orders",
                broker=2, limit=1,
            )  # fmt: skip
            async with cluster.client(**PATIENT) as client:
                producer = Producer(client, transactional_id=TX)
                await producer.init_transactions()
                for record_number in range(3):
                    producer.begin()
                    await producer.send("orders", 0, b"%d" % record_number)
                    await producer.commit()
                    cluster.advance(20_000)
                await asyncio.sleep(60)
                lines: list[bytes] = []
                cluster.env.tracer.export(lines.append)
                return [lines, await values(client, "orders")]

        return run_cluster(main, trace_level=TraceLevel.FULL, seed=5)

    first_story = story()
    assert first_story == story()
    assert first_story[1] == [b"0", b"1", b"2"]


@pytest.mark.parametrize("action_name", ["crash", "move", "full"])
async def test_over_tcp_it_is_the_same(action_name: str) -> None:
    action_by_name: dict[str, ClusterAction] = {
        "crash": Crash(broker=1),
        "move": MoveLeader(topic="orders", partition=0),
        "full": FillDisk(broker=1),
    }
    async with (
        real_cluster(broker_session_timeout_ms=1_000, broker_heartbeat_interval_ms=200) as sim,
        client_of(sim.environment, sim, **PATIENT) as client,
    ):
        producer = await begin_transaction(client, TX)
        await producer.send("orders", 0, b"a")
        sim.injector.arm(
            FaultRule(id="f", point=FaultPoint.NOW, action=action_by_name[action_name])
        )
        await sim.injector.wait_until_struck("f", timeout_ms=30_000)
        await producer.send("orders", 0, b"b")
        await producer.commit()
        await until_state(client, TX, "CompleteCommit")
        assert await values(client, "orders", partitions=1) == [b"a", b"b"]
        partition = sim.metadata.image.partition(P0)
        assert partition is not None
        assert partition.leader != B1

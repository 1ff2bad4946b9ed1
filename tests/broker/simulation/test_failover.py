"""Coordinators and leaders die, move and are cut off: nothing is lost."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random  # noqa: TID251 - the type of a stream, which txnsim.runtime draws from the seed
from typing import Any

import pytest

from tests.support.broker_api import NOT_YET, Api
from tests.support.clusters import VirtualCluster, run_cluster, values
from tests.support.group_api import ASSIGNMENT, GROUP, ClassicMember, GroupApi, commit_values
from tests.support.replica_checks import check_equal, check_replicas
from tests.support.within_environment import within
from txnsim.client.errors import AbortableError, ClientError
from txnsim.client.producer import Producer
from txnsim.controller.reassignments import reassign, reassigned_partitions
from txnsim.errors import ErrorCode, Rejection
from txnsim.faults.actions import Delay
from txnsim.faults.points import FaultPoint
from txnsim.types import (
    CONSUMER_OFFSETS_TOPIC,
    TRANSACTION_STATE_TOPIC,
    BrokerId,
    TopicPartition,
    partition_for,
)

# Coordinators of groups die, move and are cut off: positions, members and what a transaction has
# pending are there under the next one, and markers that come while it loads are not lost.


E = ErrorCode
PARTITIONS = 3
HOME = TopicPartition(CONSUMER_OFFSETS_TOPIC, partition_for(GROUP, PARTITIONS))
OUTAGES = ("move", "kill", "stop", "isolate")
AWAY = NOT_YET | {E.not_coordinator}


class DisturbedCluster:
    """A cluster of three brokers; requests go to the handlers of the present leader."""

    def __init__(self, cluster: VirtualCluster) -> None:
        self.cluster = cluster

    def leader(self, home_partition: TopicPartition) -> BrokerId:
        """The partition's leader, by the metadata of the controller."""
        return self.cluster.leader(home_partition)

    async def ask(
        self, home_partition: TopicPartition, api: str, version: int, **request_fields: Any
    ) -> Any:
        """Ask the present leader until it is ready."""
        for _ in range(2_000):
            broker_by_broker_id = self.cluster.sim.brokers
            leader = self.leader(home_partition)
            if leader in broker_by_broker_id:
                answer = await Api(self.cluster.sim, leader).ask(api, version, **request_fields)
                if not AWAY & set(_errors(answer)):
                    return answer
            await asyncio.sleep(0.05)
        raise AssertionError(f"{api} stays {answer}")

    @property
    def api(self) -> GroupApi:
        """The group api of the present leader of the group's partition."""
        return GroupApi(Api(self.cluster.sim, self.leader(HOME)))

    def txn_home(self, transactional_id: str) -> TopicPartition:
        """The partition of ``__transaction_state`` that keeps a transactional id."""
        return self.cluster.home(transactional_id)

    async def prepare(self) -> None:
        """Create both coordinators' topics, and wait until the group's coordinator is loaded."""
        api = Api(self.cluster.sim)
        for key_type in (0, 1):
            await api.until(
                lambda answer: answer.error_code is E.none,
                "FindCoordinator",
                1,
                key=GROUP,
                key_type=key_type,
            )
        await self.ask(HOME, "OffsetFetch", 7, group_id=GROUP, topics=None, require_stable=True)

    async def disturb(self, outage_name: str) -> BrokerId:
        """Take the group's partition from its coordinator; return the old coordinator's id."""
        sim, old_leader_id = self.cluster.sim, self.leader(HOME)
        match outage_name:
            case "move":
                self.cluster.move(HOME)
            case "kill":
                await sim.kill_broker(old_leader_id)
            case "stop":
                await sim.stop_broker(old_leader_id)
            case "isolate":
                sim.isolate(old_leader_id)
        for _ in range(2_000):
            if self.leader(HOME) != old_leader_id:
                return old_leader_id
            await asyncio.sleep(0.05)
        raise AssertionError("nobody took over")

    async def repair(self, outage_name: str, broker: BrokerId) -> None:
        """Undo ``disturb``."""
        if outage_name in ("kill", "stop"):
            await self.cluster.sim.start_broker(broker)
        elif outage_name == "isolate":
            self.cluster.sim.heal(broker)

    # Transactions

    async def begin(self, offset: int) -> tuple[int, int]:
        """Begin a transaction with a pending position; return the producer's identity."""
        answer = await self.ask(
            self.txn_home("id"),
            "InitProducerId",
            4,
            transactional_id="id",
            transaction_timeout=600_000,
        )
        identity = (answer.producer_id, answer.producer_epoch)
        values = commit_values(
            self.api.api,
            offset,
            transactional_id="id",
            producer_id=identity[0],
            producer_epoch=identity[1],
        )
        commit_answer = await self.ask(HOME, "TxnOffsetCommit", 5, **values)
        assert set(_errors(commit_answer)) == {E.none}
        return identity

    async def end(self, identity: tuple[int, int], *, committed: bool) -> None:
        """Commit or abort the transaction by EndTxn."""
        answer = await self.ask(
            self.txn_home("id"),
            "EndTxn",
            5,
            transactional_id="id",
            producer_id=identity[0],
            producer_epoch=identity[1],
            committed=committed,
        )
        assert answer.error_code is E.none

    async def position(self, *, is_stable: bool) -> tuple[int, ErrorCode]:
        """The group's position, and the error: UNSTABLE_OFFSET_COMMIT is a valid answer."""
        answer = await self.ask(
            HOME,
            "OffsetFetch",
            7,
            group_id=GROUP,
            topics=[{"name": "orders", "partition_indexes": [0]}],
            require_stable=is_stable,
        )
        partition = answer.topics[0].partitions[0]
        return partition.committed_offset, partition.error_code

    async def settled(self) -> int:
        """The position once no transaction can change it any more."""
        for _ in range(2_000):
            offset, error = await self.position(is_stable=True)
            if error is E.none:
                return offset
            assert error is E.unstable_offset_commit
            await asyncio.sleep(0.05)
        raise AssertionError("the position stays unstable")


def _errors(answer: Any) -> list[ErrorCode]:
    if isinstance(answer, ErrorCode):
        return [answer]
    if isinstance(answer, tuple):
        return [error for element in answer for error in _errors(element)]
    fields = getattr(answer, "__dataclass_fields__", ())
    return [error for field_name in fields for error in _errors(getattr(answer, field_name))]


def run(main: Any, *, seed: int = 1) -> None:
    async def whole(cluster: VirtualCluster) -> None:
        disturbed_cluster = DisturbedCluster(cluster)
        await disturbed_cluster.prepare()
        await main(disturbed_cluster)

    run_cluster(
        whole,
        seed=seed,
        offsets_topic_num_partitions=PARTITIONS,
        offsets_topic_replication_factor=3,
        transaction_state_log_replication_factor=3,
        group_initial_rebalance_delay_ms=0,
    )


@pytest.mark.parametrize("outage_name", OUTAGES)
@pytest.mark.parametrize("committed", [True, False])
@within(run)
async def test_what_a_transaction_has_pending_survives_its_group_s_coordinator(
    disturbed_cluster: DisturbedCluster, outage_name: str, committed: bool
) -> None:
    await disturbed_cluster.ask(
        HOME, "OffsetCommit", 8, **commit_values(disturbed_cluster.api.api, 3)
    )
    identity = await disturbed_cluster.begin(9)
    disturbed_broker = await disturbed_cluster.disturb(outage_name)
    assert await disturbed_cluster.position(is_stable=True) == (-1, E.unstable_offset_commit)
    assert await disturbed_cluster.position(is_stable=False) == (3, E.none)
    await disturbed_cluster.end(identity, committed=committed)
    assert await disturbed_cluster.settled() == (9 if committed else 3)
    await disturbed_cluster.repair(outage_name, disturbed_broker)
    await disturbed_cluster.disturb("move")
    assert await disturbed_cluster.settled() == (9 if committed else 3)


@pytest.mark.parametrize("outage_name", OUTAGES)
@within(run)
async def test_a_transaction_that_is_ended_just_before_its_group_s_coordinator_goes(
    disturbed_cluster: DisturbedCluster, outage_name: str
) -> None:
    identity = await disturbed_cluster.begin(9)
    await disturbed_cluster.end(identity, committed=True)
    await disturbed_cluster.disturb(outage_name)
    assert await disturbed_cluster.settled() == 9


@pytest.mark.parametrize("outage_name", OUTAGES)
@within(run)
async def test_a_generation_survives_and_its_members_go_on(
    disturbed_cluster: DisturbedCluster, outage_name: str
) -> None:
    member = await disturbed_cluster.api.stable()
    await disturbed_cluster.disturb(outage_name)
    await disturbed_cluster.position(is_stable=True)
    assert await disturbed_cluster.api.heartbeat(member) is E.none
    sync_reply = await disturbed_cluster.api.sync(member)
    assert (sync_reply.error_code, sync_reply.assignment) == (E.none, ASSIGNMENT)
    zombie_member = ClassicMember(id=member.id, generation=member.generation - 1)
    assert await disturbed_cluster.api.heartbeat(zombie_member) is E.illegal_generation


@pytest.mark.parametrize("outage_name", OUTAGES)
@within(run)
async def test_members_of_the_consumer_protocol_keep_what_they_have(
    disturbed_cluster: DisturbedCluster, outage_name: str
) -> None:
    join_reply = await disturbed_cluster.api.consume("a")
    await disturbed_cluster.disturb(outage_name)
    await disturbed_cluster.position(is_stable=True)
    stays = await disturbed_cluster.api.consume("a", join_reply.member_epoch)
    assert (stays.error_code, stays.member_epoch) == (E.none, join_reply.member_epoch)
    await asyncio.sleep(46)
    assert (await disturbed_cluster.api.consume("a", join_reply.member_epoch)).error_code is (
        E.unknown_member_id
    )


@within(run)
async def test_a_marker_that_comes_while_positions_are_loaded_is_sent_again(
    disturbed_cluster: DisturbedCluster,
) -> None:
    identity = await disturbed_cluster.begin(9)
    disturbed_cluster.cluster.arm(
        Delay(delay_ms=5_000), FaultPoint.COORDINATOR_LOAD, topic=CONSUMER_OFFSETS_TOPIC
    )
    await disturbed_cluster.disturb("move")
    await disturbed_cluster.end(identity, committed=True)
    await asyncio.sleep(1)
    state = await disturbed_cluster.ask(
        disturbed_cluster.txn_home("id"), "DescribeTransactions", 0, transactional_ids=["id"]
    )
    assert state.transaction_states[0].transaction_state == "PrepareCommit"
    assert await disturbed_cluster.settled() == 9


def test_positions_never_go_back_whatever_happens_to_coordinators(seed: int) -> None:
    """Each transaction moves the position on by one, while coordinators come and go."""

    async def main(disturbed_cluster: DisturbedCluster) -> None:
        random = disturbed_cluster.cluster.env.rng.stream("outages")
        last_number = 0
        for number in range(1, 9):
            identity = await disturbed_cluster.begin(number)
            outage_name = random.choice(OUTAGES)
            disturbed_broker = await disturbed_cluster.disturb(outage_name)
            committed = random.random() < 0.7
            await disturbed_cluster.end(identity, committed=committed)
            last_number = number if committed else last_number
            assert await disturbed_cluster.settled() == (last_number or -1)
            await disturbed_cluster.repair(outage_name, disturbed_broker)
            await asyncio.sleep(20)

    run(main, seed=seed)


# Brokers die, are cut off and come back while clients write with acks=all: what was acknowledged is
# there in the end, once and in order, transactions are whole, and all replicas agree.


BROKERS = (BrokerId(1), BrokerId(2), BrokerId(3))
PATIENCE = {"request_timeout_ms": 5_000, "api_timeout_ms": 60_000}


class Failover:
    """One run: the broker that is down, and the answers that producers got."""

    def __init__(self, cluster: VirtualCluster) -> None:
        self.cluster = cluster
        self.random: Random = cluster.env.rng.stream("failover")
        self.acknowledged: list[bytes] = []
        self.committed: list[bytes] = []
        self.aborted: list[bytes] = []
        self.outages: Counter[str] = Counter()
        self.is_over = False

    async def disturb(self) -> None:
        """Stop, kill or cut off one broker at a time, or take its leaderships from it."""
        sim = self.cluster.sim
        while not self.is_over:
            await asyncio.sleep(self.random.random() * 3)
            broker = self.random.choice(BROKERS)
            outage_kind = self.random.choice(("kill", "stop", "isolate", "isolate", "kill", "move"))
            self.outages[outage_kind] += 1
            if outage_kind == "move":
                self.cluster.move(TopicPartition("orders", self.random.randrange(PARTITIONS)))
                continue
            if outage_kind == "kill":
                await sim.kill_broker(broker)
            elif outage_kind == "stop":
                await sim.stop_broker(broker)
            else:
                sim.isolate(broker)
            await asyncio.sleep(self.random.random() * 20)
            if outage_kind == "isolate":
                sim.heal(broker)
            else:
                await sim.start_broker(broker)
            check_replicas(sim)
            await self.until_in_sync()

    async def until_in_sync(self) -> None:
        """Wait until all brokers are in all ISRs again."""
        for _ in range(600):
            image = self.cluster.sim.metadata.image
            if all(
                len(partition.isr) == len(partition.replicas)
                for topic in image.topics.values()
                for partition in topic.partitions
            ):
                return
            await asyncio.sleep(0.5)
        raise AssertionError(f"not in sync: {self.cluster.sim.metadata.image.topics}")

    async def write(self) -> None:
        """Write records outside of transactions, from time to time."""
        async with (
            self.cluster.client("plain", **PATIENCE) as client,
            Producer(client, delivery_timeout_ms=60_000) as producer,
        ):
            for record_number in range(150):
                await asyncio.sleep(self.random.random() * 0.6)
                record_value = f"plain/{record_number}".encode()
                try:
                    await producer.send("orders", record_number % PARTITIONS, record_value)
                except ClientError:
                    continue
                self.acknowledged.append(record_value)

    async def transact(self, transactional_id: str) -> None:
        """Run six transactions, each over all partitions."""
        number = 0
        for _ in range(6):
            async with (
                self.cluster.client(transactional_id, **PATIENCE) as client,
                Producer(
                    client, transactional_id=transactional_id, delivery_timeout_ms=60_000
                ) as producer,
            ):
                try:
                    await producer.init_transactions()
                    while number < 40:
                        number += 1
                        await asyncio.sleep(self.random.random())
                        await self._one(producer, f"{transactional_id}/{number}".encode())
                except ClientError:
                    continue
                return

    async def _one(self, producer: Producer, record_value: bytes) -> None:
        producer.begin()
        try:
            send_futures = [
                producer.send("orders", partition_index, record_value)
                for partition_index in range(PARTITIONS)
            ]
            for failure in await asyncio.gather(*send_futures, return_exceptions=True):
                if isinstance(failure, BaseException):
                    raise failure
            if self.random.random() < 0.25:
                await producer.abort()
                self.aborted.append(record_value)
                return
            await producer.commit()
            self.committed.append(record_value)
        except AbortableError:
            await producer.abort()
            self.aborted.append(record_value)


async def failover(cluster: VirtualCluster) -> Failover:
    run = Failover(cluster)
    disturbing_task = cluster.env.tasks.spawn(run.disturb(), name="failover")
    await asyncio.gather(run.write(), run.transact("tx-a"), run.transact("tx-b"))
    run.is_over = True
    await disturbing_task
    await run.until_in_sync()
    cluster.advance(200_000)
    await asyncio.sleep(200)
    check_replicas(cluster.sim)
    check_equal(cluster.sim)
    async with cluster.client("reader") as reader:
        read = Counter(
            record_value for record_value in await values(reader, "orders") if record_value
        )
    assert [record_value for record_value in run.acknowledged if read[record_value] != 1] == []
    assert [
        record_value for record_value in run.committed if read[record_value] != PARTITIONS
    ] == []
    assert [record_value for record_value in run.aborted if read[record_value]] == []
    return run


@pytest.mark.slow
@pytest.mark.seeds
def test_what_was_acknowledged_survives_its_leaders(seed: int) -> None:
    run = run_cluster(failover, seed=seed, min_insync_replicas=2)
    assert len(run.acknowledged) > 100
    assert len(run.committed) > 20
    assert run.outages["kill"] + run.outages["isolate"] + run.outages["stop"] > 2


# Replicas move round the brokers while transactions run: those of the data and those of the
# transaction log. Nothing is lost, and each broker has what it should have, and no more.


MOVES = 40
BROKER_ORDERS = ((1,), (2,), (3,), (1, 2), (2, 3), (3, 1), (1, 2, 3), (3, 2, 1))


class Moves:
    """One run: the partitions that move, and the answers that producers got."""

    def __init__(self, cluster: VirtualCluster) -> None:
        self.cluster = cluster
        self.random = cluster.env.rng.stream("reassign")
        self.committed: list[bytes] = []
        self.is_over = False

    async def transact(self, transactional_id: str) -> None:
        """Run transactions over all partitions until the test is over."""
        async with (
            self.cluster.client(transactional_id, **PATIENCE) as client,
            Producer(
                client, transactional_id=transactional_id, delivery_timeout_ms=60_000
            ) as producer,
        ):
            await producer.init_transactions()
            number = 0
            while not self.is_over:
                number += 1
                record_value = f"{transactional_id}/{number}".encode()
                producer.begin()
                try:
                    send_futures = [
                        producer.send("orders", partition_index, record_value)
                        for partition_index in range(PARTITIONS)
                    ]
                    await asyncio.gather(*send_futures)
                    await producer.commit()
                except AbortableError:
                    await producer.abort()
                else:
                    self.committed.append(record_value)
                await asyncio.sleep(self.random.random() / 5)

    async def move(self) -> None:
        """Reassign one partition after the other, some before the previous one has arrived."""
        for _ in range(MOVES):
            await asyncio.sleep(self.random.random())
            topics = self.cluster.sim.metadata.image.topics
            topic_name = self.random.choice(["orders", TRANSACTION_STATE_TOPIC])
            partition_index = self.random.randrange(len(topics[topic_name].partitions))
            self._begin_move(
                TopicPartition(topic_name, partition_index), self.random.choice(BROKER_ORDERS)
            )
            if self.random.random() < 0.7:
                await self.until_settled()
                check_replicas(self.cluster.sim)
        await self.until_settled()

    def _begin_move(self, topic_partition: TopicPartition, replicas: tuple[int, ...]) -> None:
        metadata = self.cluster.sim.metadata
        image_after = reassign(
            metadata.image, topic_partition, tuple(map(BrokerId, replicas)), metadata.settings
        )
        assert not isinstance(image_after, Rejection), image_after
        metadata.publish(image_after)

    async def until_settled(self) -> None:
        for _ in range(600):
            moving_partition_by_partition = reassigned_partitions(self.cluster.sim.metadata.image)
            if not moving_partition_by_partition:
                return
            await asyncio.sleep(0.1)
        raise AssertionError(moving_partition_by_partition)


def check_hosts(cluster: VirtualCluster) -> None:
    """Check that every broker hosts its replicas and no other logs."""
    image = cluster.sim.metadata.image
    for broker_id, broker in cluster.sim.brokers.items():
        expected_partitions = {
            TopicPartition(topic.name, partition_index)
            for topic in image.topics.values()
            for partition_index, partition in enumerate(topic.partitions)
            if broker_id in partition.replicas
        }
        assert set(broker.replicas.hosted) == expected_partitions, broker_id


async def story(cluster: VirtualCluster) -> Moves:
    moves = Moves(cluster)
    writing = [
        cluster.env.tasks.spawn(moves.transact(name), name=name) for name in ("tx-a", "tx-b")
    ]
    await asyncio.sleep(1)
    await moves.move()
    moves.is_over = True
    await asyncio.gather(*writing)
    await asyncio.sleep(2)
    check_hosts(cluster)
    check_replicas(cluster.sim)
    check_equal(cluster.sim)
    async with cluster.client("reader") as reader:
        read = Counter(await values(reader, "orders", partitions=PARTITIONS))
    assert read == Counter(dict.fromkeys(moves.committed, PARTITIONS))
    return moves


@pytest.mark.costly
@pytest.mark.slow
@pytest.mark.seeds
def test_transactions_go_on_while_replicas_move(seed: int) -> None:
    moves = run_cluster(story, seed=seed)
    assert len(moves.committed) > MOVES

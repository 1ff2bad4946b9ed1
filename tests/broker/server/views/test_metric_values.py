"""What is read off a cluster: each metric of the table is seen moving in one of these stories."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import pytest

from tests.support.broker_api import Api
from tests.support.clusters import VirtualCluster, begin_transaction, run_cluster, until_state
from tests.support.images import B1
from tests.support.share_members import ShareMember, errors, fill
from tests.support.within_environment import within
from txnsim.client.admin import Admin
from txnsim.client.members.member import GroupMember
from txnsim.client.members.membership import MemberOptions
from txnsim.client.producer import Producer
from txnsim.client.requests import NewTopic
from txnsim.controller import controller
from txnsim.faults.actions import Delay, Drop, Hold
from txnsim.faults.cluster_actions import FillDisk
from txnsim.faults.points import FaultPoint
from txnsim.metrics import table
from txnsim.metrics.table import METRICS, MetricKind
from txnsim.server.views.metric_values import count_late_transactions, readings
from txnsim.types import TopicPartition
from txnsim.wire.batch import Record, build_batch

P0 = TopicPartition("orders", 0)


class Watch:
    """Reads metrics of a cluster, and remembers what each one was."""

    def __init__(self, cluster: VirtualCluster) -> None:
        self._cluster = cluster
        self._seen_values: dict[str, list[dict[tuple[str, ...], float]]] = {}

    def __call__(self, metric: str) -> dict[tuple[str, ...], float]:
        """The metric's values that are not zero."""
        value_by_labels = {
            reading.labels: reading.value
            for reading in readings(self._cluster.sim)
            if reading.metric == metric and reading.value
        }
        self._seen_values.setdefault(metric, []).append(value_by_labels)
        return value_by_labels

    async def until(self, metric: str, is_expected: Callable[[float], bool]) -> None:
        """Wait until the metric's sum is as expected; in virtual time this costs nothing."""
        for _ in range(1_200):
            if is_expected(sum(self(metric).values())):
                return
            await asyncio.sleep(0.1)
        raise AssertionError(f"{metric} is {self(metric)}")

    @property
    def moved(self) -> set[str]:
        """The metrics whose readings differed from each other."""
        return {
            metric
            for metric, values in self._seen_values.items()
            if any(v != values[0] for v in values)
        }


Story = Callable[[VirtualCluster, Watch], Awaitable[None]]


def play(story: Story) -> set[str]:
    """Run a story beside a cluster; return the metrics whose readings changed."""

    async def main(cluster: VirtualCluster) -> set[str]:
        watch = Watch(cluster)
        await story(cluster, watch)
        return watch.moved

    return run_cluster(main, rules={"leaderless_partitions_keep_markers": True})


# Stories


async def a_transaction(cluster: VirtualCluster, watch: Watch) -> None:
    cluster.arm(Drop(), FaultPoint.PEER_REQUEST, "lost", api="WriteTxnMarkers")
    leader = str(cluster.leader(P0))
    for metric in (table.PRODUCER_IDS, table.VERIFIED, table.VERIFICATIONS, table.MARKERS_SENT):
        assert watch(metric) == {}
    assert watch(table.VERIFICATION_MS) == {}
    assert watch(table.FAULTS_STRUCK) == {}
    async with cluster.client() as client, Producer(client, transactional_id="tx") as producer:
        await producer.init_transactions()
        home = str(cluster.leader(cluster.home("tx")))
        assert watch(table.TRANSACTIONS) == {(home, "Empty"): 1}
        assert watch(table.ACTIVE_MS) == {}
        producer.begin()
        await producer.send("orders", 0, b"v")
        assert watch(table.TRANSACTIONS) == {(home, "Ongoing"): 1}
        before_ms = sum(watch(table.ACTIVE_MS).values())
        cluster.advance(5_000)
        assert watch(table.ACTIVE_MS) == {(home,): before_ms + 5_000}
        assert watch(table.LSO_LAG) == {("orders", "0"): 1}
        assert watch(table.PRODUCER_IDS)[(leader,)] == 1
        assert watch(table.VERIFIED) == {(leader,): 1}
        assert watch(table.UNVERIFIED) == {}
        assert watch(table.VERIFICATIONS) == {(leader,): 1}
        assert watch(table.VERIFICATION_MS)[(leader,)] > 0
        assert sum(watch(table.CONNECTIONS).values()) >= 2
        await producer.commit()
        await cluster.wait_until_struck("lost")
        assert watch(table.TRANSACTIONS) == {(home, "PrepareCommit"): 1}
        assert watch(table.ACTIVE_MS) == {}, "it is decided"
        assert watch(table.MARKERS_PENDING) == {(home,): 1}
        assert watch(table.FAULTS_STRUCK) == {("lost",): 1}
        cluster.sim.injector.disarm("lost")
        await until_state(client, "tx", "CompleteCommit")
        assert watch(table.LSO_LAG) == {}
        assert watch(table.MARKERS_PENDING) == {}
        assert watch(table.MARKERS_SENT)[(home,)] >= 2
    await asyncio.sleep(1)
    assert watch(table.CONNECTIONS) == {}


async def a_late_transaction(cluster: VirtualCluster, watch: Watch) -> None:
    cluster.arm(Drop(), FaultPoint.PEER_REQUEST, "lost", api="WriteTxnMarkers")
    async with cluster.client() as client, await begin_transaction(client, "tx") as producer:
        await producer.send("orders", 0, b"v")
        assert watch(table.TIMEOUTS) == {}
        cluster.advance(20 * 60_000 - 1_000)
        assert count_late_transactions(cluster.sim) == 0
        assert watch(table.LATE_TRANSACTIONS) == {}
        cluster.advance(1_000)
        assert count_late_transactions(cluster.sim) == 1
        assert watch(table.LATE_TRANSACTIONS) == {(str(cluster.leader(P0)),): 1}
        assert sum(watch(table.TIMEOUTS).values()) == 1


async def a_verification_without_answer(cluster: VirtualCluster, watch: Watch) -> None:
    cluster.arm(Drop(), FaultPoint.PEER_REQUEST, "lost", api="AddPartitionsToTxn", limit=1)
    async with cluster.client() as client, await begin_transaction(client, "tx") as producer:
        assert watch(table.UNVERIFIED) == {}
        await producer.send("orders", 0, b"v")
        assert watch(table.UNVERIFIED) == {(str(cluster.leader(P0)),): 1}
        await producer.commit()


async def a_partition_without_leader(cluster: VirtualCluster, watch: Watch) -> None:
    """The transaction's markers wait for a leader, as since KAFKA-20734."""
    leaderless_partition = TopicPartition("alone", 0)
    async with cluster.client() as client, Producer(client, transactional_id="tx") as producer:
        await producer.init_transactions()
        home_broker_id = cluster.leader(cluster.home("tx"))
        owner_id = next(broker for broker in cluster.sim.brokers if broker != home_broker_id)
        admin = Admin(client)
        await admin.create_topics(
            (NewTopic(name=leaderless_partition.topic, assignments=((owner_id,),)),)
        )
        await admin.wait_for_topic(leaderless_partition.topic)
        producer.begin()
        await producer.send(leaderless_partition.topic, 0, b"v")
        assert watch(table.OFFLINE_PARTITIONS) == {}
        await cluster.sim.kill_broker(owner_id)
        await watch.until(table.OFFLINE_PARTITIONS, lambda count: count == 1)
        assert watch(table.MARKERS_UNKNOWN) == {}
        await producer.commit()
        await watch.until(table.MARKERS_UNKNOWN, lambda count: count == 1)
        await cluster.sim.start_broker(owner_id)
        await until_state(client, "tx", "CompleteCommit")
        assert watch(table.OFFLINE_PARTITIONS) == {}
        assert watch(table.MARKERS_UNKNOWN) == {}


async def a_transaction_log_with_too_few_replicas(cluster: VirtualCluster, watch: Watch) -> None:
    cluster.arm(Drop(), FaultPoint.PEER_REQUEST, "lost", api="WriteTxnMarkers")
    async with cluster.client() as client, Producer(client, transactional_id="tx") as producer:
        await producer.init_transactions()
        home_broker_id = cluster.leader(cluster.home("tx"))
        producer.begin()
        await producer.send("orders", 0, b"v")
        await producer.commit()
        await cluster.wait_until_struck("lost")
        assert watch(table.UNDER_MIN_ISR) == {}
        other_brokers = [broker for broker in cluster.sim.brokers if broker != home_broker_id]
        for broker in other_brokers:
            await cluster.sim.kill_broker(broker)
        await watch.until(table.UNDER_MIN_ISR, lambda count: count >= 6)
        assert set(watch(table.UNDER_MIN_ISR)) == {(str(home_broker_id),)}
        assert watch(table.COMPLETIONS_WAITING) == {}
        cluster.sim.injector.disarm("lost")
        await watch.until(table.COMPLETIONS_WAITING, lambda count: count == 1)
        for broker in other_brokers:
            await cluster.sim.start_broker(broker)
        await until_state(client, "tx", "CompleteCommit")
        assert watch(table.COMPLETIONS_WAITING) == {}
        await watch.until(table.UNDER_MIN_ISR, lambda count: count == 0)


async def a_full_disk(cluster: VirtualCluster, watch: Watch) -> None:
    cluster.arm(FillDisk(broker=2), FaultPoint.NOW, "full")
    assert watch(table.OFFLINE_REPLICAS) == {}
    await watch.until(table.OFFLINE_REPLICAS, lambda count: count >= 3)
    assert set(watch(table.OFFLINE_REPLICAS)) == {("2",)}
    cluster.sim.injector.release("full")
    await watch.until(table.OFFLINE_REPLICAS, lambda count: count == 0)


async def a_compacted_topic(cluster: VirtualCluster, watch: Watch) -> None:
    """An open transaction stops the cleaner; the end of it lets it go on."""
    configs = (("cleanup.policy", "compact"), ("segment.ms", "1000"))
    async with cluster.client() as client, Producer(client, transactional_id="tx") as producer:
        await Admin(client).create_topics(
            (NewTopic(name="table", assignments=((1,),), configs=configs),)
        )
        await Admin(client).wait_for_topic("table")
        plain_producer = Producer(client)
        await producer.init_transactions()
        producer.begin()

        def uncleanable() -> float:
            return watch(table.FIRST_UNCLEANABLE).get(("table", "0"), 0)

        async def segment() -> None:
            cluster.advance(2_000)
            await plain_producer.send("table", 0, b"v", key=b"k")

        await segment()
        await segment()
        assert uncleanable() == 1, "where the active segment begins"
        await producer.send("table", 0, b"open", key=b"k")
        await segment()
        await segment()
        assert uncleanable() == 2, "where the open transaction begins"
        await producer.commit()
        await until_state(client, "tx", "CompleteCommit")
        assert uncleanable() == 4


async def a_batch_that_can_not_be_read(cluster: VirtualCluster, watch: Watch) -> None:
    """The cleaner meets a batch that it can't read, and gives the partition up."""
    configs = (("cleanup.policy", "compact"), ("segment.ms", "1000"))
    async with cluster.client() as client:
        await Admin(client).create_topics(
            (NewTopic(name="table", assignments=((1,),), configs=configs),)
        )
        await Admin(client).wait_for_topic("table")
        await Producer(client).send("table", 0, b"v", key=b"k")
        cluster.advance(2_000)
        await Producer(client).send("table", 0, b"v", key=b"k")
    broken_batch = bytearray(build_batch([Record(key=b"k")] * 2, timestamp_ms=1))
    broken_batch[61] = 0x7E  # the length of its first record
    log = cluster.sim.brokers[B1].replicas.led[TopicPartition("table", 0)]
    (segment,) = log.local.inactive_segments(0, 1)
    segment.append(bytes(broken_batch), 0, 1, max_timestamp=1, now_ms=1)
    assert watch(table.UNCLEANABLE) == {}
    await watch.until(table.UNCLEANABLE, lambda count: count == 1)
    assert watch(table.UNCLEANABLE) == {("1",): 1}


def ticking_stopwatch(read_stopwatch_ns: Callable[[], int]) -> Callable[[], int]:
    """Work takes no virtual time: here each look at the watch takes a microsecond."""
    ticks = itertools.count(0, 1_000)
    return lambda: read_stopwatch_ns() + next(ticks)


async def requests_of_a_client(cluster: VirtualCluster, watch: Watch) -> None:
    """A rule holds an EndTxn, and a client describes an unknown transactional id."""
    for listener in cluster.sim.listeners:
        listener.stopwatch_ns = ticking_stopwatch(listener.stopwatch_ns)
    for metric in STORIES[requests_of_a_client]:
        assert watch(metric) == {}
    cluster.arm(Delay(delay_ms=250), FaultPoint.CLIENT_REQUEST, "slow", api="EndTxn")
    async with cluster.client() as client, await begin_transaction(client, "tx") as producer:
        await producer.send("orders", 0, b"v")
        await producer.commit()
        home = str(cluster.leader(cluster.home("tx")))
        assert watch(table.REQUESTS)[(home, "EndTxn", "5")] == 1
        (metric_reading,) = (
            reading
            for reading in readings(cluster.sim)
            if reading.metric == table.REQUEST_REMOTE_MS and reading.labels == (home, "EndTxn")
        )
        assert metric_reading.value == pytest.approx(250, abs=50)
        counts_by_bound = dict(zip(table.TIME_BOUNDS_MS, metric_reading.counts, strict=False))
        assert [count for bound, count in counts_by_bound.items() if bound < 200] == [0] * 12
        assert [count for bound, count in counts_by_bound.items() if bound > 300] == [1] * 7
        assert metric_reading.counts[-1] == 1
        assert watch(table.REQUEST_REMOTE_MS)[(home, "EndTxn")] == metric_reading.value
        assert watch(table.REQUEST_MS)[(home, "EndTxn")] >= metric_reading.value
        assert 0 < watch(table.REQUEST_LOCAL_MS)[(home, "EndTxn")] < 50
        assert watch(table.REQUEST_BYTES)[(home, "EndTxn")] == 15, "without its header"
        assert watch(table.RESPONSE_BYTES)[(home, "EndTxn")] == 17
        error = "TRANSACTIONAL_ID_NOT_FOUND"
        assert error not in {name for _, _, name in watch(table.REQUEST_ERRORS)}
        await Admin(client).describe_transactions(["nobody"])
        nobodys = str(cluster.leader(cluster.home("nobody")))
        assert watch(table.REQUEST_ERRORS)[(nobodys, "DescribeTransactions", error)] == 1


async def a_share_group(cluster: VirtualCluster, watch: Watch) -> None:
    for metric in STORIES[a_share_group]:
        assert watch(metric) == {}
    cluster.arm(Delay(delay_ms=50), FaultPoint.SHARE_PERSIST, "load", kind="read")
    cluster.arm(Delay(delay_ms=40), FaultPoint.LOG_READ, "read")
    leader = cluster.leader(P0)
    member = ShareMember(Api(cluster.sim, leader))
    await member.initialize()
    await fill(member.api, 2)
    assert await member.get() == "0-1:1"
    broker, group, partition_labels = (
        (str(leader),),
        (str(leader), "g"),
        (str(leader), "g", "orders", "0"),
    )
    assert watch(table.SHARE_SESSIONS) == watch(table.SHARE_SESSION_PARTITIONS) == {broker: 1}
    assert watch(table.SHARE_LOAD_MS)[broker] >= 50
    assert watch(table.SHARE_ACQUIRE_MS)[group] >= 50
    assert watch(table.SHARE_FETCH_RATIO) == {group: 100}
    assert watch(table.SHARE_BATCH_RECORDS) == {group: 2}
    assert watch(table.SHARE_FETCH_LOCK_MS)[group] >= 40
    assert watch(table.SHARE_FETCH_LOCK_RATIO)[group] > 0
    assert watch(table.SHARE_IN_FLIGHT) == {partition_labels: 2}
    assert watch(table.SHARE_IN_FLIGHT_BATCHES) == {partition_labels: 1}
    cluster.advance(30_000)
    await watch.until(table.SHARE_LOCK_TIMEOUTS, lambda count: count == 2)
    assert await member.get() == "0-1:2"
    assert watch(table.SHARE_ACKNOWLEDGEMENTS) == {}
    assert errors(await member.acknowledge("0-1:2,1")) == {0: "none"}
    assert watch(table.SHARE_ACKNOWLEDGEMENTS) == {
        (*broker, "Accept"): 1,
        (*broker, "Release"): 1,
    }
    for topic, bytes_max in (("dlq.a", "1000"), ("dlq.b", "100")):
        configs = {"errors.deadletterqueue.group.enable": "true", "max.message.bytes": bytes_max}
        cluster.sim.metadata.create_topic(
            controller.TopicToCreate(name=topic, partition_count=1, configs=configs)
        )
        group_configs = {"errors.deadletterqueue.topic.name": topic}
        image = cluster.sim.metadata.image.with_group_configs("g", group_configs, keeps_empty=True)
        cluster.sim.metadata.publish(image)
        await fill(member.api, 1)
        acquired_range = (await member.get()).split()[0]
        assert errors(await member.acknowledge(f"{acquired_range.split(':')[0]}:3")) == {0: "none"}
        await asyncio.sleep(5)
    assert watch(table.DEAD_LETTER_REQUESTS) == {broker: 2}
    assert watch(table.DEAD_LETTERS) == watch(table.DEAD_LETTERS_LOST) == {broker: 1}


async def a_streams_group(cluster: VirtualCluster, watch: Watch) -> None:
    """A member joins: the group waits for other members, then the member gets partitions."""
    for metric in STORIES[a_streams_group]:
        assert watch(metric) == {}
    async with cluster.client() as client:
        member = GroupMember(
            client, MemberOptions(group_id="app", protocol="streams", member_id="a")
        )
        partitions = frozenset(
            TopicPartition("orders", partition_index) for partition_index in range(3)
        )
        await member.subscribe(["orders"], until=partitions)
        home = str(await client.group_coordinator("app"))
        assert watch(table.STREAMS_GROUPS) == {(home, "Stable"): 1}
        assert watch(table.STREAMS_REBALANCES) == {(home,): 1}
        await member.leave()
        assert watch(table.STREAMS_GROUPS) == {(home, "Empty"): 1}
        await member.close()


STORIES: Final[Mapping[Story, set[str]]] = {
    a_transaction: {
        table.ACTIVE_MS,
        table.CONNECTIONS,
        table.FAULTS_STRUCK,
        table.LSO_LAG,
        table.MARKERS_PENDING,
        table.MARKERS_SENT,
        table.PRODUCER_IDS,
        table.TRANSACTIONS,
        table.VERIFICATION_MS,
        table.VERIFICATIONS,
        table.VERIFIED,
    },
    a_late_transaction: {table.LATE_TRANSACTIONS, table.TIMEOUTS},
    a_verification_without_answer: {table.UNVERIFIED},
    a_partition_without_leader: {table.MARKERS_UNKNOWN, table.OFFLINE_PARTITIONS},
    a_transaction_log_with_too_few_replicas: {table.COMPLETIONS_WAITING, table.UNDER_MIN_ISR},
    a_full_disk: {table.OFFLINE_REPLICAS},
    a_compacted_topic: {table.FIRST_UNCLEANABLE},
    a_batch_that_can_not_be_read: {table.UNCLEANABLE},
    requests_of_a_client: {
        table.REQUESTS,
        table.REQUEST_ERRORS,
        table.REQUEST_MS,
        table.REQUEST_LOCAL_MS,
        table.REQUEST_REMOTE_MS,
        table.REQUEST_BYTES,
        table.RESPONSE_BYTES,
    },
    a_streams_group: {table.STREAMS_GROUPS, table.STREAMS_REBALANCES},
    a_share_group: {metric.name for metric in METRICS if metric.name.startswith("txnsim_share_")},
}
"""Which metrics each of them moves."""

# Tests


@within(run_cluster)
async def test_every_reading_is_in_the_table_with_its_labels(cluster: VirtualCluster) -> None:
    cluster.arm(Hold(), FaultPoint.CLIENT_REQUEST, api="EndTxn")
    async with cluster.client() as client, await begin_transaction(client, "tx") as producer:
        await producer.send("orders", 0, b"v")
        await Admin(client).describe_transactions(["nobody"])
        thread = GroupMember(
            client, MemberOptions(group_id="app", protocol="streams", member_id="a")
        )
        await thread.subscribe(["orders"])
        await thread.close()
        member = ShareMember(Api(cluster.sim, cluster.leader(P0)))
        await member.initialize()
        assert await member.get() == "0-0:1"
        cluster.advance(30_000)
        await asyncio.sleep(1)
        all_readings = list(readings(cluster.sim))
    metric_by_name = {metric.name: metric for metric in METRICS}
    assert {reading.metric for reading in all_readings} == set(metric_by_name)
    for reading in all_readings:
        metric = metric_by_name[reading.metric]
        assert len(reading.labels) == len(metric.labels)
        buckets = len(metric.bounds) + 1 if metric.kind is MetricKind.HISTOGRAM else 0
        assert len(reading.counts) == buckets
        assert list(reading.counts) == sorted(reading.counts)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_a_story_moves_its_metrics(story: Story) -> None:
    assert play(story) >= STORIES[story]


def test_each_metric_has_its_story() -> None:
    """A metric without a story could stay at zero unnoticed."""
    assert set().union(*STORIES.values()) == {metric.name for metric in METRICS}

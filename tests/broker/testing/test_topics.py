"""Topics and transactions by the asynchronous door."""

from __future__ import annotations

import pytest

from tests.support.testing_plays import aborted, client, committed
from tests.support.within import within
from txnsim.client.errors import ClientError
from txnsim.client.producer import Producer
from txnsim.errors import ConfigError
from txnsim.testing._virtual import run_virtual
from txnsim.testing.cluster import AsyncSimulatedKafka
from txnsim.types import TopicPartition, partition_for

GHOST = {"transaction_version": 0, "settings": {"transaction.partition.verification.enable": False}}
"""A world in which transactions come to hang: no verification, no transactions v2."""


@within(run_virtual, topics=["orders"])
async def test_topics_are_created_with_their_configs(kafka: AsyncSimulatedKafka) -> None:
    await kafka.topics.create("more", 2, configs={"cleanup.policy": "compact"})
    assert await kafka.topics.names() == ("more", "orders")
    image = kafka.cluster.metadata.image.topics["more"]
    assert [len(partition.replicas) for partition in image.partitions] == [3, 3]
    assert image.configs["cleanup.policy"] == "compact"
    await kafka.topics.create("single", replication_factor=1)
    with pytest.raises(ConfigError, match="topic more: "):
        await kafka.topics.create("more")


@within(run_virtual, topics=["orders"])
async def test_how_far_a_partition_is(kafka: AsyncSimulatedKafka) -> None:
    await committed(kafka, "orders", "a", "b")
    found = await kafka.topics.offsets("orders")
    assert (found.log_start, found.last_stable, found.high_watermark) == (0, 3, 3)


@within(run_virtual, topics=["orders"])
async def test_transactions_are_listed_described_and_waited_for(kafka: AsyncSimulatedKafka) -> None:
    assert await kafka.transactions.describe("app") is None
    with pytest.raises(TimeoutError, match="app is not known after 100 ms, not Empty"):
        await kafka.transactions.wait_for_state("app", "Empty", timeout_ms=100)
    await aborted(kafka, "orders", "a")
    described = await kafka.transactions.wait_for_state("app", "Empty", "CompleteAbort")
    (listed,) = await kafka.transactions.list()
    assert (listed.transactional_id, listed.state) == ("app", "CompleteAbort")
    assert described.producer_id == listed.producer_id
    (producer,) = await kafka.transactions.producers("orders")
    assert (producer.producer_id, producer.txn_start_offset) == (listed.producer_id, None)


def test_what_hangs_is_found_and_repaired() -> None:
    async def main(kafka: AsyncSimulatedKafka) -> None:
        async with client(kafka) as cluster:
            producer = Producer(cluster, transactional_id="app", delivery_timeout_ms=300)
            await producer.init_transactions()
            producer.begin()
            await producer.send("orders", 0, b"first")
            fault = await kafka.faults.arm(
                point="client.request", api="Produce", transactional_id="app", action="hold"
            )
            late = producer.send("orders", 0, b"late")
            await fault.wait_until_struck()
            with pytest.raises(Exception, match="orders"):
                await late
            await producer.abort()
            await fault.release()
            await fault.disarm()
            await producer.close()
        await kafka.transactions.wait_for_state("app", "CompleteAbort", "Empty")
        (finding,) = await kafka.transactions.hanging()
        assert "without this partition" in finding.reason
        with pytest.raises(AssertionError, match="1 transaction hangs"):
            await kafka.assert_no_hanging_transactions()
        (done,) = await kafka.transactions.repair()
        assert done.outcome == "repaired"
        await kafka.assert_no_hanging_transactions()

    run_virtual(main, topics=["orders"], **GHOST)


@within(run_virtual, topics=["orders"])
async def test_where_nobody_could_look_something_may_hang(kafka: AsyncSimulatedKafka) -> None:
    await committed(kafka, "orders", "a")
    await kafka.faults.arm(point="client.request", api="DescribeProducers", action="drop")
    with pytest.raises(ClientError):
        await kafka.assert_no_hanging_transactions()


def test_topics_are_grown_and_deleted_in_the_middle_of_a_test() -> None:
    async def main(kafka: AsyncSimulatedKafka) -> None:
        await kafka.topics.grow("orders", 3)
        assert len(kafka.cluster.metadata.image.topics["orders"].partitions) == 3
        assert (await kafka.topics.offsets("orders", 2)).high_watermark == 0
        with pytest.raises(ConfigError, match="topic orders: INVALID_PARTITIONS"):
            await kafka.topics.grow("orders", 2)
        await kafka.topics.delete("orders")
        assert await kafka.topics.names() == ()
        with pytest.raises(ConfigError, match="UNKNOWN_TOPIC_OR_PARTITION"):
            await kafka.topics.delete("orders")

    run_virtual(main, topics=["orders"])


def test_where_a_group_and_an_id_live_is_asked_for_by_name() -> None:
    async def main(kafka: AsyncSimulatedKafka) -> None:
        group = await kafka.topics.of_group("billing")
        assert group == TopicPartition("__consumer_offsets", partition_for("billing", 50))
        mine = await kafka.topics.of_transactional_id("shop")
        assert mine == TopicPartition("__transaction_state", partition_for("shop", 50))

    run_virtual(main)

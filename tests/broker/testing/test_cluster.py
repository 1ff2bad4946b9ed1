"""The cluster in the caller's loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec
import pytest

from tests.support.testing_plays import client
from tests.support.within import within
from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.producer import Producer
from txnsim.errors import ClientError, ConfigError
from txnsim.testing._virtual import run_virtual
from txnsim.testing.cluster import AsyncSimulatedKafka


async def test_it_runs_in_the_caller_s_loop_over_tcp() -> None:
    async with AsyncSimulatedKafka(topics={"orders": 3}, transaction_version=1) as kafka:
        async with Cluster(kafka.bootstrap) as outside:
            (topic,) = await Admin(outside).describe_topics(["orders"])
        assert len(topic.partitions) == 3
        assert kafka.cluster.metadata.image.features["transaction.version"] == 1
        with pytest.raises(RuntimeError, match="runs already"):
            await kafka.start()
    await kafka.stop()
    assert kafka.was_started


async def test_it_can_be_started_again_and_reset() -> None:
    kafka = AsyncSimulatedKafka(brokers=1)
    with pytest.raises(RuntimeError, match="does not run"):
        _ = kafka.bootstrap
    await kafka.start()
    await kafka.topics.create("orders")
    await kafka.faults.arm(point="client.request", api="EndTxn", action="hold", may_miss=True)
    before = kafka.bootstrap
    await kafka.reset()
    assert kafka.bootstrap == before
    assert await kafka.topics.names() == ()
    assert await kafka.faults.states() == ()
    await kafka.stop()
    await kafka.start()
    await kafka.stop()


async def arm_in_vain(kafka: AsyncSimulatedKafka) -> None:
    await kafka.faults.arm(id="idle", point="client.request", api="EndTxn", action="hold")


@within(run_virtual, faults_may_miss=True)
async def test_a_fault_that_never_struck_fails_the_assertion(kafka: AsyncSimulatedKafka) -> None:
    await arm_in_vain(kafka)
    with pytest.raises(AssertionError, match="idle: nothing matched"):
        await kafka.assert_all_faults_struck()


async def ends_its_block(kafka: AsyncSimulatedKafka) -> None:
    async with kafka:
        await arm_in_vain(kafka)


async def is_stopped(kafka: AsyncSimulatedKafka) -> None:
    await kafka.start()
    await arm_in_vain(kafka)
    await kafka.stop()


async def fails_before_it_is_stopped(kafka: AsyncSimulatedKafka) -> None:
    await kafka.start()
    try:
        await arm_in_vain(kafka)
        raise ValueError("mine")
    finally:
        await kafka.stop()


@pytest.mark.parametrize("end", [ends_its_block, is_stopped])
async def test_a_fault_that_never_struck_is_told_at_the_end(
    end: Callable[[AsyncSimulatedKafka], Awaitable[None]],
) -> None:
    kafka = AsyncSimulatedKafka(brokers=1)
    with pytest.raises(AssertionError, match="idle: nothing matched"):
        await end(kafka)
    assert not kafka.rebuilt.is_running


async def test_what_the_test_has_raised_is_told_alone() -> None:
    kafka = AsyncSimulatedKafka(brokers=1)
    with pytest.raises(ValueError, match="mine") as failed:
        await fails_before_it_is_stopped(kafka)
    assert failed.value.__context__ is None
    assert not kafka.rebuilt.is_running


def test_a_fault_that_never_struck_is_told_at_the_end_of_a_virtual_run() -> None:
    with pytest.raises(AssertionError, match="idle: nothing matched"):
        run_virtual(arm_in_vain, brokers=1)
    run_virtual(arm_in_vain, brokers=1, faults_may_miss=True)


def test_what_can_not_be_had_is_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="expected a whole number"):
        AsyncSimulatedKafka(brokers="three")  # type: ignore[arg-type]


@pytest.mark.parametrize("virgin", [False, True])
def test_the_first_client_waits_for_a_coordinator_only_in_a_virgin_cluster(*, virgin: bool) -> None:
    async def main(kafka: AsyncSimulatedKafka) -> None:
        async with client(kafka) as cluster, Producer(cluster, transactional_id="app") as producer:
            await producer.init_transactions()
        refused = [
            event
            for event in await kafka.trace.events()
            if b"COORDINATOR_LOAD_IN_PROGRESS" in msgspec.json.encode(event.d)
        ]
        assert bool(refused) == virgin
        assert await kafka.topics.names() == ("orders",)

    run_virtual(main, topics=["orders"], trace="full", virgin=virgin)


def test_a_factor_above_the_number_of_brokers_is_obeyed_and_the_cluster_starts() -> None:
    async def main(kafka: AsyncSimulatedKafka) -> None:
        async with (
            client(kafka, api_timeout_ms=5_000) as cluster,
            Producer(cluster, transactional_id="app") as producer,
        ):
            with pytest.raises(ClientError) as failed:
                await producer.init_transactions()
        assert "coordinator" in str(failed.value).lower()

    run_virtual(main, brokers=1, settings={"transaction.state.log.replication.factor": 3})

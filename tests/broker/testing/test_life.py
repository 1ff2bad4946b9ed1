"""Clock, brokers and leaders by the asynchronous door."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.support.testing_plays import client
from tests.support.within import within
from txnsim.client.producer import Producer
from txnsim.errors import ConfigError
from txnsim.testing._virtual import run_virtual
from txnsim.testing.cluster import AsyncSimulatedKafka


@within(run_virtual)
async def test_a_duration_is_read_at_the_door_and_a_cluster_goes_on(
    kafka: AsyncSimulatedKafka,
) -> None:
    before = await kafka.clock.now_ms()
    for refused in (1.5, "2 minutes", 10**15):
        with pytest.raises(ValueError, match=r"duration|advanced"):
            await kafka.clock.advance(refused)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match=r"duration|set"):
            await kafka.clock.jump(refused)  # type: ignore[arg-type]
    assert await kafka.clock.now_ms() < before + 1_000
    await kafka.clock.advance(60e3)  # type: ignore[arg-type]
    await kafka.clock.advance("2m")
    assert await kafka.clock.jump("1s") >= before + 181_000
    async with client(kafka) as cluster, Producer(cluster, transactional_id="app") as producer:
        await producer.init_transactions()


@within(run_virtual, topics=["orders"])
async def test_an_advance_lets_a_transaction_time_out_and_a_jump_does_not(
    kafka: AsyncSimulatedKafka,
) -> None:
    async with client(kafka) as cluster, Producer(cluster, transactional_id="app") as producer:
        await producer.init_transactions()
        producer.begin()
        await producer.send("orders", 0, b"one")
        before = await kafka.clock.now_ms()
        assert await kafka.clock.jump(-60_000) < before
        assert await kafka.clock.jump(60_000) >= before
        assert (await kafka.transactions.wait_for_state("app", "Ongoing")).state == "Ongoing"
        assert await kafka.clock.advance(timedelta(minutes=2)) >= before + 120_000
        await kafka.transactions.wait_for_state("app", "CompleteAbort")
        with pytest.raises(ValueError, match="set a clock back"):
            await kafka.clock.advance(-1)


@within(run_virtual)
async def test_one_broker_s_clock_is_set_alone(kafka: AsyncSimulatedKafka) -> None:
    before = await kafka.clock.now_ms()
    assert await kafka.clock.jump(timedelta(hours=1), broker=2) >= before + 3_600_000
    assert await kafka.clock.now_ms() < before + 60_000
    with pytest.raises(ConfigError, match="there is no broker 9"):
        await kafka.clock.jump(1, broker=9)


@within(run_virtual)
async def test_brokers_stop_die_are_cut_off_and_come_back(kafka: AsyncSimulatedKafka) -> None:
    await kafka.brokers.stop(1)
    await kafka.brokers.kill(2)
    assert await kafka.brokers.states() == {1: "down", 2: "down", 3: "running"}
    await kafka.brokers.start(1)
    await kafka.brokers.start(2)
    assert set((await kafka.brokers.states()).values()) == {"running"}
    await kafka.brokers.isolate(3, from_clients=True)
    await kafka.brokers.heal(3)
    with pytest.raises(ConfigError, match="there is no broker 9"):
        await kafka.brokers.stop(9)


@within(run_virtual, topics=["orders"])
async def test_leaders_move(kafka: AsyncSimulatedKafka) -> None:
    first = await kafka.leaders.of("orders")
    second = await kafka.leaders.move("orders")
    assert second != first
    assert await kafka.leaders.of("orders") == second
    assert await kafka.leaders.move("orders", to=first) == first
    assert await kafka.leaders.coordinator_of("app") in (1, 2, 3)
    with pytest.raises(ConfigError, match="no partition orders-7"):
        await kafka.leaders.of("orders", 7)


@within(run_virtual, brokers=1, topics=["orders"])
async def test_a_partition_of_one_replica_has_nowhere_to_go(kafka: AsyncSimulatedKafka) -> None:
    with pytest.raises(ConfigError, match="orders-0: no other replica is in sync"):
        await kafka.leaders.move("orders")

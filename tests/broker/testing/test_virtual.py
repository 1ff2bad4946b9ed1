"""Virtual time for tests of others."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.testing_plays import committed
from txnsim.errors import ConfigError, SimulationError
from txnsim.testing._virtual import START_MS, run_virtual
from txnsim.testing.cluster import AsyncSimulatedKafka


@pytest.mark.slow
def test_an_hour_passes_in_no_time_and_the_same_seed_is_the_same_run() -> None:
    async def main(kafka: AsyncSimulatedKafka) -> str:
        await committed(kafka, "orders", "a")
        await asyncio.sleep(3_600)
        tracer = kafka.rebuilt.tracer
        assert tracer is not None
        return tracer.hash

    runs = [run_virtual(main, seed=seed, brokers=1, topics=["orders"]) for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]


def test_options_and_start_can_be_chosen() -> None:
    async def main(kafka: AsyncSimulatedKafka) -> tuple[int, int]:
        return len(await kafka.brokers.states()), await kafka.clock.now_ms()

    brokers, now_ms = run_virtual(main, brokers=1)
    assert brokers == 1
    assert 0 <= now_ms - START_MS < 60_000
    assert run_virtual(main, start_ms=5_000_000)[1] < 6_000_000
    with pytest.raises(ConfigError, match="no option 'partitions'; there are"):
        run_virtual(main, partitions=1)


def test_it_can_not_be_reset_and_a_wait_for_nothing_is_an_error() -> None:
    async def reset(kafka: AsyncSimulatedKafka) -> None:
        with pytest.raises(ConfigError, match="virtual time can't be reset"):
            await kafka.reset()

    run_virtual(reset)
    seen: list[AsyncSimulatedKafka] = []

    async def never(kafka: AsyncSimulatedKafka) -> None:
        await kafka.stop()
        await asyncio.Event().wait()

    with pytest.raises(SimulationError):
        run_virtual(never, keep=seen.append)
    assert seen[0].rebuilt.tracer is not None

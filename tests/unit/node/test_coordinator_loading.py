"""How long a coordinator loads: not at all, unless somebody declares it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from txnsim.faults.actions import Delay, Drop, Fail, Hold
from txnsim.faults.plan import Action, FaultRule
from txnsim.faults.points import FaultPoint
from txnsim.injection.injector import Injector
from txnsim.node.coordinator_loading import CoordinatorLoading
from txnsim.node.crossings import Crossings
from txnsim.runtime.virtual.run import VirtualEnvironment, run_virtual
from txnsim.types import TRANSACTION_STATE_TOPIC, TopicPartition

P3 = TopicPartition(TRANSACTION_STATE_TOPIC, 3)


class World:
    """One broker's loads."""

    def __init__(self, env: VirtualEnvironment, min_ms: int) -> None:
        self.injector = Injector(clock=env.clock, tracer=env.tracer, tasks=env.tasks, rng=env.rng)
        env.network.interceptor = self.injector
        self.loading = CoordinatorLoading(
            crossings=Crossings(node="broker/1", network=env.network, tasks=env.tasks),
            clock=env.clock,
            min_ms=min_ms,
        )
        self.finished: list[bool] = []

    def load(self) -> None:
        def finish(*, is_readable: bool) -> None:
            self.finished.append(is_readable)

        self.loading.load(P3, finish)

    def arm(self, action: Action, *, partition: int = 3) -> None:
        self.injector.arm(
            FaultRule(
                id="f",
                point=FaultPoint.COORDINATOR_LOAD,
                action=action,
                broker=1,
                topic=TRANSACTION_STATE_TOPIC,
                partition=partition,
            )
        )


def run(main: Callable[[World], Awaitable[None]], *, min_ms: int = 0) -> None:
    async def whole(env: VirtualEnvironment) -> None:
        await main(World(env, min_ms))
        await env.tasks.close()

    run_virtual(whole, seed=1)


def test_a_load_takes_no_time_of_its_own() -> None:
    async def main(world: World) -> None:
        world.load()
        assert world.finished == [True]

    run(main)


def test_a_load_takes_as_long_as_the_setting_says() -> None:
    async def main(world: World) -> None:
        world.load()
        await asyncio.sleep(0.499)
        assert world.finished == []
        await asyncio.sleep(0.002)
        assert world.finished == [True]
        world.load()
        world.loading.stop()
        await asyncio.sleep(1)
        assert world.finished == [True], "a broker that is gone loads nothing"

    run(main, min_ms=500)


def test_a_held_load_ends_when_it_is_released() -> None:
    async def main(world: World) -> None:
        world.arm(Hold())
        world.load()
        await asyncio.sleep(1)
        assert world.finished == []
        world.injector.release("f")
        await asyncio.sleep(0)
        assert world.finished == [True]

    run(main)


@pytest.mark.parametrize(
    ("action", "partition", "expected"),
    [
        (Delay(delay_ms=100), 3, [True]),
        (Drop(), 3, []),
        (Fail(error="CORRUPT_MESSAGE"), 3, [False]),
        (Drop(), 4, [True]),
    ],
)
def test_what_a_fault_makes_of_a_load(action: Action, partition: int, expected: list[bool]) -> None:
    async def main(world: World) -> None:
        world.arm(action, partition=partition)
        world.load()
        await asyncio.sleep(1)
        assert world.finished == expected

    run(main)


def test_a_load_that_is_held_for_a_broker_that_is_gone_has_no_effect() -> None:
    async def main(world: World) -> None:
        world.arm(Hold())
        world.load()
        world.load()
        world.loading.stop()
        world.injector.disarm("f")
        await asyncio.sleep(0)
        assert world.finished == []

    run(main)


def test_the_end_of_the_run_ends_a_held_load() -> None:
    async def main(world: World) -> None:
        world.arm(Hold())
        world.load()

    run(main)

"""How long a coordinator loads: not at all, unless somebody declares it."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable, Iterator, Sequence

import pytest

from tests.support.within import within
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
            tasks=env.tasks,
            min_ms=min_ms,
        )
        self.finished: list[bool] = []
        self.steps = 0

    def load(self, *, records: Sequence[int] = ()) -> None:
        """A load whose batches have so many records."""

        def read(*, is_readable: bool) -> Iterator[int]:
            for count in records:
                self.steps += 1
                yield count
            self.finished.append(is_readable)

        self.loading.load(P3, read)

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


@within(run)
async def test_a_load_takes_no_time_of_its_own(world: World) -> None:
    world.load()
    assert world.finished == [True]


@within(run, min_ms=500)
async def test_a_load_takes_as_long_as_the_setting_says(world: World) -> None:
    world.load()
    await asyncio.sleep(0.499)
    assert world.finished == []
    await asyncio.sleep(0.002)
    assert world.finished == [True]
    world.load()
    world.loading.stop()
    await asyncio.sleep(1)
    assert world.finished == [True], "a broker that is gone loads nothing"


@within(run)
async def test_a_held_load_ends_when_it_is_released(world: World) -> None:
    world.arm(Hold())
    world.load()
    await asyncio.sleep(1)
    assert world.finished == []
    world.injector.release("f")
    await asyncio.sleep(0)
    assert world.finished == [True]


@pytest.mark.parametrize(
    ("action", "partition", "expected"),
    [
        (Delay(delay_ms=100), 3, [True]),
        (Drop(), 3, []),
        (Fail(error="CORRUPT_MESSAGE"), 3, [False]),
        (Drop(), 4, [True]),
    ],
)
@within(run)
async def test_what_a_fault_makes_of_a_load(
    world: World, action: Action, partition: int, expected: list[bool]
) -> None:
    world.arm(action, partition=partition)
    world.load()
    await asyncio.sleep(1)
    assert world.finished == expected


@within(run)
async def test_a_load_that_is_held_for_a_broker_that_is_gone_has_no_effect(world: World) -> None:
    world.arm(Hold())
    world.load()
    world.load()
    world.loading.stop()
    world.injector.disarm("f")
    await asyncio.sleep(0)
    assert world.finished == []


@within(run)
async def test_a_long_log_is_read_in_slices_and_the_next_one_after_it(world: World) -> None:
    world.load(records=[10] * 20)
    world.load(records=[1])
    assert (world.steps, world.finished) == (7, []), "a slice is 66 records"
    await asyncio.sleep(0.001)
    assert (world.steps, world.finished) == (21, [True, True])


@within(run)
async def test_a_broker_that_is_gone_reads_no_further(world: World) -> None:
    world.load(records=[10] * 20)
    world.loading.stop()
    await asyncio.sleep(0.001)
    assert (world.steps, world.finished) == (7, [])


def test_a_log_that_cannot_be_read_keeps_no_other_one_waiting() -> None:
    """Neither one whose first slice fails nor one that fails behind a break."""

    def unreadable(*, is_readable: bool) -> Iterator[int]:
        yield 10 if is_readable else 0
        raise ValueError("torn")

    read: list[int] = []

    async def main(world: World) -> None:
        world.load(records=[10] * 20)
        world.loading.load(P3, unreadable)
        world.load(records=[1])
        await asyncio.sleep(0.001)
        read.append(len(world.finished))
        with pytest.raises(ValueError, match="torn"):
            world.loading.load(P3, unreadable)
        world.load()
        read.append(len(world.finished))

    with pytest.raises(ExceptionGroup, match="background tasks failed") as told:
        run(main)
    assert read == [2, 3]
    assert told.group_contains(ValueError, match="torn"), "it is told as the bug that it is"


@within(run)
async def test_a_broker_that_is_gone_keeps_no_logs(world: World) -> None:
    world.load(records=[10] * 20)
    world.load(records=[1])
    waiting = weakref.ref(world.loading._waiting[0])
    world.loading.stop()
    assert waiting() is None
    await asyncio.sleep(0.001)
    assert world.finished == []


@within(run)
async def test_the_end_of_the_run_ends_a_held_load(world: World) -> None:
    world.arm(Hold())
    world.load()

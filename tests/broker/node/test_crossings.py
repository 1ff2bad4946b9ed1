"""The fault points inside of a broker: asking, waiting, and what is left of it when it stops."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from tests.support.within import in_virtual_time, within
from txnsim.faults.actions import Delay, Drop, Fail, Hold
from txnsim.faults.crossings import FaultEffect, SubmitOutcome
from txnsim.faults.plan import Action, FaultRule
from txnsim.faults.points import FaultPoint
from txnsim.faults.subjects import Subject
from txnsim.injection.injector import Injector
from txnsim.node.crossings import Crossings, at_once, error_in, is_lost, timer_gate
from txnsim.runtime.virtual.run import VirtualEnvironment
from txnsim.types import TopicPartition

P0 = TopicPartition("orders", 0)
ABOUT_P0 = Subject(partitions=(P0,))


class World:
    def __init__(self, env: VirtualEnvironment) -> None:
        self.env = env
        self.injector = Injector(clock=env.clock, tracer=env.tracer, tasks=env.tasks, rng=env.rng)
        env.network.interceptor = self.injector
        self.crossings = Crossings(node="broker/1", network=env.network, tasks=env.tasks)
        self.told: list[FaultEffect | None] = []

    def arm(self, action: Action, point: FaultPoint, **more: Any) -> None:
        self.injector.arm(FaultRule(id="f", point=point, action=action, **more))

    def ask(self, point: FaultPoint = FaultPoint.LOG_APPEND, *, kind: str = "") -> None:
        self.crossings.go_on(self.told.append, point, ABOUT_P0, kind=kind)


run = in_virtual_time(World)


@within(run)
async def test_no_rule_is_asked_while_nothing_is_armed(world: World) -> None:
    assert not world.crossings.armed
    world.ask()
    assert world.told == [None]


@within(run)
async def test_another_crossing_goes_on_at_once(world: World) -> None:
    world.arm(Hold(), FaultPoint.LOG_APPEND, topic="another")
    assert world.crossings.armed
    world.ask()
    assert world.told == [None]
    assert await world.crossings.verdict(FaultPoint.LOG_APPEND, ABOUT_P0) is None


@pytest.mark.parametrize(
    "criteria",
    [
        {"broker": 1},
        {"topic": "orders", "partition": 0},
        {"kind": "marker"},
    ],
)
@within(run)
async def test_a_rule_names_broker_subject_and_kind(world: World, criteria: dict[str, Any]) -> None:
    world.arm(Fail(error="KAFKA_STORAGE_ERROR"), FaultPoint.LOG_APPEND, **criteria)
    world.ask(kind="marker")
    (verdict,) = world.told
    assert error_in(verdict) == 56
    assert not is_lost(verdict)


@within(run)
async def test_what_is_held_goes_on_with_the_release_and_others_pass_it(world: World) -> None:
    world.arm(Hold(), FaultPoint.LOG_APPEND, limit=1)
    world.ask()
    assert await world.crossings.verdict(FaultPoint.LOG_APPEND, ABOUT_P0) is None
    assert world.told == []
    world.injector.release("f")
    await asyncio.sleep(0.001)
    (verdict,) = world.told
    assert verdict is not None
    assert verdict.outcome is SubmitOutcome.PASS


@within(run)
async def test_a_delay_takes_its_time(world: World) -> None:
    world.arm(Delay(delay_ms=700), FaultPoint.METADATA_APPLY)
    before_ms = world.env.clock.monotonic_ms()
    assert error_in(await world.crossings.verdict(FaultPoint.METADATA_APPLY)) == 0
    assert world.env.clock.monotonic_ms() - before_ms == 700


@within(run)
async def test_a_broker_that_has_stopped_does_nothing_any_more(world: World) -> None:
    world.arm(Hold(), FaultPoint.LOG_APPEND)
    world.ask()
    world.crossings.stop()
    world.injector.release("f")
    await asyncio.sleep(0.001)
    assert world.told == []
    assert world.crossings.is_stopped


@within(run)
async def test_what_is_held_ends_with_the_run(world: World) -> None:
    world.arm(Hold(), FaultPoint.LOG_APPEND)
    world.ask()
    await world.env.tasks.close()
    assert world.told == []


@within(run)
async def test_a_scan_that_is_dropped_is_left_out_once(world: World) -> None:
    happened: list[str] = []
    gate = timer_gate(world.crossings)
    world.arm(Drop(), FaultPoint.CLOCK_TIMER, kind="retention", limit=1)
    for kind in ("cleaner", "retention", "retention"):
        gate(kind, partial(happened.append, kind), partial(happened.append, f"no {kind}"))
    assert happened == ["cleaner", "no retention", "retention"]
    at_once("retention", lambda: happened.append("at once"), lambda: happened.append("never"))
    assert happened[3:] == ["at once"]


def test_verdicts_are_read_in_one_place() -> None:
    drop = FaultEffect(outcome=SubmitOutcome.DROP)
    assert (is_lost(None), is_lost(drop)) == (False, True)
    assert (error_in(None), error_in(drop)) == (0, 0)
    assert error_in(FaultEffect(outcome=SubmitOutcome.ERROR, error=6)) == 6

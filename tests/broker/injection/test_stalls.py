"""Lines that stand still: everything on them waits in order, and nothing on any other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.support.within import within
from txnsim.faults.actions import CrossingAction, Drop, Hold, Pass, Stall
from txnsim.faults.crossings import Crossing, FaultEffect, SubmitOutcome
from txnsim.faults.plan import FaultRule
from txnsim.faults.points import FaultPoint
from txnsim.faults.subjects import Subject
from txnsim.injection.armed import ArmedRule
from txnsim.injection.injector import Injector
from txnsim.runtime.virtual.run import VirtualEnvironment, run_virtual

REQUEST, RESPONSE = FaultPoint.PEER_REQUEST, FaultPoint.PEER_RESPONSE


class Lines:
    """Messages on links, and the order in which they went on."""

    def __init__(self, env: VirtualEnvironment) -> None:
        self.env = env
        self.injector = Injector(clock=env.clock, tracer=env.tracer, tasks=env.tasks, rng=env.rng)
        self.passed: list[int] = []
        self.lost: list[int] = []

    def arm(self, action: CrossingAction, rule_id: str = "f", **more: Any) -> ArmedRule:
        point = more.pop("point", REQUEST)
        return self.injector.arm(FaultRule(id=rule_id, point=point, action=action, **more))

    def send(self, number: int, line: str = "1 -> 2", point: FaultPoint = REQUEST) -> None:
        source, target = line.split(" -> ")
        answer = self.injector.cross(
            Crossing(
                point=point, source=f"broker/{source}", target=f"broker/{target}", api_key=27,
                api_version=1, correlation_id=number, subject=Subject(), line=line,
            )
        )  # fmt: skip
        if answer is None or isinstance(answer, FaultEffect):
            self._arrive(number, answer)
        else:
            self.env.tasks.drive(
                _wait(answer), lambda verdict, _: self._arrive(number, verdict), name="message"
            )

    def _arrive(self, number: int, verdict: FaultEffect | None) -> None:
        is_lost = verdict is not None and verdict.outcome is SubmitOutcome.DROP
        (self.lost if is_lost else self.passed).append(number)


async def _wait(answer: Awaitable[FaultEffect]) -> FaultEffect:
    return await answer


def run(story: Callable[[Lines], Awaitable[None]]) -> None:
    async def main(env: VirtualEnvironment) -> None:
        await story(Lines(env))

    run_virtual(main, seed=1)


@pytest.mark.parametrize("by", ["time", "release", "disarming"])
@within(run)
async def test_a_line_stands_still_and_then_goes_on_in_order(lines: Lines, by: str) -> None:
    state = lines.arm(Stall(stall_ms=1_000 if by == "time" else None), limit=1)
    lines.send(1)
    lines.send(2, point=RESPONSE)
    lines.send(3)
    lines.send(4, "2 -> 1")
    assert lines.passed == [4]
    assert (state.struck, len(state.held), lines.injector.armed) == (1, 3, True)
    if by == "release":
        assert lines.injector.release("f") == 3
    elif by == "disarming":
        lines.injector.disarm("f")
    else:
        await asyncio.sleep(0.999)
        assert lines.passed == [4]
    await asyncio.sleep(0.01)
    assert lines.passed == [4, 1, 2, 3]
    assert (state.held, state.released, lines.injector.armed) == ({}, 3, False)
    lines.send(5)
    assert lines.passed[-1] == 5


@within(run)
async def test_who_comes_while_the_others_are_woken_stays_behind_them(lines: Lines) -> None:
    lines.arm(Stall(), limit=1)
    lines.send(1)
    lines.send(2)
    lines.injector.release("f")
    lines.send(3)
    assert lines.passed == []
    await asyncio.sleep(0.01)
    assert lines.passed == [1, 2, 3]


@within(run)
async def test_other_rules_judge_what_has_waited(lines: Lines) -> None:
    lines.arm(Stall(stall_ms=10), limit=1)
    seen = lines.arm(Pass(), "seen")
    lines.arm(Drop(), "lost", occurrences=(2,))
    held = lines.arm(Hold(), "held", nth=3)
    for number in (1, 2, 3):
        lines.send(number)
    assert seen.matched == 1
    await asyncio.sleep(1)
    assert (lines.passed, lines.lost, len(held.held)) == ([1], [2], 1)
    lines.injector.release("held")
    await asyncio.sleep(1)
    assert lines.passed == [1, 3]


@within(run)
async def test_a_line_may_be_stalled_anew_by_what_has_waited(lines: Lines) -> None:
    lines.arm(Stall(stall_ms=100))
    for number in (1, 2, 3):
        lines.send(number)
    for expected in ([1], [1, 2], [1, 2, 3]):
        await asyncio.sleep(0.101)
        assert lines.passed == expected
    await asyncio.sleep(1)
    assert not lines.injector._stalls


@within(run)
async def test_lines_stalled_by_one_rule_end_each_in_its_time(lines: Lines) -> None:
    lines.arm(Stall(stall_ms=100), limit=2)
    lines.send(1, "1 -> 2")
    await asyncio.sleep(0.05)
    lines.send(2, "1 -> 3")
    await asyncio.sleep(0.06)
    assert lines.passed == [1]
    await asyncio.sleep(0.05)
    assert lines.passed == [1, 2]

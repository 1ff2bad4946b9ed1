"""Actions on the cluster: done after the strike, counted when done, ended by time or release."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.support.cluster_control import MISSING, RecordingControl
from tests.support.within import within
from txnsim.faults.actions import Drop, Fail, Hold
from txnsim.faults.cluster_actions import ClusterAction, Crash, MoveLeader, Partition
from txnsim.faults.crossings import Crossing, FaultEffect, SubmitOutcome
from txnsim.faults.plan import FaultRule
from txnsim.faults.points import FaultPoint
from txnsim.faults.subjects import Subject
from txnsim.injection.armed import ArmedRule
from txnsim.injection.injector import Injector
from txnsim.runtime.virtual.run import VirtualEnvironment, run_virtual

PASS = FaultEffect(outcome=SubmitOutcome.PASS)

Story = Callable[[VirtualEnvironment, Injector, RecordingControl], Awaitable[None]]


def run(story: Story) -> None:
    async def main(env: VirtualEnvironment) -> None:
        injector = Injector(clock=env.clock, tracer=env.tracer, tasks=env.tasks, rng=env.rng)
        control = RecordingControl()
        injector.cluster_control = control
        await story(env, injector, control)

    run_virtual(main, seed=1)


def arm(injector: Injector, action: ClusterAction, **more: Any) -> ArmedRule:
    point = more.pop("point", FaultPoint.PEER_REQUEST)
    return injector.arm(FaultRule(id=more.pop("id", "f"), point=point, action=action, **more))


def crossing(point: FaultPoint = FaultPoint.PEER_REQUEST) -> Crossing:
    return Crossing(
        point=point, source="broker/1", target="broker/2", api_key=27, api_version=1,
        correlation_id=1, subject=Subject(), line="1 -> 2",
    )  # fmt: skip


def cross(env: VirtualEnvironment, injector: Injector) -> asyncio.Task[FaultEffect]:
    answer = injector.cross(crossing())
    assert answer is not None
    assert not isinstance(answer, FaultEffect)

    async def wait() -> FaultEffect:
        return await answer

    return env.tasks.spawn(wait(), name="struck")


@within(run)
async def test_without_a_cluster_such_a_rule_is_refused(
    env: VirtualEnvironment, injector: Injector, control: RecordingControl, /
) -> None:
    assert injector.cluster_control is control
    injector.cluster_control = None
    with pytest.raises(ValueError, match="crash broker 1: this can't be done here"):
        arm(injector, Crash(broker=1))
    assert injector.rules() == ()


@within(run)
async def test_the_struck_crossing_waits_until_the_thing_is_done_and_passes(
    env: VirtualEnvironment, injector: Injector, control: RecordingControl, /
) -> None:
    control.gate.clear()
    state = arm(injector, Crash(), limit=1)
    struck = cross(env, injector)
    assert control.done == []
    await asyncio.sleep(1)
    assert (struck.done(), state.struck) == (False, 0)
    control.gate.set()
    assert await struck == PASS
    assert (control.done, state.struck) == (["crash 2"], 1)


@within(run)
async def test_the_struck_crossing_meets_what_the_rule_says_then(
    env: VirtualEnvironment, injector: Injector, control: RecordingControl, /
) -> None:
    arm(injector, MoveLeader(topic="t", partition=0), then=Fail(error="NOT_COORDINATOR"))
    assert (await cross(env, injector)).outcome is SubmitOutcome.ERROR
    injector.disarm("f")
    arm(injector, MoveLeader(topic="t", partition=0), then=Hold())
    held = cross(env, injector)
    await asyncio.sleep(1)
    assert not held.done()
    assert injector.release("f") == 1
    assert await held == PASS
    assert control.done == ["move t-0 to somebody"] * 2


@within(run)
async def test_where_nothing_can_wait_the_action_happens_behind_its_back(
    env: VirtualEnvironment, injector: Injector, control: RecordingControl, /
) -> None:
    point = FaultPoint.LOG_INDEX
    arm(injector, Crash(), point=point)
    assert injector.cross(crossing(point)) is None
    injector.disarm("f")
    arm(injector, Crash(), point=point, then=Drop())
    answer = injector.cross(crossing(point))
    assert isinstance(answer, FaultEffect)
    assert answer.outcome is SubmitOutcome.DROP
    await asyncio.sleep(1)
    assert control.done.count("crash 2") == 2


@within(run)
async def test_now_is_once_and_at_once(
    env: VirtualEnvironment, injector: Injector, control: RecordingControl, /
) -> None:
    state = arm(injector, Crash(broker=3), point=FaultPoint.NOW)
    assert control.done == []
    await injector.wait_until_struck("f", timeout_ms=100)
    assert (control.done, state.matched) == (["crash 3"], 1)


def test_a_failure_is_reported_and_the_crossing_passes() -> None:
    async def story(
        env: VirtualEnvironment, injector: Injector, _control: RecordingControl
    ) -> None:
        state = arm(injector, Crash(broker=MISSING), then=Drop())
        waiting = env.tasks.spawn(injector.wait_until_struck("f", timeout_ms=100), name="waiting")
        await asyncio.sleep(0)
        assert await cross(env, injector) == PASS
        outcome = (await asyncio.gather(waiting, return_exceptions=True))[0]
        assert isinstance(outcome, LookupError)
        assert "there is no broker 99" in str(outcome)
        assert (state.failure, state.struck) == ("there is no broker 99", 0)
        assert injector.never_struck() == (state,)

    # The task that waited has failed, and was asked for it.
    with pytest.raises(BaseExceptionGroup, match="background tasks failed"):
        run(story)


@pytest.mark.parametrize("by", ["time", "release", "disarming"])
@within(run)
async def test_what_lasts_ends_once(
    env: VirtualEnvironment, injector: Injector, control: RecordingControl, /, by: str
) -> None:
    action = Partition(groups=((1,), (2,)), heal_after_ms=1_000)
    state = arm(injector, action, point=FaultPoint.NOW)
    await injector.wait_until_struck("f", timeout_ms=100)
    did = "partition ((1,), (2,))"
    assert (control.done, len(state.lasting)) == ([did], 1)
    if by == "release":
        assert injector.release("f") == 1
        assert injector.release("f") == 0
    elif by == "disarming":
        injector.disarm("f")
    await asyncio.sleep(5)
    assert control.done == [did, f"undo {did}"]
    assert (state.lasting, state.released) == ([], 1)


@within(run)
async def test_what_is_done_after_its_rule_was_disarmed_is_undone(
    env: VirtualEnvironment, injector: Injector, control: RecordingControl, /
) -> None:
    control.gate.clear()
    arm(injector, Crash())
    struck = cross(env, injector)
    await asyncio.sleep(1)
    injector.disarm("f")
    control.gate.set()
    assert await struck == PASS
    await asyncio.sleep(1)
    assert control.done == ["crash 2", "undo crash 2"]


@within(run)
async def test_a_struck_crossing_may_be_given_up(
    env: VirtualEnvironment, injector: Injector, control: RecordingControl, /
) -> None:
    control.gate.clear()
    state = arm(injector, Crash())
    struck = cross(env, injector)
    await asyncio.sleep(1)
    struck.cancel()
    await asyncio.sleep(1)
    control.gate.set()
    await asyncio.sleep(1)
    assert (control.done, state.struck) == (["crash 2"], 1)

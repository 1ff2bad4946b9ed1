"""Faults that run: how they are armed, what they do, which stall."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.support.cluster_control import MISSING, RecordingControl
from tests.support.within_environment import within
from txnsim.faults.actions import CrossingAction, Drop, Fail, Hold, Pass, Reorder, Stall
from txnsim.faults.cluster_actions import ClusterAction, Crash, MoveLeader, Partition
from txnsim.faults.interception import Crossing, FaultEffect, SubmitOutcome
from txnsim.faults.plan import FaultRule
from txnsim.faults.points import FaultPoint
from txnsim.faults.subjects import Subject
from txnsim.injection.armed_rule import ArmedRule, HeldCrossing
from txnsim.injection.injector import Injector
from txnsim.runtime.virtual.run import VirtualEnvironment, run_virtual

# ``running_actions``: Actions on the cluster: done after the strike, counted when done, ended by
# time or release.


PASS = FaultEffect(outcome=SubmitOutcome.PASS)

Story = Callable[[VirtualEnvironment, Injector, RecordingControl], Awaitable[None]]


def run(story: Story) -> None:
    async def main(env: VirtualEnvironment) -> None:
        injector = Injector(clock=env.clock, tracer=env.tracer, tasks=env.tasks, rng=env.rng)
        control = RecordingControl()
        injector.cluster_control = control
        await story(env, injector, control)

    run_virtual(main, seed=1)


def arm(injector: Injector, action: ClusterAction, **rule_fields: Any) -> ArmedRule:
    point = rule_fields.pop("point", FaultPoint.PEER_REQUEST)
    return injector.arm(
        FaultRule(id=rule_fields.pop("id", "f"), point=point, action=action, **rule_fields)
    )


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
    armed_rule = arm(injector, Crash(), limit=1)
    struck_crossing_task = cross(env, injector)
    assert control.actions == []
    await asyncio.sleep(1)
    assert (struck_crossing_task.done(), armed_rule.struck) == (False, 0)
    control.gate.set()
    assert await struck_crossing_task == PASS
    assert (control.actions, armed_rule.struck) == (["crash 2"], 1)


@within(run)
async def test_the_struck_crossing_meets_what_the_rule_says_then(
    env: VirtualEnvironment, injector: Injector, control: RecordingControl, /
) -> None:
    arm(injector, MoveLeader(topic="t", partition=0), then=Fail(error="NOT_COORDINATOR"))
    assert (await cross(env, injector)).outcome is SubmitOutcome.ERROR
    injector.disarm("f")
    arm(injector, MoveLeader(topic="t", partition=0), then=Hold())
    crossing_wait_task = cross(env, injector)
    await asyncio.sleep(1)
    assert not crossing_wait_task.done()
    assert injector.release("f") == 1
    assert await crossing_wait_task == PASS
    assert control.actions == ["move t-0 to somebody"] * 2


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
    assert control.actions.count("crash 2") == 2


@within(run)
async def test_now_is_once_and_at_once(
    env: VirtualEnvironment, injector: Injector, control: RecordingControl, /
) -> None:
    armed_rule = arm(injector, Crash(broker=3), point=FaultPoint.NOW)
    assert control.actions == []
    await injector.wait_until_struck("f", timeout_ms=100)
    assert (control.actions, armed_rule.matched) == (["crash 3"], 1)


def test_a_failure_is_reported_and_the_crossing_passes() -> None:
    async def story(
        env: VirtualEnvironment, injector: Injector, _control: RecordingControl
    ) -> None:
        armed_rule = arm(injector, Crash(broker=MISSING), then=Drop())
        strike_wait_task = env.tasks.spawn(
            injector.wait_until_struck("f", timeout_ms=100), name="waiting"
        )
        await asyncio.sleep(0)
        assert await cross(env, injector) == PASS
        outcome = (await asyncio.gather(strike_wait_task, return_exceptions=True))[0]
        assert isinstance(outcome, LookupError)
        assert "there is no broker 99" in str(outcome)
        assert (armed_rule.failure, armed_rule.struck) == ("there is no broker 99", 0)
        assert injector.never_struck() == (armed_rule,)

    # The task that waited has failed, and was asked for it.
    with pytest.raises(BaseExceptionGroup, match="background tasks failed"):
        run(story)


@pytest.mark.parametrize("by", ["time", "release", "disarming"])
@within(run)
async def test_what_lasts_ends_once(
    env: VirtualEnvironment, injector: Injector, control: RecordingControl, /, by: str
) -> None:
    action = Partition(groups=((1,), (2,)), heal_after_ms=1_000)
    armed_rule = arm(injector, action, point=FaultPoint.NOW)
    await injector.wait_until_struck("f", timeout_ms=100)
    did = "partition ((1,), (2,))"
    assert (control.actions, len(armed_rule.lasting_effects)) == ([did], 1)
    if by == "release":
        assert injector.release("f") == 1
        assert injector.release("f") == 0
    elif by == "disarming":
        injector.disarm("f")
    await asyncio.sleep(5)
    assert control.actions == [did, f"undo {did}"]
    assert (armed_rule.lasting_effects, armed_rule.released) == ([], 1)


@within(run)
async def test_what_is_done_after_its_rule_was_disarmed_is_undone(
    env: VirtualEnvironment, injector: Injector, control: RecordingControl, /
) -> None:
    control.gate.clear()
    arm(injector, Crash())
    struck_crossing_task = cross(env, injector)
    await asyncio.sleep(1)
    injector.disarm("f")
    control.gate.set()
    assert await struck_crossing_task == PASS
    await asyncio.sleep(1)
    assert control.actions == ["crash 2", "undo crash 2"]


@within(run)
async def test_a_struck_crossing_may_be_given_up(
    env: VirtualEnvironment, injector: Injector, control: RecordingControl, /
) -> None:
    control.gate.clear()
    armed_rule = arm(injector, Crash())
    struck_crossing_task = cross(env, injector)
    await asyncio.sleep(1)
    struck_crossing_task.cancel()
    await asyncio.sleep(1)
    control.gate.set()
    await asyncio.sleep(1)
    assert (control.actions, armed_rule.struck) == (["crash 2"], 1)


# Lines that stand still: everything on them waits in order, and nothing on any other.


REQUEST, RESPONSE = FaultPoint.PEER_REQUEST, FaultPoint.PEER_RESPONSE


class LinkMessages:
    """Messages on links, and the order in which they went on."""

    def __init__(self, env: VirtualEnvironment) -> None:
        self.env = env
        self.injector = Injector(clock=env.clock, tracer=env.tracer, tasks=env.tasks, rng=env.rng)
        self.passed: list[int] = []
        self.lost: list[int] = []

    def arm(self, action: CrossingAction, rule_id: str = "f", **rule_fields: Any) -> ArmedRule:
        point = rule_fields.pop("point", REQUEST)
        return self.injector.arm(FaultRule(id=rule_id, point=point, action=action, **rule_fields))

    def send(self, correlation_id: int, line: str = "1 -> 2", point: FaultPoint = REQUEST) -> None:
        source, target = line.split(" -> ")
        answer = self.injector.cross(
            Crossing(
                point=point, source=f"broker/{source}", target=f"broker/{target}", api_key=27,
                api_version=1, correlation_id=correlation_id, subject=Subject(), line=line,
            )
        )  # fmt: skip
        if answer is None or isinstance(answer, FaultEffect):
            self._arrive(correlation_id, answer)
        else:
            self.env.tasks.drive(
                _await_effect(answer),
                lambda verdict, _: self._arrive(correlation_id, verdict),
                name="message",
            )

    def _arrive(self, crossing_number: int, fault_effect: FaultEffect | None) -> None:
        is_lost = fault_effect is not None and fault_effect.outcome is SubmitOutcome.DROP
        (self.lost if is_lost else self.passed).append(crossing_number)


async def _await_effect(answer_awaitable: Awaitable[FaultEffect]) -> FaultEffect:
    return await answer_awaitable


def run_of_stalls(story: Callable[[LinkMessages], Awaitable[None]]) -> None:
    async def main(env: VirtualEnvironment) -> None:
        await story(LinkMessages(env))

    run_virtual(main, seed=1)


@pytest.mark.parametrize("by", ["time", "release", "disarming"])
@within(run_of_stalls)
async def test_a_line_stands_still_and_then_goes_on_in_order(lines: LinkMessages, by: str) -> None:
    armed_rule = lines.arm(Stall(stall_ms=1_000 if by == "time" else None), limit=1)
    lines.send(1)
    lines.send(2, point=RESPONSE)
    lines.send(3)
    lines.send(4, "2 -> 1")
    assert lines.passed == [4]
    assert (armed_rule.struck, len(armed_rule.held_crossings), lines.injector.is_armed) == (
        1,
        3,
        True,
    )
    if by == "release":
        assert lines.injector.release("f") == 3
    elif by == "disarming":
        lines.injector.disarm("f")
    else:
        await asyncio.sleep(0.999)
        assert lines.passed == [4]
    await asyncio.sleep(0.01)
    assert lines.passed == [4, 1, 2, 3]
    assert (armed_rule.held_crossings, armed_rule.released, lines.injector.is_armed) == (
        {},
        3,
        False,
    )
    lines.send(5)
    assert lines.passed[-1] == 5


@within(run_of_stalls)
async def test_who_comes_while_the_others_are_woken_stays_behind_them(lines: LinkMessages) -> None:
    lines.arm(Stall(), limit=1)
    lines.send(1)
    lines.send(2)
    lines.injector.release("f")
    lines.send(3)
    assert lines.passed == []
    await asyncio.sleep(0.01)
    assert lines.passed == [1, 2, 3]


@within(run_of_stalls)
async def test_other_rules_judge_what_has_waited(lines: LinkMessages) -> None:
    lines.arm(Stall(stall_ms=10), limit=1)
    passing_rule = lines.arm(Pass(), "seen")
    lines.arm(Drop(), "lost", occurrences=(2,))
    hold_rule = lines.arm(Hold(), "held", nth=3)
    for crossing_number in (1, 2, 3):
        lines.send(crossing_number)
    assert passing_rule.matched == 1
    await asyncio.sleep(1)
    assert (lines.passed, lines.lost, len(hold_rule.held_crossings)) == ([1], [2], 1)
    lines.injector.release("held")
    await asyncio.sleep(1)
    assert lines.passed == [1, 3]


@within(run_of_stalls)
async def test_a_line_may_be_stalled_anew_by_what_has_waited(lines: LinkMessages) -> None:
    lines.arm(Stall(stall_ms=100))
    for crossing_number in (1, 2, 3):
        lines.send(crossing_number)
    for expected in ([1], [1, 2], [1, 2, 3]):
        await asyncio.sleep(0.101)
        assert lines.passed == expected
    await asyncio.sleep(1)
    assert not lines.injector._stalls


@within(run_of_stalls)
async def test_lines_stalled_by_one_rule_end_each_in_its_time(lines: LinkMessages) -> None:
    lines.arm(Stall(stall_ms=100), limit=2)
    lines.send(1, "1 -> 2")
    await asyncio.sleep(0.05)
    lines.send(2, "1 -> 3")
    await asyncio.sleep(0.06)
    assert lines.passed == [1]
    await asyncio.sleep(0.05)
    assert lines.passed == [1, 2]


# A rule in force: what it counts, who waits for it, when it is spent.


def armed_rule(action: CrossingAction | None = None, **rule_fields: Any) -> ArmedRule:
    return ArmedRule(
        FaultRule(id="f", point=FaultPoint.CLIENT_REQUEST, action=action or Hold(), **rule_fields)
    )


def crossing_of_armed() -> Crossing:
    return Crossing(
        point="client.request", source="client/app", target="broker/1", api_key=0, api_version=11,
        correlation_id=1, subject=Subject(),
    )  # fmt: skip


async def test_who_waits_for_strikes_is_woken_by_the_last_of_them() -> None:
    state = armed_rule(Pass())
    first_strike_future, second_strike_future = state.until_struck(1), state.until_struck(2)
    given_up_future = state.until_struck(1)
    given_up_future.cancel()
    state.count_strike()
    assert (first_strike_future.done(), second_strike_future.done()) == (True, False)
    state.count_strike()
    assert second_strike_future.done()
    assert state.until_struck(2).done()


async def test_a_wait_in_vain_says_why() -> None:
    state = armed_rule()
    second_strike_future, cancelled_future = state.until_struck(2), state.until_struck(1)
    cancelled_future.cancel()
    state.give_up("it was disarmed")
    with pytest.raises(LookupError, match="0 of 2 strikes; it was disarmed"):
        await second_strike_future


async def test_a_limit_of_likely_strikes_counts_strikes() -> None:
    state = armed_rule(Pass(), limit=2, probability=0.5)
    state.matched = 10
    assert not state.is_spent
    state.begun_count = 2
    assert state.is_spent


async def test_a_rule_that_waits_for_others_to_pass_is_not_spent() -> None:
    state = armed_rule(Reorder(), limit=1)
    state.matched = 1
    assert state.is_spent
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    state.held_crossings[future] = HeldCrossing(crossing=crossing_of_armed(), hit_event=-1)
    assert not state.is_spent

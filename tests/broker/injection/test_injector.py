"""The interceptor that makes declared faults happen, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec
import pytest

from tests.support.within_environment import within
from txnsim.errors import ErrorCode, PeerAnsweredError, PeerTimeoutError
from txnsim.faults.actions import (
    Corrupt,
    Delay,
    Disconnect,
    Drop,
    DropAnswer,
    Duplicate,
    Fail,
    Hold,
    Pass,
    Reorder,
    Rewrite,
    Stall,
    Throttle,
)
from txnsim.faults.interception import (
    Crossing,
    DamagedPart,
    FaultEffect,
    RewriteHow,
    Rewriting,
    SubmitOutcome,
)
from txnsim.faults.plan import Action, FaultRule, MessagePart
from txnsim.faults.points import FaultPoint
from txnsim.faults.subjects import Subject
from txnsim.injection.injector import CannotStrikeError, Injector
from txnsim.runtime.tasks import Pending
from txnsim.runtime.virtual.run import VirtualEnvironment, run_virtual
from txnsim.types import BrokerId, TopicPartition

T = TypeVar("T")
PASS = FaultEffect(outcome=SubmitOutcome.PASS)
B1, B2 = BrokerId(1), BrokerId(2)


def rule(rule_id: str = "f", action: Action | None = None, **criteria: Any) -> FaultRule:
    point = criteria.pop("point", FaultPoint.CLIENT_REQUEST)
    return FaultRule(id=rule_id, point=point, action=action or Hold(), **criteria)


def crossing(
    correlation_id: int = 1,
    *,
    source: str = "client/app",
    point: FaultPoint = FaultPoint.CLIENT_REQUEST,
    api_key: int = 0,
) -> Crossing:
    return Crossing(
        point=point,
        source=source,
        target="broker/1",
        api_key=api_key,
        api_version=11,
        correlation_id=correlation_id,
        subject=Subject(transactional_id="tx"),
    )


def run(main: Callable[[VirtualEnvironment, Injector], Awaitable[T]]) -> T:
    async def run_with_injector(env: VirtualEnvironment) -> T:
        injector = Injector(clock=env.clock, tracer=env.tracer, tasks=env.tasks, rng=env.rng)
        env.network.interceptor = injector
        return await main(env, injector)

    return run_virtual(run_with_injector, seed=1)


async def wait(answer: FaultEffect | Awaitable[FaultEffect] | None) -> FaultEffect:
    assert answer is not None
    assert not isinstance(answer, FaultEffect)
    return await answer


# Arming


@within(run)
async def test_armed_follows_the_rules_in_force(
    env: VirtualEnvironment, injector: Injector, /
) -> None:
    armed_states = [injector.is_armed]
    injector.arm(rule("a"))
    injector.arm(rule("b"))
    injector.disarm("a")
    armed_states.append(injector.is_armed)
    injector.disarm("b")
    armed_states.append(injector.is_armed)
    assert armed_states == [False, True, False]
    assert injector.rules() == ()


@within(run)
async def test_a_rule_that_is_spent_costs_nothing_more_but_can_be_released(
    env: VirtualEnvironment, injector: Injector, /
) -> None:
    armed_rule = injector.arm(rule(limit=1))
    held_crossing_task = env.tasks.spawn(_coroutine(wait(injector.cross(crossing()))), name="held")
    assert not injector.is_armed
    assert armed_rule.is_spent
    assert injector.cross(crossing(2)) is None
    await asyncio.sleep(0)
    assert injector.release("f") == 1
    assert await held_crossing_task == PASS


@within(run)
async def test_ids_are_unique_among_armed_rules_and_may_be_used_again(
    env: VirtualEnvironment, injector: Injector, /
) -> None:
    first_rule = injector.arm(rule())
    with pytest.raises(ValueError, match="armed already"):
        injector.arm(rule())
    assert injector.get("f") is first_rule
    assert injector.disarm("f") is first_rule
    assert injector.get("f") is None
    assert injector.arm(rule()) is not first_rule


@within(run)
async def test_unknown_rules_are_refused(env: VirtualEnvironment, injector: Injector, /) -> None:
    for act in (injector.release, injector.disarm):
        with pytest.raises(KeyError):
            act("nothing")
    with pytest.raises(KeyError):
        await injector.wait_until_struck("nothing", timeout_ms=1)


# Striking


@within(run)
async def test_what_no_rule_concerns_goes_on_at_once(
    env: VirtualEnvironment, injector: Injector, /
) -> None:
    armed_rule = injector.arm(rule(client_id="other"))
    assert injector.cross(crossing()) is None
    assert (armed_rule.matched, armed_rule.struck) == (0, 0)


@pytest.mark.parametrize(
    ("action", "fault_effect"),
    [
        (Drop(), FaultEffect(outcome=SubmitOutcome.DROP)),
        (
            Fail(error="NOT_COORDINATOR"),
            FaultEffect(outcome=SubmitOutcome.ERROR, error=int(ErrorCode.not_coordinator)),
        ),
    ],
)
@within(run)
async def test_drops_and_errors_are_verdicts_at_once(
    env: VirtualEnvironment, injector: Injector, /, action: Action, fault_effect: FaultEffect
) -> None:
    armed_rule = injector.arm(rule(action=action))
    assert injector.cross(crossing()) == fault_effect
    assert (armed_rule.matched, armed_rule.struck) == (1, 1)


@within(run)
async def test_counting_decides_which_crossing_is_struck(
    env: VirtualEnvironment, injector: Injector, /
) -> None:
    armed_rule = injector.arm(rule(action=Drop(), nth=2, limit=1))
    answers = [injector.cross(crossing(n)) for n in range(1, 5)]
    assert [answer is not None for answer in answers] == [False, True, False, False]
    assert (armed_rule.matched, armed_rule.struck) == (4, 1)


@within(run)
async def test_of_several_rules_the_oldest_decides_and_all_count(
    env: VirtualEnvironment, injector: Injector, /
) -> None:
    first_rule = injector.arm(rule("first", Drop(), nth=2))
    second_rule = injector.arm(rule("second", Fail(error="NOT_COORDINATOR")))
    outcomes = []
    for number in (1, 2):
        answer = injector.cross(crossing(number))
        assert isinstance(answer, FaultEffect)
        outcomes.append(answer.outcome)
    assert outcomes == [SubmitOutcome.ERROR, SubmitOutcome.DROP]
    assert (first_rule.matched, first_rule.struck) == (2, 1)
    assert (second_rule.matched, second_rule.struck) == (2, 1)


@within(run)
async def test_a_delay_is_monotonic_time(env: VirtualEnvironment, injector: Injector, /) -> None:
    injector.arm(rule(action=Delay(delay_ms=500)))
    start_ms = env.clock.monotonic_ms()
    answer = injector.cross(crossing())
    env.clock.advance(3_600_000)
    assert await wait(answer) == PASS
    assert env.clock.monotonic_ms() - start_ms == 500


@within(run)
async def test_jitter_is_drawn_for_each_crossing(
    env: VirtualEnvironment, injector: Injector, /
) -> None:
    injector.arm(rule(action=Delay(delay_ms=40, jitter_ms=30)))
    waits_ms = set()
    for _ in range(20):
        start_ms = env.clock.monotonic_ms()
        assert await wait(injector.cross(crossing())) == PASS
        waits_ms.add(env.clock.monotonic_ms() - start_ms)
    assert len(waits_ms) > 5
    assert 40 <= min(waits_ms) < max(waits_ms) <= 70


@within(run)
async def test_disarming_leaves_delayed_crossings_to_their_delay(
    env: VirtualEnvironment, injector: Injector, /
) -> None:
    injector.arm(rule(action=Delay(delay_ms=500)))
    start_ms = env.clock.monotonic_ms()
    answer = injector.cross(crossing())
    injector.disarm("f")
    assert await wait(answer) == PASS
    assert env.clock.monotonic_ms() - start_ms == 500


@within(run)
async def test_a_delay_without_a_waiting_caller_is_forgotten(
    env: VirtualEnvironment, injector: Injector, /
) -> None:
    injector.arm(rule(action=Delay(delay_ms=500)))
    delayed_crossing_task = env.tasks.spawn(
        _coroutine(wait(injector.cross(crossing()))), name="wait"
    )
    await asyncio.sleep(0)
    delayed_crossing_task.cancel()
    await asyncio.sleep(1)
    assert delayed_crossing_task.cancelled()


# Holding


async def _coroutine(awaitable: Awaitable[T]) -> T:
    return await awaitable


@within(run)
async def test_a_held_crossing_waits_until_released_and_the_rule_holds_on(
    env: VirtualEnvironment, injector: Injector, /
) -> None:
    armed_rule = injector.arm(rule())
    ended_crossings: list[int] = []

    async def cross(crossing_number: int) -> None:
        assert await wait(injector.cross(crossing(crossing_number))) == PASS
        ended_crossings.append(crossing_number)

    for crossing_number in (1, 2, 3):
        env.tasks.spawn(cross(crossing_number), name=f"cross-{crossing_number}")
    await asyncio.sleep(3_600)
    assert ended_crossings == []
    assert [
        held_crossing.crossing.correlation_id
        for held_crossing in armed_rule.held_crossings.values()
    ] == [
        1,
        2,
        3,
    ]
    assert injector.release("f") == 3
    await asyncio.sleep(0)
    assert ended_crossings == [1, 2, 3]
    assert (armed_rule.struck, armed_rule.released, len(armed_rule.held_crossings)) == (3, 3, 0)
    env.tasks.spawn(cross(4), name="cross-4")
    await asyncio.sleep(1)
    assert len(armed_rule.held_crossings) == 1
    assert injector.release("f") == 1
    assert injector.release("f") == 0


@within(run)
async def test_what_is_held_is_lost_or_doubled_when_it_is_released_so(
    env: VirtualEnvironment, injector: Injector, /
) -> None:
    injector.arm(rule())
    effects: list[FaultEffect] = []

    async def cross() -> None:
        effects.append(await wait(injector.cross(crossing(1))))

    for action in (Drop(), Duplicate()):
        env.tasks.spawn(cross(), name="cross")
        await asyncio.sleep(1)
        assert injector.release("f", action) == 1
        await asyncio.sleep(0)
    assert [effect.outcome for effect in effects] == [SubmitOutcome.DROP, SubmitOutcome.DUPLICATE]
    injector.arm(rule("answers", point=FaultPoint.CLIENT_RESPONSE))
    with pytest.raises(CannotStrikeError, match=r"what is held at client\.response can't be"):
        injector.release("answers", Duplicate())


@within(run)
async def test_disarming_lets_go_what_is_held(
    env: VirtualEnvironment, injector: Injector, /
) -> None:
    injector.arm(rule("a"))
    injector.arm(rule("b", client_id="b"))
    crossing_tasks = [
        env.tasks.spawn(_coroutine(wait(injector.cross(crossing(1)))), name="1"),
    ]
    await asyncio.sleep(0)
    injector.disarm_all()
    assert await crossing_tasks[0] == PASS
    assert not injector.is_armed


@within(run)
async def test_a_crossing_whose_waiter_is_gone_is_held_no_longer(
    env: VirtualEnvironment, injector: Injector, /
) -> None:
    armed_rule = injector.arm(rule())
    held_crossing_task = env.tasks.spawn(_coroutine(wait(injector.cross(crossing()))), name="wait")
    await asyncio.sleep(0)
    held_crossing_task.cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert len(armed_rule.held_crossings) == 0
    assert injector.release("f") == 0


# Waiting for strikes


@within(run)
async def test_waiting_for_a_strike_ends_with_it(
    env: VirtualEnvironment, injector: Injector, /
) -> None:
    armed_rule = injector.arm(rule(action=Drop()))
    strike_wait_task = env.tasks.spawn(
        injector.wait_until_struck("f", timeout_ms=10_000), name="once"
    )
    second_wait_task = env.tasks.spawn(
        injector.wait_until_struck("f", count=2, timeout_ms=10_000), name="twice"
    )
    await asyncio.sleep(1)
    assert not strike_wait_task.done()
    injector.cross(crossing())
    assert await strike_wait_task is armed_rule
    assert not second_wait_task.done()
    injector.cross(crossing())
    assert await second_wait_task is armed_rule
    assert await injector.wait_until_struck("f", count=2, timeout_ms=0) is armed_rule


@within(run)
async def test_waiting_for_a_strike_has_a_deadline_that_says_what_was_seen(
    env: VirtualEnvironment, injector: Injector, /
) -> None:
    injector.arm(rule(action=Drop(), nth=3))
    injector.cross(crossing())
    start_ms = env.clock.monotonic_ms()
    with pytest.raises(TimeoutError, match="0 of 1 strikes within 250 ms, 1 crossings matched"):
        await injector.wait_until_struck("f", timeout_ms=250)
    assert env.clock.monotonic_ms() - start_ms == 250
    injector.cross(crossing())
    injector.cross(crossing())


def test_waiting_for_a_rule_that_is_disarmed_is_in_vain() -> None:
    async def main(env: VirtualEnvironment, injector: Injector) -> None:
        injector.arm(rule(action=Drop()))
        strike_wait_task = env.tasks.spawn(_coroutine(_expect_lookup_error(injector)), name="wait")
        await asyncio.sleep(1)
        injector.disarm("f")
        assert await strike_wait_task == "rule 'f': 0 of 1 strikes; it was disarmed"

    async def _expect_lookup_error(injector: Injector) -> str:
        try:
            await injector.wait_until_struck("f", timeout_ms=10_000)
        except LookupError as error:
            return str(error)
        return "no error"

    run(main)


# In the network


async def echo(_key: int, _version: int, command: object, _source_broker_id: BrokerId) -> object:
    return command


def ask(env: VirtualEnvironment, command: object = "x") -> Pending[Any]:
    return env.network.ask(B1, B2, 27, 1, command, timeout_ms=1_000)


@within(run)
async def test_peer_requests_are_struck(env: VirtualEnvironment, injector: Injector, /) -> None:
    env.network.register(B2, echo)
    injector.arm(rule("lost", Drop(), point=FaultPoint.PEER_REQUEST, limit=1, broker=2))
    with pytest.raises(PeerTimeoutError):
        await ask(env)
    assert await ask(env) == "x"
    injector.arm(rule("no", Fail(error="NOT_COORDINATOR"), point=FaultPoint.PEER_RESPONSE, limit=1))
    with pytest.raises(PeerAnsweredError):
        await ask(env)
    injector.arm(
        rule("held", point=FaultPoint.PEER_REQUEST, source="broker/1", api="WriteTxnMarkers")
    )
    future = ask(env)
    await injector.wait_until_struck("held", timeout_ms=100)
    await asyncio.sleep(0.5)
    assert not future.done()
    injector.release("held")
    assert await future == "x"


@within(run)
async def test_the_trace_names_the_fault_that_lost_a_message(
    env: VirtualEnvironment, injector: Injector, /
) -> None:
    env.network.register(B2, echo)
    injector.arm(rule(action=Drop(), point=FaultPoint.PEER_RESPONSE))
    with pytest.raises(PeerTimeoutError):
        await ask(env)
    story = [(event.k, env.tracer.nodes[event.n], event.p) for event in env.tracer.events()]
    assert story == [
        ("fault.arm", "fault", ()),
        ("msg.send", "broker/1", ()),
        ("msg.recv", "broker/2", (1,)),
        ("msg.send", "broker/2", (2,)),
        ("fault.hit", "fault", (3, 0)),
        ("msg.drop", "broker/1", (3, 4)),
        ("timer.fire", "broker/1", (3,)),
    ]


@within(run)
async def test_the_trace_tells_the_story_of_a_hold(
    env: VirtualEnvironment, injector: Injector, /
) -> None:
    env.network.register(B2, echo)
    injector.arm(rule(point=FaultPoint.PEER_REQUEST))
    future = ask(env)
    await injector.wait_until_struck("f", timeout_ms=100)
    injector.disarm("f")
    await future
    story = [(event.k, env.tracer.nodes[event.n], event.p) for event in env.tracer.events()]
    event_fields = [event.d for event in env.tracer.events() if isinstance(event.d, dict)]
    held_counts = [event_fields["held"] for event_fields in event_fields if "held" in event_fields]
    assert held_counts == [1, 0]  # what is held counts from the hit on
    assert story == [
        ("fault.arm", "fault", ()),
        ("msg.send", "broker/1", ()),
        ("fault.hit", "fault", (1, 0)),
        ("msg.hold", "broker/2", (1, 2)),
        ("fault.release", "fault", (2, 0)),
        ("msg.recv", "broker/2", (1, 4)),
        ("msg.send", "broker/2", (5,)),
        ("msg.recv", "broker/1", (6,)),
    ]


# When


@within(run)
async def test_a_rule_that_only_lets_pass_counts_and_leaves_the_decision_to_others(
    env: VirtualEnvironment, injector: Injector, /
) -> None:
    passing_rule = injector.arm(rule("seen", Pass(), limit=1))
    assert injector.cross(crossing()) is None
    assert (passing_rule.matched, passing_rule.struck, injector.is_armed) == (1, 1, False)
    injector.arm(rule("lost", Drop()))
    late_rule = injector.arm(rule("late", Pass()))
    assert injector.cross(crossing()) == FaultEffect(outcome=SubmitOutcome.DROP)
    assert late_rule.struck == 1


@within(run)
async def test_a_rule_may_wait_for_another_and_end_with_another(
    env: VirtualEnvironment, injector: Injector, /
) -> None:
    injector.arm(rule("first", Pass(), nth=2, limit=1))
    injector.arm(rule("last", Pass(), nth=5, limit=1))
    rule_between = injector.arm(rule("between", Drop(), after="first", until="last"))
    answers = [injector.cross(crossing(number)) for number in range(1, 8)]
    assert [answer is not None for answer in answers] == [
        False, False, True, True, True, False, False,
    ]  # fmt: skip
    assert rule_between.matched == 3
    assert not injector.is_armed, "what has ended costs nothing"


@within(run)
async def test_a_rule_may_wait_for_one_that_is_disarmed_but_not_for_an_unknown_one(
    env: VirtualEnvironment, injector: Injector, /
) -> None:
    for field_name in ("after", "until"):
        with pytest.raises(ValueError, match=f"{field_name}: no rule 'other' has been armed"):
            injector.arm(rule("f", Drop(), **{field_name: "other"}))
    injector.arm(rule("other", Pass()))
    injector.cross(crossing())
    injector.disarm("other")
    injector.arm(rule("f", Drop(), after="other"))
    assert injector.cross(crossing()) is not None


def test_chance_comes_from_the_seed_and_a_limit_counts_strikes() -> None:
    def struck(seed: int) -> list[int]:
        async def main(env: VirtualEnvironment) -> list[int]:
            injector = Injector(clock=env.clock, tracer=env.tracer, tasks=env.tasks, rng=env.rng)
            injector.arm(rule("f", Drop(), probability=0.3, limit=5))
            struck_numbers = [
                struck_number
                for struck_number in range(60)
                if injector.cross(crossing(struck_number))
            ]
            assert not injector.is_armed
            return struck_numbers

        return run_virtual(main, seed=seed)

    assert struck(1) == struck(1)
    assert struck(1) != struck(2)
    assert len(struck(1)) == 5
    assert struck(1) != [0, 1, 2, 3, 4]


# The other verdicts


@pytest.mark.parametrize(
    ("action", "fault_effect"),
    [
        (DropAnswer(), FaultEffect(outcome=SubmitOutcome.DROP_ANSWER)),
        (Disconnect(), FaultEffect(outcome=SubmitOutcome.DISCONNECT)),
        (Duplicate(times=2), FaultEffect(outcome=SubmitOutcome.DUPLICATE, times=2)),
        (Throttle(throttle_ms=9), FaultEffect(outcome=SubmitOutcome.THROTTLE, throttle_ms=9)),
    ],
)
@within(run)
async def test_what_a_connection_has_to_do_is_in_the_verdict(
    env: VirtualEnvironment, injector: Injector, /, action: Action, fault_effect: FaultEffect
) -> None:
    injector.arm(rule(action=action))
    assert injector.cross(crossing()) == fault_effect


@within(run)
async def test_damage_is_drawn_anew_for_each_message(
    env: VirtualEnvironment, injector: Injector, /
) -> None:
    injector.arm(rule(action=Corrupt(what=DamagedPart.BYTES)))
    noises = []
    for _ in range(2):
        verdict = injector.cross(crossing())
        assert isinstance(verdict, FaultEffect)
        assert verdict.damage is not None
        assert verdict.damage.part is DamagedPart.BYTES
        noises.append(verdict.damage.noise)
    assert noises[0] != noises[1]


@within(run)
async def test_a_copy_is_not_copied_again(env: VirtualEnvironment, injector: Injector, /) -> None:
    injector.arm(rule(action=Duplicate()))
    copied_crossing = msgspec.structs.replace(crossing(), is_copy=True)
    assert injector.cross(copied_crossing) is None


@within(run)
async def test_reordering_lets_the_next_ones_pass_first(
    env: VirtualEnvironment, injector: Injector, /
) -> None:
    armed_rule = injector.arm(rule(action=Reorder(behind=2)))
    order: list[int] = []
    for crossing_number in range(1, 7):
        answer = injector.cross(crossing(crossing_number))
        if answer is None:
            order.append(crossing_number)
            continue

        async def late(late_number: int, answer_awaitable: Awaitable[FaultEffect]) -> None:
            await answer_awaitable
            order.append(late_number)

        assert not isinstance(answer, FaultEffect)
        env.tasks.spawn(late(crossing_number, answer), name="late")
        await asyncio.sleep(0)
        assert len(armed_rule.held_crossings) == 1
    await asyncio.sleep(0.1)
    assert order == [2, 3, 1, 5, 6, 4]
    assert (armed_rule.matched, armed_rule.struck, armed_rule.released) == (6, 2, 2)


@within(run)
async def test_a_reordered_crossing_keeps_its_rule_alive_and_can_be_released(
    env: VirtualEnvironment, injector: Injector, /
) -> None:
    injector.arm(rule(action=Reorder(), limit=1))
    held_crossing_task = env.tasks.spawn(_coroutine(wait(injector.cross(crossing()))), name="held")
    await asyncio.sleep(0)
    assert injector.is_armed, "it has to see the next one pass"
    assert injector.release("f") == 1
    assert await held_crossing_task == PASS
    assert not injector.is_armed


# The account


@within(run)
async def test_rules_that_never_struck_are_listed_even_when_disarmed(
    env: VirtualEnvironment, injector: Injector, /
) -> None:
    struck_rule = injector.arm(rule("struck", Drop()))
    idle_rule = injector.arm(rule("idle", Drop(), client_id="other"))
    disarmed_rule = injector.arm(rule("gone", Drop(), nth=9))
    assert injector.cross(crossing()) is not None
    assert struck_rule not in injector.never_struck()
    injector.disarm("gone")
    assert injector.never_struck() == (idle_rule, disarmed_rule)
    injector.forget()
    assert injector.never_struck() == (idle_rule,)


@within(run)
async def test_where_a_rule_can_not_strike_it_is_refused_with_the_reason(
    env: VirtualEnvironment, injector: Injector, /
) -> None:
    injector = Injector(
        clock=env.clock, tracer=env.tracer, tasks=env.tasks, rng=env.rng,
        refusal_of=lambda rule: None if rule.id == "f" else "only f is taken here",
    )  # fmt: skip
    injector.arm(rule())
    with pytest.raises(CannotStrikeError, match="only f"):
        injector.arm(rule("g"))
    assert [rule.rule.id for rule in injector.rules()] == ["f"]


@within(run)
async def test_it_says_how_much_its_rules_want_to_know(
    env: VirtualEnvironment, injector: Injector, /
) -> None:
    point = FaultPoint.CLIENT_REQUEST
    assert injector.needed_part(point, 0) is MessagePart.NOTHING
    injector.arm(rule("by-api", api="Produce"))
    assert [injector.needed_part(point, key) for key in (0, 1)] == [
        MessagePart.HEADER,
        MessagePart.NOTHING,
    ]
    injector.arm(rule("by-id", Pass(), transactional_id="tx", limit=1))
    assert injector.needed_part(point, 0) is MessagePart.BODY
    first_crossing_task = asyncio.get_running_loop().create_task(
        _await_it(injector.cross(crossing()))
    )
    assert injector.needed_part(point, 0) is MessagePart.HEADER, (
        "a rule that is spent asks for nothing"
    )
    injector.disarm_all()
    injector.arm(rule("line", Stall()))
    second_crossing_task = asyncio.get_running_loop().create_task(
        _await_it(injector.cross(crossing()))
    )
    assert injector.needed_part(FaultPoint.CLIENT_RESPONSE, 1) is MessagePart.HEADER, (
        "a line stands still"
    )
    injector.disarm_all()
    await asyncio.gather(first_crossing_task, second_crossing_task)


async def _await_it(answer: Any) -> None:
    await answer


def test_how_an_answer_is_rewritten_is_in_the_verdict() -> None:
    async def main(_env: VirtualEnvironment, injector: Injector) -> None:
        rewrite = Rewrite(field="committed_offset", how=RewriteHow.ADD, value=5)
        rewriting_rule = FaultRule(
            id="off", point=FaultPoint.CLIENT_RESPONSE, api="OffsetFetch", action=rewrite
        )
        injector.arm(rewriting_rule)
        crossed = crossing(point=FaultPoint.CLIENT_RESPONSE, api_key=9)
        rewriting = Rewriting(field="committed_offset", how=RewriteHow.ADD, value=5)
        fault_effect = FaultEffect(outcome=SubmitOutcome.REWRITE, rewriting=rewriting)
        assert injector.cross(crossed) == fault_effect

    run(main)


@within(run)
async def test_the_trace_tells_whose_message_was_struck(
    env: VirtualEnvironment, injector: Injector, /
) -> None:
    injector.arm(rule(action=Pass(), point=FaultPoint.CLIENT_REQUEST))
    first_partition = TopicPartition("t", 0)
    marker = Subject(producer_id=7, partitions=(first_partition,), committed=True)
    for subject in (
        Subject(transactional_id="app", producer_id=7),
        msgspec.structs.replace(
            marker, other_subjects=(Subject(producer_id=8, partitions=(first_partition,)),)
        ),
        Subject(partitions=(first_partition,)),
    ):
        injector.cross(msgspec.structs.replace(crossing(), subject=subject))
    event_fields = [event.d for event in env.tracer.events() if event.k == "fault.hit"]
    assert [
        event_fields.get("about") for event_fields in event_fields if isinstance(event_fields, dict)
    ] == [
        [{"id": "app", "pid": 7, "partitions": []}],
        [{"pid": 7, "partitions": ["t-0"]}, {"pid": 8, "partitions": ["t-0"]}],
        None,  # of no transaction
    ]


@within(run)
async def test_the_trace_tells_that_a_stall_is_over(
    env: VirtualEnvironment, injector: Injector, /
) -> None:
    """Without the event, readers of the trace would take the stalled messages for held."""
    env.network.register(B2, echo)
    injector.arm(rule(action=Stall(stall_ms=10), point=FaultPoint.PEER_REQUEST, limit=1))
    await ask(env)
    events = [event for event in env.tracer.events() if event.k.startswith("fault.")]
    assert [event.k for event in events] == ["fault.arm", "fault.hit", "fault.release"]
    assert events[2].p == (events[1].i, events[0].i)
    assert isinstance(events[2].d, dict)
    assert events[2].d["held"] == 0

"""The interceptor that makes declared faults happen.

Code with a fault point asks the interceptor while a rule is armed (``Interceptor``). While none is,
``is_armed`` is False and the code does not even describe the crossing.

If several rules strike, the one that was armed first decides (a rule that only lets pass never
does); every rule that matches counts the crossing. A held crossing waits on a future. Releasing or
disarming its rule lets held crossings go on, in the order in which they came. Disarming does not
shorten a delay.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Final, Protocol, assert_never

import msgspec

from txnsim.errors import TxnsimError
from txnsim.faults.actions import (
    Corrupt,
    CrossingAction,
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
    Slice,
    Stall,
    Throttle,
)
from txnsim.faults.cluster_actions import ClusterAction
from txnsim.faults.interception import Crossing, Damage, FaultEffect, SubmitOutcome
from txnsim.faults.meanings import FATES, TAKES, Fate, can_wait
from txnsim.faults.plan import FaultRule, MessagePart, matches, needed_part, strikes
from txnsim.faults.points import FaultPoint
from txnsim.faults.subjects import trace_subjects
from txnsim.injection.armed_rule import ArmedRule, HeldCrossing, Lasting, Release, Undo
from txnsim.loggers import Logger
from txnsim.runtime.environment import Clock, Rng, Tasks, TimerHandle
from txnsim.runtime.trace import Tracer
from txnsim.text import unknown_word_message
from txnsim.types import BrokerId
from txnsim.wire.apis import api_name

PASS: Final = FaultEffect(outcome=SubmitOutcome.PASS)
DROP: Final = FaultEffect(outcome=SubmitOutcome.DROP)
DROP_ANSWER: Final = FaultEffect(outcome=SubmitOutcome.DROP_ANSWER)
DISCONNECT: Final = FaultEffect(outcome=SubmitOutcome.DISCONNECT)
RESET: Final = FaultEffect(outcome=SubmitOutcome.DISCONNECT, is_reset=True)
FAULT_NODE: Final = "fault"
NOISE_BYTES: Final = 16
"""Number of random bytes that decide how a message is damaged."""

EffectOrWait = FaultEffect | Awaitable[FaultEffect] | None


Refuses = Callable[[FaultRule], str | None]
"""Gives the reason why a rule can't strike here; None if it can."""

Doubts = Callable[[FaultRule, bool], str | None]
"""Gives the reason why a rule can't strike in the present cluster; None if it can. The flag says
whether topics may still be created.
"""


class CannotStrikeError(ValueError):
    """The cluster of this injector can't do what a rule asks for."""


class UnknownRuleError(KeyError):
    """No rule with this id is in force."""

    def __str__(self) -> str:
        return str(self.args[0])  # a KeyError would show it as Python writes it


class Injector:
    """An ``Interceptor`` with rules that can be armed, released and disarmed while the cluster
    runs.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        tracer: Tracer,
        tasks: Tasks,
        rng: Rng,
        refuses: Refuses | None = None,
        doubts: Doubts | None = None,
    ) -> None:
        """Start without rules and without control of the cluster.

        Args:
            clock: Monotonic clock for delays, and for deadlines of waits for strikes.
            tracer: Gets ``fault.arm``, ``fault.hit`` and ``fault.release``.
            tasks: Runs actions on the cluster.
            rng: Source of chance: each rule has its own stream, ``fault.<id>``.
            refuses: Gives the reason why a rule can't strike here; None if every rule can.
            doubts: Gives the reason why a rule can't strike in the present cluster.
        """
        self.is_armed = False
        self.cluster_control: ClusterControl | None = None
        """Carries out actions on the cluster; while it is None, rules with such actions are
        refused.
        """
        self._refuses = refuses
        self._doubts = doubts
        self._clock = clock
        self._tracer = tracer
        self._tasks = tasks
        self._rng = rng
        self._rules: dict[str, ArmedRule] = {}
        self._account: list[ArmedRule] = []
        self._acts = ClusterActs(clock=clock, tasks=tasks, on_end=self._update_armed)
        self._stalls = Stalls(
            clock=clock,
            ended=self._update_armed,
            released=lambda state, hit: self._trace_release(state, (hit,)),
        )

    # Rules

    def arm(self, rule: FaultRule) -> ArmedRule:
        """Put a rule in force. At the point ``now`` its action begins after this call.

        Raises:
            ValueError: A rule with this id is in force, or a rule named in ``after`` or ``until``
                was never armed, or the rule acts on the cluster and the injector has no control of
                it.
            CannotStrikeError: The rule can't strike here.
        """
        if self._refuses is not None and (why := self._refuses(rule)) is not None:
            raise CannotStrikeError(why)
        if rule.id in self._rules:
            raise ValueError(f"a rule {rule.id!r} is armed already")
        for field, other_id in (("after", rule.after), ("until", rule.until)):
            if other_id is not None and self._latest(other_id) is None:
                raise ValueError(f"{field}: no rule {other_id!r} has been armed")
        action = rule.action
        if isinstance(action, ClusterAction) and self.cluster_control is None:
            raise ValueError(f"{action}: this can't be done here (the injector has no cluster)")
        state = self._rules[rule.id] = ArmedRule(rule)
        self._account.append(state)
        if self._tracer.on:
            state.trace_index = self._tracer.emit("fault.arm", FAULT_NODE, data=_facts(state))
        if rule.point is FaultPoint.NOW:
            self._act_now(state)
        self._update_armed()
        return state

    def release(self, rule_id: str, fate: Fate = FATES["pass"]) -> int:
        """Release the crossings that a rule holds and end its lasting effects. The rule stays armed
        and may hold again.

        Returns:
            Number of released crossings and ended effects.

        Raises:
            UnknownRuleError: No such rule is in force.
            CannotStrikeError: The held crossings can't meet this fate.
        """
        state = self._armed_rule(rule_id)
        point = state.rule.point
        if type(fate) is not Pass and type(fate) not in TAKES[point]:
            raise CannotStrikeError(f"what is held at {point} can't be lost or doubled so: {fate}")
        ended = self._acts.end_all(state)
        held_crossings = dict(state.held)
        if not held_crossings:
            self._trace_release(state, ())
        if isinstance(state.rule.action, Stall) or isinstance(state.rule.then, Stall):
            self._stalls.end_all(state)
        else:
            state.held = {}
            state.released += len(held_crossings)
            for future, crossing in held_crossings.items():
                if not future.done():
                    future.set_result((self._trace_release(state, (crossing.hit,)), fate))
        self._update_armed()
        return len(held_crossings) + ended

    def disarm(self, rule_id: str) -> ArmedRule:
        """Take a rule out of force, release its crossings and end its lasting effects.

        Raises:
            UnknownRuleError: No such rule is in force.
        """
        state = self._armed_rule(rule_id)
        state.is_disarmed = True  # before the release: its event says so
        self.release(rule_id)
        del self._rules[rule_id]
        self._update_armed()
        state.give_up("it was disarmed")
        return state

    def disarm_all(self) -> None:
        """Disarm every rule, oldest first."""
        for rule_id in list(self._rules):
            self.disarm(rule_id)

    def _armed_rule(self, rule_id: str) -> ArmedRule:
        armed = self._rules.get(rule_id)
        if armed is None:
            complaint = unknown_word_message("armed rule", rule_id, self._rules)
            raise UnknownRuleError(
                complaint if self._rules else f"no rule {rule_id!r}: none is armed"
            )
        return armed

    def rules(self) -> tuple[ArmedRule, ...]:
        """The rules in force, oldest first."""
        return tuple(self._rules.values())

    def get(self, rule_id: str) -> ArmedRule | None:
        """The rule with this id, or None if it is not in force."""
        return self._rules.get(rule_id)

    def doubt(self, rule: FaultRule, *, in_hindsight: bool = False) -> str | None:
        """Give the reason why a rule can't strike in the present cluster; None if no reason is
        known.

        Args:
            rule: The rule, in force or not.
            in_hindsight: The rule's time is over: a topic that does not exist yet no longer counts
                as one that may come.
        """
        return None if self._doubts is None else self._doubts(rule, not in_hindsight)

    def never_struck(self) -> tuple[ArmedRule, ...]:
        """Every rule armed since the start, or since ``forget``, that has not struck: in force or
        disarmed, oldest first. A test that armed it has not tested what it meant to.
        """
        return tuple(state for state in self._account if state.struck == 0)

    def forget(self) -> None:
        """Limits ``never_struck`` to the rules that are in force now and to later ones."""
        self._account = list(self._rules.values())

    async def wait_until_struck(
        self, rule_id: str, *, count: int = 1, timeout_ms: int
    ) -> ArmedRule:
        """Wait until a rule has struck ``count`` crossings since it was armed.

        Raises:
            UnknownRuleError: No such rule is in force.
            LookupError: The rule was disarmed before that, or its action on the cluster failed.
            TimeoutError: The rule has struck less often within ``timeout_ms`` (monotonic).
        """
        state = self._armed_rule(rule_id)
        future = state.until_struck(count)

        def expire() -> None:
            if not future.done():
                future.set_exception(
                    TimeoutError(
                        f"rule {rule_id!r}: {state.struck} of {count} strikes within "
                        f"{timeout_ms} ms, {state.matched} crossings matched"
                    )
                )

        timer = self._clock.call_later(timeout_ms, expire)
        try:
            await future
        finally:
            timer.cancel()
        return state

    def needed_part(self, point: FaultPoint, api_key: int) -> MessagePart:
        """The part of a message that the rules in force need to know before the message crosses a
        point.

        Code that would have to decode the message to describe the crossing asks this first.
        """
        needed = MessagePart.HEADER if self._stalls else MessagePart.NOTHING
        for state in self._rules.values():
            if not state.spent:
                needed = max(needed, needed_part(state.rule, point, api_key))
        return needed

    def _update_armed(self) -> None:
        self.is_armed = bool(self._stalls) or any(
            not (state.spent or self._has_ended(state.rule)) for state in self._rules.values()
        )

    def _latest(self, rule_id: str) -> ArmedRule | None:
        armed = self._rules.get(rule_id)
        if armed is not None:
            return armed
        return next(
            (armed_rule for armed_rule in reversed(self._account) if armed_rule.rule.id == rule_id),
            None,
        )

    def _has_struck(self, rule_id: str) -> bool:
        named = self._latest(rule_id)
        return named is not None and named.struck > 0

    def _has_ended(self, rule: FaultRule) -> bool:
        return rule.until is not None and self._has_struck(rule.until)

    def _is_due(self, rule: FaultRule) -> bool:
        """Whether the rule named in ``after`` has struck, and the one named in ``until`` has
        not.
        """
        if rule.after is not None and not self._has_struck(rule.after):
            return False
        return not self._has_ended(rule)

    # Crossings

    def cross(self, crossing: Crossing) -> EffectOrWait:
        """Decide about a crossing (see ``Interceptor``). A strike makes its ``fault.hit`` the
        current cause.
        """
        stalled_by = self._stalls.rule_at(crossing) if self._stalls else None
        if stalled_by is not None:
            return self._wait_for_line(stalled_by, crossing)
        return self._judge(crossing)

    def _judge(self, crossing: Crossing) -> EffectOrWait:
        rules = [
            state
            for state in self._rules.values()
            if matches(state.rule, crossing) and self._is_due(state.rule)
        ]
        decided: ArmedRule | None = None
        for state in rules:
            state.matched += 1
            is_pass = isinstance(state.rule.action, Pass)
            if (is_pass or decided is None) and self._strikes(state):
                if is_pass:
                    self._trace_hit(state, crossing)
                    state.begun += 1
                    state.count_strike()
                else:
                    decided = state
        answer = None if decided is None else self._strike(decided, crossing)
        self._update_armed()
        return answer

    def _strikes(self, state: ArmedRule) -> bool:
        rule = state.rule
        if isinstance(rule.action, Reorder) and state.held:
            self._pass_by(state, rule.action.behind)
            return False
        if not strikes(rule, state.matched, state.begun):
            return False
        return rule.probability == 1 or self._rng.stream(_stream(rule)).random() < rule.probability

    def _strike(self, state: ArmedRule, crossing: Crossing) -> EffectOrWait:
        hit = self._trace_hit(state, crossing)
        state.begun += 1
        action = state.rule.action
        if isinstance(action, ClusterAction):
            return self._act(state, action, crossing, hit)
        state.count_strike()
        return self._do(state, action, crossing, hit)

    def _do(
        self, state: ArmedRule, action: CrossingAction, crossing: Crossing, hit: int
    ) -> EffectOrWait:
        match action:
            case Pass():
                return None
            case Hold() | Reorder():
                return self._wait_for_release(self._hold(state, crossing, hit))
            case Stall(stall_ms=stall_ms):
                self._stalls.begin(crossing.line, state, stall_ms)
                return self._wait_for_release(self._hold(state, crossing, hit))
            case Delay(delay_ms=delay_ms, jitter_ms=jitter_ms):
                if jitter_ms is not None:
                    delay_ms += self._rng.stream(_stream(state.rule)).randint(0, jitter_ms)
                return self._delay(delay_ms)
            case Drop():
                return DROP
            case DropAnswer():
                return DROP_ANSWER
            case Disconnect(reset=reset):
                return RESET if reset else DISCONNECT
            case Fail() as fail:
                return FaultEffect(outcome=SubmitOutcome.ERROR, error=int(fail.code))
            case Duplicate(times=times):
                return FaultEffect(outcome=SubmitOutcome.DUPLICATE, times=times)
            case Throttle(throttle_ms=throttle_ms):
                return FaultEffect(outcome=SubmitOutcome.THROTTLE, throttle_ms=throttle_ms)
            case Corrupt(what=part):
                noise = self._rng.stream(_stream(state.rule)).randbytes(NOISE_BYTES)
                return FaultEffect(
                    outcome=SubmitOutcome.CORRUPT, damage=Damage(part=part, noise=noise)
                )
            case Rewrite(rewriting=rewriting):
                return FaultEffect(outcome=SubmitOutcome.REWRITE, rewriting=rewriting)
            case Slice(slices=slices):
                return FaultEffect(outcome=SubmitOutcome.SLICE, slices=slices)
        assert_never(action)

    # Waiting

    def _hold(self, state: ArmedRule, crossing: Crossing, hit: int) -> asyncio.Future[Release]:
        future: asyncio.Future[Release] = asyncio.get_running_loop().create_future()
        state.held[future] = HeldCrossing(crossing=crossing, hit=hit)
        state.passed = 0
        # A waiting crossing may be cancelled (the cluster stops): then it is no longer held.
        future.add_done_callback(lambda ended: state.held.pop(ended, None))
        return future

    async def _wait_for_release(self, future: asyncio.Future[Release]) -> FaultEffect:
        release, fate = await future
        if self._tracer.on:
            self._tracer.caused_by(release)  # the cause of what follows in this context
        match fate:
            case Drop():
                return DROP
            case Duplicate(times=times):
                return FaultEffect(outcome=SubmitOutcome.DUPLICATE, times=times)
            case _:
                return PASS

    async def _wait_for_line(self, state: ArmedRule, crossing: Crossing) -> FaultEffect:
        while True:
            await self._hold(state, crossing, -1)
            staller = self._stalls.rule_after_wake(crossing)
            if staller is None:
                break
            state = staller
        answer = self._judge(crossing)
        if answer is None or isinstance(answer, FaultEffect):
            return answer or PASS
        return await answer

    def _pass_by(self, state: ArmedRule, limit: int) -> None:
        """Count a crossing that overtakes the held one; after ``limit`` of them the held one goes
        on (``reorder``).
        """
        state.passed += 1
        if state.passed == limit:
            future, crossing = state.held.popitem()
            if not future.done():
                state.released += 1
                # The loop wakes it after the present callback: the one that passes is ahead.
                future.set_result((self._trace_release(state, (crossing.hit,)), Pass()))

    def _delay(self, delay_ms: int) -> Awaitable[FaultEffect]:
        future: asyncio.Future[FaultEffect] = asyncio.get_running_loop().create_future()

        def go_on() -> None:
            if not future.done():
                future.set_result(PASS)

        timer = self._clock.call_later(delay_ms, go_on)
        future.add_done_callback(lambda _: timer.cancel())
        return future

    # Actions on the cluster

    def _act(
        self, state: ArmedRule, action: ClusterAction, crossing: Crossing, hit: int
    ) -> EffectOrWait:
        struck = BrokerId(int(crossing.target.removeprefix("broker/")))
        end = self._acts.begin(state, action, self.cluster_control, struck=struck)
        if can_wait(crossing.point):
            return self._then(state, end, crossing, hit)
        then = state.rule.then
        return None if then is None else self._do(state, then, crossing, hit)

    async def _then(
        self, state: ArmedRule, end: asyncio.Future[None], crossing: Crossing, hit: int
    ) -> FaultEffect:
        await end
        if self._tracer.on:
            self._tracer.caused_by(hit)
        if state.rule.then is None or state.failure is not None:
            return PASS
        answer = self._do(state, state.rule.then, crossing, hit)
        if answer is None or isinstance(answer, FaultEffect):
            return answer or PASS
        return await answer

    def _act_now(self, state: ArmedRule) -> None:
        action = state.rule.action
        assert isinstance(action, ClusterAction)  # nothing else has a meaning at `now`
        state.matched += 1
        state.begun += 1
        if self._tracer.on:
            self._tracer.emit(
                "fault.hit",
                FAULT_NODE,
                parents=(self._tracer.cause, state.trace_index),
                data={**_facts(state), "matched": 1, "struck": 1},
            )
        self._acts.begin(state, action, self.cluster_control, struck=None)

    # Trace

    def _trace_release(self, state: ArmedRule, causes: tuple[int, ...]) -> int:
        if not self._tracer.on:
            return -1
        return self._tracer.emit(
            "fault.release",
            FAULT_NODE,
            parents=(*causes, state.trace_index, self._tracer.cause),
            data={
                "rule": state.rule.id,
                "matched": state.matched,
                "struck": state.struck,
                "held": len(state.held),
                **({"disarmed": True} if state.is_disarmed else {}),
            },
        )

    def _trace_hit(self, state: ArmedRule, crossing: Crossing) -> int:
        if not self._tracer.on:
            return -1
        about = trace_subjects(crossing.subject)
        hit = self._tracer.emit(
            "fault.hit",
            FAULT_NODE,
            parents=(self._tracer.cause, state.trace_index),
            data={
                **_facts(state),
                "matched": state.matched,
                "struck": state.struck + 1,
                "held": len(state.held) + isinstance(state.rule.action, Hold | Reorder | Stall),
                **({"api": api_name(crossing.api_key)} if crossing.api_key >= 0 else {}),
                "source": crossing.source,
                "target": crossing.target,
                **({"about": about} if about else {}),
            },
        )
        self._tracer.caused_by(hit)
        return hit


def _facts(state: ArmedRule) -> dict[str, object]:
    rule = state.rule
    return {"rule": rule.id, "point": rule.point, "action": str(rule.action)}


def _stream(rule: FaultRule) -> str:
    return f"fault.{rule.id}"


class StalledLine(msgspec.Struct, eq=False):
    """A connection or link that a rule has stalled."""

    line: str
    by: ArmedRule
    is_ending: bool = False
    timer: TimerHandle | None = None


class Stalls(msgspec.Struct, kw_only=True, eq=False):
    """All stalled lines: connections and links that stop for a time (``faults.actions.Stall``).

    Every message on a line crosses a fault point. So a whole line stops when each crossing on it
    waits: the struck one first, then later ones. When the stall ends, they go on in the order in
    which they came, and the other rules judge each of them.
    """

    clock: Clock
    """Monotonic clock for the duration of stalls."""
    ended: Callable[[], None]
    """Called after each stall has ended."""
    released: Callable[[ArmedRule, int], int]
    """Called with the rule and the trace index of the hit for each released crossing; returns the
    trace index of the release.
    """
    _by_line: dict[str, StalledLine] = {}

    def __bool__(self) -> bool:
        return bool(self._by_line)

    def rule_at(self, crossing: Crossing) -> ArmedRule | None:
        """The rule whose stall of the line a crossing has to wait for; None if the line is not
        stalled.
        """
        stall = self._by_line.get(crossing.line)
        return None if stall is None else stall.by

    def rule_after_wake(self, crossing: Crossing) -> ArmedRule | None:
        """The rule whose stall a woken crossing has to wait for: only a stall that began after it
        was woken.
        """
        stall = self._by_line.get(crossing.line)
        return None if stall is None or stall.is_ending else stall.by

    def begin(self, line: str, by: ArmedRule, lasts_ms: int | None) -> None:
        """Stall a line, for ``lasts_ms`` milliseconds or until the rule is released."""
        stall = self._by_line[line] = StalledLine(line, by)
        if lasts_ms is not None:
            stall.timer = self.clock.call_later(lasts_ms, lambda: self._end(stall))

    def end_all(self, by: ArmedRule) -> None:
        """End all stalls of a rule."""
        for stall in list(self._by_line.values()):
            if stall.by is by:
                self._end(stall)

    def _end(self, stall: StalledLine) -> None:
        if stall.timer is not None:
            stall.timer.cancel()
            stall.timer = None
        if self._by_line.get(stall.line) is not stall:
            return
        stall.is_ending = True
        for future, held_crossing in list(stall.by.held.items()):
            if held_crossing.crossing.line == stall.line and not future.done():
                stall.by.released += 1
                del stall.by.held[future]
                future.set_result((self.released(stall.by, held_crossing.hit), Pass()))
        # Those that were woken go on in this turn of the loop. A crossing that comes before they
        # have waits behind them.
        asyncio.get_running_loop().call_soon(self._finish, stall)

    def _finish(self, stall: StalledLine) -> None:
        if self._by_line.get(stall.line) is not stall:
            return  # one of them was stalled again
        if any(
            held_crossing.crossing.line == stall.line for held_crossing in stall.by.held.values()
        ):
            self._end(stall)
            return
        del self._by_line[stall.line]
        self.ended()


# Actions on the cluster while rules are in force: started, counted, and ended again.
#
# An action begins after the callback in which its rule struck, never inside the struck code: it may
# well kill the broker that is being struck. The struck crossing waits until it is done.

_log: Final = Logger("txnsim.faults")


class ClusterControl(Protocol):
    """Carries out a rule's action on a running cluster (``server._cluster_control``)."""

    async def carry_out(self, action: ClusterAction, *, struck: BrokerId | None) -> Undo | None:
        """Carry out an action on the cluster; the struck crossing waits until this returns.

        The call comes while a crossing of the struck broker is under way, after the callback in
        which the crossing came and never inside it. It must not wait for that crossing, which waits
        for it.

        Returns:
            The function that ends the effect, if the effect lasts.

        Raises:
            TxnsimError: The cluster has no such broker or partition, or is in a state in which the
                action is impossible; the message says so.
        """


class ClusterActs(msgspec.Struct, kw_only=True, eq=False):
    """Carries out the rules' actions on the cluster."""

    clock: Clock
    """Monotonic clock that ends lasting effects."""
    tasks: Tasks
    """Runs the actions."""
    on_end: Callable[[], None]
    """Called after each action, also after a failed one."""

    def begin(
        self,
        state: ArmedRule,
        action: ClusterAction,
        control: ClusterControl | None,
        *,
        struck: BrokerId | None,
    ) -> asyncio.Future[None]:
        """Start an action in the background.

        Returns:
            A future that is done when the action has succeeded or failed.
        """
        assert control is not None, "without one the rule was refused"
        end_future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        coroutine = self._carry_out(state, action, control.carry_out(action, struck=struck))
        task = self.tasks.spawn(coroutine, name=f"fault-{state.rule.id}")

        def end(_task: asyncio.Task[Any]) -> None:
            self.on_end()
            if not end_future.done():
                end_future.set_result(None)

        task.add_done_callback(end)
        return end_future

    async def _carry_out(
        self, state: ArmedRule, action: ClusterAction, doing: Coroutine[Any, Any, Undo | None]
    ) -> None:
        try:
            undo = await doing
        except TxnsimError as error:
            state.failure = str(error)
            state.give_up(state.failure)
            _log.warning("fault.failed", rule=state.rule.id, action=str(action), reason=str(error))
            return
        if undo is not None:
            self._remember(state, undo, action.ends_after_ms)
        state.count_strike()

    def _remember(self, state: ArmedRule, undo: Undo, ends_after_ms: int | None) -> None:
        if state.is_disarmed:
            self._undo(state, undo)
            return
        lasting = Lasting(undo)
        state.lasting.append(lasting)
        if ends_after_ms is not None:
            timer = self.clock.call_later(ends_after_ms, partial(self._end, state, lasting))
            lasting.cancel_timer = timer.cancel

    def end_all(self, state: ArmedRule) -> int:
        """End the lasting effects of a rule, oldest first.

        Returns:
            Number of ended effects.
        """
        lasting = list(state.lasting)
        for effect in lasting:
            self._end(state, effect)
        return len(lasting)

    def _end(self, state: ArmedRule, lasting: Lasting) -> None:
        state.lasting.remove(lasting)
        lasting.cancel_timer()
        state.released += 1
        self._undo(state, lasting.undo)

    def _undo(self, state: ArmedRule, undo: Undo) -> None:
        self.tasks.spawn(undo(), name=f"fault-{state.rule.id}-ends")

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
from txnsim.faults.meanings import FATES, TAKES, DeliveryFate, can_wait
from txnsim.faults.plan import FaultRule, MessagePart, matches, needed_part, strikes
from txnsim.faults.points import FaultPoint
from txnsim.faults.subjects import trace_subjects
from txnsim.injection._rule_index import RuleIndex
from txnsim.injection.armed_rule import ArmedRule, HeldCrossing, LastingEffect, Release, Undo
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
        refusal_of: Refuses | None = None,
        doubt_of: Doubts | None = None,
    ) -> None:
        """Start without rules and without control of the cluster.

        Args:
            clock: Monotonic clock for delays, and for deadlines of waits for strikes.
            tracer: Gets ``fault.arm``, ``fault.hit`` and ``fault.release``.
            tasks: Runs actions on the cluster.
            rng: Source of chance: each rule has its own stream, ``fault.<id>``.
            refusal_of: Gives the reason why a rule can't strike here; None if every rule can.
            doubt_of: Gives the reason why a rule can't strike in the present cluster.
        """
        self.is_armed = False
        self.cluster_control: ClusterControl | None = None
        """Carries out actions on the cluster; while it is None, rules with such actions are
        refused.
        """
        self._refusal_of = refusal_of
        self._doubt_of = doubt_of
        self._clock = clock
        self._tracer = tracer
        self._tasks = tasks
        self._rng = rng
        self._rules: dict[str, ArmedRule] = {}
        self._latest_rules: dict[str, ArmedRule] = {}
        """The rules in force, and of those that were disarmed the ones that had not struck."""
        self._idle_rules: dict[ArmedRule, None] = {}
        """The same, also where another rule has the id by now."""
        self._struck_ids: set[str] = set()
        """Ids of the disarmed rules that had struck: others may name them."""
        self.kept_bytes = 0
        """Bytes of the rules and ids that are kept, as JSON."""
        self._index: Final = RuleIndex()
        self._live_rules: dict[ArmedRule, None] = {}
        """The rules in force that can still strike."""
        self._rules_until: dict[str, dict[ArmedRule, None]] = {}
        """Id of a rule -> the rules in force that end with its first strike."""
        self._acts = ClusterActs(clock=clock, tasks=tasks, on_end=self._note_changes)
        self._stalls = Stalls(
            clock=clock,
            on_ended=self._update_armed,
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
        if self._refusal_of is not None and (refusal_reason := self._refusal_of(rule)) is not None:
            raise CannotStrikeError(refusal_reason)
        if rule.id in self._rules:
            raise ValueError(f"a rule {rule.id!r} is armed already")
        for field_name, named_rule_id in (("after", rule.after), ("until", rule.until)):
            if (
                named_rule_id is not None
                and named_rule_id not in self._latest_rules
                and named_rule_id not in self._struck_ids
            ):
                raise ValueError(f"{field_name}: no rule {named_rule_id!r} has been armed")
        action = rule.action
        if isinstance(action, ClusterAction) and self.cluster_control is None:
            raise ValueError(f"{action}: this can't be done here (the injector has no cluster)")
        armed_rule = self._rules[rule.id] = ArmedRule(rule)
        if rule.id in self._struck_ids:
            self._struck_ids.remove(rule.id)
            self.kept_bytes -= len(rule.id)
        self._latest_rules[rule.id] = armed_rule
        self._idle_rules[armed_rule] = None
        self.kept_bytes += armed_rule.size_bytes
        self._index.add(armed_rule)
        if rule.until is not None:
            self._rules_until.setdefault(rule.until, {})[armed_rule] = None
        if self._tracer.on:
            armed_rule.trace_index = self._tracer.emit(
                "fault.arm", FAULT_NODE, data=_rule_fields(armed_rule)
            )
        if rule.point is FaultPoint.NOW:
            self._act_at_once(armed_rule)
        self._note_changes(armed_rule)
        return armed_rule

    def release(self, rule_id: str, fate: DeliveryFate = FATES["pass"]) -> int:
        """Release the crossings that a rule holds and end its lasting effects. The rule stays armed
        and may hold again.

        Returns:
            Number of released crossings and ended effects.

        Raises:
            UnknownRuleError: No such rule is in force.
            CannotStrikeError: The held crossings can't meet this fate.
        """
        armed_rule = self._armed_rule(rule_id)
        fault_point = armed_rule.rule.point
        if type(fate) is not Pass and type(fate) not in TAKES[fault_point]:
            raise CannotStrikeError(
                f"what is held at {fault_point} can't be lost or doubled so: {fate}"
            )
        ended_count = self._acts.end_all(armed_rule)
        held_crossings = dict(armed_rule.held_crossings)
        if not held_crossings:
            self._trace_release(armed_rule, ())
        if isinstance(armed_rule.rule.action, Stall) or isinstance(armed_rule.rule.then, Stall):
            self._stalls.end_all(armed_rule)
        else:
            armed_rule.held_crossings = {}
            armed_rule.held_by_line = {}
            armed_rule.released += len(held_crossings)
            for future, held_crossing in held_crossings.items():
                if not future.done():
                    future.set_result(
                        (self._trace_release(armed_rule, (held_crossing.hit_event,)), fate)
                    )
        self._note_changes(armed_rule)
        return len(held_crossings) + ended_count

    def disarm(self, rule_id: str) -> ArmedRule:
        """Take a rule out of force, release its crossings and end its lasting effects.

        Raises:
            UnknownRuleError: No such rule is in force.
        """
        armed_rule = self._armed_rule(rule_id)
        armed_rule.is_disarmed = True  # before the release: its event says so
        self.release(rule_id)
        del self._rules[rule_id]
        self._index.remove(armed_rule)
        until_id = armed_rule.rule.until
        if until_id is not None:
            del self._rules_until[until_id][armed_rule]
            if not self._rules_until[until_id]:
                del self._rules_until[until_id]
        if armed_rule.struck:
            del self._latest_rules[rule_id], self._idle_rules[armed_rule]
            self._struck_ids.add(rule_id)
            self.kept_bytes += len(rule_id) - armed_rule.size_bytes
        self._note_changes(armed_rule)
        armed_rule.give_up("it was disarmed")
        return armed_rule

    def disarm_all(self) -> None:
        """Disarm every rule, oldest first."""
        for rule_id in list(self._rules):
            self.disarm(rule_id)

    def _armed_rule(self, rule_id: str) -> ArmedRule:
        armed_rule = self._rules.get(rule_id)
        if armed_rule is None:
            complaint = unknown_word_message("armed rule", rule_id, self._rules)
            raise UnknownRuleError(
                complaint if self._rules else f"no rule {rule_id!r}: none is armed"
            )
        return armed_rule

    def rules(self) -> tuple[ArmedRule, ...]:
        """The rules in force, oldest first."""
        return tuple(self._rules.values())

    def get(self, rule_id: str) -> ArmedRule | None:
        """The rule with this id, or None if it is not in force."""
        return self._rules.get(rule_id)

    def doubt(self, rule: FaultRule, *, is_in_hindsight: bool = False) -> str | None:
        """Give the reason why a rule can't strike in the present cluster; None if no reason is
        known.

        Args:
            rule: The rule, in force or not.
            is_in_hindsight: The rule's time is over: a topic that does not exist yet no longer
                counts as one that may come.
        """
        return None if self._doubt_of is None else self._doubt_of(rule, not is_in_hindsight)

    def never_struck(self) -> tuple[ArmedRule, ...]:
        """Every rule armed since the start, or since ``forget``, that has not struck: in force or
        disarmed, oldest first. A test that armed it has not tested what it meant to.
        """
        return tuple(armed_rule for armed_rule in self._idle_rules if armed_rule.struck == 0)

    def forget(self) -> None:
        """Limits ``never_struck`` to the rules that are in force now and to later ones."""
        self._latest_rules = dict(self._rules)
        self._idle_rules = dict.fromkeys(self._rules.values())
        self._struck_ids.clear()
        self.kept_bytes = sum(armed_rule.size_bytes for armed_rule in self._idle_rules)
        self._note_changes(*self._rules.values())

    async def wait_until_struck(
        self, rule_id: str, *, count: int = 1, timeout_ms: int
    ) -> ArmedRule:
        """Wait until a rule has struck ``count`` crossings since it was armed.

        Raises:
            UnknownRuleError: No such rule is in force.
            LookupError: The rule was disarmed before that, or its action on the cluster failed.
            TimeoutError: The rule has struck less often within ``timeout_ms`` (monotonic).
        """
        armed_rule = self._armed_rule(rule_id)
        future = armed_rule.until_struck(count)

        def expire() -> None:
            if not future.done():
                future.set_exception(
                    TimeoutError(
                        f"rule {rule_id!r}: {armed_rule.struck} of {count} strikes within "
                        f"{timeout_ms} ms, {armed_rule.matched} crossings matched"
                    )
                )

        timer = self._clock.call_later(timeout_ms, expire)
        try:
            await future
        finally:
            timer.cancel()
            armed_rule.forget_wait(future)
        return armed_rule

    def needed_part(self, fault_point: FaultPoint, api_key: int) -> MessagePart:
        """The part of a message that the rules in force need to know before the message crosses a
        point.

        Code that would have to decode the message to describe the crossing asks this first.
        """
        part_needed = MessagePart.HEADER if self._stalls else MessagePart.NOTHING
        for armed_rule in self._rules.values():
            if not armed_rule.is_spent:
                part_needed = max(part_needed, needed_part(armed_rule.rule, fault_point, api_key))
        return part_needed

    def _update_armed(self) -> None:
        self.is_armed = bool(self._stalls) or bool(self._live_rules)

    def _note_changes(self, *changed_rules: ArmedRule) -> None:
        """Look anew at rules that have counted, were armed or disarmed, or let crossings go, and at
        those that end with their strikes.
        """
        for changed_rule in changed_rules:
            for armed_rule in (changed_rule, *self._rules_until.get(changed_rule.rule.id, ())):
                if (
                    armed_rule.is_disarmed
                    or armed_rule.is_spent
                    or self._has_ended(armed_rule.rule)
                ):
                    self._live_rules.pop(armed_rule, None)
                else:
                    self._live_rules[armed_rule] = None
        self._update_armed()

    def _has_struck(self, rule_id: str) -> bool:
        named_rule = self._latest_rules.get(rule_id)
        return rule_id in self._struck_ids if named_rule is None else named_rule.struck > 0

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
        stalling_rule = self._stalls.rule_at(crossing) if self._stalls else None
        if stalling_rule is not None:
            return self._wait_for_line(stalling_rule, crossing)
        return self._decide_crossing(crossing)

    def _decide_crossing(self, crossing: Crossing) -> EffectOrWait:
        matching_rules = [
            matching_rule
            for matching_rule in self._index.candidates(crossing)
            if matches(matching_rule.rule, crossing) and self._is_due(matching_rule.rule)
        ]
        striking_rule: ArmedRule | None = None
        for matching_rule in matching_rules:
            matching_rule.matched += 1
            is_pass = isinstance(matching_rule.rule.action, Pass)
            if (is_pass or striking_rule is None) and self._strikes(matching_rule):
                if is_pass:
                    self._trace_hit(matching_rule, crossing)
                    matching_rule.begun_count += 1
                    matching_rule.count_strike()
                else:
                    striking_rule = matching_rule
        effect_or_wait = None if striking_rule is None else self._strike(striking_rule, crossing)
        self._note_changes(*matching_rules)
        return effect_or_wait

    def _strikes(self, armed_rule: ArmedRule) -> bool:
        fault_rule = armed_rule.rule
        if isinstance(fault_rule.action, Reorder) and armed_rule.held_crossings:
            self._count_overtaking(armed_rule, fault_rule.action.behind)
            return False
        if not strikes(fault_rule, armed_rule.matched, armed_rule.begun_count):
            return False
        return (
            fault_rule.probability == 1
            or self._rng.stream(_stream_name(fault_rule)).random() < fault_rule.probability
        )

    def _strike(self, armed_rule: ArmedRule, crossing: Crossing) -> EffectOrWait:
        hit_event = self._trace_hit(armed_rule, crossing)
        armed_rule.begun_count += 1
        action = armed_rule.rule.action
        if isinstance(action, ClusterAction):
            return self._begin_cluster_action(armed_rule, action, crossing, hit_event)
        armed_rule.count_strike()
        return self._effect_of(armed_rule, action, crossing, hit_event)

    def _effect_of(
        self, armed_rule: ArmedRule, action: CrossingAction, crossing: Crossing, hit_event: int
    ) -> EffectOrWait:
        match action:
            case Pass():
                return None
            case Hold() | Reorder():
                return self._wait_for_release(self._hold_crossing(armed_rule, crossing, hit_event))
            case Stall(stall_ms=stall_ms):
                self._stalls.begin(crossing.line, armed_rule, stall_ms)
                return self._wait_for_release(self._hold_crossing(armed_rule, crossing, hit_event))
            case Delay(delay_ms=delay_ms, jitter_ms=jitter_ms):
                if jitter_ms is not None:
                    delay_ms += self._rng.stream(_stream_name(armed_rule.rule)).randint(
                        0, jitter_ms
                    )
                return self._delay(delay_ms)
            case Drop():
                return DROP
            case DropAnswer():
                return DROP_ANSWER
            case Disconnect(reset=resets_connection):
                return RESET if resets_connection else DISCONNECT
            case Fail() as fail:
                return FaultEffect(outcome=SubmitOutcome.ERROR, error=int(fail.code))
            case Duplicate(times=copy_count):
                return FaultEffect(outcome=SubmitOutcome.DUPLICATE, times=copy_count)
            case Throttle(throttle_ms=throttle_ms):
                return FaultEffect(outcome=SubmitOutcome.THROTTLE, throttle_ms=throttle_ms)
            case Corrupt(what=damaged_part):
                noise = self._rng.stream(_stream_name(armed_rule.rule)).randbytes(NOISE_BYTES)
                return FaultEffect(
                    outcome=SubmitOutcome.CORRUPT, damage=Damage(part=damaged_part, noise=noise)
                )
            case Rewrite(rewriting=rewriting):
                return FaultEffect(outcome=SubmitOutcome.REWRITE, rewriting=rewriting)
            case Slice(slices=slices):
                return FaultEffect(outcome=SubmitOutcome.SLICE, slices=slices)
        assert_never(action)

    # Waiting

    def _hold_crossing(
        self, armed_rule: ArmedRule, crossing: Crossing, hit_event: int
    ) -> asyncio.Future[Release]:
        future: asyncio.Future[Release] = asyncio.get_running_loop().create_future()
        armed_rule.hold(future, HeldCrossing(crossing=crossing, hit_event=hit_event))
        armed_rule.passed = 0
        # A waiting crossing may be cancelled (the cluster stops): then it is no longer held.
        future.add_done_callback(partial(self._let_go, armed_rule))
        return future

    def _let_go(self, armed_rule: ArmedRule, future: asyncio.Future[Release]) -> None:
        armed_rule.let_go(future)
        self._note_changes(armed_rule)

    async def _wait_for_release(self, future: asyncio.Future[Release]) -> FaultEffect:
        release_event, fate = await future
        if self._tracer.on:
            self._tracer.set_cause(release_event)  # the cause of what follows in this context
        match fate:
            case Drop():
                return DROP
            case Duplicate(times=copy_count):
                return FaultEffect(outcome=SubmitOutcome.DUPLICATE, times=copy_count)
            case _:
                return PASS

    async def _wait_for_line(self, stalling_rule: ArmedRule, crossing: Crossing) -> FaultEffect:
        while True:
            await self._hold_crossing(stalling_rule, crossing, -1)
            later_staller = self._stalls.rule_after_wake(crossing)
            if later_staller is None:
                break
            stalling_rule = later_staller
        effect_or_wait = self._decide_crossing(crossing)
        if effect_or_wait is None or isinstance(effect_or_wait, FaultEffect):
            return effect_or_wait or PASS
        return await effect_or_wait

    def _count_overtaking(self, armed_rule: ArmedRule, overtaking_max: int) -> None:
        """Count a crossing that overtakes the held one; after ``overtaking_max`` of them the held
        one goes on (``reorder``).
        """
        armed_rule.passed += 1
        if armed_rule.passed == overtaking_max:
            future, held_crossing = next(reversed(armed_rule.held_crossings.items()))
            armed_rule.let_go(future)
            if not future.done():
                armed_rule.released += 1
                # The loop wakes it after the present callback: the one that passes is ahead.
                future.set_result(
                    (self._trace_release(armed_rule, (held_crossing.hit_event,)), Pass())
                )

    def _delay(self, delay_ms: int) -> Awaitable[FaultEffect]:
        future: asyncio.Future[FaultEffect] = asyncio.get_running_loop().create_future()

        def go_on() -> None:
            if not future.done():
                future.set_result(PASS)

        timer = self._clock.call_later(delay_ms, go_on)
        future.add_done_callback(lambda _: timer.cancel())
        return future

    # Actions on the cluster

    def _begin_cluster_action(
        self, armed_rule: ArmedRule, action: ClusterAction, crossing: Crossing, hit_event: int
    ) -> EffectOrWait:
        struck_broker = BrokerId(int(crossing.target.removeprefix("broker/")))
        end_future = self._acts.begin(
            armed_rule, action, self.cluster_control, struck_broker=struck_broker
        )
        if can_wait(crossing.point):
            return self._effect_after_action(armed_rule, end_future, crossing, hit_event)
        following_action = armed_rule.rule.then
        return (
            None
            if following_action is None
            else self._effect_of(armed_rule, following_action, crossing, hit_event)
        )

    async def _effect_after_action(
        self,
        armed_rule: ArmedRule,
        end_future: asyncio.Future[None],
        crossing: Crossing,
        hit_event: int,
    ) -> FaultEffect:
        await end_future
        if self._tracer.on:
            self._tracer.set_cause(hit_event)
        if armed_rule.rule.then is None or armed_rule.failure is not None:
            return PASS
        effect_or_wait = self._effect_of(armed_rule, armed_rule.rule.then, crossing, hit_event)
        if effect_or_wait is None or isinstance(effect_or_wait, FaultEffect):
            return effect_or_wait or PASS
        return await effect_or_wait

    def _act_at_once(self, armed_rule: ArmedRule) -> None:
        action = armed_rule.rule.action
        assert isinstance(action, ClusterAction)  # nothing else has a meaning at `now`
        armed_rule.matched += 1
        armed_rule.begun_count += 1
        if self._tracer.on:
            self._tracer.emit(
                "fault.hit",
                FAULT_NODE,
                parents=(self._tracer.cause, armed_rule.trace_index),
                data={**_rule_fields(armed_rule), "matched": 1, "struck": 1},
            )
        self._acts.begin(armed_rule, action, self.cluster_control, struck_broker=None)

    # Trace

    def _trace_release(self, armed_rule: ArmedRule, causes: tuple[int, ...]) -> int:
        if not self._tracer.on:
            return -1
        return self._tracer.emit(
            "fault.release",
            FAULT_NODE,
            parents=(*causes, armed_rule.trace_index, self._tracer.cause),
            data={
                "rule": armed_rule.rule.id,
                "matched": armed_rule.matched,
                "struck": armed_rule.struck,
                "held": len(armed_rule.held_crossings),
                **({"disarmed": True} if armed_rule.is_disarmed else {}),
            },
        )

    def _trace_hit(self, armed_rule: ArmedRule, crossing: Crossing) -> int:
        if not self._tracer.on:
            return -1
        subject_fields = trace_subjects(crossing.subject)
        hit_event = self._tracer.emit(
            "fault.hit",
            FAULT_NODE,
            parents=(self._tracer.cause, armed_rule.trace_index),
            data={
                **_rule_fields(armed_rule),
                "matched": armed_rule.matched,
                "struck": armed_rule.struck + 1,
                "held": len(armed_rule.held_crossings)
                + isinstance(armed_rule.rule.action, Hold | Reorder | Stall),
                **({"api": api_name(crossing.api_key)} if crossing.api_key >= 0 else {}),
                "source": crossing.source,
                "target": crossing.target,
                **({"about": subject_fields} if subject_fields else {}),
            },
        )
        self._tracer.set_cause(hit_event)
        return hit_event


def _rule_fields(armed_rule: ArmedRule) -> dict[str, object]:
    fault_rule = armed_rule.rule
    return {"rule": fault_rule.id, "point": fault_rule.point, "action": str(fault_rule.action)}


def _stream_name(rule: FaultRule) -> str:
    return f"fault.{rule.id}"


class StalledLine(msgspec.Struct, eq=False):
    """A connection or link that a rule has stalled."""

    line: str
    stalling_rule: ArmedRule
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
    on_ended: Callable[[], None]
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
        return None if stall is None else stall.stalling_rule

    def rule_after_wake(self, crossing: Crossing) -> ArmedRule | None:
        """The rule whose stall a woken crossing has to wait for: only a stall that began after it
        was woken.
        """
        stall = self._by_line.get(crossing.line)
        return None if stall is None or stall.is_ending else stall.stalling_rule

    def begin(self, line: str, stalling_rule: ArmedRule, duration_ms: int | None) -> None:
        """Stall a line, for ``duration_ms`` milliseconds or until the rule is released."""
        stall = self._by_line[line] = StalledLine(line, stalling_rule)
        if duration_ms is not None:
            stall.timer = self.clock.call_later(duration_ms, lambda: self._end_stall(stall))

    def end_all(self, stalling_rule: ArmedRule) -> None:
        for stall in list(self._by_line.values()):
            if stall.stalling_rule is stalling_rule:
                self._end_stall(stall)

    def _end_stall(self, stall: StalledLine) -> None:
        if stall.timer is not None:
            stall.timer.cancel()
            stall.timer = None
        if self._by_line.get(stall.line) is not stall:
            return
        stall.is_ending = True
        for future in list(stall.stalling_rule.held_by_line.get(stall.line, ())):
            if not future.done():
                held_crossing = stall.stalling_rule.held_crossings[future]
                stall.stalling_rule.released += 1
                stall.stalling_rule.let_go(future)
                future.set_result(
                    (self.released(stall.stalling_rule, held_crossing.hit_event), Pass())
                )
        # Those that were woken go on in this turn of the loop. A crossing that comes before they
        # have waits behind them.
        asyncio.get_running_loop().call_soon(self._finish_stall, stall)

    def _finish_stall(self, stall: StalledLine) -> None:
        if self._by_line.get(stall.line) is not stall:
            return  # one of them was stalled again
        if stall.line in stall.stalling_rule.held_by_line:
            self._end_stall(stall)
            return
        del self._by_line[stall.line]
        self.on_ended()


# Actions on the cluster while rules are in force: started, counted, and ended again.
#
# An action begins after the callback in which its rule struck, never inside the struck code: it may
# well kill the broker that is being struck. The struck crossing waits until it is done.

_log: Final = Logger("txnsim.faults")


class ClusterControl(Protocol):
    """Carries out a rule's action on a running cluster (``server._cluster_control``)."""

    async def carry_out(
        self, action: ClusterAction, *, struck_broker: BrokerId | None
    ) -> Undo | None:
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
    on_end: Callable[[ArmedRule], None]
    """Called with the rule after each action, also after a failed one."""

    def begin(
        self,
        armed_rule: ArmedRule,
        action: ClusterAction,
        control: ClusterControl | None,
        *,
        struck_broker: BrokerId | None,
    ) -> asyncio.Future[None]:
        """Start an action in the background.

        Returns:
            A future that is done when the action has succeeded or failed.
        """
        assert control is not None, "without one the rule was refused"
        end_future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        coroutine = self._carry_out(
            armed_rule, action, control.carry_out(action, struck_broker=struck_broker)
        )
        task = self.tasks.spawn(coroutine, name=f"fault-{armed_rule.rule.id}")

        def end(_task: asyncio.Task[Any]) -> None:
            self.on_end(armed_rule)
            if not end_future.done():
                end_future.set_result(None)

        task.add_done_callback(end)
        return end_future

    async def _carry_out(
        self,
        armed_rule: ArmedRule,
        action: ClusterAction,
        action_coroutine: Coroutine[Any, Any, Undo | None],
    ) -> None:
        try:
            undo_effect = await action_coroutine
        except TxnsimError as error:
            armed_rule.failure = str(error)
            armed_rule.give_up(armed_rule.failure)
            _log.warning(
                "fault.failed", rule=armed_rule.rule.id, action=str(action), reason=str(error)
            )
            return
        if undo_effect is not None:
            self._remember(armed_rule, undo_effect, action.ends_after_ms)
        armed_rule.count_strike()

    def _remember(self, armed_rule: ArmedRule, undo: Undo, ends_after_ms: int | None) -> None:
        if armed_rule.is_disarmed:
            self._undo(armed_rule, undo)
            return
        lasting_effect = LastingEffect(undo)
        armed_rule.lasting_effects.append(lasting_effect)
        if ends_after_ms is not None:
            timer = self.clock.call_later(
                ends_after_ms, partial(self._end_lasting_effect, armed_rule, lasting_effect)
            )
            lasting_effect.cancel_timer = timer.cancel

    def end_all(self, armed_rule: ArmedRule) -> int:
        """End the lasting effects of a rule, oldest first.

        Returns:
            Number of ended effects.
        """
        lasting_effects = list(armed_rule.lasting_effects)
        for lasting_effect in lasting_effects:
            self._end_lasting_effect(armed_rule, lasting_effect)
        return len(lasting_effects)

    def _end_lasting_effect(self, armed_rule: ArmedRule, lasting_effect: LastingEffect) -> None:
        armed_rule.lasting_effects.remove(lasting_effect)
        lasting_effect.cancel_timer()
        armed_rule.released += 1
        self._undo(armed_rule, lasting_effect.undo)

    def _undo(self, armed_rule: ArmedRule, undo: Undo) -> None:
        self.tasks.spawn(undo(), name=f"fault-{armed_rule.rule.id}-ends")

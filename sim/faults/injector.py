"""The interceptor that makes declared faults happen.

The network and the server ask it at every fault point while a rule is armed (``env.Interceptor``);
while none is, ``armed`` is False and they don't even describe the crossing.

Of several rules the one armed first that strikes decides; every rule that matches counts the
crossing. A held crossing waits on a future; releasing or disarming its rule lets it go on, in the
order in which it came. Disarming leaves delayed ones to their delay.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Final, assert_never

import msgspec

from sim.faults.plan import Delay, Drop, Fail, FaultRule, Hold, describe, matches, spent, strikes
from sim.runtime.env import Clock
from sim.runtime.trace import Tracer
from sim.types import Crossing, SubmitOutcome, Verdict
from sim.wire.apis import api_name

PASS: Final = Verdict(outcome=SubmitOutcome.PASS)
DROP: Final = Verdict(outcome=SubmitOutcome.DROP)
FAULT_NODE: Final = "fault"


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """A crossing that waits."""

    crossing: Crossing
    hit: int
    """Trace index of its ``fault.hit``; -1 if the trace was off."""


class ArmedRule:
    """A rule in force and what has come of it."""

    __slots__ = ("_struck_waiters", "held", "matched", "released", "rule", "struck", "trace_index")

    def __init__(self, rule: FaultRule) -> None:
        self.rule = rule
        self.matched = 0
        """Crossings that matched since it was armed."""
        self.struck = 0
        """Those that were struck."""
        self.released = 0
        """Those that were held and have been let go."""
        self.held: dict[asyncio.Future[int], Held] = {}
        """Those that wait, oldest first; the future is given the trace index of the release."""
        self.trace_index = -1
        self._struck_waiters: list[tuple[int, asyncio.Future[None]]] = []

    @property
    def spent(self) -> bool:
        """It can strike no more; what it holds is still held."""
        return spent(self.rule, self.matched)

    def until_struck(self, count: int) -> asyncio.Future[None]:
        """Done once ``count`` crossings have been struck."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self.struck >= count:
            future.set_result(None)
        else:
            self._struck_waiters.append((count, future))
        return future

    def count_strike(self) -> None:
        """One more was struck: wake who waits for that."""
        self.struck += 1
        due = [future for count, future in self._struck_waiters if count <= self.struck]
        self._struck_waiters = [
            (count, future)
            for count, future in self._struck_waiters
            if count > self.struck and not future.done()
        ]
        for future in due:
            if not future.done():
                future.set_result(None)

    def give_up(self, reason: str) -> None:
        """It was disarmed: whoever waits for more strikes waits in vain."""
        waiters, self._struck_waiters = self._struck_waiters, []
        for count, future in waiters:
            if not future.done():
                future.set_exception(
                    LookupError(
                        f"rule {self.rule.id!r}: {self.struck} of {count} strikes; {reason}"
                    )
                )


class Injector:
    """``env.Interceptor`` with rules that can be armed, released and disarmed while the cluster
    runs.
    """

    def __init__(self, *, clock: Clock, tracer: Tracer) -> None:
        """Start without a rule.

        Args:
            clock: Delays, and deadlines of who waits for strikes; monotonic.
            tracer: Told of ``fault.arm``, ``fault.hit`` and ``fault.release``.
        """
        self.armed = False
        self._clock = clock
        self._tracer = tracer
        self._rules: dict[str, ArmedRule] = {}

    # Rules

    def arm(self, rule: FaultRule) -> ArmedRule:
        """Put a rule in force.

        Raises:
            ValueError: A rule of that id is in force.
        """
        if rule.id in self._rules:
            raise ValueError(f"a rule {rule.id!r} is armed already")
        state = self._rules[rule.id] = ArmedRule(rule)
        self.armed = True
        if self._tracer.on:
            state.trace_index = self._tracer.emit("fault.arm", FAULT_NODE, data=_facts(state))
        return state

    def release(self, rule_id: str) -> int:
        """Let go what a rule holds; it stays armed and may hold again.

        Returns:
            How many crossings went on.

        Raises:
            KeyError: No such rule.
        """
        state = self._rules[rule_id]
        held, state.held = state.held, {}
        state.released += len(held)
        if not held:
            self._trace_release(state, ())
        for future, waiting in held.items():
            if not future.done():
                future.set_result(self._trace_release(state, (waiting.hit,)))
        return len(held)

    def disarm(self, rule_id: str) -> ArmedRule:
        """Take a rule out of force and let go what it holds.

        Raises:
            KeyError: No such rule.
        """
        self.release(rule_id)
        state = self._rules.pop(rule_id)
        self._update_armed()
        state.give_up("it was disarmed")
        return state

    def disarm_all(self) -> None:
        """Disarm every rule, oldest first."""
        for rule_id in list(self._rules):
            self.disarm(rule_id)

    def rules(self) -> tuple[ArmedRule, ...]:
        """The rules in force, oldest first."""
        return tuple(self._rules.values())

    def get(self, rule_id: str) -> ArmedRule | None:
        """The rule of that id, if it is in force."""
        return self._rules.get(rule_id)

    async def wait_until_struck(
        self, rule_id: str, *, count: int = 1, timeout_ms: int
    ) -> ArmedRule:
        """Wait until a rule has struck ``count`` crossings since it was armed.

        Raises:
            KeyError: No such rule.
            LookupError: It was disarmed before.
            TimeoutError: It has not struck so often within ``timeout_ms`` (monotonic).
        """
        state = self._rules[rule_id]
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

    def _update_armed(self) -> None:
        self.armed = any(not state.spent for state in self._rules.values())

    # Crossings

    def cross(self, crossing: Crossing) -> Verdict | Awaitable[Verdict] | None:
        """See ``env.Interceptor``; a strike makes its ``fault.hit`` the current cause."""
        decided: ArmedRule | None = None
        for state in self._rules.values():
            if matches(state.rule, crossing):
                state.matched += 1
                if decided is None and strikes(state.rule, state.matched):
                    decided = state
        if decided is None:
            return None
        hit = self._trace_hit(decided, crossing)
        decided.count_strike()
        if decided.spent:
            self._update_armed()
        action = decided.rule.action
        match action:
            case Hold():
                return self._hold(decided, crossing, hit)
            case Delay(delay_ms=delay_ms):
                return self._delay(delay_ms)
            case Drop():
                return DROP
            case Fail() as fail:
                return Verdict(outcome=SubmitOutcome.ERROR, error=int(fail.code))
        assert_never(action)

    def _hold(self, state: ArmedRule, crossing: Crossing, hit: int) -> Awaitable[Verdict]:
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        state.held[future] = Held(crossing=crossing, hit=hit)
        # Whoever waits may be cancelled (the cluster stops): then nothing is held any more.
        future.add_done_callback(lambda done: state.held.pop(done, None))
        return self._wait_for_release(future)

    async def _wait_for_release(self, future: asyncio.Future[int]) -> Verdict:
        release = await future
        if self._tracer.on:
            self._tracer.caused_by(release)  # what follows in this context is due to the release
        return PASS

    def _delay(self, delay_ms: int) -> Awaitable[Verdict]:
        future: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()

        def go_on() -> None:
            if not future.done():
                future.set_result(PASS)

        timer = self._clock.call_later(delay_ms, go_on)
        future.add_done_callback(lambda _: timer.cancel())
        return future

    # Trace

    def _trace_release(self, state: ArmedRule, causes: tuple[int, ...]) -> int:
        if not self._tracer.on:
            return -1
        return self._tracer.emit(
            "fault.release",
            FAULT_NODE,
            parents=(*causes, state.trace_index, self._tracer.cause),
            data={"rule": state.rule.id, "struck": state.struck},
        )

    def _trace_hit(self, state: ArmedRule, crossing: Crossing) -> int:
        if not self._tracer.on:
            return -1
        hit = self._tracer.emit(
            "fault.hit",
            FAULT_NODE,
            parents=(self._tracer.cause, state.trace_index),
            data={
                **_facts(state),
                "matched": state.matched,
                "struck": state.struck + 1,
                "api": api_name(crossing.api_key),
                "source": crossing.source,
                "target": crossing.target,
            },
        )
        self._tracer.caused_by(hit)
        return hit


def _facts(state: ArmedRule) -> dict[str, object]:
    rule = state.rule
    return {"rule": rule.id, "point": rule.point, "action": describe(rule.action)}

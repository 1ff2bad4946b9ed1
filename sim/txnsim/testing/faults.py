"""Faults, from Python: the same rules as in scenarios and over HTTP (docs/faults.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from txnsim.faults.plan import FaultRule
from txnsim.injection.armed import ArmedRule
from txnsim.testing.event_loop import in_home
from txnsim.testing.rebuilt_cluster import Inhabitant, World
from txnsim.testing.rules import fault_rule

WAIT_MS: Final = 30_000
"""How long a wait for strikes takes at most, unless told otherwise: far longer than it should."""


class FaultState(msgspec.Struct, frozen=True, kw_only=True):
    """A rule and what has come of it."""

    rule: FaultRule
    matched: int
    """Crossings that it concerned."""
    struck: int
    held: int
    """Crossings that wait for its release."""
    released: int
    may_miss: bool
    """It need not strike for a test to pass."""
    in_force: bool
    """It was not disarmed."""
    failure: str | None = None
    """Why an action on the cluster could not be carried out, the last time."""


class AsyncFault:
    """A rule that was armed, and what comes of it."""

    def __init__(self, faults: AsyncFaults, armed: ArmedRule, *, may_miss: bool) -> None:
        self._faults = faults
        self.armed = armed
        self.may_miss = may_miss

    @property
    def id(self) -> str:
        """Its name."""
        return self.armed.rule.id

    @property
    def rule(self) -> FaultRule:
        """The rule."""
        return self.armed.rule

    @property
    def matched(self) -> int:
        """How many crossings it has concerned so far."""
        return self.armed.matched

    @property
    def struck(self) -> int:
        """How many it has struck so far."""
        return self.armed.struck

    @property
    def held(self) -> int:
        """How many wait for its release now."""
        return len(self.armed.held)

    @property
    def failure(self) -> str | None:
        """Why its action on the cluster could not be carried out, the last time."""
        return self.armed.failure

    async def wait_until_struck(self, count: int = 1, *, timeout_ms: int = WAIT_MS) -> None:
        """See ``AsyncFaults.wait_until_struck``."""
        await self._faults.wait_until_struck(self.id, count, timeout_ms=timeout_ms)

    async def release(self) -> int:
        """See ``AsyncFaults.release``."""
        return await self._faults.release(self.id)

    async def disarm(self) -> None:
        """See ``AsyncFaults.disarm``."""
        await self._faults.disarm(self.id)


class AsyncFaults(Inhabitant):
    """The faults of one cluster."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._armed: list[AsyncFault] = []
        """Every rule since the last ``forget``, also those that are not in force any more."""
        self._numbered = 0

    @in_home
    async def arm(
        self,
        rule: FaultRule | Mapping[str, Any] | str | None = None,
        /,
        *,
        may_miss: bool = False,
        **fields: Any,
    ) -> AsyncFault:
        """Put a rule in force.

        Args:
            rule: The rule, its fields, or its YAML text.
            may_miss: It need not strike: ``never_struck`` and the pytest plugin don't ask for it.
            fields: The rule's fields: ``point="client.request", api="Produce", action="hold"``; an
                action with particulars as a mapping, ``{"do": "delay", "delay_ms": 700}``.

        Returns:
            What comes of it.

        Raises:
            ValueError: It is no rule, or one of that id is in force.
            ConfigError: The text is no YAML.
        """
        self._numbered += 1
        made = fault_rule(rule, fields, default_id=f"fault-{self._numbered}")
        fault = AsyncFault(self, self._world.sim.injector.arm(made), may_miss=may_miss)
        self._armed.append(fault)
        return fault

    @in_home
    async def release(self, rule_id: str) -> int:
        """Let go what a rule holds; it stays in force. Says how many went on.

        Raises:
            KeyError: No such rule is in force.
        """
        return self._world.sim.injector.release(rule_id)

    @in_home
    async def disarm(self, rule_id: str) -> None:
        """Take a rule out of force; what it holds goes on.

        Raises:
            KeyError: No such rule is in force.
        """
        self._world.sim.injector.disarm(rule_id)

    @in_home
    async def disarm_all(self) -> None:
        """Take every rule out of force."""
        self._world.sim.injector.disarm_all()

    @in_home
    async def wait_until_struck(
        self, rule_id: str, count: int = 1, *, timeout_ms: int = WAIT_MS
    ) -> None:
        """Wait until a rule has struck ``count`` crossings since it was armed.

        Raises:
            KeyError: No such rule is in force.
            LookupError: It was disarmed before.
            TimeoutError: It has not struck so often within ``timeout_ms``.
        """
        injector = self._world.sim.injector
        await injector.wait_until_struck(rule_id, count=count, timeout_ms=timeout_ms)

    @in_home
    async def states(self) -> tuple[FaultState, ...]:
        """Every rule since the cluster started, and what has come of it, oldest first."""
        return self.states_now()

    @in_home
    async def never_struck(self) -> tuple[str, ...]:
        """The ids of the rules that have not struck once, though they should."""
        return tuple(
            state.rule.id for state in self.states_now() if state.struck == 0 and not state.may_miss
        )

    def states_now(self) -> tuple[FaultState, ...]:
        """The same as ``states``, for who is in the cluster's loop, or only looks."""
        in_force = self._world.sim.injector.rules() if self._world.is_running else ()
        ours = [(fault.armed, fault.may_miss) for fault in self._armed]
        known = {id(armed) for armed, _ in ours}
        # Rules that came by another door, the control port for instance, count as well.
        others = [(armed, False) for armed in in_force if id(armed) not in known]
        return tuple(
            FaultState(
                rule=armed.rule,
                matched=armed.matched,
                struck=armed.struck,
                held=len(armed.held),
                released=armed.released,
                may_miss=may_miss,
                in_force=any(one is armed for one in in_force),
                failure=armed.failure,
            )
            for armed, may_miss in (*ours, *others)
        )

    def forget(self) -> None:
        """Begin anew: what was armed so far is nobody's any more."""
        self._armed.clear()
        if self._world.is_running:
            self._world.sim.injector.forget()

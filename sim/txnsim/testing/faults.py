"""Faults, from Python: the same rules as in scenarios and over HTTP (docs/faults.md)."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from txnsim.faults.plan import FaultRule
from txnsim.http.messages import Fault, fault
from txnsim.injection.armed_rule import ArmedRule
from txnsim.server.views.waiting_transactions import WAIT_MS
from txnsim.testing.event_loop import ClusterLoop, in_cluster_loop
from txnsim.testing.rebuilt_cluster import ClusterPart, RebuiltCluster
from txnsim.value_errors import converted


class FaultState(Fault, frozen=True, kw_only=True):
    """A rule and its results."""

    may_miss: bool
    """It need not strike for a test to pass."""


class FaultResults:
    """A rule that was armed, and its results."""

    def __init__(self, armed: ArmedRule) -> None:
        self.armed = armed

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
        return self.armed.struck

    @property
    def held(self) -> int:
        """How many wait for its release now."""
        return len(self.armed.held)

    @property
    def failure(self) -> str | None:
        """Reason for the last failure of the rule's action on the cluster; None if it worked."""
        return self.armed.failure


class AsyncFault(FaultResults):
    """A rule that was armed, and its results."""

    def __init__(self, faults: AsyncFaults, armed: ArmedRule, *, may_miss: bool) -> None:
        super().__init__(armed)
        self._faults = faults
        self.may_miss = may_miss

    @property
    def cluster_loop(self) -> ClusterLoop:
        """The cluster's loop."""
        return self._faults.cluster_loop

    async def wait_until_struck(self, count: int = 1, *, timeout_ms: int = WAIT_MS) -> None:
        """See ``AsyncFaults.wait_until_struck``."""
        await self._faults.wait_until_struck(self.id, count, timeout_ms=timeout_ms)

    async def release(self) -> int:
        """See ``AsyncFaults.release``."""
        return await self._faults.release(self.id)

    async def disarm(self) -> None:
        """See ``AsyncFaults.disarm``."""
        await self._faults.disarm(self.id)


class AsyncFaults(ClusterPart):
    """The faults of one cluster."""

    def __init__(self, rebuilt: RebuiltCluster) -> None:
        super().__init__(rebuilt)
        self._armed: list[AsyncFault] = []
        """All rules since the last ``forget``, also those no longer in force."""
        self._numbered = 0

    @in_cluster_loop
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
            The armed rule, with its results.

        Raises:
            ValueError: It is no rule, or one of that id is in force.
            ConfigError: The text is no YAML.
        """
        self._numbered += 1
        built_rule = fault_rule(rule, fields, default_id=f"fault-{self._numbered}")
        injector = self._rebuilt.injector
        fault = AsyncFault(self, injector.arm(built_rule), may_miss=may_miss)
        if (doubt := injector.doubt(built_rule)) is not None:
            warnings.warn(f"the fault {built_rule.id} can strike nothing: {doubt}", stacklevel=2)
        self._armed.append(fault)
        return fault

    @in_cluster_loop
    async def release(self, rule_id: str) -> int:
        """Let go what a rule holds; it stays in force. Says how many went on.

        Raises:
            KeyError: No such rule is in force.
        """
        return self._rebuilt.injector.release(rule_id)

    @in_cluster_loop
    async def disarm(self, rule_id: str) -> None:
        """Take a rule out of force; crossings that it holds go on.

        Raises:
            KeyError: No such rule is in force.
        """
        self._rebuilt.injector.disarm(rule_id)

    @in_cluster_loop
    async def disarm_all(self) -> None:
        """Take every rule out of force."""
        self._rebuilt.injector.disarm_all()

    @in_cluster_loop
    async def wait_until_struck(
        self, rule_id: str, count: int = 1, *, timeout_ms: int = WAIT_MS
    ) -> None:
        """Wait until a rule has struck ``count`` crossings since it was armed.

        Raises:
            KeyError: No such rule is in force.
            LookupError: It was disarmed before.
            TimeoutError: It has not struck so often within ``timeout_ms``.
        """
        injector = self._rebuilt.injector
        await injector.wait_until_struck(rule_id, count=count, timeout_ms=timeout_ms)

    @in_cluster_loop
    async def states(self) -> tuple[FaultState, ...]:
        """Every rule since the cluster started, with its results, oldest first."""
        return self.states_now()

    @in_cluster_loop
    async def never_struck(self) -> tuple[str, ...]:
        """The ids of the rules that have not struck once, though they should."""
        return tuple(
            state.rule.id for state in self.states_now() if state.struck == 0 and not state.may_miss
        )

    def states_now(self) -> tuple[FaultState, ...]:
        """The same as ``states``, for callers in the cluster's loop, or that only look."""
        injector = self._rebuilt.injector if self._rebuilt.is_running else None
        in_force = () if injector is None else injector.rules()
        armed_here = [(fault.armed, fault.may_miss) for fault in self._armed]
        our_ids = {id(armed) for armed, _ in armed_here}
        # Rules that came another way, by the control port for instance, count as well.
        others_rules = [(armed, False) for armed in in_force if id(armed) not in our_ids]
        states = []
        for armed, may_miss in (*armed_here, *others_rules):
            doubt = injector.doubt(armed.rule, in_hindsight=True) if injector else None
            known_of_it = msgspec.structs.asdict(fault(armed, doubt))
            states.append(FaultState(may_miss=may_miss, **known_of_it))
        return tuple(states)

    def forget_struck(self) -> None:
        """Forget the rules that were armed so far, but for those that should have struck."""
        injector = self._rebuilt.injector
        our_ids = {id(fault.armed) for fault in self._armed}
        others_rules = [armed for armed in injector.rules() if id(armed) not in our_ids]
        self._armed += [AsyncFault(self, armed, may_miss=False) for armed in others_rules]
        self._armed = [fault for fault in self._armed if not (fault.struck or fault.may_miss)]
        injector.forget()

    def forget(self) -> None:
        """Start again: forget the rules that were armed so far."""
        self._armed.clear()
        if self._rebuilt.is_running:
            self._rebuilt.injector.forget()


HERE: Final = "rule"
"""What messages call a text."""


def fault_rule(
    description: FaultRule | Mapping[str, Any] | str | None,
    fields: Mapping[str, Any],
    *,
    default_id: str,
) -> FaultRule:
    """The rule of the arguments.

    Args:
        description: A rule, its fields, or its YAML text.
        fields: Fields on top. ``action`` and ``then`` may be the mere name of an action without
            particulars.
        default_id: Its id where none is given.

    Raises:
        WrongValueError: It is no rule; one line for each field that is wrong.
        ConfigError: The text is no YAML.
    """
    if isinstance(description, FaultRule):
        return converted({**msgspec.to_builtins(description), **_spelled_out(fields)}, FaultRule)
    if isinstance(description, str):
        from txnsim.config.yaml_bounds import read_mapping  # YAML, only where a text is read

        description, _lines = read_mapping(description.encode(), file=HERE)
    return converted(
        {"id": default_id, **_spelled_out(description or {}), **_spelled_out(fields)}, FaultRule
    )


def _spelled_out(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Keyword arguments as a file has them: no None for options that are not given, an action as
    its name.
    """
    fields_given = {name: value for name, value in fields.items() if value is not None}
    for name in fields_given.keys() & {"action", "then"}:
        action = fields_given[name]
        if isinstance(action, str):
            fields_given[name] = {"do": action}
        elif isinstance(action, msgspec.Struct):
            fields_given[name] = msgspec.to_builtins(action)
    return fields_given

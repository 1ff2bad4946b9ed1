"""Faults, for Python tests: the same rules as in scenarios and over HTTP (docs/faults.md)."""

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
from txnsim.value_errors import convert_value


class FaultState(Fault, frozen=True, kw_only=True):
    """A rule and its results."""

    may_miss: bool
    """Whether the test may pass without a strike of the rule."""


class FaultResults:
    """An armed rule and its results."""

    def __init__(self, armed_rule: ArmedRule) -> None:
        self.armed = armed_rule

    @property
    def id(self) -> str:
        """The rule's id."""
        return self.armed.rule.id

    @property
    def rule(self) -> FaultRule:
        return self.armed.rule

    @property
    def matched(self) -> int:
        """Number of crossings that have matched so far."""
        return self.armed.matched

    @property
    def struck(self) -> int:
        return self.armed.struck

    @property
    def held(self) -> int:
        """Number of crossings that wait for the rule's release now."""
        return len(self.armed.held_crossings)

    @property
    def failure(self) -> str | None:
        """Error of the last failed action on the cluster; None if there is none."""
        return self.armed.failure


class AsyncFault(FaultResults):
    """An armed rule and its results."""

    def __init__(self, faults: AsyncFaults, armed_rule: ArmedRule, *, may_miss: bool) -> None:
        super().__init__(armed_rule)
        self._faults = faults
        self.may_miss = may_miss

    @property
    def cluster_loop(self) -> ClusterLoop:
        """The event loop of the cluster."""
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
    """Arms fault rules of a cluster and waits for them, from a running loop."""

    def __init__(self, rebuilt_cluster: RebuiltCluster) -> None:
        super().__init__(rebuilt_cluster)
        self._armed_faults: list[AsyncFault] = []
        """All rules since the last ``forget``, including those no longer in force."""
        self._rule_count = 0

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
            may_miss: Whether the rule need not strike: ``never_struck`` and the pytest plugin don't
                check it.
            fields: The rule's fields: ``point="client.request", api="Produce", action="hold"``; an
                action with parameters is a mapping, ``{"do": "delay", "delay_ms": 700}``.

        Returns:
            The armed rule, with its results.

        Raises:
            ValueError: The rule is invalid, or one with this id is in force.
            ConfigError: The text is no YAML.
        """
        self._rule_count += 1
        built_rule = fault_rule(rule, fields, default_id=f"fault-{self._rule_count}")
        injector = self._rebuilt.injector
        fault = AsyncFault(self, injector.arm(built_rule), may_miss=may_miss)
        if (doubt := injector.doubt(built_rule)) is not None:
            warnings.warn(f"the fault {built_rule.id} can strike nothing: {doubt}", stacklevel=2)
        self._armed_faults.append(fault)
        return fault

    @in_cluster_loop
    async def release(self, rule_id: str) -> int:
        """Release the crossings that a rule holds; it stays in force. Return their number.

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
            LookupError: The rule was disarmed before that.
            TimeoutError: The rule has struck less often within ``timeout_ms``.
        """
        injector = self._rebuilt.injector
        await injector.wait_until_struck(rule_id, count=count, timeout_ms=timeout_ms)

    @in_cluster_loop
    async def states(self) -> tuple[FaultState, ...]:
        """Every rule since the cluster started, with its results, oldest first."""
        return self.states_now()

    @in_cluster_loop
    async def never_struck(self) -> tuple[str, ...]:
        """Ids of the rules that have not struck, though they should."""
        return tuple(
            state.rule.id for state in self.states_now() if state.struck == 0 and not state.may_miss
        )

    def states_now(self) -> tuple[FaultState, ...]:
        """The same as ``states``, for callers in the cluster's event loop, or when the cluster has
        stopped.
        """
        injector = self._rebuilt.injector if self._rebuilt.is_running else None
        injector_rules = () if injector is None else injector.rules()
        own_rules = [(fault.armed, fault.may_miss) for fault in self._armed_faults]
        our_ids = {id(armed_rule) for armed_rule, _ in own_rules}
        # Rules that came another way, by the control port for instance, count as well.
        others_rules = [
            (armed_rule, False) for armed_rule in injector_rules if id(armed_rule) not in our_ids
        ]
        states = []
        for armed_rule, may_miss in (*own_rules, *others_rules):
            doubt = injector.doubt(armed_rule.rule, is_in_hindsight=True) if injector else None
            reported_fields = msgspec.structs.asdict(fault(armed_rule, doubt))
            states.append(FaultState(may_miss=may_miss, **reported_fields))
        return tuple(states)

    def forget_struck(self) -> None:
        """Forget the rules so far, except those that should have struck and have not."""
        injector = self._rebuilt.injector
        our_ids = {id(fault.armed) for fault in self._armed_faults}
        others_rules = [
            armed_rule for armed_rule in injector.rules() if id(armed_rule) not in our_ids
        ]
        self._armed_faults += [
            AsyncFault(self, armed_rule, may_miss=False) for armed_rule in others_rules
        ]
        self._armed_faults = [
            fault for fault in self._armed_faults if not (fault.struck or fault.may_miss)
        ]
        injector.forget()

    def forget(self) -> None:
        """Forget every rule that was armed so far."""
        self._armed_faults.clear()
        if self._rebuilt.is_running:
            self._rebuilt.injector.forget()


RULE_FILE_NAME: Final = "rule"
"""Name of a rule's YAML text in messages."""


def fault_rule(
    description: FaultRule | Mapping[str, Any] | str | None,
    rule_fields: Mapping[str, Any],
    *,
    default_id: str,
) -> FaultRule:
    """Make a rule from arguments.

    Args:
        description: A rule, its fields, or its YAML text.
        rule_fields: Fields that win over the description's. ``action`` and ``then`` may be the name
            of an action without parameters.
        default_id: The rule's id if none is given.

    Raises:
        WrongValueError: The rule is invalid; one line for each field that is wrong.
        ConfigError: The text is no YAML.
    """
    if isinstance(description, FaultRule):
        return convert_value(
            {**msgspec.to_builtins(description), **_expand_fields(rule_fields)}, FaultRule
        )
    if isinstance(description, str):
        from txnsim.config.yaml_bounds import read_mapping  # YAML, only where a text is read

        description, _lines = read_mapping(description.encode(), file=RULE_FILE_NAME)
    return convert_value(
        {"id": default_id, **_expand_fields(description or {}), **_expand_fields(rule_fields)},
        FaultRule,
    )


def _expand_fields(rule_fields: Mapping[str, Any]) -> dict[str, Any]:
    """Convert keyword arguments to the fields of a file: drop options that are None, and expand
    an action that is a name.
    """
    fields_given = {
        field_name: value for field_name, value in rule_fields.items() if value is not None
    }
    for field_name in fields_given.keys() & {"action", "then"}:
        action = fields_given[field_name]
        if isinstance(action, str):
            fields_given[field_name] = {"do": action}
        elif isinstance(action, msgspec.Struct):
            fields_given[field_name] = msgspec.to_builtins(action)
    return fields_given

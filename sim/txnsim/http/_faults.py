"""Fault rules through the control port: arm one or a whole plan, watch, release, disarm, and at the
end check whether each of them struck.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import AbstractContextManager
from typing import Final, Protocol

import msgspec
from starlette.requests import Request

from txnsim.faults.meanings import FATES
from txnsim.faults.plan import FaultRule
from txnsim.http.messages import Fault, Released, fault
from txnsim.http.operation import PREFIX, Noun, Operation, Query
from txnsim.http.replies import (
    Body,
    LargeObject,
    Listing,
    RefusedError,
    WithStatus,
    number_of,
    word_of,
)
from txnsim.injection.armed_rule import ArmedRule
from txnsim.injection.injector import CannotStrikeError, Injector
from txnsim.runtime.environment import Environment
from txnsim.runtime.loop_turns import Pace
from txnsim.server.user_inputs import input_event
from txnsim.server.views.waiting_transactions import WAIT_MS
from txnsim.settings import DEFAULTS

WAIT_MS_MAX: Final = 300_000
STRIKES_MAX: Final = 1_000_000
PLAN_RULES_MAX: Final = 1_000
RULES_MAX: Final = 5_000
"""Rules in force at once: each crossing may ask all of them, and one step disarms all."""
RULES_BYTES_MAX: Final = 8 * 2**20
"""Bytes of all rules that are kept, as JSON: each answer has them twice at most, so it is far below
``answer_max_bytes``.
"""
TOLD_RULES_MAX: Final = 20
"""Rules that the text of an error names; the answer has all of them."""


class NeverStruck(msgspec.Struct, frozen=True, kw_only=True):
    """The armed faults that never struck, if any."""

    error: str | None
    """Advice about them; null if every rule has struck."""
    never_struck: tuple[Fault, ...]


class FaultTarget(Protocol):
    """A target in which faults can be armed: a simulated cluster, or a proxy."""

    @property
    def environment(self) -> Environment:
        """The runtime environment of the cluster or proxy."""

    @property
    def injector(self) -> Injector:
        """The injector that applies the fault rules."""


class FaultRoutes(Noun):
    """Routes that arm, show and release fault rules of one cluster."""

    def __init__(self, cluster: FaultTarget) -> None:
        self._cluster = cluster

    @Operation("get", f"{PREFIX}/faults")
    async def faults(self, _request: Request) -> Listing[Fault]:
        """Every armed fault rule."""
        return self._listing(map(fault, self._cluster.injector.rules()))

    @Operation("post", f"{PREFIX}/faults", status="201", refusals=("409", "422"))
    async def arm(self, _request: Request, body: Body[FaultRule]) -> Fault:
        """Arm a fault rule."""
        return self._arm_rule(await body.read())

    @Operation("post", f"{PREFIX}/faults/plan", status="201", refusals=("409", "422"))
    async def arm_plan(self, _request: Request, body: Body[list[FaultRule]]) -> list[Fault]:
        """Arm a whole plan, in its order: all of its rules or none."""
        fault_rules = await body.read(elements_max=PLAN_RULES_MAX, noun="rules")
        armed_faults: list[Fault] = []
        try:
            for fault_rule in fault_rules:
                armed_faults.append(self._arm_rule(fault_rule))
        except RefusedError:
            for fault_rule in fault_rules[: len(armed_faults)]:
                with self._input_event("disarm-fault", rule=fault_rule.id):
                    self._cluster.injector.disarm(fault_rule.id)
            raise
        return armed_faults

    def _arm_rule(self, fault_rule: FaultRule) -> Fault:
        injector = self._cluster.injector
        if len(injector.rules()) >= RULES_MAX:
            raise RefusedError(422, f"{RULES_MAX:,} rules are in force: disarm some of them first")
        if injector.kept_bytes >= RULES_BYTES_MAX:
            raise RefusedError(
                422,
                f"rules of {injector.kept_bytes:,} bytes are kept, expected at most "
                f"{RULES_BYTES_MAX:,}: disarm some of them, and forget those that never struck "
                f"(POST {PREFIX}/faults/verify?forget=true)",
            )
        is_armed = injector.get(fault_rule.id) is not None
        try:
            with self._input_event("arm-fault", rule=msgspec.to_builtins(fault_rule)):
                return fault(injector.arm(fault_rule), injector.doubt(fault_rule))
        except CannotStrikeError as error:
            raise RefusedError(501, str(error)) from error
        except ValueError as error:
            advice = (
                f": choose another id, or DELETE {PREFIX}/faults/{fault_rule.id} first"
                if is_armed
                else ""
            )
            raise RefusedError(409, f"{error}{advice}") from error

    def _input_event(self, action_name: str, **args: object) -> AbstractContextManager[None]:
        """Actions inside are recorded as an input in the trace."""
        return input_event(self._cluster.environment, action_name, **args)

    @Operation(
        "post",
        f"{PREFIX}/faults/verify",
        also=("409",),
        query=(Query("forget", "Begin a new account: judge only later ones next time", "boolean"),),
        refusals=("422",),
    )
    async def verify(self, request: Request) -> WithStatus[LargeObject[NeverStruck]]:
        """Whether every rule that was armed has struck, including disarmed ones; 409 names those
        that have not.

        A rule that never struck has tested nothing.
        """
        injector = self._cluster.injector
        forgets_strikes = word_of(request, "forget", ("true", "false")) == "true"
        idle_rules = injector.never_struck()
        if forgets_strikes:
            injector.forget()
        idle_faults = await self._pace().run(_idle_faults(injector, idle_rules))
        error = None
        if idle_faults:
            match_counts = [
                f"{idle_fault.rule.id}: {idle_fault.matched} crossings matched"
                f"{', ' if idle_fault.doubt else ''}{idle_fault.doubt or ''}"
                for idle_fault in idle_faults[:TOLD_RULES_MAX]
            ]
            if len(idle_faults) > TOLD_RULES_MAX:
                match_counts.append(f"and {len(idle_faults) - TOLD_RULES_MAX:,} more")
            error = (
                f"{len(idle_faults)} of the faults never struck ({'; '.join(match_counts)}): "
                f"compare their criteria with what the clients do (GET {PREFIX}/report shows it), "
                "or leave them out"
            )
        answer = NeverStruck(error=error, never_struck=idle_faults)
        large_answer = LargeObject(answer, self._pace(), bytes_max=DEFAULTS.answer_max_bytes)
        return WithStatus(large_answer, status=409 if idle_faults else 200)

    @Operation("delete", f"{PREFIX}/faults")
    async def disarm_all(self, _request: Request) -> Listing[Fault]:
        """Disarm every rule, oldest first; crossings that they hold go on."""
        injector = self._cluster.injector
        with self._input_event("disarm-faults"):
            return self._listing(
                [fault(injector.disarm(armed_rule.rule.id)) for armed_rule in injector.rules()]
            )

    def _listing(self, faults: Iterable[Fault]) -> Listing[Fault]:
        return Listing(faults, self._pace(), bytes_max=DEFAULTS.answer_max_bytes)

    def _pace(self) -> Pace:
        environment = self._cluster.environment
        return Pace(environment.tasks.turns, environment.clock.stopwatch_ns)

    @Operation("get", f"{PREFIX}/faults/{{id}}", refusals=("404",))
    async def fault(self, request: Request) -> Fault:
        """A rule and its effects so far."""
        armed_rule = self._cluster.injector.get(self._armed_rule_id(request))
        assert armed_rule is not None
        return fault(armed_rule)

    @Operation("delete", f"{PREFIX}/faults/{{id}}", refusals=("404",))
    async def disarm(self, request: Request) -> Fault:
        """Disarm a rule; crossings that it holds go on."""
        rule_id = self._armed_rule_id(request)
        with self._input_event("disarm-fault", rule=rule_id):
            return fault(self._cluster.injector.disarm(rule_id))

    @Operation(
        "post",
        f"{PREFIX}/faults/{{id}}/release",
        query=(Query("as", "drop: what it holds is lost; duplicate: it arrives twice", "string"),),
        refusals=("404", "422"),
    )
    async def release(self, request: Request) -> Released:
        """Release what a rule holds; it stays armed."""
        rule_id = self._armed_rule_id(request)
        fate = request.query_params.get("as", "pass")
        if fate not in FATES:
            raise RefusedError(422, f"as: {fate!r} is none of {', '.join(FATES)}")
        fate_argument = {} if fate == "pass" else {"as": fate}
        with self._input_event("release-fault", rule=rule_id, **fate_argument):
            try:
                released_count = self._cluster.injector.release(rule_id, FATES[fate])
            except CannotStrikeError as error:
                raise RefusedError(422, str(error)) from error
        return Released(released=released_count)

    @Operation(
        "get",
        f"{PREFIX}/faults/{{id}}/wait",
        query=(
            Query("struck", "How many times; 1 unless given"),
            Query("timeout_ms", f"Answer 408 after so long; {WAIT_MS} unless given"),
        ),
        refusals=("404", "408", "422"),
    )
    async def wait(self, request: Request) -> Fault:
        """Answer once the rule has struck the given number of times."""
        rule_id = self._armed_rule_id(request)
        count = number_of(request, "struck", default=1, minimum=1, maximum=STRIKES_MAX)
        timeout_ms = number_of(
            request, "timeout_ms", default=WAIT_MS, minimum=0, maximum=WAIT_MS_MAX
        )
        injector = self._cluster.injector
        try:
            await injector.wait_until_struck(rule_id, count=count, timeout_ms=timeout_ms)
        except (TimeoutError, LookupError) as error:
            raise RefusedError(408, str(error)) from error
        armed_rule = injector.get(rule_id)
        if armed_rule is None:
            raise RefusedError(404, f"rule {rule_id!r} was disarmed meanwhile")
        return fault(armed_rule)

    def _armed_rule_id(self, request: Request) -> str:
        rule_id = str(request.path_params["id"])
        if self._cluster.injector.get(rule_id) is None:
            raise RefusedError(
                404, f"no rule {rule_id!r} is armed; GET {PREFIX}/faults lists those that are"
            )
        return rule_id


def _idle_faults(
    injector: Injector, idle_rules: Iterable[ArmedRule]
) -> Generator[int, None, tuple[Fault, ...]]:
    """The rules with the reasons why they could not strike, in steps."""
    idle_faults = []
    for armed_rule in idle_rules:
        idle_faults.append(fault(armed_rule, injector.doubt(armed_rule.rule, is_in_hindsight=True)))
        yield 1
    return tuple(idle_faults)

"""Verdicts on a cluster as assertions, with messages that say where to look."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from txnsim.client.admin import Admin
from txnsim.client.inspection.complaints import about_exactly_once, about_hanging
from txnsim.client.inspection.judgement import JudgedTransaction
from txnsim.testing.faults import FaultState


def no_hanging_transactions(findings: Sequence[JudgedTransaction], *, bootstrap: str) -> None:
    """Asserts that no transaction hangs.

    Args:
        findings: The transactions that hang.
        bootstrap: Address of the cluster, for the commands that end them.

    Raises:
        AssertionError: A transaction hangs.
    """
    __tracebackhide__ = True
    complaint = about_hanging(findings, bootstrap=bootstrap)
    if complaint is not None:
        raise AssertionError(complaint)


def all_faults_struck(states: Iterable[FaultState]) -> None:
    """Asserts that every rule that should strike has struck.

    Raises:
        AssertionError: A rule has not.
    """
    __tracebackhide__ = True
    idle_rules = [state for state in states if state.struck == 0 and not state.may_miss]
    if not idle_rules:
        return
    message_lines = ["armed, but never struck:"]
    for state in idle_rules:
        rule_json = msgspec.json.encode(state.rule).decode()
        match_text = f"{state.matched} crossings matched" if state.matched else "nothing matched"
        message_lines.append(f"  {state.rule.id}: {match_text}: {rule_json}")
        if state.doubt is not None:
            message_lines.append(f"    {state.doubt}")
    raise AssertionError("\n".join(message_lines))


async def exactly_once(
    admin: Admin,
    input_values: str | Iterable[Any],
    output_values: str | Iterable[Any],
    *,
    derive: Callable[[Any], Any] | None,
    settle_ms: int,
) -> None:
    """Asserts that the target has exactly the values that follow from the source.

    Args:
        admin: A client of the cluster.
        input_values: A topic or values.
        output_values: A topic or values.
        derive: Value of the source -> value or values of the target.
        settle_ms: Longest wait for open transactions.

    Raises:
        AssertionError: A value is missing, or there is another one.
        ClientError: A topic can't be read.
    """
    __tracebackhide__ = True
    complaint = await about_exactly_once(
        admin, input_values, output_values, derive=derive, settle_ms=settle_ms
    )
    if complaint is not None:
        raise AssertionError(complaint)

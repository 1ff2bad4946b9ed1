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
    idle = [state for state in states if state.struck == 0 and not state.may_miss]
    if not idle:
        return
    lines = ["armed, but never struck:"]
    for state in idle:
        fields = msgspec.json.encode(state.rule).decode()
        concerned = f"{state.matched} crossings matched" if state.matched else "nothing matched"
        lines.append(f"  {state.rule.id}: {concerned}: {fields}")
        if state.doubt is not None:
            lines.append(f"    {state.doubt}")
    raise AssertionError("\n".join(lines))


async def exactly_once(
    admin: Admin,
    source: str | Iterable[Any],
    target: str | Iterable[Any],
    *,
    derive: Callable[[Any], Any] | None,
    settle_ms: int,
) -> None:
    """Asserts that the target has exactly the values that follow from the source.

    Args:
        admin: A client of the cluster.
        source: A topic or values.
        target: A topic or values.
        derive: Value of the source -> value or values of the target.
        settle_ms: Longest wait for open transactions.

    Raises:
        AssertionError: A value is missing, or there is another one.
        ClientError: A topic can't be read.
    """
    __tracebackhide__ = True
    complaint = await about_exactly_once(admin, source, target, derive=derive, settle_ms=settle_ms)
    if complaint is not None:
        raise AssertionError(complaint)

"""Verdicts on a cluster as assertions, with messages that say what to look at."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from txnsim.client.admin import Admin
from txnsim.client.inspection.judgement import JudgedTransaction
from txnsim.testing.exactly_once import Value, compare
from txnsim.testing.faults import FaultState
from txnsim.testing.reading import Fate, ReadRecord, read_topic
from txnsim.txn.open_txn_verdict import program_at, with_guess


def no_hanging_transactions(found: Sequence[JudgedTransaction], *, bootstrap: str) -> None:
    """Nothing hangs.

    Args:
        found: What does.
        bootstrap: Where the cluster is, for the commands that end it.

    Raises:
        AssertionError: Something does.
    """
    __tracebackhide__ = True
    if not found:
        return
    lines = [f"{len(found)} transaction{'s hang' if len(found) > 1 else ' hangs'}:"]
    for one in found:
        producer = one.transaction.producer
        command = one.command(program_at(bootstrap))
        assert command is not None, "what hangs has one"
        lines += [
            f"  {one.transaction.partition} since offset {producer.txn_start_offset}: producer "
            f"{producer.producer_id}, epoch {producer.producer_epoch}: {one.reason}",
            *([f"    {one.decided}"] if one.decided is not None else []),
            f"    {with_guess(command, one.decided)}",
        ]
    raise AssertionError("\n".join(lines))


def all_faults_struck(states: Iterable[FaultState]) -> None:
    """Every rule that should has struck.

    Raises:
        AssertionError: One has not.
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
    """Assert that the target has exactly the values that the source leads to.

    Args:
        admin: The cluster.
        source: A topic or values.
        target: A topic or values.
        derive: From a value of the source to one of the target, or to several.
        settle_ms: How long to wait for open transactions.

    Raises:
        AssertionError: It is not.
        ClientError: A topic can't be read.
    """
    __tracebackhide__ = True
    given = await _records(admin, source, settle_ms)
    read = await _records(admin, target, settle_ms)
    comparison = compare(
        _derived(given, Fate.COMMITTED, derive),
        [value for value, fate in read if fate is Fate.COMMITTED],
        aborted=_derived(given, Fate.ABORTED, derive),
        # For a missing value the failure says that it was written.
        remarks={
            value: f"written there in a transaction that is {_WORDS[fate]}"
            for value, fate in read
            if fate is not Fate.COMMITTED
        },
    )
    if not comparison.is_exact:
        names = [one if isinstance(one, str) else "what was given" for one in (source, target)]
        raise AssertionError(f"not exactly once, from {names[0]} to {names[1]}:\n{comparison}")


_WORDS = {Fate.ABORTED: "aborted", Fate.OPEN: "still open"}


async def _records(
    admin: Admin, given: str | Iterable[Any], settle_ms: int
) -> list[tuple[Value, Fate]]:
    if isinstance(given, str):
        records: tuple[ReadRecord, ...] = await read_topic(admin, given, settle_ms=settle_ms)
        return [(record.value, record.fate) for record in records]
    return [(_value(one), Fate.COMMITTED) for one in given]


def _derived(
    records: Iterable[tuple[Value, Fate]], fate: Fate, derive: Callable[[Any], Any] | None
) -> list[Value]:
    values = [value for value, own in records if own is fate]
    if derive is None:
        return values
    derived: list[Value] = []
    for value in values:
        made = derive(value)
        derived += map(_value, made) if isinstance(made, list | tuple) else [_value(made)]
    return derived


def _value(given: Any) -> Value:
    """A value as bytes of a record: text is UTF-8.

    Raises:
        TypeError: It is no value of a record.
    """
    if isinstance(given, str):
        return given.encode()
    if given is None or isinstance(given, bytes):
        return given
    raise TypeError(f"expected bytes, text or None as a record's value, found {given!r}")

"""Complaints about a cluster, in words: what hangs, and what was not written exactly once.

The assertions of Python's tests and those of the control port say the same, since both ask here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from txnsim.client.admin import Admin
from txnsim.client.inspection.exactly_once import Value, compare
from txnsim.client.inspection.judgement import JudgedTransaction
from txnsim.client.inspection.topic_reading import Fate, Reader, read_topic
from txnsim.txn.open_txn_verdict import program_at
from txnsim.txn.past_decision import Decided


def about_hanging(found: Sequence[JudgedTransaction], *, bootstrap: str) -> str | None:
    if not found:
        return None
    lines = [f"{len(found)} transaction{'s hang' if len(found) > 1 else ' hangs'}:"]
    for one in found:
        producer = one.transaction.producer
        command = one.command(program_at(bootstrap))
        assert command is not None, "what hangs has one"
        lines += [
            f"  {one.transaction.partition} since offset {producer.txn_start_offset}: producer "
            f"{producer.producer_id}, epoch {producer.producer_epoch}: {one.reason}",
            *([f"    {one.decided}"] if one.decided is not None else []),
            f"    {Decided.with_guess(command, one.decided)}",
        ]
    return "\n".join(lines)


async def about_exactly_once(
    admin: Admin,
    source: str | Iterable[Any],
    target: str | Iterable[Any],
    *,
    derive: Callable[[Any], Any] | None = None,
    settle_ms: int,
    reader: Reader | None = None,
) -> str | None:
    """How the target differs from the values that the source leads to; None where it does not.

    Args:
        admin: The cluster.
        source: A topic or values.
        target: A topic or values.
        derive: From a value of the source to one of the target, or to several.
        settle_ms: How long to wait for open transactions.
        reader: How to read both; any number of records, at once, unless given.

    Raises:
        ClientError: A topic can't be read.
        AnswerTooLargeError: They have more records than the reader may keep.
    """
    reader = reader or Reader()
    given = await _records(admin, source, settle_ms, reader)
    read = await _records(admin, target, settle_ms, reader)
    names = [one if isinstance(one, str) else "what was given" for one in (source, target)]
    complaint = await reader.do(partial(_compared, given, read, derive))
    return complaint and f"not exactly once, from {names[0]} to {names[1]}:\n{complaint}"


def _compared(
    given: list[tuple[Value, Fate]],
    read: list[tuple[Value, Fate]],
    derive: Callable[[Any], Any] | None,
) -> str | None:
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
    return None if comparison.is_exact else str(comparison)


_WORDS = {Fate.ABORTED: "aborted", Fate.OPEN: "still open"}


async def _records(
    admin: Admin, given: str | Iterable[Any], settle_ms: int, reader: Reader
) -> list[tuple[Value, Fate]]:
    if isinstance(given, str):
        records = await read_topic(admin, given, settle_ms=settle_ms, reader=reader)
        return await reader.do(lambda: [(record.value, record.fate) for record in records])
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
    """A value as bytes of a record: text is UTF-8."""
    if isinstance(given, str):
        return given.encode()
    if given is None or isinstance(given, bytes):
        return given
    raise TypeError(f"expected bytes, text or None as a record's value, found {given!r}")

"""Complaints about a cluster, in sentences: hanging transactions, and records that were not written
exactly once.

The assertions of the Python API and of the control port use the same sentences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final

from txnsim.client.admin import Admin
from txnsim.client.inspection.exactly_once import Value, compare
from txnsim.client.inspection.judgement import JudgedTransaction
from txnsim.client.inspection.topic_reading import Fate, TopicReader, read_topic
from txnsim.txn.open_txn_verdict import program_at
from txnsim.txn.past_decision import DecisionEvidence

LISTED_MAX: Final = 200
"""Hanging transactions that a complaint describes; of the others it says how many there are."""


def about_hanging(hanging_txns: Sequence[JudgedTransaction], *, bootstrap: str) -> str | None:
    if not hanging_txns:
        return None
    text_lines = [
        f"{len(hanging_txns)} transaction{'s hang' if len(hanging_txns) > 1 else ' hangs'}:"
    ]
    for finding in hanging_txns[:LISTED_MAX]:
        producer = finding.transaction.producer
        command = finding.command(program_at(bootstrap))
        assert command is not None, "what hangs has one"
        text_lines += [
            f"  {finding.transaction.partition} since offset {producer.txn_start_offset}: producer "
            f"{producer.producer_id}, epoch {producer.producer_epoch}: {finding.reason}",
            *([f"    {finding.decided}"] if finding.decided is not None else []),
            f"    {DecisionEvidence.with_guess(command, finding.decided)}",
        ]
    if len(hanging_txns) > LISTED_MAX:
        text_lines.append(f"  and {len(hanging_txns) - LISTED_MAX} more")
    return "\n".join(text_lines)


async def about_exactly_once(
    admin: Admin,
    source: str | Iterable[Any],
    target: str | Iterable[Any],
    *,
    derive: Callable[[Any], Any] | None = None,
    settle_ms: int,
    reader: TopicReader | None = None,
) -> str | None:
    """How the values in the target differ from those derived from the source; None if they don't.

    Args:
        admin: The cluster.
        source: A topic or values.
        target: A topic or values.
        derive: Maps a value of the source to one or more values of the target.
        settle_ms: How long to wait for open transactions.
        reader: Reads both; by default any number of records, all at once.

    Raises:
        ClientError: A topic can't be read.
        AnswerTooLargeError: The topics have more records than the reader may keep.
    """
    reader = reader or TopicReader()
    source_records = await _records(admin, source, settle_ms, reader)
    target_records = await _records(admin, target, settle_ms, reader)
    topic_names = [
        origin_name if isinstance(origin_name, str) else "what was given"
        for origin_name in (source, target)
    ]
    complaint = await reader.do(partial(_compare_records, source_records, target_records, derive))
    return (
        complaint and f"not exactly once, from {topic_names[0]} to {topic_names[1]}:\n{complaint}"
    )


def _compare_records(
    source_records: list[tuple[Value, Fate]],
    target_records: list[tuple[Value, Fate]],
    derive: Callable[[Any], Any] | None,
) -> str | None:
    comparison = compare(
        _derive_values(source_records, Fate.COMMITTED, derive),
        [value for value, fate in target_records if fate is Fate.COMMITTED],
        aborted_values=_derive_values(source_records, Fate.ABORTED, derive),
        # For a missing value the failure says that it was written.
        remarks={
            value: f"written there in a transaction that is {_WORDS[fate]}"
            for value, fate in target_records
            if fate is not Fate.COMMITTED
        },
    )
    return None if comparison.is_exact else str(comparison)


_WORDS = {Fate.ABORTED: "aborted", Fate.OPEN: "still open"}


async def _records(
    admin: Admin, source: str | Iterable[Any], settle_ms: int, reader: TopicReader
) -> list[tuple[Value, Fate]]:
    if isinstance(source, str):
        records = await read_topic(admin, source, settle_ms=settle_ms, reader=reader)
        return await reader.do(lambda: [(record.value, record.fate) for record in records])
    return [(_value(value), Fate.COMMITTED) for value in source]


def _derive_values(
    records: Iterable[tuple[Value, Fate]], fate: Fate, derive: Callable[[Any], Any] | None
) -> list[Value]:
    source_values = [value for value, record_fate in records if record_fate is fate]
    if derive is None:
        return source_values
    derived: list[Value] = []
    for value in source_values:
        derived_values = derive(value)
        derived += (
            map(_value, derived_values)
            if isinstance(derived_values, list | tuple)
            else [_value(derived_values)]
        )
    return derived


def _value(value: Any) -> Value:
    """A value as the bytes of a record; text is encoded as UTF-8."""
    if isinstance(value, str):
        return value.encode()
    if value is None or isinstance(value, bytes):
        return value
    raise TypeError(f"expected bytes, text or None as a record's value, found {value!r}")

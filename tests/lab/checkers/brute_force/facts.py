"""Plain questions to a list of observations, in the words of docs/checkers.md. The definitions are
made of them.

Of the package that is judged only the observations are used: they say what a line of a history is.
Everything is a loop over all lines. It is slow, and short enough to be compared with the page.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

from msgspec.structs import replace

from txnsim.types import TopicPartition
from txnsim_lab.check.observations import (
    Added,
    Began,
    Deleted,
    Described,
    Ended,
    Isolation,
    OnPartition,
    Outcome,
    PositionsRead,
    Read,
    Record,
    Seen,
    SentOffsets,
    Wrote,
)

Lines = Sequence[Seen]
SeenT = TypeVar("SeenT", bound=Seen)
Answer = Added | Wrote | SentOffsets | Ended
"""To a producer in its transaction."""

OK: Final = Outcome.OK
FAILED: Final = Outcome.FAILED
UNKNOWN: Final = Outcome.UNKNOWN
NOT_TOLD: Final = -1
"""An offset that no answer tells."""
BUSY: Final = "CONCURRENT_TRANSACTIONS"


def every(lines: Lines, kind: type[SeenT]) -> list[tuple[int, SeenT]]:
    return [(at, seen) for at, seen in enumerate(lines) if isinstance(seen, kind)]


# Transactions


def labels(lines: Lines) -> list[str]:
    """Every transaction that is named."""
    named = [getattr(seen, "transaction", None) for seen in lines]
    return sorted({label for label in named if label is not None})


def owner(lines: Lines, label: str | None) -> str | None:
    """The transactional id of a transaction."""
    for _, began in reversed(every(lines, Began)):
        if began.transaction == label:
            return began.transactional_id
    return None


def ends(lines: Lines, label: str | None) -> list[tuple[int, Ended]]:
    """What its producer was answered at the end."""
    return [(at, end) for at, end in every(lines, Ended) if end.transaction == label]


def is_acknowledged(lines: Lines, label: str | None) -> bool:
    """Whether a commit of it was acknowledged."""
    return any(end.commit and end.outcome is OK for _, end in ends(lines, label))


def cannot_have_committed(lines: Lines, label: str | None) -> bool:
    """Whether it was to end, and each commit that was asked for was refused."""
    told = ends(lines, label)
    return bool(told) and all(not end.commit or end.outcome is FAILED for _, end in told)


def is_committed(lines: Lines, label: str | None) -> bool:
    """Whether a commit was acknowledged, or one is unknown and a reader got a record of it."""
    if label is None or is_acknowledged(lines, label):
        return label is not None
    return any(end.commit and end.outcome is UNKNOWN for _, end in ends(lines, label)) and any(
        is_of(lines, place, record, label) for _, place, record in given(lines)
    )


def is_of(lines: Lines, place: TopicPartition, record: Record, label: str | None) -> bool:
    """Whether a record that was given is of a transaction."""
    return any(one.transaction == label for one in writers(lines, place, record.value))


# Records


def reads(lines: Lines, place: TopicPartition | None = None) -> list[tuple[int, Read]]:
    """What read_committed readers were answered."""
    return [
        (at, read)
        for at, read in every(lines, Read)
        if read.isolation is Isolation.READ_COMMITTED and not read.error
        if place in (None, read.place)
    ]


def given(lines: Lines) -> list[tuple[int, TopicPartition, Record]]:
    """The records that they got, but for tombstones, which have no name."""
    return [
        (at, read.place, record)
        for at, read in reads(lines)
        for record in read.records
        if record.value is not None
    ]


def writers(lines: Lines, place: TopicPartition, value: str | None) -> list[Wrote]:
    """Who has written a record; who has tried to, if all attempts were refused."""
    if value is None:
        return []
    tried = [one for _, one in every(lines, Wrote) if one.place == place and one.value == value]
    return [one for one in tried if one.outcome is not FAILED] or tried


def offsets_given(lines: Lines, wrote: Wrote) -> list[int]:
    """Where readers have found a record."""
    return [
        record.offset
        for _, place, record in given(lines)
        if place == wrote.place and record.value == wrote.value
    ]


# Topics


def told_apart(lines: Lines) -> list[Seen]:
    """The same, with a name of its own for each topic of one name."""
    return [_told_apart(lines, at, seen) for at, seen in enumerate(lines)]


def deleted_topics(lines: Lines) -> set[str]:
    """Those that are deleted at the end, or may be."""
    return {deleted.topic for _, deleted in every(lines, Deleted) if deleted.outcome is not FAILED}


def may_be_any_of(topic: str, of: str) -> bool:
    """Whether it is unknown which topic of a name one was, and another is of that name."""
    return "?" in topic and topic.split("?")[0] == of.split("/")[0].split("?")[0]


def _told_apart(lines: Lines, at: int, seen: Seen) -> Seen:
    if isinstance(seen, Deleted):
        before = sum(deleted is not seen for deleted in _deletions(lines[: at + 1], seen.topic))
        return replace(seen, topic=_named(seen.topic, before))
    if isinstance(seen, PositionsRead):
        renamed = (replace(one, topic=_which(lines, at, one.topic)) for one in seen.positions)
        return replace(seen, positions=tuple(renamed))
    if isinstance(seen, Added | Described):
        # A coordinator knows names only: it means whichever there is.
        several = tuple(
            TopicPartition(_named(place.topic, number), place.partition)
            for place in seen.partitions
            for number in range(len(_deletions(lines, place.topic)) + 1)
        )
        return replace(seen, partitions=several)
    if isinstance(seen, Wrote):
        inputs = tuple(replace(one, topic=_which(lines, at, one.topic)) for one in seen.of)
        seen = replace(seen, of=inputs)
    if isinstance(seen, OnPartition):
        return replace(seen, topic=_which(lines, at, seen.topic))
    return seen


def _deletions(lines: Lines, topic: str) -> list[Deleted]:
    return [
        deleted
        for _, deleted in every(lines, Deleted)
        if deleted.topic == topic and deleted.outcome is not FAILED
    ]


def _which(lines: Lines, at: int, topic: str) -> str:
    seen, deletions = lines[at], _deletions(lines, topic)
    sent_ms = -1 if seen.asked_ms is None else seen.asked_ms

    def is_before(deleted: Deleted) -> bool:
        return seen.at_ms <= deleted.asked_ms and deleted not in lines[:at]

    def is_after(deleted: Deleted) -> bool:
        return deleted.outcome is OK and sent_ms > deleted.at_ms

    possible = [
        number
        for number in range(len(deletions) + 1)
        if not any(is_before(deleted) for deleted in deletions[:number])
        and not any(is_after(deleted) for deleted in deletions[number:])
    ]
    return _named(topic, possible[0]) if len(possible) == 1 else f"{topic}?{at}"


def _named(topic: str, number: int) -> str:
    return f"{topic}/{number}" if number else topic

"""The definitions of docs/checkers.md, "What was written and what was read"."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise, permutations

from tests.lab.checkers.brute_force.facts import (
    FAILED,
    NOT_TOLD,
    OK,
    Lines,
    cannot_have_committed,
    ends,
    every,
    given,
    is_committed,
    labels,
    owner,
    reads,
    writers,
)
from txnsim.types import TopicPartition
from txnsim_lab.check.observations import PositionsRead, SentOffsets, Wrote

Pair = tuple[str, str]
"""The second depends on the first."""


def aborted_read(lines: Lines) -> bool:
    for _, place, record in given(lines):
        known = writers(lines, place, record.value)
        if known and all(cannot_have_committed(lines, one.transaction) for one in known):
            return True
    return False


def intermediate_read(lines: Lines) -> bool:
    for at, place, record in given(lines):
        for wrote in writers(lines, place, record.value):
            for later_at, later in every(lines, Wrote):
                if (
                    wrote.transaction is not None
                    and later.transaction == wrote.transaction
                    and later.place == place
                    and later.outcome is OK
                    and later_at > at
                    and not _end_was_asked(lines, wrote.transaction, read=at, later=later_at)
                ):
                    return True
    return False


def _end_was_asked(lines: Lines, label: str, *, read: int, later: int) -> bool:
    for at, end in ends(lines, label):
        if end.asked_ms is None and at < later:
            return True
        if end.asked_ms is not None and end.asked_ms <= lines[read].at_ms:
            return True
    return False


# Circles


def dirty_write(lines: Lines) -> bool:
    committed = [label for label in labels(lines) if is_committed(lines, label)]
    if not _have_an_order(committed, _overwrites(lines, committed)):
        return True
    for transactional_id in {owner(lines, label) for label in committed} - {None}:
        own = [label for label in committed if owner(lines, label) == transactional_id]
        if not _have_an_order(own, _follows(lines, own)):
            return True
    return False


def circular_information_flow(lines: Lines) -> bool:
    committed = [label for label in labels(lines) if is_committed(lines, label)]
    overwrites, tells = _overwrites(lines, committed), _tells(lines, committed)
    for size in range(2, len(committed) + 1):
        for ring in permutations(committed, size):
            steps = [*zip(ring, (*ring[1:], ring[0]), strict=True)]
            if all(step in overwrites or step in tells for step in steps) and any(
                step in tells for step in steps
            ):
                return True
    return False


def read_skew(lines: Lines) -> bool:
    committed = [label for label in labels(lines) if is_committed(lines, label)]
    others = _overwrites(lines, committed) | _tells(lines, committed)
    misses = _misses(lines, committed)
    for size in range(2, len(committed) + 1):
        for first, *rest in permutations(committed, size):
            steps = [*pairwise((*rest, first))]
            if (first, rest[0]) in misses and all(step in others for step in steps):
                return True
    return False


def _misses(lines: Lines, committed: list[str]) -> set[Pair]:
    """Who has read a whole partition to which another has appended behind that."""
    return {
        (str(read.transaction), str(wrote.transaction))
        for _, read in reads(lines)
        for place, offset, wrote in _placed(lines)
        if read.whole and place == read.place and offset >= read.next_offset
        if read.transaction in committed and wrote.transaction in committed
        if read.transaction != wrote.transaction
    }


def _have_an_order(committed: list[str], pairs: set[Pair]) -> bool:
    """Whether they can have come one after the other."""
    return any(
        all(order.index(before) < order.index(after) for before, after in pairs)
        for order in permutations(committed)
    )


def _placed(lines: Lines) -> Iterable[tuple[TopicPartition, int, Wrote]]:
    """Records at the offset that was read, else at that which was acknowledged; neither of two."""
    read = [
        (place, record.offset, known[0])
        for _, place, record in given(lines)
        if (known := writers(lines, place, record.value))
        if len({one.transaction for one in known}) == 1
    ]
    told = [
        (wrote.place, wrote.offset, wrote)
        for _, wrote in every(lines, Wrote)
        if wrote.outcome is OK and wrote.offset != NOT_TOLD
    ]
    unread = [one for one in told if not any(one[:2] == other[:2] for other in read)]
    return [*_undisputed(read), *_undisputed(unread)]


def _undisputed(
    placed: list[tuple[TopicPartition, int, Wrote]],
) -> list[tuple[TopicPartition, int, Wrote]]:
    return [
        (place, offset, one)
        for place, offset, one in placed
        if all(
            (one.transaction, one.key, one.value) == (other.transaction, other.key, other.value)
            for other_place, other_offset, other in placed
            if (place, offset) == (other_place, other_offset)
        )
    ]


def _overwrites(lines: Lines, committed: list[str]) -> set[Pair]:
    """Whose last write to a key comes before another's last write to it."""
    versions = [
        (place, wrote.key, wrote.transaction, offset)
        for place, offset, wrote in _placed(lines)
        if wrote.key is not None and wrote.transaction in committed
    ]
    last = [
        (place, key, label, offset)
        for place, key, label, offset in versions
        if not any((place, key, label) == other[:3] and offset < other[3] for other in versions)
    ]
    return {
        (before, after)
        for place, key, before, offset in last
        for other_place, other_key, after, other_offset in last
        if (place, key) == (other_place, other_key)
        if offset < other_offset and before is not None and after is not None
    }


def _follows(lines: Lines, own: list[str]) -> set[Pair]:
    """Which of the transactions of one id has a record before one of another."""
    records = [
        (place, wrote.transaction, offset)
        for place, offset, wrote in _placed(lines)
        if wrote.transaction in own
    ]
    return {
        (before, after)
        for place, before, offset in records
        for other_place, after, other_offset in records
        if place == other_place and offset < other_offset and before != after
        if before is not None and after is not None
    }


def _tells(lines: Lines, committed: list[str]) -> set[Pair]:
    """Whose record another was given by a read that is a part of it."""
    pairs = set()
    for _, read in reads(lines):
        for record in read.records:
            known = {one.transaction for one in writers(lines, read.place, record.value)}
            before, after = known.pop() if len(known) == 1 else None, read.transaction
            if before in committed and after in committed and before != after:
                pairs.add((str(before), str(after)))
    return pairs


# Lost updates


def lost_update(lines: Lines) -> bool:
    committed = [label for label in labels(lines) if is_committed(lines, label)]
    for one in committed:
        for other in committed:
            if one != other and _replaced(lines, one) & _replaced(lines, other):
                return True
    return False


def _replaced(lines: Lines, label: str) -> set[tuple[str, str, TopicPartition, int]]:
    """The versions that a transaction was given and replaced."""
    found = set()
    for at, wrote in every(lines, Wrote):
        if wrote.transaction == label and wrote.outcome is OK and wrote.key is not None:
            known = [
                record.offset
                for read_at, read in reads(lines, wrote.place)
                if read.transaction == label and read_at < at
                for record in read.records
                if record.key == wrote.key
            ]
            if known:
                found.add(("key", wrote.key, wrote.place, max(known)))
    for at, sent in every(lines, SentOffsets):
        if sent.transaction == label and sent.outcome is OK:
            known = [
                position.offset
                for read_at, read in every(lines, PositionsRead)
                if read.transaction == label and read_at < at and not read.error
                for position in read.positions
                if (read.group, position.place) == (sent.group, sent.place)
            ]
            if known and known[-1] != sent.position and not _is_set_twice(lines, sent, known[-1]):
                found.add(("position", sent.group, sent.place, known[-1]))
    return found


def _is_set_twice(lines: Lines, sent: SentOffsets, offset: int) -> bool:
    same = [
        one
        for _, one in every(lines, SentOffsets)
        if (one.group, one.place, one.position) == (sent.group, sent.place, offset)
        if one.outcome is not FAILED
    ]
    return len(same) > 1

"""The definitions of docs/checkers.md, "What goes on": readers, the log, the coordinator."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tests.lab.checkers.brute_force.facts import (
    BUSY,
    FAILED,
    NOT_TOLD,
    Answer,
    Lines,
    deleted_topics,
    every,
    owner,
    reads,
)
from txnsim.types import TopicPartition
from txnsim_lab.check.observations import (
    Cleaned,
    Described,
    Healed,
    Initialised,
    Listed,
    Producers,
    Read,
    Seen,
)

MINUTE_MS = 60_000
NEVER_MS = 2_147_483_647

# Readers


def reader_went_back(lines: Lines) -> bool:
    told = [(at, read) for at, read in reads(lines) if read.last_stable_offset != NOT_TOLD]
    return any(
        (one.who, one.place, one.leader_epoch) == (other.who, other.place, other.leader_epoch)
        and at < other_at
        and other.last_stable_offset < one.last_stable_offset
        for at, one in told
        for other_at, other in told
    )


def starving_reader(lines: Lines) -> bool:
    known = explained(lines)
    for reader, place in {(read.who, read.place) for _, read in reads(lines)}:
        if place in known or place.topic in deleted_topics(lines):
            continue
        looks = [read for _, read in reads(lines, place) if read.who == reader]
        waits = [
            looks[number:]
            for number in range(len(looks))
            if all(_is_nothing(one, looks[number].asked) for one in looks[number:])
        ]
        told = [[read for read in wait if read.last_stable_offset != NOT_TOLD] for wait in waits]
        if any(_starves(wait, patience_ms(lines)) for wait in told):
            return True
    return False


def patience_ms(lines: Lines) -> int:
    """How long a transaction may keep readers waiting."""
    timeouts_ms = (timeout_ms for _, timeout_ms in _timeouts(lines))
    return 5 * MINUTE_MS + max((15 * MINUTE_MS, *timeouts_ms))


def explained(lines: Lines) -> set[TopicPartition]:
    """Where it is known why readers wait."""
    return {one.place for one in hanging(lines)} | _owed_by_stuck_coordinators(lines)


def _is_nothing(read: Read, asked: int) -> bool:
    return not read.records and read.next_offset == read.asked == asked


def _starves(wait: list[Read], patience_ms: int) -> bool:
    if len(wait) < 2:
        return False
    if all(read.last_stable_offset > read.asked for read in wait[-2:]):
        return True
    return (
        all(
            read.last_stable_offset == wait[0].last_stable_offset < read.high_watermark
            for read in wait
        )
        and wait[-1].at_ms - wait[0].at_ms > patience_ms
    )


def _timeouts(lines: Lines) -> list[tuple[str, int]]:
    return [
        (seen.transactional_id, seen.timeout_ms)
        for seen in lines
        if isinstance(seen, Initialised | Described) and seen.timeout_ms is not None
    ]


# Transactions that hang


class Hanging(NamedTuple):
    place: TopicPartition
    producer_id: int
    start_offset: int
    last_seen: int
    """The number of the last line that shows it."""


def stuck_last_stable_offset(lines: Lines) -> bool:
    return bool(hanging(lines))


def hanging(lines: Lines) -> list[Hanging]:
    found = []
    for place in {look.place for _, look in every(lines, Producers)}:
        looks = [
            (at, look)
            for at, look in every(lines, Producers)
            if look.place == place and not look.error
        ]
        held = [
            (at, read) for at, read in reads(lines, place) if read.last_stable_offset != NOT_TOLD
        ]
        if not looks or not held or place.topic in deleted_topics(lines):
            continue
        (look_at, look), (held_at, read) = looks[-1], held[-1]
        for one in look.producers:
            start = one.start_offset
            if start is None or not start <= read.last_stable_offset < read.high_watermark:
                continue
            shown = _last_shown(lines, place, one.producer_id, start)
            if shown is not None:
                last_seen = max(shown, look_at, held_at)
                found.append(Hanging(place, one.producer_id, start, last_seen))
    return found


def _last_shown(lines: Lines, place: TopicPartition, producer_id: int, start: int) -> int | None:
    """Open, without an owner, open again: the number of the last answer that says so."""
    opened = [at for at, seen in enumerate(lines) if _is_open(seen, place, producer_id, start)]
    words = [
        (at, word)
        for at, seen in enumerate(lines)
        if (word := _coordinator_has_it(lines, seen, place, producer_id)) is not None
    ]
    owned = max((at for at, has in words if has), default=-1)
    thirds = [
        third
        for first in opened
        for at, has in words
        for third in opened
        if first < at < third and not has and at > owned
    ]
    return max(thirds, default=None)


def _is_open(seen: Seen, place: TopicPartition, producer_id: int, start: int) -> bool:
    if isinstance(seen, Producers):
        return seen.place == place and any(
            (one.producer_id, one.start_offset) == (producer_id, start)
            for one in seen.producers
            if not seen.error
        )
    if isinstance(seen, Read):
        is_there = seen.place == place and not seen.error
        return is_there and seen.last_stable_offset == start < seen.high_watermark
    return False


def _coordinator_has_it(
    lines: Lines, seen: Seen, place: TopicPartition, producer_id: int
) -> bool | None:
    alive = {"Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"}
    if isinstance(seen, Described):
        if not seen.error and seen.producer_id == producer_id:
            return seen.state in alive and place in seen.partitions
        had_it = {
            one.transactional_id
            for one in lines
            if isinstance(one, Initialised | Described) and one.producer_id == producer_id
        }
        is_known = seen.error in ("", "TRANSACTIONAL_ID_NOT_FOUND")
        return False if is_known and had_it == {seen.transactional_id} else None
    if isinstance(seen, Listed):
        states = {one.state for one in seen.transactions if one.producer_id == producer_id}
        return None if states & alive else False
    return None


def uncleanable_log(lines: Lines) -> bool:
    for one in hanging(lines):
        turns = [at for at, cleaned in every(lines, Cleaned) if cleaned.place == one.place]
        shown = [
            (at, read)
            for at, read in every(lines, Read)
            if read.place == one.place and not read.error
        ]
        if not turns:
            continue
        end = max((read.high_watermark for at, read in shown if at < turns[-1]), default=0)
        kept = [
            record
            for at, read in shown
            for record in read.records
            if at > turns[-1] and record.key is not None
            if one.start_offset <= record.offset < end
        ]
        if any(
            record.key == other.key and record.offset != other.offset
            for record in kept
            for other in kept
        ):
            return True
    return False


# Coordinators that come to no end


def stuck_coordinator(lines: Lines) -> bool:
    ids = {transactional_id for transactional_id, _ in _timeouts(lines)}
    return any(
        _stuck_looks(lines, transactional_id) or _is_always_busy(lines, transactional_id)
        for transactional_id in ids
    )


def _owed_by_stuck_coordinators(lines: Lines) -> set[TopicPartition]:
    return {
        place
        for transactional_id, _ in _timeouts(lines)
        for look in _stuck_looks(lines, transactional_id)
        for place in look.partitions
    }


def _timeout_ms(lines: Lines, transactional_id: str) -> int:
    return max(ms for one, ms in _timeouts(lines) if one == transactional_id)


def _stuck_looks(lines: Lines, transactional_id: str) -> list[Described]:
    """The looks that show an id stuck at the end, or none."""
    looks = [
        (at, look)
        for at, look in every(lines, Described)
        if look.transactional_id == transactional_id and not look.error
    ]
    for number, (at, first) in enumerate(looks):
        same = [look for _, look in looks[number:]]
        trouble = _trouble(first)
        if trouble is None or any(_trouble(look) != trouble for look in same):
            continue
        if any(isinstance(seen, Healed) for seen in lines[at + 1 :]):
            continue
        if first.start_ms is None and any(
            seen.outcome is not FAILED for seen in _asked_of(lines, transactional_id, since=at)
        ):
            continue
        patience_ms = _timeout_ms(lines, transactional_id)
        if first.state == "Ongoing":
            patience_ms += MINUTE_MS
        if len(same) > 1 and same[-1].at_ms - first.at_ms > patience_ms:
            return same
    return []


def _trouble(look: Described) -> tuple[object, ...] | None:
    """What an id is in, and the same in every answer about one transaction; None if in none."""
    same = (look.state, look.producer_id, look.producer_epoch, look.start_ms)
    if look.state in ("PrepareCommit", "PrepareAbort"):
        return same
    if look.state == "Ongoing" and look.timeout_ms not in (None, NEVER_MS):
        assert look.timeout_ms is not None
        if look.start_ms is not None and look.start_ms >= 0:
            return same if look.at_ms > look.start_ms + look.timeout_ms else None
    return None


def _asked_of(lines: Lines, transactional_id: str, *, since: int) -> Iterable[Initialised | Answer]:
    """What the producers of an id were answered after a line."""
    for seen in lines[since + 1 :]:
        if isinstance(seen, Initialised):
            is_own = seen.transactional_id == transactional_id
        else:
            is_own = isinstance(seen, Answer) and owner(lines, seen.transaction) == transactional_id
        if is_own and isinstance(seen, Initialised | Answer):
            yield seen


def _is_always_busy(lines: Lines, transactional_id: str) -> bool:
    asked = list(_asked_of(lines, transactional_id, since=-1))
    for first in asked:
        at = next(number for number, seen in enumerate(lines) if seen is first)
        later = list(_asked_of(lines, transactional_id, since=at))
        if first.error != BUSY or any(isinstance(seen, Healed) for seen in lines[at + 1 :]):
            continue
        if any(seen.error != BUSY and seen.outcome is not FAILED for seen in later):
            continue
        busy = [seen.at_ms for seen in later if seen.error == BUSY]
        if busy and max(busy) - first.at_ms > _timeout_ms(lines, transactional_id):
            return True
    return False

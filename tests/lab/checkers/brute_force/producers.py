"""The definitions of docs/checkers.md, "What goes on": producers that are refused."""

from __future__ import annotations

from collections.abc import Iterable

from tests.lab.checkers.brute_force.facts import (
    BUSY,
    FAILED,
    OK,
    UNKNOWN,
    Answer,
    Lines,
    every,
    labels,
    owner,
)
from txnsim_lab.check.observations import (
    Aborted,
    Added,
    Began,
    Described,
    Ended,
    Initialised,
    Wrote,
)

FENCED = {"PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"}
REFUSED = {"INVALID_TXN_STATE", "INVALID_PRODUCER_ID_MAPPING", "UNKNOWN_PRODUCER_ID"}


def false_fencing(lines: Lines) -> bool:
    for label in labels(lines):
        for at, answer in _until_the_end(lines, label):
            is_fenced = answer.error in FENCED and _is_young(
                lines, label, at, told_by=(Initialised, Described)
            )
            is_denied = (
                isinstance(answer, Ended)
                and answer.error == "INVALID_TXN_STATE"
                and _took_part(lines, label, at)
            )
            if (is_fenced or is_denied) and _kept_the_rules(lines, label, at):
                return True
    return False


def refused_producer(lines: Lines) -> bool:
    for label in labels(lines):
        refused = [
            (at, answer)
            for at, answer in _until_the_end(lines, label)
            if answer.error in REFUSED and not isinstance(answer, Ended)
        ]
        for at, answer in refused[:1]:
            later = [seen for number, seen in _in_the_name_of(lines, label) if number > at]
            if (
                all(seen.outcome is FAILED for seen in later)
                and _has_added(lines, label, answer)
                and _is_young(lines, label, at, told_by=(Initialised,))
                and _kept_the_rules(lines, label, at)
            ):
                return True
    return False


def _answers(lines: Lines, label: str) -> list[tuple[int, Answer]]:
    return [
        (at, seen)
        for at, seen in enumerate(lines)
        if isinstance(seen, Answer) and seen.transaction == label
    ]


def _until_the_end(lines: Lines, label: str) -> Iterable[tuple[int, Answer]]:
    """The answers to a producer, up to that at the first end that it has asked for."""
    for at, answer in _answers(lines, label):
        yield at, answer
        if isinstance(answer, Ended):
            return


def _began(lines: Lines, label: str) -> int:
    return min(at for at, seen in enumerate(lines) if getattr(seen, "transaction", None) == label)


def _is_young(
    lines: Lines, label: str, at: int, *, told_by: tuple[type[Initialised | Described], ...]
) -> bool:
    """Whether its timeout, as it was told last, has not passed."""
    told = [
        seen.timeout_ms
        for seen in lines[:at]
        if isinstance(seen, told_by) and seen.transactional_id == owner(lines, label)
        if seen.timeout_ms is not None
    ]
    return bool(told) and lines[at].at_ms < lines[_began(lines, label)].at_ms + told[-1]


def _took_part(lines: Lines, label: str, at: int) -> bool:
    """Whether an addition was acknowledged; where there is none, anything."""
    earlier = [answer for number, answer in _answers(lines, label) if number < at]
    added = [answer for answer in earlier if isinstance(answer, Added)]
    return any(answer.outcome is OK for answer in added or earlier)


def _has_added(lines: Lines, label: str, answer: Answer) -> bool:
    """Whether a producer that adds partitions by itself has added this one, or the group."""
    added = [seen for _, seen in every(lines, Added) if seen.transaction == label]
    taken = [seen for seen in added if seen.outcome is OK]
    if not added or isinstance(answer, Added):
        return True
    if isinstance(answer, Wrote):
        return any(answer.place in seen.partitions for seen in taken)
    return any(not seen.partitions for seen in taken)


# Who has kept the rules


def _kept_the_rules(lines: Lines, label: str, at: int) -> bool:
    """Whether nothing excuses the error of line ``at``."""
    return (
        owner(lines, label) is not None
        and _owns_the_id(lines, label, at)
        and not _is_interrupted(lines, label, at)
        and _ended_all_before(lines, label, at)
        and _goes_by_its_identity(lines, label, at)
    )


def _initialised(lines: Lines, label: str) -> list[tuple[int, Initialised]]:
    return [
        (at, seen)
        for at, seen in every(lines, Initialised)
        if seen.transactional_id == owner(lines, label)
    ]


def _overtaken(lines: Lines, label: str) -> set[int]:
    """Who was given a lower epoch than the last before him of the same producer: his request came
    first, though his answer came later.
    """
    found: set[int] = set()
    last: Initialised | None = None
    for at, seen in _initialised(lines, label):
        if seen.outcome is not OK:
            continue
        is_same = last is not None and last.producer_id == seen.producer_id
        if is_same and last is not None and seen.producer_epoch < last.producer_epoch:
            found.add(at)
        else:
            last = seen
    return found


def _may_fence(seen: Initialised) -> bool:
    return seen.outcome is not FAILED or seen.error == BUSY


def _owns_the_id(lines: Lines, label: str, at: int) -> bool:
    """Whether the last who initialised the id before the transaction is its producer."""
    overtaken = _overtaken(lines, label)
    before = [
        seen
        for number, seen in _initialised(lines, label)
        if number < at and _may_fence(seen) and number not in overtaken
    ]
    return bool(before) and before[-1].outcome is OK and before[-1].who == _who(lines, at)


def _who(lines: Lines, at: int) -> str:
    return lines[at].who


def _is_under_way(lines: Lines, number: int, at: int) -> bool:
    """Whether it may have been asked before line ``at`` is answered, and is answered later: its
    client has seen nothing else in between.
    """
    return number > at and not any(
        lines[between].who == lines[number].who for between in range(at, number)
    )


def _is_interrupted(lines: Lines, label: str, at: int) -> bool:
    """Whether another client has initialised the id, or aborted something, or may have."""
    for number, seen in _initialised(lines, label):
        if _may_fence(seen):
            if _began(lines, label) < number < at or _is_under_way(lines, number, at):
                return True
            if seen.outcome is UNKNOWN and number < at:
                return True
    own = _producer_ids(lines, label)
    return any(
        seen.outcome is not FAILED
        and seen.producer_id in own
        and (number < at or _is_under_way(lines, number, at))
        for number, seen in every(lines, Aborted)
    )


def _producer_ids(lines: Lines, label: str) -> set[int | None]:
    return {seen.producer_id for _, seen in _initialised(lines, label) if seen.outcome is OK}


def _ended_all_before(lines: Lines, label: str, at: int) -> bool:
    overtaken = _overtaken(lines, label)
    granted = [
        number
        for number, seen in _initialised(lines, label)
        if seen.outcome is OK and number < at and number not in overtaken
    ]
    for number, begun in every(lines, Began):
        if begun.transactional_id != owner(lines, label):
            continue
        if not max(granted, default=-1) < number < _began(lines, label):
            continue
        if not any(
            end.transaction == begun.transaction and end.outcome is OK and number < ended < at
            for ended, end in every(lines, Ended)
        ):
            return False
    return True


# Identities


def _in_the_name_of(lines: Lines, label: str) -> Iterable[tuple[int, Initialised | Answer]]:
    """What was asked in the name of the transactional id: by its transactions, and with the
    producer ids that it has had.
    """
    own = _producer_ids(lines, label)
    for at, seen in enumerate(lines):
        if isinstance(seen, Initialised):
            if seen.transactional_id == owner(lines, label):
                yield at, seen
        elif isinstance(seen, Answer):
            is_own = owner(lines, seen.transaction) == owner(lines, label)
            if is_own or seen.producer_id in own:
                yield at, seen


def _goes_by_its_identity(lines: Lines, label: str, at: int) -> bool:
    """Whether the request of line ``at`` had an identity that its producer may have had then, and
    no other request had a higher epoch.
    """
    may_have: set[tuple[int, int]] = set()
    overtaken = _overtaken(lines, label)
    for number, seen in _in_the_name_of(lines, label):
        if isinstance(seen, Initialised):
            if number < at and seen.outcome is OK and number not in overtaken:
                may_have = {(seen.producer_id, seen.producer_epoch)}
            continue
        is_asked = number <= at or _is_under_way(lines, number, at)
        if is_asked and seen.outcome is not FAILED and _is_higher(seen, may_have):
            return False
        if number < at and seen.outcome is OK:
            may_have = _after(seen, may_have)
    answer = lines[at]
    assert isinstance(answer, Answer)
    return answer.producer_epoch is None or any(
        answer.producer_id in (None, producer_id) and answer.producer_epoch == epoch
        for producer_id, epoch in may_have
    )


def _is_higher(seen: Answer, may_have: set[tuple[int, int]]) -> bool:
    epochs = [epoch for producer_id, epoch in may_have if producer_id == seen.producer_id]
    return bool(epochs) and seen.producer_epoch is not None and seen.producer_epoch > max(epochs)


def _after(seen: Answer, may_have: set[tuple[int, int]]) -> set[tuple[int, int]]:
    """The identities that a producer may have after an acknowledged request."""
    sent = seen.producer_epoch
    left = {
        (producer_id, epoch)
        for producer_id, epoch in may_have
        if producer_id != seen.producer_id or sent is None or epoch >= sent
    }
    if not isinstance(seen, Ended) or not left:
        return left
    if seen.next_producer_epoch is None:
        producer_id, epoch = max(left)
        return left | {(producer_id, epoch + 1)}
    following = max(left)[0] if seen.next_producer_id is None else seen.next_producer_id
    return {(following, seen.next_producer_epoch)}

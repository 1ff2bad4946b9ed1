"""Producers that are told a falsehood about themselves.

A fenced producer has to give up: PRODUCER_FENCED and INVALID_PRODUCER_EPOCH mean that another
instance owns the transactional id, or that the coordinator has aborted the transaction because it
took too long (KIP-360, KIP-588). INVALID_TXN_STATE at an EndTxn means that the program ended what
it had not begun, which no client can mend. Each is false where what it means has not happened.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from txnsim.check.anomaly import Anomaly, Kind, convict
from txnsim.check.history import History, Transaction
from txnsim.check.observations import (
    Aborted,
    Added,
    Began,
    Described,
    Ended,
    Initialised,
    Outcome,
    SentOffsets,
    Wrote,
)

FENCED: Final = frozenset({"PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"})
WRONG_STATE: Final = "INVALID_TXN_STATE"

_Answer = Added | Wrote | SentOffsets | Ended


def false_fencing(history: History) -> tuple[Anomaly, ...]:
    """A producer in the middle of its transaction is told one of these errors, though

    - it has not asked for an end of that transaction before, and every other one of this id that
      it began as the same instance has an acknowledged end;
    - nobody has initialised the transactional id since it did, and no operator has aborted
      anything of its producer;
    - and, of the fencing errors: the transaction is younger than its timeout; of INVALID_TXN_STATE
      at an EndTxn: the brokers have acknowledged a part of it.
    """
    found = []
    told = _told(history)
    lives = _lives(history)
    for transaction in history.transactions().values():
        answers = told.get(transaction.label, [])
        for index, answer in answers:
            because = _false(transaction, answers, index, lives)
            if because:
                evidence = (transaction.heard_of, index)
                found.append(convict(Kind.FALSE_FENCING, because, *evidence))
            if because or isinstance(answer, Ended):
                break  # from here on it is over, or may be
    return tuple(found)


def _told(history: History) -> dict[str, list[tuple[int, _Answer]]]:
    """What each transaction's producer was answered."""
    told: dict[str, list[tuple[int, _Answer]]] = defaultdict(list)
    for index, seen in enumerate(history):
        if isinstance(seen, _Answer) and seen.transaction is not None:
            told[seen.transaction].append((index, seen))
    return told


_Life = list[tuple[int, Initialised | Described | Began | Ended | Aborted]]
"""What happened to a transactional id, in order."""


def _lives(history: History) -> dict[str, _Life]:
    """The life of each transactional id. An operator's abort belongs to every one: whose producer
    it was is known later.
    """
    transactions = history.transactions()
    owners = {one.transactional_id for one in transactions.values()}
    lives: dict[str, _Life] = {owner: [] for owner in owners if owner is not None}
    for index, seen in enumerate(history):
        match seen:
            case Initialised() | Described():
                lives.setdefault(seen.transactional_id, []).append((index, seen))
            case Began() | Ended():
                owner = transactions[seen.transaction].transactional_id
                if owner is not None:
                    lives[owner].append((index, seen))
            case Aborted():
                for life in lives.values():
                    life.append((index, seen))
            case _:
                pass  # nothing that ends transactions or takes ids over
    return lives


def _false(
    transaction: Transaction,
    answers: Sequence[tuple[int, _Answer]],
    index: int,
    lives: Mapping[str, _Life],
) -> str:
    """What is false about the answer at an index; empty if it is true, or may be."""
    answer, owner = dict(answers)[index], transaction.transactional_id
    is_wrong_state = answer.error == WRONG_STATE and isinstance(answer, Ended)
    if owner is None or not (is_wrong_state or answer.error in FENCED):
        return ""
    before = [(at, seen) for at, seen in lives[owner] if at < index]
    if _excused(before, began=transaction.heard_of, who=answer.who):
        return ""
    if is_wrong_state:
        if not _took_part(answers, index):
            return ""
        return (
            f"{answer.who} was told {WRONG_STATE} at the end of {transaction.label}, though it had "
            f"begun it, had not ended it, and nobody took over {owner}"
        )
    timeout_ms = _timeout_ms(before)
    if timeout_ms is None or answer.at_ms - transaction.heard_of_ms >= timeout_ms:
        return ""
    return (
        f"{answer.who} was told {answer.error} in {transaction.label}, though nobody took over "
        f"{owner} and its timeout of {timeout_ms} ms had not passed"
    )


def _excused(before: _Life, *, began: int, who: str) -> bool:
    """Whether somebody has done what may lead to the error.

    Args:
        before: What happened to the transactional id until it was told.
        began: When the transaction in question did.
        who: Was told the error.
    """
    producer_ids = set()
    owner = ""
    unfinished: set[str] = set()
    for at, seen in before:
        match seen:
            case Initialised():
                if at > began and _may_fence(seen):
                    return True
                if seen.outcome is Outcome.OK:
                    owner = seen.who
                    unfinished.clear()
                    producer_ids.add(seen.producer_id)
                elif _may_fence(seen):
                    owner = ""
            case Began() if at < began:
                unfinished.add(seen.transaction)
            case Ended() if seen.outcome is Outcome.OK:
                unfinished.discard(seen.transaction)
            case Aborted() if seen.outcome is not Outcome.FAILED:
                if seen.producer_id in producer_ids:
                    return True
            case _:
                pass  # a look, or the transaction in question, or nothing that has happened
    return owner != who or bool(unfinished)


def _may_fence(seen: Initialised) -> bool:
    """Whether an InitProducerId may have fenced whoever had the id: also one that is answered
    CONCURRENT_TRANSACTIONS, while the coordinator aborts what it found open.
    """
    return seen.outcome is not Outcome.FAILED or seen.error == "CONCURRENT_TRANSACTIONS"


def _timeout_ms(before: _Life) -> int | None:
    """The transaction timeout as last told."""
    told = [seen.timeout_ms for _, seen in before if isinstance(seen, Initialised | Described)]
    return next((one for one in reversed(told) if one is not None), None)


def _took_part(answers: Sequence[tuple[int, _Answer]], index: int) -> bool:
    """Whether the coordinator knew the transaction: it has acknowledged an addition; or, where the
    producer adds nothing by itself (transactions v2), a leader has taken a record.
    """
    earlier = [answer for at, answer in answers if at < index]
    added = [answer for answer in earlier if isinstance(answer, Added)]
    return any(answer.outcome is Outcome.OK for answer in (added or earlier))

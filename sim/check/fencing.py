"""Producers that are told a falsehood about themselves.

A fenced producer has to give up: PRODUCER_FENCED and INVALID_PRODUCER_EPOCH mean that another
instance owns the transactional id, or that the coordinator has aborted the transaction because it
took too long (KIP-360, KIP-588). INVALID_TXN_STATE at an EndTxn means that the program ended what
it had not begun, which no client can mend. Each is false where what it means has not happened.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sim.check.anomaly import Anomaly, Kind, convict
from sim.check.history import History, Transaction
from sim.check.observations import (
    Aborted,
    Added,
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

    - it has not asked for an end of that transaction before, nor left another one of this id with
      an unknown end;
    - nobody has initialised the transactional id since it did, and no operator has aborted
      anything of its producer;
    - and, of the fencing errors: the transaction is younger than its timeout; of INVALID_TXN_STATE
      at an EndTxn: the brokers have acknowledged a part of it.
    """
    found = []
    for transaction in history.transactions().values():
        if transaction.transactional_id is None:
            continue
        for index, answer in _answers(history, transaction.label):
            if isinstance(answer, Ended) and answer.error not in (*FENCED, WRONG_STATE):
                break  # from here on it is over, or may be
            because = _false(history, transaction, index, answer)
            if because:
                began = _began(history, transaction.label)
                found.append(convict(Kind.FALSE_FENCING, because, began, index))
                break
            if isinstance(answer, Ended):
                break
    return tuple(found)


def _answers(history: History, label: str) -> Iterator[tuple[int, _Answer]]:
    for index, seen in enumerate(history):
        if isinstance(seen, _Answer) and seen.transaction == label:
            yield index, seen


def _began(history: History, label: str) -> int:
    """Where the transaction is first heard of."""
    return next(
        index for index, seen in enumerate(history) if getattr(seen, "transaction", None) == label
    )


def _false(history: History, transaction: Transaction, index: int, answer: _Answer) -> str:
    """What is false about an error; empty if it may be true, or is another one."""
    assert transaction.transactional_id is not None
    began = _began(history, transaction.label)
    if _excused(history, transaction.transactional_id, began, index, answer.who):
        return ""
    if answer.error in FENCED:
        timeout_ms = _timeout_ms(history, transaction.transactional_id, index)
        age_ms = answer.at_ms - history[began].at_ms
        if timeout_ms is None or age_ms >= timeout_ms:
            return ""
        return (
            f"{answer.who} was told {answer.error} in {transaction.label}, though nobody took over "
            f"{transaction.transactional_id} and its timeout of {timeout_ms} ms had not passed"
        )
    if answer.error != WRONG_STATE or not isinstance(answer, Ended):
        return ""
    if not _took_part(history, transaction.label, index):
        return ""
    return (
        f"{answer.who} was told {WRONG_STATE} at the end of {transaction.label}, though it had "
        f"begun it, had not ended it, and nobody took over {transaction.transactional_id}"
    )


def _excused(history: History, transactional_id: str, began: int, index: int, who: str) -> bool:
    """Whether somebody has done what may lead to the error, by the time it was told."""
    labels = {
        label
        for label, transaction in history.transactions().items()
        if transaction.transactional_id == transactional_id
    }
    producer_ids = set()
    owner = ""
    unknown_end = False
    for at, seen in enumerate(history.until(index)):
        match seen:
            case Initialised(transactional_id=named) if named == transactional_id:
                if at > began and seen.outcome is not Outcome.FAILED:
                    return True
                if seen.outcome is Outcome.OK:
                    owner, unknown_end = seen.who, False
                    producer_ids.add(seen.producer_id)
                elif seen.outcome is Outcome.UNKNOWN:
                    owner = ""
            case Ended(transaction=label) if label in labels:
                unknown_end = unknown_end or seen.outcome is Outcome.UNKNOWN
            case Aborted():
                if seen.producer_id in producer_ids and seen.outcome is not Outcome.FAILED:
                    return True
            case _:
                pass  # nothing that ends transactions or takes ids over
    return owner != who or unknown_end


def _timeout_ms(history: History, transactional_id: str, index: int) -> int | None:
    """The transaction timeout as last told before an observation."""
    found = None
    for seen in history.until(index):
        if isinstance(seen, Initialised | Described) and seen.transactional_id == transactional_id:
            found = found if seen.timeout_ms is None else seen.timeout_ms
    return found


def _took_part(history: History, label: str, index: int) -> bool:
    """Whether the coordinator knew the transaction: it has acknowledged an addition; or, where the
    producer adds nothing by itself (transactions v2), a leader has taken a record.
    """
    answers = [answer for at, answer in _answers(history, label) if at < index]
    added = [answer for answer in answers if isinstance(answer, Added)]
    return any(answer.outcome is Outcome.OK for answer in (added or answers))

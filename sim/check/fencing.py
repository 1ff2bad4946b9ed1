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
    transactions = history.transactions()
    told = _told(history)
    for transaction in transactions.values():
        answers = told.get(transaction.label, [])
        for index, answer in answers:
            because = _false(history, transactions, transaction, answers, index)
            if because:
                began = _began(history, transaction.label)
                found.append(convict(Kind.FALSE_FENCING, because, began, index))
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


def _began(history: History, label: str) -> int:
    """Where the transaction is first heard of."""
    return next(
        index for index, seen in enumerate(history) if getattr(seen, "transaction", None) == label
    )


def _false(
    history: History,
    transactions: Mapping[str, Transaction],
    transaction: Transaction,
    answers: Sequence[tuple[int, _Answer]],
    index: int,
) -> str:
    """What is false about the answer at an index; empty if it is true, or may be."""
    answer, owner = history[index], transaction.transactional_id
    assert isinstance(answer, _Answer)
    is_wrong_state = answer.error == WRONG_STATE and isinstance(answer, Ended)
    if owner is None or not (is_wrong_state or answer.error in FENCED):
        return ""
    began = _began(history, transaction.label)
    labels = {one.label for one in transactions.values() if one.transactional_id == owner}
    if _excused(history.until(index), owner, labels, began=began, who=answer.who):
        return ""
    if is_wrong_state:
        if not _took_part(answers, index):
            return ""
        return (
            f"{answer.who} was told {WRONG_STATE} at the end of {transaction.label}, though it had "
            f"begun it, had not ended it, and nobody took over {owner}"
        )
    timeout_ms = _timeout_ms(history.until(index), owner)
    if timeout_ms is None or answer.at_ms - history[began].at_ms >= timeout_ms:
        return ""
    return (
        f"{answer.who} was told {answer.error} in {transaction.label}, though nobody took over "
        f"{owner} and its timeout of {timeout_ms} ms had not passed"
    )


def _excused(
    before: History, transactional_id: str, labels: set[str], *, began: int, who: str
) -> bool:
    """Whether somebody has done what may lead to the error.

    Args:
        before: What was seen until it was told.
        transactional_id: Whose.
        labels: Of all transactions of this id.
        began: When the transaction in question did.
        who: Was told the error.
    """
    producer_ids = set()
    owner = ""
    unknown_end = False
    for at, seen in enumerate(before):
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


def _timeout_ms(before: History, transactional_id: str) -> int | None:
    """The transaction timeout as last told."""
    found = None
    for seen in before:
        if isinstance(seen, Initialised | Described) and seen.transactional_id == transactional_id:
            found = found if seen.timeout_ms is None else seen.timeout_ms
    return found


def _took_part(answers: Sequence[tuple[int, _Answer]], index: int) -> bool:
    """Whether the coordinator knew the transaction: it has acknowledged an addition; or, where the
    producer adds nothing by itself (transactions v2), a leader has taken a record.
    """
    earlier = [answer for at, answer in answers if at < index]
    added = [answer for answer in earlier if isinstance(answer, Added)]
    return any(answer.outcome is Outcome.OK for answer in (added or earlier))

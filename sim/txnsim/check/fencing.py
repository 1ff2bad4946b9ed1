"""Producers that are told a falsehood about themselves.

A fenced producer has to give up: PRODUCER_FENCED and INVALID_PRODUCER_EPOCH mean that another
instance owns the transactional id, or that the coordinator has aborted the transaction because it
took too long (KIP-360, KIP-588). INVALID_TXN_STATE at an EndTxn means that the program ended what
it had not begun, which no client can mend. Each is false where what it means has not happened.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

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
_Seen = Initialised | Described | Began | Aborted | _Answer


def false_fencing(history: History) -> tuple[Anomaly, ...]:
    """A producer in the middle of its transaction is told one of these errors, though

    - it has not asked for an end of that transaction before, and every other one of this id that
      it began as the same instance has an acknowledged end;
    - nobody has initialised the transactional id since it did, or may have done so, and no operator
      has aborted anything of its producer;
    - as far as the history tells what was sent, it went by the identity that it had been given, and
      nobody has used a higher epoch of that producer;
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


class _Event(NamedTuple):
    """Something that happened to a transactional id."""

    since: int
    """What its client saw last before: it was asked for after that."""
    at: int
    """Its own index: then it was answered."""
    seen: _Seen


_Life = list[_Event]
"""What happened to a transactional id, in the order of the answers."""


def _lives(history: History) -> dict[str, _Life]:
    """The life of each transactional id, with all that was sent in the name of its producers. An
    operator's abort belongs to every one: whose producer it was is known later.
    """
    transactions = history.transactions()
    owners = {one.transactional_id for one in transactions.values()}
    lives: dict[str, _Life] = {owner: [] for owner in owners if owner is not None}
    users = _ids_of_producers(history)
    last_seen: dict[str, int] = {}
    for index, seen in enumerate(history):
        since = last_seen.get(seen.who, -1)
        last_seen[seen.who] = index
        concerned: Iterable[str | None]
        match seen:
            case Initialised() | Described() | Began():
                concerned = (seen.transactional_id,)
            case Added() | Wrote() | SentOffsets() | Ended():
                label = seen.transaction
                owner = None if label is None else transactions[label].transactional_id
                concerned = {owner, *users.get(seen.producer_id, ())}
            case Aborted():
                concerned = tuple(lives)
            case _:
                continue  # nothing that ends transactions or takes ids over
        for owner in concerned:
            if owner is not None:
                lives.setdefault(owner, []).append(_Event(since, index, seen))
    return lives


def _ids_of_producers(history: History) -> dict[int | None, set[str]]:
    """The transactional ids that have been given each producer id."""
    found: dict[int | None, set[str]] = defaultdict(set)
    for _, seen in history.all_of(Initialised):
        if seen.outcome is Outcome.OK:
            found[seen.producer_id].add(seen.transactional_id)
    return found


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
    life = lives[owner]
    if _excused(life, began=transaction.heard_of, told=index, who=answer.who):
        return ""
    if _is_forged(life, told=index, answer=answer):
        return ""
    if is_wrong_state:
        if not _took_part(answers, index):
            return ""
        return (
            f"{answer.who} was told {WRONG_STATE} at the end of {transaction.label}, though it had "
            f"begun it, had not ended it, and nobody took over {owner}"
        )
    timeout_ms = _timeout_ms(life, told=index)
    if timeout_ms is None or answer.at_ms - transaction.heard_of_ms >= timeout_ms:
        return ""
    return (
        f"{answer.who} was told {answer.error} in {transaction.label}, though nobody took over "
        f"{owner} and its timeout of {timeout_ms} ms had not passed"
    )


# What excuses the brokers


def _excused(life: _Life, *, began: int, told: int, who: str) -> bool:
    """Whether somebody has done what may lead to the error.

    Args:
        life: Of the transactional id.
        began: When the transaction in question did.
        told: When its producer was told the error.
        who: Was told it.
    """
    producer_ids = _producer_ids(life)
    owner = ""
    unfinished: set[str] = set()
    for event in life:
        seen = event.seen
        if event.at > told:
            # Asked for before, and answered later: it may have taken effect in between.
            if event.since < told and _may_end(seen, producer_ids):
                return True
            continue
        match seen:
            case Initialised():
                # Without an answer it may still be on its way, whatever came since.
                is_loose = seen.outcome is Outcome.UNKNOWN
                if (event.at > began or is_loose) and _may_fence(seen):
                    return True
                if seen.outcome is Outcome.OK:
                    owner = seen.who
                    unfinished.clear()
                elif _may_fence(seen):
                    owner = ""
            case Began() if event.at < began:
                unfinished.add(seen.transaction)
            case Ended() if seen.outcome is Outcome.OK:
                unfinished.discard(seen.transaction)
            case Aborted():
                if _may_end(seen, producer_ids):
                    return True
            case _:
                pass  # a look, or the transaction in question, or nothing that has happened
    return owner != who or bool(unfinished)


def _producer_ids(life: _Life) -> frozenset[int]:
    """All that the transactional id has been given."""
    given = (event.seen for event in life if isinstance(event.seen, Initialised))
    return frozenset(seen.producer_id for seen in given if seen.outcome is Outcome.OK)


def _may_end(seen: _Seen, producer_ids: frozenset[int]) -> bool:
    """Whether it may have ended the transaction of a producer that did not ask for it."""
    match seen:
        case Initialised():
            return _may_fence(seen)
        case Aborted():
            return seen.outcome is not Outcome.FAILED and seen.producer_id in producer_ids
        case _:
            return False


def _may_fence(seen: Initialised) -> bool:
    """Whether an InitProducerId may have fenced whoever had the id: also one that is answered
    CONCURRENT_TRANSACTIONS, while the coordinator aborts what it found open.
    """
    return seen.outcome is not Outcome.FAILED or seen.error == "CONCURRENT_TRANSACTIONS"


def _is_forged(life: _Life, *, told: int, answer: _Answer) -> bool:
    """Whether the answer is to a request with another identity than its producer had been given; or
    somebody has used a higher epoch of this producer, which raises it at a leader.
    """
    known = _Identity()
    for event in life:
        seen = event.seen
        is_over = event.at < told
        if isinstance(seen, Initialised):
            if is_over and seen.outcome is Outcome.OK:
                known.is_given(seen.producer_id, seen.producer_epoch)
        elif isinstance(seen, _Answer) and event.since < told:
            if seen.outcome is not Outcome.FAILED and known.is_exceeded(seen):
                return True
            if is_over and seen.outcome is Outcome.OK:
                known.is_acknowledged(seen)
    return known.is_another(answer)


class _Identity:
    """What a producer may call itself, as far as a history tells.

    Its epochs are a range: where an acknowledged end does not tell how the producer goes on, the
    epoch was raised (transactions v2) or not.
    """

    __slots__ = ("_highest", "_lowest", "_producer_id")

    def __init__(self) -> None:
        self._producer_id = -1
        self._lowest = self._highest = -1

    def is_given(self, producer_id: int, epoch: int) -> None:
        self._producer_id = producer_id
        self._lowest = self._highest = epoch

    def is_acknowledged(self, seen: _Answer) -> None:
        """The brokers have taken something with this epoch; an end may raise it."""
        if seen.producer_epoch is not None and seen.producer_id == self._producer_id:
            self._lowest = max(self._lowest, seen.producer_epoch)
        if not isinstance(seen, Ended):
            return
        if seen.next_producer_epoch is None:
            self._highest += 1
        else:
            following = seen.next_producer_id
            self.is_given(
                self._producer_id if following is None else following, seen.next_producer_epoch
            )

    def is_exceeded(self, seen: _Answer) -> bool:
        return (
            seen.producer_epoch is not None
            and seen.producer_id == self._producer_id
            and seen.producer_epoch > self._highest
        )

    def is_another(self, seen: _Answer) -> bool:
        if seen.producer_epoch is None:
            return False
        return (
            seen.producer_id not in (None, self._producer_id)
            or not self._lowest <= seen.producer_epoch <= self._highest
        )


# What is known of a transaction


def _timeout_ms(life: _Life, *, told: int) -> int | None:
    """The transaction timeout as last told."""
    seen = (event.seen for event in life if event.at < told)
    timeouts = [one.timeout_ms for one in seen if isinstance(one, Initialised | Described)]
    return next((one for one in reversed(timeouts) if one is not None), None)


def _took_part(answers: Sequence[tuple[int, _Answer]], index: int) -> bool:
    """Whether the coordinator knew the transaction: it has acknowledged an addition; or, where the
    producer adds nothing by itself (transactions v2), a leader has taken a record.
    """
    earlier = [answer for at, answer in answers if at < index]
    added = [answer for answer in earlier if isinstance(answer, Added)]
    return any(answer.outcome is Outcome.OK for answer in (added or earlier))

"""Producers that get a fencing error, or a wrong-state error, without a cause.

PRODUCER_FENCED and INVALID_PRODUCER_EPOCH tell a producer to give up. They mean that another
instance owns the transactional id, or that the coordinator has aborted the transaction because it
took too long (KIP-360, KIP-588). INVALID_TXN_STATE as the answer to EndTxn means that the program
ended a transaction that it had not begun, and no client can repair that. The checker reports each
of these errors whose cause did not happen.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from txnsim_lab.check.anomaly import Anomaly, Kind, convict
from txnsim_lab.check.history import History, Transaction
from txnsim_lab.check.observations import (
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

FENCED_ERRORS: Final = frozenset({"PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"})
WRONG_STATE_ERROR: Final = "INVALID_TXN_STATE"

Answer = Added | Wrote | SentOffsets | Ended
_LifeObservation = Initialised | Described | Began | Aborted | Answer


def false_fencing(history: History) -> tuple[Anomaly, ...]:
    """A producer in the middle of its transaction gets one of these errors, though

    - it has not asked for an end of that transaction before, and every other one of this id that
      it began as the same instance has an acknowledged end;
    - no client has initialised the transactional id since it did, or may have done so, and no
      operator has aborted anything of its producer; who was given the higher epoch came later;
    - as far as the history has the requests, it used the identity that it had got, and no client
      has used a higher epoch of that producer;
    - and, of the fencing errors: the transaction is younger than its timeout; of INVALID_TXN_STATE
      at an EndTxn: the brokers have acknowledged a part of it.
    """
    anomalies = []
    answers_by_label = answers_to(history)
    lives_by_owner = lives_of(history)
    for transaction in history.transactions().values():
        answers = answers_by_label.get(transaction.label, [])
        for index, answer in answers:
            reason = _why_answer_is_false(transaction, answers, index, lives_by_owner)
            if reason:
                evidence_indexes = (transaction.first_known_index, index)
                anomalies.append(convict(Kind.FALSE_FENCING, reason, *evidence_indexes))
            if reason or isinstance(answer, Ended):
                break  # from here on it is over, or may be
    return tuple(anomalies)


def answers_to(history: History) -> dict[str, list[tuple[int, Answer]]]:
    """The answers that the producer of each transaction got."""
    answers: dict[str, list[tuple[int, Answer]]] = defaultdict(list)
    for index, observation in enumerate(history):
        if isinstance(observation, Answer) and observation.transaction is not None:
            answers[observation.transaction].append((index, observation))
    return answers


class _Event(NamedTuple):
    """An event in the life of a transactional id."""

    since: int
    history_index: int
    observation: _LifeObservation


Life = list[_Event]
"""The events of a transactional id, in the order of the answers."""


def lives_of(history: History) -> dict[str, Life]:
    """The events of each transactional id, including all requests in the name of its producers. An
    operator's abort is added to every id, because the owner of the producer id may become known
    only later.
    """
    owner_ids = {transaction.transactional_id for transaction in history.transactions().values()}
    life_by_id: dict[str, Life] = {owner_id: [] for owner_id in owner_ids if owner_id is not None}
    ids_by_producer = _ids_of_producers(history)
    last_index_by_who: dict[str, int] = {}
    for index, observation in enumerate(history):
        previous_index = last_index_by_who.get(observation.who, -1)
        last_index_by_who[observation.who] = index
        concerned_owners: Iterable[str | None]
        match observation:
            case Initialised() | Described() | Began():
                concerned_owners = (observation.transactional_id,)
            case Added() | Wrote() | SentOffsets() | Ended():
                transaction = history.transaction_of(observation)
                owner_id = None if transaction is None else transaction.transactional_id
                concerned_owners = {owner_id, *ids_by_producer.get(observation.producer_id, ())}
            case Aborted():
                concerned_owners = tuple(life_by_id)
            case _:
                continue  # nothing that ends transactions or takes ids over
        for owner_id in concerned_owners:
            if owner_id is not None:
                life_by_id.setdefault(owner_id, []).append(
                    _Event(previous_index, index, observation)
                )
    return life_by_id


def _ids_of_producers(history: History) -> dict[int | None, set[str]]:
    """The transactional ids that have got each producer id."""
    ids_by_producer: dict[int | None, set[str]] = defaultdict(set)
    for _, initialised in history.all_of(Initialised):
        if initialised.outcome is Outcome.OK:
            ids_by_producer[initialised.producer_id].add(initialised.transactional_id)
    return ids_by_producer


def _why_answer_is_false(
    transaction: Transaction,
    answers: Sequence[tuple[int, Answer]],
    index: int,
    lives_by_owner: Mapping[str, Life],
) -> str:
    """Why the answer at an index is false; empty if it is right, or may be."""
    answer, owner = dict(answers)[index], transaction.transactional_id
    is_wrong_state = answer.error == WRONG_STATE_ERROR and isinstance(answer, Ended)
    if owner is None or not (is_wrong_state or answer.error in FENCED_ERRORS):
        return ""
    life = lives_by_owner[owner]
    if has_cause(life, transaction, answer, answer_index=index):
        return ""
    if is_wrong_state:
        if not _coordinator_knew(answers, index):
            return ""
        return (
            f"{answer.who} got {WRONG_STATE_ERROR} at the end of {transaction.label}, though it "
            f"had begun it, had not ended it, and no producer took over {owner}"
        )
    timeout_ms = last_timeout_ms(life, (Initialised, Described), answer_index=index)
    if timeout_ms is None or answer.at_ms - transaction.heard_of_ms >= timeout_ms:
        return ""
    return (
        f"{answer.who} got {answer.error} in {transaction.label}, though no producer took over "
        f"{owner} and its timeout of {timeout_ms} ms had not passed"
    )


# What excuses the brokers


def has_cause(life: Life, transaction: Transaction, answer: Answer, *, answer_index: int) -> bool:
    """Whether another client, or the producer itself, may have caused the error."""
    return _has_other_cause(
        life,
        begin_index=transaction.first_known_index,
        answer_index=answer_index,
        producer_name=answer.who,
    ) or _has_foreign_identity(life, answer_index=answer_index, answer=answer)


def _has_other_cause(
    life: Life, *, begin_index: int, answer_index: int, producer_name: str
) -> bool:
    """Whether another request may have led to the error."""
    producer_ids = _producer_ids(life)
    owner, newest_identity = "", (-1, -1)
    unfinished_labels: set[str] = set()
    for event in life:
        observation = event.observation
        if event.history_index > answer_index:
            # Asked for before, and answered later: it may have taken effect in between.
            if event.since < answer_index and _may_end(observation, producer_ids):
                return True
            continue
        match observation:
            case Initialised():
                # Without an answer it may still be on its way, whatever came since.
                is_loose = observation.outcome is Outcome.UNKNOWN
                if (event.history_index > begin_index or is_loose) and _may_fence(observation):
                    return True
                if observation.outcome is not Outcome.OK:
                    owner = "" if _may_fence(observation) else owner
                elif not _is_older(observation, newest_identity):
                    owner, newest_identity = (
                        observation.who,
                        (observation.producer_id, observation.producer_epoch),
                    )
                    unfinished_labels.clear()
            case Began() if event.history_index < begin_index:
                unfinished_labels.add(observation.transaction)
            case Ended() if observation.outcome is Outcome.OK:
                unfinished_labels.discard(observation.transaction)
            case Aborted():
                if _may_end(observation, producer_ids):
                    return True
            case _:
                pass  # a look, or the transaction in question, or nothing that has happened
    return owner != producer_name or bool(unfinished_labels)


def _is_older(initialised: Initialised, newest_identity: tuple[int, int]) -> bool:
    """Whether another client got a higher epoch of this producer before this answer: the answers to
    two simultaneous requests may overtake each other.
    """
    return (
        initialised.producer_id == newest_identity[0]
        and initialised.producer_epoch < newest_identity[1]
    )


def _producer_ids(life: Life) -> frozenset[int]:
    initialisations = (
        event.observation for event in life if isinstance(event.observation, Initialised)
    )
    return frozenset(
        initialised.producer_id
        for initialised in initialisations
        if initialised.outcome is Outcome.OK
    )


def _may_end(observation: _LifeObservation, producer_ids: frozenset[int]) -> bool:
    """Whether the request may have ended a transaction of another producer."""
    match observation:
        case Initialised():
            return _may_fence(observation)
        case Aborted():
            return (
                observation.outcome is not Outcome.FAILED
                and observation.producer_id in producer_ids
            )
        case _:
            return False


def _may_fence(initialised: Initialised) -> bool:
    """Whether an InitProducerId may have fenced the producer that had the id. That includes one
    with the answer CONCURRENT_TRANSACTIONS, while the coordinator aborts the open transaction.
    """
    return (
        initialised.outcome is not Outcome.FAILED or initialised.error == "CONCURRENT_TRANSACTIONS"
    )


def _has_foreign_identity(life: Life, *, answer_index: int, answer: Answer) -> bool:
    """Whether the request had another identity than its producer had got; or whether another client
    has used a higher epoch of this producer, which raises the epoch at a leader.
    """
    possible_identities, newest_identity = _PossibleIdentities(), (-1, -1)
    for event in life:
        observation = event.observation
        is_over = event.history_index < answer_index
        if isinstance(observation, Initialised):
            if (
                is_over
                and observation.outcome is Outcome.OK
                and not _is_older(observation, newest_identity)
            ):
                newest_identity = observation.producer_id, observation.producer_epoch
                possible_identities.adopt(*newest_identity)
        elif isinstance(observation, Answer) and event.since < answer_index:
            if observation.outcome is not Outcome.FAILED and possible_identities.is_exceeded_by(
                observation
            ):
                return True
            if is_over and observation.outcome is Outcome.OK:
                possible_identities.acknowledge(observation)
    return possible_identities.differs_from(answer)


class _PossibleIdentities:
    """The identities that a producer may use, as far as a history shows them. Its epochs are a
    range, since an acknowledged end may or may not have raised the epoch (transactions v2).
    """

    __slots__ = ("_highest_epoch", "_lowest_epoch", "_producer_id")

    def __init__(self) -> None:
        self._producer_id = -1
        self._lowest_epoch = self._highest_epoch = -1

    def adopt(self, producer_id: int, producer_epoch: int) -> None:
        self._producer_id = producer_id
        self._lowest_epoch = self._highest_epoch = producer_epoch

    def acknowledge(self, answer: Answer) -> None:
        """Notes that a broker has granted a request with this epoch; an end may raise the epoch."""
        if answer.producer_epoch is not None and answer.producer_id == self._producer_id:
            self._lowest_epoch = max(self._lowest_epoch, answer.producer_epoch)
        if not isinstance(answer, Ended):
            return
        if answer.next_producer_epoch is None:
            self._highest_epoch += 1
        else:
            following = answer.next_producer_id
            self.adopt(
                self._producer_id if following is None else following, answer.next_producer_epoch
            )

    def is_exceeded_by(self, answer: Answer) -> bool:
        return (
            answer.producer_epoch is not None
            and answer.producer_id == self._producer_id
            and answer.producer_epoch > self._highest_epoch
        )

    def differs_from(self, answer: Answer) -> bool:
        if answer.producer_epoch is None:
            return False
        return (
            answer.producer_id not in (None, self._producer_id)
            or not self._lowest_epoch <= answer.producer_epoch <= self._highest_epoch
        )


# Facts about a transaction


def last_timeout_ms(
    life: Life, answer_kinds: tuple[type[Initialised | Described], ...], *, answer_index: int
) -> int | None:
    """The last observed transaction timeout, from answers of the given kinds."""
    return next(
        (
            event.observation.timeout_ms
            for event in reversed(life)
            if event.history_index < answer_index and isinstance(event.observation, answer_kinds)
            if event.observation.timeout_ms is not None
        ),
        None,
    )


def _coordinator_knew(answers: Sequence[tuple[int, Answer]], index: int) -> bool:
    """Whether the coordinator knew the transaction: it has acknowledged an addition; or, if the
    producer does not add partitions itself (transactions v2), a leader has accepted a record.
    """
    earlier_answers = [answer for answer_index, answer in answers if answer_index < index]
    added_partitions = [answer for answer in earlier_answers if isinstance(answer, Added)]
    return any(answer.outcome is Outcome.OK for answer in (added_partitions or earlier_answers))

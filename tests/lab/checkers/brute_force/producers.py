"""The definitions of docs/checkers.md, "What goes on": producers that are refused."""

from __future__ import annotations

from collections.abc import Iterable

from tests.lab.checkers.brute_force.facts import (
    BUSY,
    FAILED,
    OK,
    UNKNOWN,
    Answer,
    Observations,
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


def false_fencing(observations: Observations) -> bool:
    for label in labels(observations):
        for index, answer in _until_the_end(observations, label):
            is_fenced = answer.error in FENCED and _is_young(
                observations, label, index, told_by=(Initialised, Described)
            )
            is_denied = (
                isinstance(answer, Ended)
                and answer.error == "INVALID_TXN_STATE"
                and _took_part(observations, label, index)
            )
            if (is_fenced or is_denied) and _kept_the_rules(observations, label, index):
                return True
    return False


def refused_producer(observations: Observations) -> bool:
    for label in labels(observations):
        refused_answers = [
            (index, answer)
            for index, answer in _until_the_end(observations, label)
            if answer.error in REFUSED and not isinstance(answer, Ended)
        ]
        for index, answer in refused_answers[:1]:
            later_observations = [
                observation
                for number, observation in _in_the_name_of(observations, label)
                if number > index
            ]
            if (
                all(observation.outcome is FAILED for observation in later_observations)
                and _has_added(observations, label, answer)
                and _is_young(observations, label, index, told_by=(Initialised,))
                and _kept_the_rules(observations, label, index)
            ):
                return True
    return False


def _answers(observations: Observations, label: str) -> list[tuple[int, Answer]]:
    return [
        (index, observation)
        for index, observation in enumerate(observations)
        if isinstance(observation, Answer) and observation.transaction == label
    ]


def _until_the_end(observations: Observations, label: str) -> Iterable[tuple[int, Answer]]:
    """The answers to a producer, up to that at the first end that it has asked for."""
    for index, answer in _answers(observations, label):
        yield index, answer
        if isinstance(answer, Ended):
            return


def _began(observations: Observations, label: str) -> int:
    return min(
        index
        for index, observation in enumerate(observations)
        if getattr(observation, "transaction", None) == label
    )


def _is_young(
    observations: Observations,
    label: str,
    index: int,
    *,
    told_by: tuple[type[Initialised | Described], ...],
) -> bool:
    """Whether the transaction's timeout, by the last observation of it, has not passed."""
    timeouts_ms = [
        observation.timeout_ms
        for observation in observations[:index]
        if isinstance(observation, told_by)
        and observation.transactional_id == owner(observations, label)
        if observation.timeout_ms is not None
    ]
    return (
        bool(timeouts_ms)
        and observations[index].at_ms
        < observations[_began(observations, label)].at_ms + timeouts_ms[-1]
    )


def _took_part(observations: Observations, label: str, index: int) -> bool:
    """Whether an addition was acknowledged, or any request if there was no addition."""
    earlier_answers = [answer for number, answer in _answers(observations, label) if number < index]
    additions = [answer for answer in earlier_answers if isinstance(answer, Added)]
    return any(answer.outcome is OK for answer in additions or earlier_answers)


def _has_added(observations: Observations, label: str, answer: Answer) -> bool:
    """Whether a producer that sends AddPartitionsToTxn has added the partition, or the group."""
    additions = [
        observed_addition
        for _, observed_addition in every(observations, Added)
        if observed_addition.transaction == label
    ]
    acknowledged_additions = [
        observed_addition for observed_addition in additions if observed_addition.outcome is OK
    ]
    if not additions or isinstance(answer, Added):
        return True
    if isinstance(answer, Wrote):
        return any(
            answer.place in observed_addition.partitions
            for observed_addition in acknowledged_additions
        )
    return any(not observed_addition.partitions for observed_addition in acknowledged_additions)


# Who has kept the rules


def _kept_the_rules(observations: Observations, label: str, index: int) -> bool:
    """Whether nothing that the transaction's producer did explains the error of line ``index``."""
    return (
        owner(observations, label) is not None
        and _owns_the_id(observations, label, index)
        and not _is_interrupted(observations, label, index)
        and _ended_all_before(observations, label, index)
        and _goes_by_its_identity(observations, label, index)
    )


def _initialisations(observations: Observations, label: str) -> list[tuple[int, Initialised]]:
    return [
        (index, observed_init)
        for index, observed_init in every(observations, Initialised)
        if observed_init.transactional_id == owner(observations, label)
    ]


def _overtaken_inits(observations: Observations, label: str) -> set[int]:
    """Who was given a lower epoch than the last before him of the same producer: his request came
    first, though his answer came later.
    """
    overtaken_inits: set[int] = set()
    last_init: Initialised | None = None
    for index, observed_init in _initialisations(observations, label):
        if observed_init.outcome is not OK:
            continue
        is_same = last_init is not None and last_init.producer_id == observed_init.producer_id
        if (
            is_same
            and last_init is not None
            and observed_init.producer_epoch < last_init.producer_epoch
        ):
            overtaken_inits.add(index)
        else:
            last_init = observed_init
    return overtaken_inits


def _may_fence(observed_init: Initialised) -> bool:
    return observed_init.outcome is not FAILED or observed_init.error == BUSY


def _owns_the_id(observations: Observations, label: str, index: int) -> bool:
    """Whether the transaction's producer was the last one to initialise the id before it."""
    overtaken_inits = _overtaken_inits(observations, label)
    inits_before = [
        observed_init
        for number, observed_init in _initialisations(observations, label)
        if number < index and _may_fence(observed_init) and number not in overtaken_inits
    ]
    return (
        bool(inits_before)
        and inits_before[-1].outcome is OK
        and inits_before[-1].who == _client_of(observations, index)
    )


def _client_of(observations: Observations, index: int) -> str:
    return observations[index].who


def _is_under_way(observations: Observations, number: int, index: int) -> bool:
    """Whether it may have been asked before line ``index`` is answered, and is answered later: its
    client has seen nothing else in between.
    """
    return number > index and not any(
        observations[between].who == observations[number].who for between in range(index, number)
    )


def _is_interrupted(observations: Observations, label: str, index: int) -> bool:
    """Whether another client has, or may have, initialised the id or aborted a transaction."""
    for number, observed_init in _initialisations(observations, label):
        if _may_fence(observed_init):
            if _began(observations, label) < number < index or _is_under_way(
                observations, number, index
            ):
                return True
            if observed_init.outcome is UNKNOWN and number < index:
                return True
    own_ids = _producer_ids(observations, label)
    return any(
        observed_abort.outcome is not FAILED
        and observed_abort.producer_id in own_ids
        and (number < index or _is_under_way(observations, number, index))
        for number, observed_abort in every(observations, Aborted)
    )


def _producer_ids(observations: Observations, label: str) -> set[int | None]:
    return {
        observed_init.producer_id
        for _, observed_init in _initialisations(observations, label)
        if observed_init.outcome is OK
    }


def _ended_all_before(observations: Observations, label: str, index: int) -> bool:
    overtaken_inits = _overtaken_inits(observations, label)
    granted = [
        number
        for number, observed_init in _initialisations(observations, label)
        if observed_init.outcome is OK and number < index and number not in overtaken_inits
    ]
    for number, observed_begin in every(observations, Began):
        if observed_begin.transactional_id != owner(observations, label):
            continue
        if not max(granted, default=-1) < number < _began(observations, label):
            continue
        if not any(
            observed_end.transaction == observed_begin.transaction
            and observed_end.outcome is OK
            and number < end_index < index
            for end_index, observed_end in every(observations, Ended)
        ):
            return False
    return True


# Identities


def _in_the_name_of(
    observations: Observations, label: str
) -> Iterable[tuple[int, Initialised | Answer]]:
    """What was asked in the name of the transactional id: by its transactions, and with the
    producer ids that it has had.
    """
    own_ids = _producer_ids(observations, label)
    for index, observation in enumerate(observations):
        if isinstance(observation, Initialised):
            if observation.transactional_id == owner(observations, label):
                yield index, observation
        elif isinstance(observation, Answer):
            is_own = owner(observations, observation.transaction) == owner(observations, label)
            if is_own or observation.producer_id in own_ids:
                yield index, observation


def _goes_by_its_identity(observations: Observations, label: str, index: int) -> bool:
    """Whether the request of line ``index`` had an identity that its producer may have had then,
    and no other request had a higher epoch.
    """
    may_have: set[tuple[int, int]] = set()
    overtaken_inits = _overtaken_inits(observations, label)
    for number, observation in _in_the_name_of(observations, label):
        if isinstance(observation, Initialised):
            if number < index and observation.outcome is OK and number not in overtaken_inits:
                may_have = {(observation.producer_id, observation.producer_epoch)}
            continue
        is_asked = number <= index or _is_under_way(observations, number, index)
        if is_asked and observation.outcome is not FAILED and _is_higher(observation, may_have):
            return False
        if number < index and observation.outcome is OK:
            may_have = _identities_after(observation, may_have)
    answer = observations[index]
    assert isinstance(answer, Answer)
    return answer.producer_epoch is None or any(
        answer.producer_id in (None, producer_id) and answer.producer_epoch == epoch
        for producer_id, epoch in may_have
    )


def _is_higher(answer: Answer, may_have: set[tuple[int, int]]) -> bool:
    epochs = [epoch for producer_id, epoch in may_have if producer_id == answer.producer_id]
    return (
        bool(epochs) and answer.producer_epoch is not None and answer.producer_epoch > max(epochs)
    )


def _identities_after(answer: Answer, may_have: set[tuple[int, int]]) -> set[tuple[int, int]]:
    """The identities that a producer may have after an acknowledged request."""
    sent_epoch = answer.producer_epoch
    identities_left = {
        (producer_id, epoch)
        for producer_id, epoch in may_have
        if producer_id != answer.producer_id or sent_epoch is None or epoch >= sent_epoch
    }
    if not isinstance(answer, Ended) or not identities_left:
        return identities_left
    if answer.next_producer_epoch is None:
        producer_id, epoch = max(identities_left)
        return identities_left | {(producer_id, epoch + 1)}
    next_id = (
        max(identities_left)[0] if answer.next_producer_id is None else answer.next_producer_id
    )
    return {(next_id, answer.next_producer_epoch)}

"""Producers that can't go on although they kept the rules.

INVALID_TXN_STATE, INVALID_PRODUCER_ID_MAPPING and UNKNOWN_PRODUCER_ID mean that the program ended a
transaction that it had not begun, or used an id that it had not got. Clients take these errors as
fatal. An error is false if the producer used the identity that it had got, and no other client has
touched its id.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from txnsim_lab.check._fencing import Answer, Life, answers_to, has_cause, last_timeout_ms, lives_of
from txnsim_lab.check.anomaly import Anomaly, Kind, convict
from txnsim_lab.check.history import History
from txnsim_lab.check.observations import Added, Ended, Initialised, Outcome, Wrote

REFUSALS: Final = frozenset(
    {"INVALID_TXN_STATE", "INVALID_PRODUCER_ID_MAPPING", "UNKNOWN_PRODUCER_ID"}
)


def refused_producers(history: History) -> tuple[Anomaly, ...]:
    """A producer in the middle of its transaction gets one of these errors, at anything but an
    end, though

    - it has not asked for an end of that transaction before, and every other one of this id that it
      began as the same instance has an acknowledged end;
    - no client has initialised the id since it did, or may have done so, and no operator has
      aborted anything of its producer;
    - it has added the partition or the group that is meant, where it adds any by itself;
    - it went by the identity that it had been given, and no client has used a higher epoch;
    - its transaction is younger than its timeout;

    and nothing that was asked in the name of its id has been granted since.
    """
    anomalies = []
    lives, answers_by_label = lives_of(history), answers_to(history)
    for transaction in history.transactions().values():
        owner = transaction.transactional_id
        answers = answers_by_label.get(transaction.label, [])
        for index, answer in answers:
            if isinstance(answer, Ended):
                break  # false-fencing judges ends; from here on it is over
            if owner is None or answer.error not in REFUSALS:
                continue
            life = lives[owner]
            if has_cause(life, transaction, answer, answer_index=index):
                break
            if _is_granted_since(life, index) or _was_left_out(answers, answer):
                break
            timeout_ms = last_timeout_ms(life, (Initialised,), answer_index=index)
            if timeout_ms is None or answer.at_ms - transaction.heard_of_ms >= timeout_ms:
                break  # its coordinator may have aborted it by then
            reason = (
                f"{answer.who} got {answer.error} in {transaction.label}, which it had begun "
                f"as it should; no client took over {owner}, and nothing was granted to it any more"
            )
            anomalies.append(
                convict(Kind.REFUSED_PRODUCER, reason, transaction.first_known_index, index)
            )
            break
    return tuple(anomalies)


def _was_left_out(answers: Sequence[tuple[int, Answer]], refused_answer: Answer) -> bool:
    """Whether a producer that adds partitions itself has not added this one: then the refusal is
    right (KIP-890's buggy client).
    """
    additions = [answer for _, answer in answers if isinstance(answer, Added)]
    if not additions or isinstance(refused_answer, Added):
        return False
    accepted_additions = [addition for addition in additions if addition.outcome is Outcome.OK]
    if isinstance(refused_answer, Wrote):
        return not any(
            refused_answer.place in addition.partitions for addition in accepted_additions
        )
    return not any(not addition.partitions for addition in accepted_additions)


def _is_granted_since(life: Life, answer_index: int) -> bool:
    """Whether a later request of that id was granted, or may have been: then the producer was not
    stopped.
    """
    return any(
        event.history_index > answer_index and event.observation.outcome is not Outcome.FAILED
        for event in life
        if isinstance(event.observation, Initialised | Answer)
    )

"""Coordinators that don't finish. A transaction stays decided and unmarked, or it stays Ongoing far
past its timeout, or a transactional id is answered CONCURRENT_TRANSACTIONS for ever.

A healthy coordinator writes the markers of a decision within moments. If a leader is gone, it
writes them as soon as it can. The transaction's timeout does not help, because only Ongoing
transactions time out (``TransactionCoordinator.abortTimedOutTransactions``). So the checker uses
that timeout as its measure: nothing was broken meanwhile (``Healed``), and a transaction or a
reader has waited for longer than a transaction may take.
"""

from __future__ import annotations

from typing import Final

import msgspec

from txnsim.types import TopicPartition
from txnsim_lab.check.anomaly import Anomaly, Kind, convict
from txnsim_lab.check.history import History
from txnsim_lab.check.observations import (
    Added,
    Described,
    Ended,
    Healed,
    Initialised,
    Outcome,
    SentOffsets,
    Wrote,
)

DECIDED_STATES: Final = frozenset({"PrepareCommit", "PrepareAbort"})
BUSY: Final = "CONCURRENT_TRANSACTIONS"

_Granted = Initialised | Added | Wrote | SentOffsets | Ended


ONGOING: Final = "Ongoing"
SCANS_MS: Final = 60_000
"""Six scans for timed-out transactions: a healthy coordinator needs one
(``transaction.abort.timed.out.transaction.cleanup.interval.ms``).
"""
TIMEOUT_NEVER_MS: Final = 2**31 - 1
"""Such a transaction is never timed out (KIP-939)."""


class _Spell(msgspec.Struct):
    """A time in which a transactional id shows the same trouble."""

    what: tuple[object, ...]
    """Does not change as long as the transaction makes no progress. The first element is the
    trouble, the last the time since when it lasts (None if unknown).
    """
    index: int
    at_ms: int
    last_index: int = -1
    """Index of the last observation of the trouble."""
    waited_ms: int = 0
    grace_ms: int = 0
    """Time allowed in addition to the timeout."""

    @property
    def trouble(self) -> object:
        """The kind of trouble, the first element of ``what``."""
        return self.what[0]


def stuck_coordinators(history: History) -> tuple[Anomaly, ...]:
    """Ids that are stuck at the end of a history, each convicted once."""
    timeouts = timeouts_of(history)
    stuck: dict[str, Anomaly] = {}
    for transactional_id, spell in (
        *_spells_of_decided(history).items(),
        *_spells_of_busy(history).items(),
    ):
        timeout_ms = timeouts.get(transactional_id)
        if transactional_id in stuck or timeout_ms is None:
            continue
        if spell.last_index == spell.index or spell.waited_ms <= timeout_ms + spell.grace_ms:
            continue
        reason = (
            f"{transactional_id} has been {spell.trouble} for {spell.waited_ms} ms, longer than "
            f"its timeout of {timeout_ms}"
        )
        stuck[transactional_id] = convict(
            Kind.STUCK_COORDINATOR, reason, spell.index, spell.last_index
        )
    return tuple(stuck.values())


def stuck_partitions(history: History) -> set[TopicPartition]:
    """Partitions to which a stuck coordinator owes a marker, according to any of its answers
    meanwhile.
    """
    partitions: set[TopicPartition] = set()
    for anomaly in stuck_coordinators(history):
        first_index, last_index = anomaly.evidence[0], anomaly.evidence[-1]
        stuck = history[first_index]
        if not isinstance(stuck, Described):
            continue  # an answer to a producer
        for index, description in history.all_of(Described):
            if (
                first_index <= index <= last_index
                and description.transactional_id == stuck.transactional_id
            ):
                partitions.update(description.partitions)
    return partitions


def timeouts_of(history: History) -> dict[str, int]:
    """The longest observed timeout of each transactional id."""
    timeouts: dict[str, int] = {}
    for observation in history:
        if isinstance(observation, Initialised | Described) and observation.timeout_ms is not None:
            timeouts[observation.transactional_id] = max(
                observation.timeout_ms,
                timeouts.get(observation.transactional_id, observation.timeout_ms),
            )
    return timeouts


def _spells_of_decided(history: History) -> dict[str, _Spell]:
    """Ids with a decision but without all markers, while nothing was broken. Without a start time,
    two transactions of one epoch look alike. So a request that was granted to the producer
    meanwhile, or may have been, counts as the end of the first transaction.
    """
    spells: dict[str, _Spell] = {}
    for index, observation in enumerate(history):
        if isinstance(observation, _Granted) and observation.outcome is not Outcome.FAILED:
            owner = _owner(history, observation) or ""
            if owner in spells and spells[owner].what[-1] is None:
                del spells[owner]
        if isinstance(observation, Healed):
            spells.clear()
        if not isinstance(observation, Described) or observation.error:
            continue
        is_overdue = _is_overdue(observation)
        if not is_overdue and observation.state not in DECIDED_STATES:
            spells.pop(observation.transactional_id, None)
            continue
        trouble = f"{ONGOING} past its timeout" if is_overdue else observation.state
        spell_key = (
            trouble,
            observation.producer_id,
            observation.producer_epoch,
            observation.start_ms,
        )
        _note(spells, observation.transactional_id, spell_key, index=index, at_ms=observation.at_ms)
        if is_overdue:
            spells[observation.transactional_id].grace_ms = SCANS_MS
    return spells


def _is_overdue(description: Described) -> bool:
    """Whether the coordinator should have aborted the transaction by now."""
    timeout_ms, start_ms = description.timeout_ms, description.start_ms
    if description.state != ONGOING or timeout_ms is None or start_ms is None or start_ms < 0:
        return False
    return timeout_ms != TIMEOUT_NEVER_MS and description.at_ms - start_ms > timeout_ms


def _spells_of_busy(history: History) -> dict[str, _Spell]:
    """Ids whose producers get only CONCURRENT_TRANSACTIONS, while nothing was broken."""
    spells: dict[str, _Spell] = {}
    for index, observation in enumerate(history):
        if isinstance(observation, Healed):
            spells.clear()
        elif (
            isinstance(observation, _Granted)
            and (owner := _owner(history, observation)) is not None
        ):
            if observation.error == BUSY:
                _note(spells, owner, (f"answered {BUSY}", -1), index=index, at_ms=observation.at_ms)
            elif observation.outcome is not Outcome.FAILED:
                spells.pop(owner, None)  # it was done, or may have been
    return spells


def _note(
    spells: dict[str, _Spell],
    transactional_id: str,
    spell_key: tuple[object, ...],
    *,
    index: int,
    at_ms: int,
) -> None:
    spell = spells.get(transactional_id)
    if spell is None or spell.what != spell_key:
        spell = spells[transactional_id] = _Spell(spell_key, index, at_ms)
    spell.last_index, spell.waited_ms = index, at_ms - spell.at_ms


def _owner(history: History, answer: _Granted) -> str | None:
    """The transactional id that an answer is about."""
    if isinstance(answer, Initialised):
        return answer.transactional_id
    transaction = history.transaction_of(answer)
    return None if transaction is None else transaction.transactional_id

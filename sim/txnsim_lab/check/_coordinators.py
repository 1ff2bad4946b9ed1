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
    """Since when a transactional id has shown the same trouble."""

    what: tuple[object, ...]
    """Equal as long as nothing has moved. First comes the trouble, last the time since when it
    lasts (None where that is not known).
    """
    index: int
    at_ms: int
    last: int = -1
    """Index of the last time."""
    waited_ms: int = 0
    grace_ms: int = 0
    """Besides the timeout."""

    @property
    def trouble(self) -> object:
        """The kind of trouble, the first element of ``what``."""
        return self.what[0]


def stuck_coordinators(history: History) -> tuple[Anomaly, ...]:
    """Ids that are stuck at the end of a history, each convicted once."""
    timeouts = timeouts_of(history)
    found: dict[str, Anomaly] = {}
    for transactional_id, spell in (*_decided(history).items(), *_busy(history).items()):
        timeout_ms = timeouts.get(transactional_id)
        if transactional_id in found or timeout_ms is None:
            continue
        if spell.last == spell.index or spell.waited_ms <= timeout_ms + spell.grace_ms:
            continue
        because = (
            f"{transactional_id} has been {spell.trouble} for {spell.waited_ms} ms, longer than "
            f"its timeout of {timeout_ms}"
        )
        found[transactional_id] = convict(Kind.STUCK_COORDINATOR, because, spell.index, spell.last)
    return tuple(found.values())


def stuck_partitions(history: History) -> set[TopicPartition]:
    """Partitions that a stuck coordinator owes a marker, by any of its answers meanwhile."""
    found: set[TopicPartition] = set()
    for anomaly in stuck_coordinators(history):
        first, last = anomaly.evidence[0], anomaly.evidence[-1]
        stuck = history[first]
        if not isinstance(stuck, Described):
            continue  # an answer to a producer
        for index, seen in history.all_of(Described):
            if first <= index <= last and seen.transactional_id == stuck.transactional_id:
                found.update(seen.partitions)
    return found


def timeouts_of(history: History) -> dict[str, int]:
    """The longest timeout that was seen of each transactional id."""
    found: dict[str, int] = {}
    for seen in history:
        if isinstance(seen, Initialised | Described) and seen.timeout_ms is not None:
            found[seen.transactional_id] = max(
                seen.timeout_ms, found.get(seen.transactional_id, seen.timeout_ms)
            )
    return found


def _decided(history: History) -> dict[str, _Spell]:
    """Ids that are decided and unmarked, for as long as nothing was broken.

    Without a start two transactions of one epoch look alike, so what a producer was granted
    meanwhile, or may have been, counts as the end of the first.
    """
    found: dict[str, _Spell] = {}
    for index, seen in enumerate(history):
        if isinstance(seen, _Granted) and seen.outcome is not Outcome.FAILED:
            owner = _owner(history, seen) or ""
            if owner in found and found[owner].what[-1] is None:
                del found[owner]
        if isinstance(seen, Healed):
            found.clear()
        if not isinstance(seen, Described) or seen.error:
            continue
        is_overdue = _is_overdue(seen)
        if not is_overdue and seen.state not in DECIDED_STATES:
            found.pop(seen.transactional_id, None)
            continue
        trouble = f"{ONGOING} past its timeout" if is_overdue else seen.state
        what = (trouble, seen.producer_id, seen.producer_epoch, seen.start_ms)
        _note(found, seen.transactional_id, what, index=index, at_ms=seen.at_ms)
        if is_overdue:
            found[seen.transactional_id].grace_ms = SCANS_MS
    return found


def _is_overdue(seen: Described) -> bool:
    """Whether its coordinator should have aborted it by now."""
    timeout_ms, start_ms = seen.timeout_ms, seen.start_ms
    if seen.state != ONGOING or timeout_ms is None or start_ms is None or start_ms < 0:
        return False
    return timeout_ms != TIMEOUT_NEVER_MS and seen.at_ms - start_ms > timeout_ms


def _busy(history: History) -> dict[str, _Spell]:
    """Ids whose producers get only CONCURRENT_TRANSACTIONS, likewise."""
    found: dict[str, _Spell] = {}
    for index, seen in enumerate(history):
        if isinstance(seen, Healed):
            found.clear()
        elif isinstance(seen, _Granted) and (owner := _owner(history, seen)) is not None:
            if seen.error == BUSY:
                _note(found, owner, (f"answered {BUSY}", -1), index=index, at_ms=seen.at_ms)
            elif seen.outcome is not Outcome.FAILED:
                found.pop(owner, None)  # it was done, or may have been
    return found


def _note(
    found: dict[str, _Spell],
    transactional_id: str,
    what: tuple[object, ...],
    *,
    index: int,
    at_ms: int,
) -> None:
    spell = found.get(transactional_id)
    if spell is None or spell.what != what:
        spell = found[transactional_id] = _Spell(what, index, at_ms)
    spell.last, spell.waited_ms = index, at_ms - spell.at_ms


def _owner(history: History, seen: _Granted) -> str | None:
    """The transactional id that an answer is about."""
    if isinstance(seen, Initialised):
        return seen.transactional_id
    transaction = history.transaction_of(seen)
    return None if transaction is None else transaction.transactional_id

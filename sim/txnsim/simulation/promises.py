"""What brokers promise beyond the anomalies of ``txnsim.check``, told from a history.

They hold where transactions are verified (KIP-890). Stories of older rules show brokers that break
them by design, so verdicts over stories do not ask for them; a run of ``simulate`` does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final, NamedTuple

from txnsim.check.history import History, Transaction
from txnsim.check.observations import (
    Added,
    Initialised,
    Outcome,
    PositionsRead,
    SentOffsets,
    Wrote,
)
from txnsim.types import TopicPartition

Broken = tuple[str, str]
"""A kind, and a sentence."""

GRANTED_TO_REPLACED: Final = "granted-to-replaced"
UNSTABLE_POSITION: Final = "unstable-position"
LOST_POSITION: Final = "lost-position"

_EVER: Final = 1 << 62
_ASKED: Final = {Added: "a partition or a group", Wrote: "a record", SentOffsets: "positions"}


def broken_promises(
    history: History, *, keeps_positions: bool, watchers: frozenset[str] = frozenset()
) -> Iterator[Broken]:
    """Everything that was promised and not kept.

    Args:
        history: What clients have seen.
        keeps_positions: Whether a position may go only where another one comes: nothing expires
            soon, and no topic is deleted.
        watchers: Who asks for positions as they stand: one that an open transaction may change, or
            the one before the last while a new coordinator does not know yet how far its log is
            replicated.
    """
    yield from _granted_to_replaced(history)
    yield from _unstable_positions(history, watchers)
    if keeps_positions:
        yield from _lost_positions(history, watchers)


def _granted_to_replaced(history: History) -> Iterator[Broken]:
    """Something was asked with an epoch, and granted, after a newer epoch of the same producer had
    been given to somebody. An end is left out: one that is repeated is confirmed.
    """
    given: defaultdict[int, list[Initialised]] = defaultdict(list)
    for _, one in history.all_of(Initialised):
        if one.outcome is Outcome.OK:
            given[one.producer_id].append(one)
    for seen in history:
        if not isinstance(seen, Added | Wrote | SentOffsets) or seen.transaction is None:
            continue
        epoch, asked_ms = seen.producer_epoch, seen.asked_ms
        if seen.outcome is not Outcome.OK or epoch is None or asked_ms is None:
            continue
        for newer in given.get(-1 if seen.producer_id is None else seen.producer_id, ()):
            if newer.producer_epoch > epoch and newer.at_ms < asked_ms:
                yield (
                    GRANTED_TO_REPLACED,
                    f"{seen.who} asked for {_ASKED[type(seen)]} in {seen.transaction} at epoch"
                    f" {epoch}, and it was granted, though {newer.who} had got epoch"
                    f" {newer.producer_epoch} of producer {newer.producer_id} before",
                )
                break


class _Sent(NamedTuple):
    """A sent position, and the time span in which it may have taken effect."""

    offset: int
    who: str
    earliest_ms: int
    latest_ms: int
    is_certain: bool
    may_count: bool
    """False if its transaction certainly did not commit."""
    written_ms: int
    """When it was in the log at the latest; ever where nobody was told."""
    pends_from_ms: int
    pends_until_ms: int
    """Time of the granted commit request; no span unless the transaction was surely open."""
    transaction: str | None


def _positions(history: History) -> dict[tuple[str, TopicPartition], list[_Sent]]:
    """Sent positions by group and partition, without those refused."""
    found: defaultdict[tuple[str, TopicPartition], list[_Sent]] = defaultdict(list)
    for _, sent in history.all_of(SentOffsets):
        if sent.outcome is not Outcome.FAILED:
            transaction = history.transaction_of(sent)
            told = _alone(sent) if transaction is None else _within(sent, transaction)
            found[sent.group, sent.place].append(told)
    return found


def _alone(sent: SentOffsets) -> _Sent:
    is_taken, asked_ms = sent.outcome is Outcome.OK, sent.asked_ms or 0
    latest_ms = sent.at_ms if is_taken else _EVER
    return _Sent(
        offset=sent.offset,
        who=sent.who,
        earliest_ms=asked_ms,
        latest_ms=latest_ms,
        is_certain=is_taken,
        may_count=True,
        written_ms=latest_ms,
        pends_from_ms=_EVER,
        pends_until_ms=0,
        transaction=None,
    )


def _within(sent: SentOffsets, transaction: Transaction) -> _Sent:
    """Of a transaction. No client learns when its marker is written. One whose abort is granted may
    have been aborted before, for its timeout.
    """
    is_taken, fate = sent.outcome is Outcome.OK, transaction.fate
    granted = any(end.outcome is Outcome.OK and end.commit for _, end in transaction.ends)
    asked_ms = min((end.asked_ms or 0 for _, end in transaction.ends), default=0)
    return _Sent(
        offset=sent.offset,
        who=sent.who,
        earliest_ms=asked_ms,
        latest_ms=_EVER,
        is_certain=is_taken and fate.committed,
        may_count=not fate.aborted,
        written_ms=sent.at_ms if is_taken else _EVER,
        pends_from_ms=sent.at_ms if is_taken else _EVER,
        pends_until_ms=asked_ms if granted else 0,
        transaction=transaction.label,
    )


def _told(sent: _Sent, at_ms: int) -> _Sent:
    """The position after a reader saw it: certain, and in effect by then at the latest."""
    return sent._replace(is_certain=True, latest_ms=min(sent.latest_ms, at_ms))


def _unstable_positions(history: History, watchers: frozenset[str]) -> Iterator[Broken]:
    """A member was told a position while an open transaction had sent one there (KIP-447)."""
    sent = _positions(history)
    for _, read in history.all_of(PositionsRead):
        for position in () if read.error or read.who in watchers else read.positions:
            for one in sent.get((read.group, position.place), ()):
                if read.asked_ms is not None and (
                    one.pends_from_ms < read.asked_ms and read.at_ms < one.pends_until_ms
                ):
                    yield (
                        UNSTABLE_POSITION,
                        f"{read.who} was told {position.offset} of {read.group} on"
                        f" {position.place}, while {one.transaction} had sent {one.offset}"
                        " there and was open",
                    )


def _lost_positions(history: History, watchers: frozenset[str]) -> Iterator[Broken]:
    """A group stands where neither the last position puts it that was certainly taken, nor any that
    may have been taken since. One that somebody was told was taken. One of a transaction that was
    written before a plain one gives way to it, whenever its marker comes.
    """
    sent = {
        at: [one for one in every if one.may_count] for at, every in _positions(history).items()
    }
    for _, read in history.all_of(PositionsRead):
        asked_ms = read.at_ms if read.asked_ms is None else read.asked_ms
        for position in () if read.error else read.positions:
            every = sent.get((read.group, position.place), [])
            told = [
                at
                for at, one in enumerate(every)
                if one.offset == position.offset and one.earliest_ms <= read.at_ms
            ]
            if len(told) == 1:
                every[told[0]] = _told(every[told[0]], read.at_ms)
            if read.who in watchers:
                continue
            certain = [one for one in every if one.is_certain and one.latest_ms < asked_ms]
            plain = [one.earliest_ms for one in certain if one.transaction is None]
            since_ms = max(plain, default=0)
            every = [one for one in every if one.transaction is None or one.written_ms >= since_ms]
            certain = [one for one in certain if one in every]
            if not certain:
                continue
            last = max(certain, key=lambda one: one.earliest_ms)
            allowed = {
                one.offset
                for one in every
                if one.latest_ms >= last.earliest_ms and one.earliest_ms <= read.at_ms
            }
            if position.offset not in allowed:
                yield (
                    LOST_POSITION,
                    f"{read.who} was told {position.offset} of {read.group} on {position.place},"
                    f" though {last.who} had committed {last.offset} and been answered",
                )

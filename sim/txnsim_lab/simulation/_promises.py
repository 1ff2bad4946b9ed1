"""What brokers promise beyond the anomalies of ``txnsim_lab.check``, told from a history.

They hold where transactions are verified (KIP-890). Stories of older rules show brokers that break
them by design, so verdicts over stories do not ask for them; a run of ``simulate`` does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice
from operator import itemgetter
from typing import Final, NamedTuple

from txnsim.types import TopicPartition
from txnsim_lab.check.history import History, Transaction
from txnsim_lab.check.observations import (
    Added,
    Initialised,
    Outcome,
    PositionsRead,
    SentOffsets,
    Wrote,
)

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
        offset=sent.position,
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
        offset=sent.position,
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


def _unstable_positions(history: History, watchers: frozenset[str]) -> Iterator[Broken]:
    """A member was told a position while an open transaction had sent one there (KIP-447)."""
    told: defaultdict[tuple[str, TopicPartition], list[_Told]] = defaultdict(list)
    for number, read in history.all_of(PositionsRead):
        for position in () if read.error or read.who in watchers else read.positions:
            if read.asked_ms is not None:
                one = _Told(read.asked_ms, number, position.offset, read)
                told[read.group, position.place].append(one)
    sent = _positions(history)
    found = [
        (one.number, one, pending, place)
        for (group, place), readers in told.items()
        for one, pending in _told_meanwhile(readers, sent.get((group, place), ()))
    ]
    for _, one, pending, place in sorted(found, key=itemgetter(0)):
        yield (
            UNSTABLE_POSITION,
            f"{one.read.who} got {one.offset} of {one.read.group} on {place}, while"
            f" {pending.transaction} had sent {pending.offset} there and was open",
        )


class _Told(NamedTuple):
    """A position that somebody was told of one place."""

    asked_ms: int
    number: int
    offset: int
    read: PositionsRead


def _told_meanwhile(told: Iterable[_Told], sent: Iterable[_Sent]) -> Iterator[tuple[_Told, _Sent]]:
    """Each question with the positions that were pending from before it until after its answer."""
    later = sorted(
        (one for one in sent if one.pends_from_ms < one.pends_until_ms),
        key=lambda one: one.pends_from_ms,
        reverse=True,
    )
    pending: list[_Sent] = []
    for read in sorted(told, key=lambda one: one.asked_ms):
        while later and later[-1].pends_from_ms < read.asked_ms:
            pending.append(later.pop())
        pending = [one for one in pending if read.asked_ms < one.pends_until_ms]
        yield from ((read, one) for one in pending if read.read.at_ms < one.pends_until_ms)


def _lost_positions(history: History, watchers: frozenset[str]) -> Iterator[Broken]:
    """A group stands where neither the last position puts it that was certainly taken, nor any that
    may have been taken since. One that somebody was told was taken. One of a transaction that was
    written before a plain one gives way to it, whenever its marker comes.
    """
    sent = {at: _Account(every) for at, every in _positions(history).items()}
    for _, read in history.all_of(PositionsRead):
        for position in () if read.error else read.positions:
            account = sent.get((read.group, position.place))
            if account is None:
                continue
            account.tell(position.offset, at_ms=read.at_ms)
            if read.who in watchers:
                continue
            last = account.lost(position.offset, read)
            if last is not None:
                yield (
                    LOST_POSITION,
                    f"{read.who} got {position.offset} of {read.group} on {position.place},"
                    f" though {last.who} had committed {last.offset} and been answered",
                )


class _Account:
    """Positions that were sent to one place, and what readers of it were told, in order."""

    def __init__(self, sent: Iterable[_Sent]) -> None:
        self._by_offset: defaultdict[int, list[_Sent]] = defaultdict(list)
        for one in sent:
            if one.may_count:
                self._by_offset[one.offset].append(one)
        every = (one for same in self._by_offset.values() for one in same)
        answered = (one for one in every if one.is_certain and one.latest_ms < _EVER)
        self._answered = sorted(answered, key=lambda one: one.latest_ms, reverse=True)
        """Those whose answer comes later than all questions so far, the next one at the end."""
        self._plain = _Certain()
        self._within = _Certain()

    def tell(self, offset: int, *, at_ms: int) -> None:
        """A reader was told this offset. Which of several equal ones it was is not known.

        A plain one that is told before its answer counts as certain twice: that changes nothing.
        """
        same = self._by_offset.get(offset, [])
        told = [*islice((at for at, one in enumerate(same) if one.earliest_ms <= at_ms), 2)]
        if len(told) == 1 and same[told[0]].latest_ms > at_ms:
            one = same[told[0]] = same[told[0]]._replace(is_certain=True, latest_ms=at_ms)
            (self._plain if one.transaction is None else self._within).add(one)

    def lost(self, offset: int, read: PositionsRead) -> _Sent | None:
        """The last one that was certainly taken, if that offset can't stand in its place."""
        asked_ms = read.at_ms if read.asked_ms is None else read.asked_ms
        while self._answered and self._answered[-1].latest_ms < asked_ms:
            self._plain.add(self._answered.pop())
        last = self._plain.last(asked_ms=asked_ms)
        since_ms = 0 if last is None else last.earliest_ms
        last = self._within.last(asked_ms=asked_ms, since_ms=since_ms, unless=last)
        if last is None or last.offset == offset:
            return None
        stands = any(
            last.earliest_ms <= one.latest_ms
            and one.earliest_ms <= read.at_ms
            and (one.transaction is None or one.written_ms >= since_ms)
            for one in self._by_offset.get(offset, ())
        )
        return None if stands else last


class _Certain:
    """Positions that were certainly taken. The last one is found without a look at all of them."""

    def __init__(self) -> None:
        self._all: list[tuple[_Sent, int]] = []
        """Each with the highest ``earliest_ms`` up to it."""

    def add(self, one: _Sent) -> None:
        highest_ms = self._all[-1][1] if self._all else 0
        self._all.append((one, max(highest_ms, one.earliest_ms)))

    def last(
        self, *, asked_ms: int, since_ms: int = 0, unless: _Sent | None = None
    ) -> _Sent | None:
        """The one with the highest ``earliest_ms`` that was in effect when this was asked.

        Args:
            asked_ms: When.
            since_ms: Those that were written before do not count.
            unless: It is this one, unless another has a higher ``earliest_ms``.
        """
        found = unless
        for one, highest_ms in reversed(self._all):
            if found is not None and found.earliest_ms >= highest_ms:
                break
            if one.latest_ms < asked_ms and one.written_ms >= since_ms:
                found = one if found is None else max(found, one, key=lambda of: of.earliest_ms)
        return found

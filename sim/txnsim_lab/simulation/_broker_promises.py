"""Checks in a history what brokers promise beyond the anomalies of ``txnsim_lab.check``. The
promises hold if transactions are verified (KIP-890). Stories about older rules show brokers that
break them by design, so the verdicts on stories do not include them; a run of ``simulate`` does.
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

BrokenPromise = tuple[str, str]
"""The kind of the broken promise, and a sentence."""

GRANTED_TO_REPLACED: Final = "granted-to-replaced"
UNSTABLE_POSITION: Final = "unstable-position"
LOST_POSITION: Final = "lost-position"

_END_OF_TIME_MS: Final = 1 << 62
_NOUN_BY_OBSERVATION: Final = {
    Added: "a partition or a group",
    Wrote: "a record",
    SentOffsets: "positions",
}


def broken_promises(
    history: History, *, keeps_positions: bool, watchers: frozenset[str] = frozenset()
) -> Iterator[BrokenPromise]:
    """All broken promises.

    Args:
        history: What clients have seen.
        keeps_positions: Whether a position can only disappear when another one replaces it: nothing
            expires soon, and no topic is deleted.
        watchers: Actors that ask for positions without require-stable. They may see a position that
            an open transaction will change, or an older one while a new coordinator does not know
            yet how far its log is replicated.
    """
    yield from _grants_to_replaced(history)
    yield from _unstable_positions(history, watchers)
    if keeps_positions:
        yield from _lost_positions(history, watchers)


def _grants_to_replaced(history: History) -> Iterator[BrokenPromise]:
    """Requests with an old epoch that were granted after a client got a newer epoch of the same
    producer. EndTxn is left out, since a repeated EndTxn is confirmed.
    """
    identities_by_producer: defaultdict[int, list[Initialised]] = defaultdict(list)
    for _, initialised in history.all_of(Initialised):
        if initialised.outcome is Outcome.OK:
            identities_by_producer[initialised.producer_id].append(initialised)
    for observation in history:
        if (
            not isinstance(observation, Added | Wrote | SentOffsets)
            or observation.transaction is None
        ):
            continue
        epoch, asked_ms = observation.producer_epoch, observation.asked_ms
        if observation.outcome is not Outcome.OK or epoch is None or asked_ms is None:
            continue
        for newer_identity in identities_by_producer.get(
            -1 if observation.producer_id is None else observation.producer_id, ()
        ):
            if newer_identity.producer_epoch > epoch and newer_identity.at_ms < asked_ms:
                yield (
                    GRANTED_TO_REPLACED,
                    f"{observation.who} asked for {_NOUN_BY_OBSERVATION[type(observation)]} in"
                    f" {observation.transaction} at epoch"
                    f" {epoch}, and it was granted, though {newer_identity.who} had got epoch"
                    f" {newer_identity.producer_epoch} of producer {newer_identity.producer_id}"
                    " before",
                )
                break


class _SentPosition(NamedTuple):
    """A sent position, and the time span in which it may have taken effect."""

    offset: int
    client_name: str
    earliest_ms: int
    latest_ms: int
    is_certain: bool
    may_count: bool
    """False if its transaction certainly did not commit."""
    written_ms: int
    """Latest time at which it was in the log; infinite if no answer says so."""
    pends_from_ms: int
    pends_until_ms: int
    """Time of the granted commit request; equal to the start unless the transaction was certainly
    open.
    """
    transaction: str | None


def _positions_by_place(history: History) -> dict[tuple[str, TopicPartition], list[_SentPosition]]:
    """Sent positions by group and partition, without those refused."""
    positions_by_place: defaultdict[tuple[str, TopicPartition], list[_SentPosition]] = defaultdict(
        list
    )
    for _, sent_offsets in history.all_of(SentOffsets):
        if sent_offsets.outcome is not Outcome.FAILED:
            transaction = history.transaction_of(sent_offsets)
            position = (
                _plain_position(sent_offsets)
                if transaction is None
                else _position_in_transaction(sent_offsets, transaction)
            )
            positions_by_place[sent_offsets.group, sent_offsets.place].append(position)
    return positions_by_place


def _plain_position(sent_offsets: SentOffsets) -> _SentPosition:
    is_taken, asked_ms = sent_offsets.outcome is Outcome.OK, sent_offsets.asked_ms or 0
    latest_ms = sent_offsets.at_ms if is_taken else _END_OF_TIME_MS
    return _SentPosition(
        offset=sent_offsets.position,
        client_name=sent_offsets.who,
        earliest_ms=asked_ms,
        latest_ms=latest_ms,
        is_certain=is_taken,
        may_count=True,
        written_ms=latest_ms,
        pends_from_ms=_END_OF_TIME_MS,
        pends_until_ms=0,
        transaction=None,
    )


def _position_in_transaction(sent_offsets: SentOffsets, transaction: Transaction) -> _SentPosition:
    """A position sent in a transaction. No client learns when the marker is written. A transaction
    whose abort is granted may have been aborted before, by its timeout.
    """
    is_taken, fate = sent_offsets.outcome is Outcome.OK, transaction.fate
    is_committed = any(
        end_observation.outcome is Outcome.OK and end_observation.commit
        for _, end_observation in transaction.ends
    )
    asked_ms = min(
        (end_observation.asked_ms or 0 for _, end_observation in transaction.ends), default=0
    )
    return _SentPosition(
        offset=sent_offsets.position,
        client_name=sent_offsets.who,
        earliest_ms=asked_ms,
        latest_ms=_END_OF_TIME_MS,
        is_certain=is_taken and fate.is_committed,
        may_count=not fate.is_aborted,
        written_ms=sent_offsets.at_ms if is_taken else _END_OF_TIME_MS,
        pends_from_ms=sent_offsets.at_ms if is_taken else _END_OF_TIME_MS,
        pends_until_ms=asked_ms if is_committed else 0,
        transaction=transaction.label,
    )


def _unstable_positions(history: History, watchers: frozenset[str]) -> Iterator[BrokenPromise]:
    """A member got a position while an open transaction had sent one for the same partition
    (KIP-447).
    """
    answers_by_place: defaultdict[tuple[str, TopicPartition], list[_PositionAnswer]] = defaultdict(
        list
    )
    for observation_index, read in history.all_of(PositionsRead):
        for position in () if read.error or read.who in watchers else read.positions:
            if read.asked_ms is not None:
                answer = _PositionAnswer(read.asked_ms, observation_index, position.offset, read)
                answers_by_place[read.group, position.place].append(answer)
    positions_by_place = _positions_by_place(history)
    unstable_answers = [
        (answer.number, answer, pending_position, partition)
        for (group, partition), answers_of_readers in answers_by_place.items()
        for answer, pending_position in _answers_while_pending(
            answers_of_readers, positions_by_place.get((group, partition), ())
        )
    ]
    for _, answer, pending_position, partition in sorted(unstable_answers, key=itemgetter(0)):
        yield (
            UNSTABLE_POSITION,
            f"{answer.read.who} got {answer.offset} of {answer.read.group} on {partition}, while"
            f" {pending_position.transaction} had sent {pending_position.offset} there and was"
            " open",
        )


class _PositionAnswer(NamedTuple):
    """A position that a reader got for one partition."""

    asked_ms: int
    number: int
    offset: int
    read: PositionsRead


def _answers_while_pending(
    answers: Iterable[_PositionAnswer], sent_positions: Iterable[_SentPosition]
) -> Iterator[tuple[_PositionAnswer, _SentPosition]]:
    """Pairs of an answer and a position that was pending from before the request until after the
    answer.
    """
    later_positions = sorted(
        (
            position
            for position in sent_positions
            if position.pends_from_ms < position.pends_until_ms
        ),
        key=lambda position: position.pends_from_ms,
        reverse=True,
    )
    pending_positions: list[_SentPosition] = []
    for read in sorted(answers, key=lambda answer: answer.asked_ms):
        while later_positions and later_positions[-1].pends_from_ms < read.asked_ms:
            pending_positions.append(later_positions.pop())
        pending_positions = [
            position for position in pending_positions if read.asked_ms < position.pends_until_ms
        ]
        yield from (
            (read, position)
            for position in pending_positions
            if read.read.at_ms < position.pends_until_ms
        )


def _lost_positions(history: History, watchers: frozenset[str]) -> Iterator[BrokenPromise]:
    """A group has a position that is neither the last one that was certainly written, nor one that
    may have been written since. A position that a reader got was written. A position of a
    transaction that was sent before a plain one is replaced by the plain one, whenever its marker
    comes.
    """
    account_by_place = {
        group_and_partition: _PositionAccount(sent_positions)
        for group_and_partition, sent_positions in _positions_by_place(history).items()
    }
    for _, read in history.all_of(PositionsRead):
        for position in () if read.error else read.positions:
            account = account_by_place.get((read.group, position.place))
            if account is None:
                continue
            account.tell(position.offset, at_ms=read.at_ms)
            if read.who in watchers:
                continue
            expected_position = account.lost(position.offset, read)
            if expected_position is not None:
                yield (
                    LOST_POSITION,
                    f"{read.who} got {position.offset} of {read.group} on {position.place},"
                    f" though {expected_position.client_name} had committed"
                    f" {expected_position.offset}"
                    " and been answered",
                )


class _PositionAccount:
    """The positions that were sent for one partition, and those that readers got, in order."""

    def __init__(self, sent_positions: Iterable[_SentPosition]) -> None:
        self._positions_by_offset: defaultdict[int, list[_SentPosition]] = defaultdict(list)
        for position in sent_positions:
            if position.may_count:
                self._positions_by_offset[position.offset].append(position)
        certain_positions = (
            position
            for equal_positions in self._positions_by_offset.values()
            for position in equal_positions
        )
        answered_positions = (
            position
            for position in certain_positions
            if position.is_certain and position.latest_ms < _END_OF_TIME_MS
        )
        self._answered_positions = sorted(
            answered_positions, key=lambda position: position.latest_ms, reverse=True
        )
        """Positions whose answer comes later than all requests so far, the next one at the end."""
        self._plain_positions = _CertainPositions()
        self._transactional_positions = _CertainPositions()

    def tell(self, offset: int, *, at_ms: int) -> None:
        """Notes that a reader got this offset. With several equal positions it is unknown which one
        it was. A plain position that is read before its answer counts as certain twice, which is
        harmless.
        """
        equal_positions = self._positions_by_offset.get(offset, [])
        possible_indexes = [
            *islice(
                (
                    position_index
                    for position_index, position in enumerate(equal_positions)
                    if position.earliest_ms <= at_ms
                ),
                2,
            )
        ]
        if len(possible_indexes) == 1 and equal_positions[possible_indexes[0]].latest_ms > at_ms:
            position = equal_positions[possible_indexes[0]] = equal_positions[
                possible_indexes[0]
            ]._replace(is_certain=True, latest_ms=at_ms)
            (
                self._plain_positions
                if position.transaction is None
                else self._transactional_positions
            ).add(position)

    def lost(self, offset: int, read: PositionsRead) -> _SentPosition | None:
        """The last position that was certainly written, if the offset is not a possible successor
        of it.
        """
        asked_ms = read.at_ms if read.asked_ms is None else read.asked_ms
        while self._answered_positions and self._answered_positions[-1].latest_ms < asked_ms:
            self._plain_positions.add(self._answered_positions.pop())
        expected_position = self._plain_positions.latest(asked_ms=asked_ms)
        since_ms = 0 if expected_position is None else expected_position.earliest_ms
        expected_position = self._transactional_positions.latest(
            asked_ms=asked_ms, since_ms=since_ms, fallback_position=expected_position
        )
        if expected_position is None or expected_position.offset == offset:
            return None
        is_explained = any(
            expected_position.earliest_ms <= position.latest_ms
            and position.earliest_ms <= read.at_ms
            and (position.transaction is None or position.written_ms >= since_ms)
            for position in self._positions_by_offset.get(offset, ())
        )
        return None if is_explained else expected_position


class _CertainPositions:
    """Positions that were certainly written; finds the last one without searching all of them."""

    def __init__(self) -> None:
        self._sent_positions: list[tuple[_SentPosition, int]] = []
        """Each position with the highest ``earliest_ms`` up to it."""

    def add(self, position: _SentPosition) -> None:
        highest_ms = self._sent_positions[-1][1] if self._sent_positions else 0
        self._sent_positions.append((position, max(highest_ms, position.earliest_ms)))

    def latest(
        self, *, asked_ms: int, since_ms: int = 0, fallback_position: _SentPosition | None = None
    ) -> _SentPosition | None:
        """The position with the highest ``earliest_ms`` that was in effect at the time of a
        request.

        Args:
            asked_ms: Time of the request.
            since_ms: Positions that were written before this time do not count.
            fallback_position: The result, if no other position has a higher ``earliest_ms``.
        """
        latest_position = fallback_position
        for position, highest_ms in reversed(self._sent_positions):
            if latest_position is not None and latest_position.earliest_ms >= highest_ms:
                break
            if position.latest_ms < asked_ms and position.written_ms >= since_ms:
                latest_position = (
                    position
                    if latest_position is None
                    else max(latest_position, position, key=lambda candidate: candidate.earliest_ms)
                )
        return latest_position

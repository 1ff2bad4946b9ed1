"""A share partition on the leader of its partition: which member of a group holds which record.

It decides and remembers; its owner reads the log, sends writes to the share coordinator and wakes
waiting fetches. Every change of state that must be persisted has a ``Write`` with a token. The
coordinator's answer to the write confirms the change or undoes it.

Kafka's counterpart: SharePartition (KIP-932, KIP-1206, KIP-1222).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from itertools import islice
from typing import Final

import msgspec

from txnsim.errors import ErrorCode, Rejection
from txnsim.interbroker.share_state import (
    UNKNOWN_OFFSET,
    ReadShareState,
    ShareKey,
    ShareState,
    StateBatch,
    WriteShareState,
)
from txnsim.releases.rules import LATEST, Rules
from txnsim.share._acknowledgement import Acknowledgement, Moved
from txnsim.share._acquisition import acquire
from txnsim.share._in_flight import Gap, InFlight
from txnsim.share._in_flight_state import InFlightState
from txnsim.share.commands import (
    TERMINAL,
    AcknowledgementBatch,
    Acquire,
    Acquired,
    Concluded,
    DeadLetter,
    DeadLetterReason,
    InFlightRange,
    RecordState,
    SharePartitionSettings,
    Write,
)

FENCING: Final = frozenset(
    {
        ErrorCode.not_leader_or_follower,
        ErrorCode.fenced_state_epoch,
        ErrorCode.group_id_not_found,
        ErrorCode.unknown_topic_or_partition,
    }
)
"""Errors of a write, or of a read of the log, that end this share partition; the next fetch makes a
new one (SharePartitionManager.fencedSharePartitionHandler).
"""

_ERRORS: Final[Mapping[ErrorCode, ErrorCode]] = {
    ErrorCode.not_coordinator: ErrorCode.coordinator_not_available,
    ErrorCode.coordinator_not_available: ErrorCode.coordinator_not_available,
    ErrorCode.coordinator_load_in_progress: ErrorCode.coordinator_not_available,
    ErrorCode.group_id_not_found: ErrorCode.group_id_not_found,
    ErrorCode.unknown_topic_or_partition: ErrorCode.unknown_topic_or_partition,
    ErrorCode.fenced_leader_epoch: ErrorCode.not_leader_or_follower,
    ErrorCode.fenced_state_epoch: ErrorCode.not_leader_or_follower,
}
"""Error of the share coordinator -> error for the member; UNKNOWN_SERVER_ERROR for any other."""
_STATES: Final = frozenset(RecordState)
_NOT_SAID: Final = frozenset({ErrorCode.sasl_authentication_failed, ErrorCode.unsupported_version})


class Phase(Enum):
    """The life of a share partition (Kafka's SharePartitionState). Only an active one gives
    records.
    """

    EMPTY = "Empty"
    INITIALIZING = "Initializing"
    ACTIVE = "Active"
    FAILED = "Failed"
    FENCED = "Fenced"


class _Cause(Enum):
    """The reason for a write."""

    MEMBER = "what a member said; the answer decides whether it counts"
    LOCKS = "locks that ran out"
    DEAD_LETTER = "dead letters that are done with"


class _OpenWrite(msgspec.Struct, frozen=True, kw_only=True):
    """A write to the share coordinator that has no answer yet."""

    cause: _Cause
    batches: tuple[StateBatch, ...]
    reasons: tuple[DeadLetterReason, ...]
    """Reason of each batch, for those that become dead letters."""


class SharePartition:
    """The records of one partition, shared by the members of one group."""

    __slots__ = (
        "_dead_letters",
        "_fetch_lock",
        "_next_token",
        "_records",
        "_rules",
        "_writes",
        "key",
        "leader_epoch",
        "name",
        "phase",
        "state_epoch",
    )

    def __init__(
        self,
        key: ShareKey,
        topic: str,
        leader_epoch: int,
        added: Callable[[int], object] = abs,
        *,
        rules: Rules = LATEST,
    ) -> None:
        """Make a share partition that is not loaded yet.

        Args:
            key: The group, the topic id and the partition.
            topic: Name of the topic.
            leader_epoch: Leader epoch of the partition.
            added: Called with the size of each new batch in flight, for metrics.
            rules: Rules of the release. An old share coordinator combines states in pairs; then a
                batch whose records differ is written record by record, which makes a difference.
        """
        self.key = key
        self.name = f"{key.group_id}-{key.topic_id}:{topic}-{key.partition}"
        self.leader_epoch = leader_epoch
        self.state_epoch = 0
        self.phase = Phase.EMPTY
        self._records = InFlight(added)
        self._rules = rules
        self._fetch_lock: object | None = None
        self._next_token = 0
        self._writes: dict[int, _OpenWrite] = {}
        self._dead_letters: dict[int, StateBatch] = {}

    # Loading

    def start_loading(self) -> ReadShareState | Rejection | None:
        """The request to the share coordinator; None if the state is loaded already.

        A fetch that gets LEADER_NOT_AVAILABLE waits; any other error is its answer.
        """
        if self.phase is Phase.ACTIVE:
            return None
        if self.phase is Phase.FAILED:
            return _server_error(f"Share partition failed to load {self.name}")
        if self.phase is not Phase.EMPTY:
            is_fenced = self.phase is Phase.FENCED
            words = "is fenced" if is_fenced else "is already initializing"
            reason = f"Share partition {words} {self.name}"
            return Rejection(error=ErrorCode.leader_not_available, reason=reason)
        self.phase = Phase.INITIALIZING
        return ReadShareState(key=self.key, leader_epoch=self.leader_epoch)

    def load(
        self, read: ShareState, reset_offset: int, settings: SharePartitionSettings
    ) -> Rejection | tuple[DeadLetter, ...]:
        """Load the state from the share coordinator's answer.

        Args:
            read: The answer.
            reset_offset: Start offset by the group's reset strategy, for an answer without a start
                offset.
            settings: Settings of the group.

        Returns:
            The records that were on their way to the dead letter topic, or why loading failed.
        """
        assert self.phase is Phase.INITIALIZING
        if read.error:
            return self.fail_loading(member_error(read.error, read.message))
        records = self._records
        records.start_offset = read.start_offset
        if read.start_offset == UNKNOWN_OFFSET:
            records.start_offset = reset_offset
        self.state_epoch = read.state_epoch
        next_offset = records.start_offset
        gap_start: int | None = None
        for batch in read.batches:
            if not records.start_offset <= batch.first_offset <= batch.last_offset:
                reason = f"Failed to initialize the share partition {self.name}"
                return self.fail_loading(_server_error(reason))
            if batch.delivery_state not in _STATES:
                reason = f"Unknown record state id: {batch.delivery_state}"
                return self.fail_loading(_server_error(reason))
            if gap_start is None and batch.first_offset > next_offset:
                gap_start = next_offset
            next_offset = batch.last_offset + 1
            state = RecordState(batch.delivery_state)
            first_offset, last_offset, count = (
                batch.first_offset,
                batch.last_offset,
                batch.delivery_count,
            )
            records.add(InFlightState(first_offset, last_offset, state, count))
            if state in TERMINAL:
                records.delivery_complete_count += last_offset - first_offset + 1
        records.end_offset = records.start_offset
        if read.batches:
            records.find_next = True
            records.end_offset = records.last_batch.last_offset
            if gap_start is not None:
                records.gap = Gap(gap_start, records.end_offset)
            records.move_start()
        self.phase = Phase.ACTIVE
        return tuple(self._dead_letters_after_load(read.batches, settings))

    def fail_loading(self, rejection: Rejection) -> Rejection:
        """Mark the share partition as failed, also if the log has no offset to start at. The owner
        forgets it.
        """
        self.phase = Phase.FAILED
        return rejection

    def _dead_letters_after_load(
        self, batches: Iterable[StateBatch], settings: SharePartitionSettings
    ) -> Iterator[DeadLetter]:
        for batch in batches:
            if batch.delivery_state == RecordState.ARCHIVING:
                is_spent = batch.delivery_count >= settings.delivery_count_limit
                yield self._dead_letter(
                    batch,
                    DeadLetterReason.TOO_MANY_DELIVERIES if is_spent else DeadLetterReason.REJECTED,
                )

    def fence(self) -> None:
        """End the share partition: another broker leads, the topic or the group is gone, or its
        state has another epoch.
        """
        self.phase = Phase.FENCED

    # Fetching

    def take_fetch_lock(self, fetch: object) -> bool:
        """Lock the share partition for a fetch; returns False if it is not active or another fetch
        has the lock. One fetch at a time reads.
        """
        if self.phase is not Phase.ACTIVE or self._fetch_lock is not None:
            return False
        self._fetch_lock = fetch
        return True

    def release_fetch_lock(self, fetch: object) -> None:
        assert self._fetch_lock is fetch
        self._fetch_lock = None

    def next_fetch_offset(self) -> int:
        """The offset at which the next fetch reads."""
        return self._records.next_fetch_offset()

    def can_acquire(self, settings: SharePartitionSettings) -> bool:
        """Whether a record in flight is available, or the group may lock more records."""
        records = self._records
        return (
            records.next_fetch_offset() != records.end_offset + 1
            or records.number < settings.max_record_locks
        )

    def acquire(
        self, command: Acquire, settings: SharePartitionSettings, now_ms: int
    ) -> Acquired | Rejection:
        """Locks records for a member, until it acknowledges them or the lock expires.

        UNKNOWN_SERVER_ERROR, with Kafka's text, is the answer for all partitions of the fetch.
        """
        if self.phase is not Phase.ACTIVE:
            return Acquired()
        return acquire(self._records, command, settings, now_ms)

    def reach(self, read_from: int, settings: SharePartitionSettings) -> int:
        """Offset beyond which no batch is needed, for an acquisition that reads from
        ``read_from``.
        """
        return max(read_from, self._records.end_offset + 1) + settings.max_record_locks

    def move_log_start(self, offset: int) -> None:
        """Move the log start to this offset, after a read was out of range."""
        self._records.move_log_start(offset, moves_gap=self._rules.share_gaps_begin_with_the_log)

    # What moves records

    def acknowledge(
        self,
        member_id: str,
        batches: Iterable[AcknowledgementBatch],
        settings: SharePartitionSettings,
        now_ms: int,
    ) -> Write | Rejection | None:
        """Apply a member's acknowledgements, all or none.

        Returns:
            The write whose answer the member waits for; None if there is nothing to persist.
        """
        work = Acknowledgement(
            records=self._records,
            member_id=member_id,
            settings=settings,
            token=self._next_token,
            now_ms=now_ms,
        )
        for batch in batches:
            refused = work.carry_out(batch)
            if refused is not None:
                for state, _ in work.moved:
                    self._roll_back(state, now_ms)
                return refused
        return self._write(_Cause.MEMBER, work.moved)

    def release(self, member_id: str, settings: SharePartitionSettings) -> Write | None:
        """Release the records of a member that is gone; they become available."""
        moved: Moved = []
        for batch in self._records:
            if any(self._is_acquired_by(state, member_id) for state in batch.states):
                self._records.split_at_start(batch)
                for state in batch.states:
                    if self._is_acquired_by(state, member_id):
                        self._records.give_back(state, settings, self._next_token)
                        moved.append((state, DeadLetterReason.TOO_MANY_DELIVERIES))
        return self._write(_Cause.MEMBER, moved)

    @staticmethod
    def _is_acquired_by(state: InFlightState, member_id: str) -> bool:
        return state.state is RecordState.ACQUIRED and state.member_id == member_id

    def next_lock_deadline_ms(self) -> int | None:
        """Time at which to call ``expire_locks``, which may then find nothing; None if no record is
        locked.
        """
        return self._records.locks.next_ms()

    def expire_locks(self, now_ms: int, settings: SharePartitionSettings) -> Write | None:
        """Releases records whose lock has expired, at once and regardless of the write's result.

        If there is a write, waiting fetches must look again now.
        """
        records = self._records
        moved: Moved = []
        for lock in records.locks.due(now_ms):
            for batch in records.from_floor(lock.first_offset, lock.last_offset):
                records.split_at_start(batch)
                for state in batch.within(lock.first_offset, lock.last_offset):
                    is_due = lock.is_stray or state.lock_deadline_ms == lock.deadline_ms
                    if is_due and state.state is RecordState.ACQUIRED:
                        records.give_back(state, settings)
                        state.lock_deadline_ms = None
                        records.find_next = records.find_next or state.is_acquirable
                        moved.append((state, DeadLetterReason.TOO_MANY_DELIVERIES))
        return self._write(_Cause.LOCKS, moved)

    # Writes

    def conclude(self, token: int, error: int, message: str | None, now_ms: int) -> Concluded:
        """Apply the share coordinator's answer to a write, or the failure to ask it."""
        write = self._writes.pop(token)
        records = self._records
        if write.cause is _Cause.MEMBER:
            for batch in write.batches:
                for state in records.states(batch.first_offset, batch.last_offset):
                    if state.transition is None or state.transition.token != token:
                        continue  # the log start has cut the batch meanwhile
                    if error:
                        self._roll_back(state, now_ms)
                    else:
                        state.commit()
                        records.find_next = records.find_next or state.is_acquirable
            if error:
                return Concluded(rejection=member_error(error, message))
        is_moved = records.move_start()
        if is_moved is None:  # its dead letters are lost
            return Concluded()
        dead_letters = tuple(
            self._dead_letter(batch, reason)
            for batch, reason in zip(write.batches, write.reasons, strict=True)
            if batch.delivery_state == RecordState.ARCHIVING
        )
        wakes_fetches = is_moved and write.cause is not _Cause.LOCKS
        return Concluded(dead_letters=dead_letters, wakes_fetches=wakes_fetches)

    def archive_dead_letter(self, token: int) -> Write:
        """Complete the delivery of dead letters, whether they were copied to their topic or not."""
        batch = self._dead_letters.pop(token)
        first_offset, last_offset = batch.first_offset, batch.last_offset
        records = self._records
        for state in records.states(first_offset, last_offset):
            assert state.state is RecordState.ARCHIVING
            state.archive()
        records.delivery_complete_count += records.count_from_start(first_offset, last_offset)
        archived = StateBatch(first_offset, last_offset, RecordState.ARCHIVED, batch.delivery_count)
        return self._send(_Cause.DEAD_LETTER, (archived,), (DeadLetterReason.REJECTED,))

    def _dead_letter(self, batch: StateBatch, reason: DeadLetterReason) -> DeadLetter:
        token = self._next_token
        self._next_token += 1
        self._dead_letters[token] = batch
        return DeadLetter(
            token=token,
            first_offset=batch.first_offset,
            last_offset=batch.last_offset,
            delivery_count=batch.delivery_count,
            reason=reason,
        )

    def _write(self, cause: _Cause, moved: Moved) -> Write | None:
        if not moved:
            return None
        batches = tuple(
            StateBatch(
                in_flight.first_offset,
                in_flight.last_offset,
                in_flight.state,
                in_flight.delivery_count,
            )
            for in_flight, _ in moved
        )
        return self._send(cause, batches, tuple(reason for _, reason in moved))

    def _send(
        self,
        cause: _Cause,
        batches: tuple[StateBatch, ...],
        reasons: tuple[DeadLetterReason, ...],
    ) -> Write:
        token = self._next_token
        self._next_token += 1
        self._writes[token] = _OpenWrite(cause=cause, batches=batches, reasons=reasons)
        state = WriteShareState(
            key=self.key,
            state_epoch=self.state_epoch,
            leader_epoch=self.leader_epoch,
            start_offset=self._records.start_offset,
            delivery_complete_count=self._records.delivery_complete_count,
            batches=batches
            if self._rules.share_states_are_swept
            else tuple(self._single_records(batches)),
        )
        return Write(token=token, state=state)

    def _single_records(self, batches: Iterable[StateBatch]) -> Iterator[StateBatch]:
        """Splits batches whose records have states of their own into single records."""
        for batch in batches:
            in_flight = self._records.floor(batch.first_offset)
            if in_flight is None or not in_flight.is_by_offset:
                yield batch
                continue
            for offset in range(batch.first_offset, batch.last_offset + 1):
                yield StateBatch(offset, offset, batch.delivery_state, batch.delivery_count)

    def _roll_back(self, state: InFlightState, now_ms: int) -> None:
        """Undo a change that was not persisted. Its records are the member's again, or available if
        the lock has expired.
        """
        was_complete = state.state in TERMINAL
        state.roll_back(now_ms)
        self._records.find_next = self._records.find_next or state.is_acquirable
        if was_complete and state.state not in TERMINAL:
            self._records.delivery_complete_count -= self._records.count_from_start(
                state.first_offset, state.last_offset
            )

    # Views

    @property
    def start_offset(self) -> int:
        return self._records.start_offset

    @property
    def end_offset(self) -> int:
        return self._records.end_offset

    @property
    def delivery_complete_count(self) -> int:
        return self._records.delivery_complete_count

    @property
    def in_flight_number(self) -> int:
        """Number of offsets from the start to the end offset (Kafka's InFlightMessageCount)."""
        return self._records.number

    @property
    def in_flight_batches(self) -> int:
        """Number of batches in flight (Kafka's InFlightBatchCount)."""
        return len(self._records)

    @property
    def next_offset(self) -> int:
        """The offset at which the next fetch reads; looking at it changes nothing."""
        return self._records.next_offset

    def holders(self, looked_at: int | None = None) -> Iterator[tuple[int, int, str]]:
        """Yield (first offset, last offset, member) of the records that members hold, neighbours
        joined. ``looked_at`` limits the number of ranges that are looked at.
        """
        states = (state for batch in self._records for state in batch.states)
        held_ranges = (
            (state.first_offset, state.last_offset, state.holder)
            for state in islice(states, looked_at)
            if state.holder
        )
        held_range = next(held_ranges, None)
        for first_offset, last_offset, member in held_ranges:
            assert held_range is not None
            if (held_range[1] + 1, held_range[2]) == (first_offset, member):
                held_range = (held_range[0], last_offset, member)
                continue
            yield held_range
            held_range = (first_offset, last_offset, member)
        if held_range is not None:
            yield held_range

    def in_flight(self) -> Iterator[InFlightRange]:
        """Yield all records in flight, by offset."""
        for batch in self._records:
            for state in batch.states:
                yield InFlightRange(
                    first_offset=state.first_offset,
                    last_offset=state.last_offset,
                    state=state.state,
                    delivery_count=state.delivery_count,
                    member_id=state.member_id,
                    lock_deadline_ms=state.lock_deadline_ms,
                    is_being_persisted=state.transition is not None,
                )


def member_error(error: int, message: str | None) -> Rejection:
    """The error for a member when the share coordinator answers with an error.

    Counterpart: SharePartition.fetchPersisterError.
    """
    code = ErrorCode(error)
    if code in _NOT_SAID:
        message = "Unable to complete operation due to server error."
    return Rejection(error=_ERRORS.get(code, ErrorCode.unknown_server_error), reason=message or "")


def _server_error(reason: str) -> Rejection:
    return Rejection(error=ErrorCode.unknown_server_error, reason=reason)

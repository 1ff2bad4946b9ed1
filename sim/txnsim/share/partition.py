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
from txnsim.releases.rules import LATEST_RULES, Rules
from txnsim.share._acknowledgement import Acknowledgement, MovedStates
from txnsim.share._acquisition import acquire
from txnsim.share._in_flight import InFlightBatches, OffsetGap
from txnsim.share._in_flight_state import InFlightState
from txnsim.share.commands import (
    TERMINAL,
    AcknowledgementBatch,
    AcquireCommand,
    AcquireResult,
    ConcludedWrite,
    DeadLetter,
    DeadLetterReason,
    InFlightRange,
    RecordState,
    SharePartitionSettings,
    StateWrite,
)

FENCING_ERRORS: Final = frozenset(
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

_MEMBER_ERRORS: Final[Mapping[ErrorCode, ErrorCode]] = {
    ErrorCode.not_coordinator: ErrorCode.coordinator_not_available,
    ErrorCode.coordinator_not_available: ErrorCode.coordinator_not_available,
    ErrorCode.coordinator_load_in_progress: ErrorCode.coordinator_not_available,
    ErrorCode.group_id_not_found: ErrorCode.group_id_not_found,
    ErrorCode.unknown_topic_or_partition: ErrorCode.unknown_topic_or_partition,
    ErrorCode.fenced_leader_epoch: ErrorCode.not_leader_or_follower,
    ErrorCode.fenced_state_epoch: ErrorCode.not_leader_or_follower,
}
"""Error of the share coordinator -> error for the member; UNKNOWN_SERVER_ERROR for any other."""
_RECORD_STATES: Final = frozenset(RecordState)
_HIDDEN_ERRORS: Final = frozenset(
    {ErrorCode.sasl_authentication_failed, ErrorCode.unsupported_version}
)


class Phase(Enum):
    """The life of a share partition (Kafka's SharePartitionState). Only an active one gives
    records.
    """

    EMPTY = "Empty"
    INITIALIZING = "Initializing"
    ACTIVE = "Active"
    FAILED = "Failed"
    FENCED = "Fenced"


class _WriteCause(Enum):
    """The reason for a write."""

    MEMBER = "what a member said; the answer decides whether it counts"
    LOCKS = "locks that ran out"
    DEAD_LETTER = "dead letters that are done with"


class _OpenWrite(msgspec.Struct, frozen=True, kw_only=True):
    """A write to the share coordinator that has no answer yet."""

    cause: _WriteCause
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
        topic_name: str,
        leader_epoch: int,
        on_batch_added: Callable[[int], object] = abs,
        *,
        release_rules: Rules = LATEST_RULES,
    ) -> None:
        """Make a share partition that is not loaded yet.

        Args:
            key: The group, the topic id and the partition.
            topic_name: Name of the topic.
            leader_epoch: Leader epoch of the partition.
            on_batch_added: Called with the size of each new batch in flight, for metrics.
            release_rules: Rules of the release. An old share coordinator combines states in pairs;
                then a batch whose records differ is written record by record, which makes a
                difference.
        """
        self.key = key
        self.name = f"{key.group_id}-{key.topic_id}:{topic_name}-{key.partition}"
        self.leader_epoch = leader_epoch
        self.state_epoch = 0
        self.phase = Phase.EMPTY
        self._records = InFlightBatches(on_batch_added)
        self._rules = release_rules
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
            phase_words = "is fenced" if is_fenced else "is already initializing"
            reason = f"Share partition {phase_words} {self.name}"
            return Rejection(error=ErrorCode.leader_not_available, reason=reason)
        self.phase = Phase.INITIALIZING
        return ReadShareState(key=self.key, leader_epoch=self.leader_epoch)

    def load(
        self, stored_state: ShareState, reset_offset: int, settings: SharePartitionSettings
    ) -> Rejection | tuple[DeadLetter, ...]:
        """Load the state from the share coordinator's answer.

        Args:
            stored_state: The answer.
            reset_offset: Start offset by the group's reset strategy, for an answer without a start
                offset.
            settings: Settings of the group.

        Returns:
            The records that were on their way to the dead letter topic, or why loading failed.
        """
        assert self.phase is Phase.INITIALIZING
        if stored_state.error:
            return self.fail_loading(member_error(stored_state.error, stored_state.message))
        records = self._records
        records.start_offset = stored_state.start_offset
        if stored_state.start_offset == UNKNOWN_OFFSET:
            records.start_offset = reset_offset
        self.state_epoch = stored_state.state_epoch
        next_offset = records.start_offset
        gap_start: int | None = None
        for batch in stored_state.batches:
            if not records.start_offset <= batch.first_offset <= batch.last_offset:
                reason = f"Failed to initialize the share partition {self.name}"
                return self.fail_loading(_server_error(reason))
            if batch.delivery_state not in _RECORD_STATES:
                reason = f"Unknown record state id: {batch.delivery_state}"
                return self.fail_loading(_server_error(reason))
            if gap_start is None and batch.first_offset > next_offset:
                gap_start = next_offset
            next_offset = batch.last_offset + 1
            record_state = RecordState(batch.delivery_state)
            first_offset, last_offset, delivery_count = (
                batch.first_offset,
                batch.last_offset,
                batch.delivery_count,
            )
            records.add(InFlightState(first_offset, last_offset, record_state, delivery_count))
            if record_state in TERMINAL:
                records.delivery_complete_count += last_offset - first_offset + 1
        records.end_offset = records.start_offset
        if stored_state.batches:
            records.needs_next_offset = True
            records.end_offset = records.last_batch.last_offset
            if gap_start is not None:
                records.gap = OffsetGap(gap_start, records.end_offset)
            records.move_start()
        self.phase = Phase.ACTIVE
        return tuple(self._dead_letters_after_load(stored_state.batches, settings))

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
                has_reached_limit = batch.delivery_count >= settings.delivery_count_limit
                yield self._open_dead_letter(
                    batch,
                    DeadLetterReason.TOO_MANY_DELIVERIES
                    if has_reached_limit
                    else DeadLetterReason.REJECTED,
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
        return self._records.next_fetch_offset()

    def can_acquire(self, settings: SharePartitionSettings) -> bool:
        """Whether a record in flight is available, or the group may lock more records."""
        records = self._records
        return (
            records.next_fetch_offset() != records.end_offset + 1
            or records.offset_count < settings.max_record_locks
        )

    def acquire(
        self, command: AcquireCommand, settings: SharePartitionSettings, now_ms: int
    ) -> AcquireResult | Rejection:
        """Locks records for a member, until it acknowledges them or the lock expires.

        UNKNOWN_SERVER_ERROR, with Kafka's text, is the answer for all partitions of the fetch.
        """
        if self.phase is not Phase.ACTIVE:
            return AcquireResult()
        return acquire(self._records, command, settings, now_ms)

    def acquisition_end(self, read_start: int, settings: SharePartitionSettings) -> int:
        """Offset beyond which no batch is needed, for an acquisition that reads from
        ``read_start``.
        """
        return max(read_start, self._records.end_offset + 1) + settings.max_record_locks

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
    ) -> StateWrite | Rejection | None:
        """Apply a member's acknowledgements, all or none.

        Returns:
            The write whose answer the member waits for; None if there is nothing to persist.
        """
        acknowledgement = Acknowledgement(
            records=self._records,
            member_id=member_id,
            settings=settings,
            token=self._next_token,
            now_ms=now_ms,
        )
        for batch in batches:
            refusal = acknowledgement.carry_out(batch)
            if refusal is not None:
                for state, _ in acknowledgement.moved_states:
                    self._roll_back(state, now_ms)
                return refusal
        return self._write_states(_WriteCause.MEMBER, acknowledgement.moved_states)

    def release(self, member_id: str, settings: SharePartitionSettings) -> StateWrite | None:
        """Release the records of a member that is gone; they become available."""
        moved_states: MovedStates = []
        for batch in self._records:
            if any(self._is_acquired_by(state, member_id) for state in batch.states):
                self._records.split_at_start(batch)
                for state in batch.states:
                    if self._is_acquired_by(state, member_id):
                        self._records.give_back(state, settings, self._next_token)
                        moved_states.append((state, DeadLetterReason.TOO_MANY_DELIVERIES))
        return self._write_states(_WriteCause.MEMBER, moved_states)

    @staticmethod
    def _is_acquired_by(state: InFlightState, member_id: str) -> bool:
        return state.state is RecordState.ACQUIRED and state.member_id == member_id

    def next_lock_deadline_ms(self) -> int | None:
        """Time at which to call ``expire_locks``, which may then find nothing; None if no record is
        locked.
        """
        return self._records.locks.next_deadline_ms()

    def expire_locks(self, now_ms: int, settings: SharePartitionSettings) -> StateWrite | None:
        """Releases records whose lock has expired, at once and regardless of the write's result.

        If there is a write, waiting fetches must look again now.
        """
        records = self._records
        moved_states: MovedStates = []
        for lock_deadline in records.locks.pop_due(now_ms):
            for batch in records.batches_from_floor(
                lock_deadline.first_offset, lock_deadline.last_offset
            ):
                records.split_at_start(batch)
                for state in batch.states_within(
                    lock_deadline.first_offset, lock_deadline.last_offset
                ):
                    is_lock_expired = (
                        lock_deadline.is_stray
                        or state.lock_deadline_ms == lock_deadline.deadline_ms
                    )
                    if is_lock_expired and state.state is RecordState.ACQUIRED:
                        records.give_back(state, settings)
                        state.lock_deadline_ms = None
                        records.needs_next_offset = records.needs_next_offset or state.is_acquirable
                        moved_states.append((state, DeadLetterReason.TOO_MANY_DELIVERIES))
        return self._write_states(_WriteCause.LOCKS, moved_states)

    # Writes

    def conclude(
        self, token: int, error_code: int, message: str | None, now_ms: int
    ) -> ConcludedWrite:
        """Apply the share coordinator's answer to a write, or the failure to ask it."""
        pending_write = self._writes.pop(token)
        records = self._records
        if pending_write.cause is _WriteCause.MEMBER:
            for batch in pending_write.batches:
                for state in records.states(batch.first_offset, batch.last_offset):
                    if state.transition is None or state.transition.token != token:
                        continue  # the log start has cut the batch meanwhile
                    if error_code:
                        self._roll_back(state, now_ms)
                    else:
                        state.commit()
                        records.needs_next_offset = records.needs_next_offset or state.is_acquirable
            if error_code:
                return ConcludedWrite(rejection=member_error(error_code, message))
        has_start_moved = records.move_start()
        if has_start_moved is None:  # its dead letters are lost
            return ConcludedWrite()
        dead_letters = tuple(
            self._open_dead_letter(batch, reason)
            for batch, reason in zip(pending_write.batches, pending_write.reasons, strict=True)
            if batch.delivery_state == RecordState.ARCHIVING
        )
        wakes_fetches = has_start_moved and pending_write.cause is not _WriteCause.LOCKS
        return ConcludedWrite(dead_letters=dead_letters, wakes_fetches=wakes_fetches)

    def archive_dead_letter(self, token: int) -> StateWrite:
        """Complete the delivery of dead letters, whether they were copied to their topic or not."""
        batch = self._dead_letters.pop(token)
        first_offset, last_offset = batch.first_offset, batch.last_offset
        records = self._records
        for state in records.states(first_offset, last_offset):
            assert state.state is RecordState.ARCHIVING
            state.archive()
        records.delivery_complete_count += records.count_from_start(first_offset, last_offset)
        archived_batch = StateBatch(
            first_offset, last_offset, RecordState.ARCHIVED, batch.delivery_count
        )
        return self._open_write(
            _WriteCause.DEAD_LETTER, (archived_batch,), (DeadLetterReason.REJECTED,)
        )

    def _open_dead_letter(self, batch: StateBatch, reason: DeadLetterReason) -> DeadLetter:
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

    def _write_states(self, cause: _WriteCause, moved_states: MovedStates) -> StateWrite | None:
        if not moved_states:
            return None
        batches = tuple(
            StateBatch(
                in_flight.first_offset,
                in_flight.last_offset,
                in_flight.state,
                in_flight.delivery_count,
            )
            for in_flight, _ in moved_states
        )
        return self._open_write(cause, batches, tuple(reason for _, reason in moved_states))

    def _open_write(
        self,
        cause: _WriteCause,
        batches: tuple[StateBatch, ...],
        reasons: tuple[DeadLetterReason, ...],
    ) -> StateWrite:
        token = self._next_token
        self._next_token += 1
        self._writes[token] = _OpenWrite(cause=cause, batches=batches, reasons=reasons)
        share_state = WriteShareState(
            key=self.key,
            state_epoch=self.state_epoch,
            leader_epoch=self.leader_epoch,
            start_offset=self._records.start_offset,
            delivery_complete_count=self._records.delivery_complete_count,
            batches=batches
            if self._rules.share_states_are_swept
            else tuple(self._single_records(batches)),
        )
        return StateWrite(token=token, state=share_state)

    def _single_records(self, batches: Iterable[StateBatch]) -> Iterator[StateBatch]:
        """Splits batches whose records have states of their own into single records."""
        for batch in batches:
            in_flight_batch = self._records.floor_batch(batch.first_offset)
            if in_flight_batch is None or not in_flight_batch.is_by_offset:
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
        self._records.needs_next_offset = self._records.needs_next_offset or state.is_acquirable
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
    def in_flight_count(self) -> int:
        """Number of offsets from the start to the end offset (Kafka's InFlightMessageCount)."""
        return self._records.offset_count

    @property
    def in_flight_batch_count(self) -> int:
        """Number of batches in flight (Kafka's InFlightBatchCount)."""
        return len(self._records)

    @property
    def next_offset(self) -> int:
        """The offset at which the next fetch reads; looking at it changes nothing."""
        return self._records.next_offset

    def holders(self, range_limit: int | None = None) -> Iterator[tuple[int, int, str]]:
        """Yield (first offset, last offset, member) of the records that members hold, neighbours
        joined. ``range_limit`` limits the number of ranges that are looked at.
        """
        states = (state for batch in self._records for state in batch.states)
        held_ranges = (
            (state.first_offset, state.last_offset, state.holder)
            for state in islice(states, range_limit)
            if state.holder
        )
        held_range = next(held_ranges, None)
        for first_offset, last_offset, member_id in held_ranges:
            assert held_range is not None
            if (held_range[1] + 1, held_range[2]) == (first_offset, member_id):
                held_range = (held_range[0], last_offset, member_id)
                continue
            yield held_range
            held_range = (first_offset, last_offset, member_id)
        if held_range is not None:
            yield held_range

    def in_flight_ranges(self) -> Iterator[InFlightRange]:
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


def member_error(error_number: int, message: str | None) -> Rejection:
    """The error for a member when the share coordinator answers with an error.

    Counterpart: SharePartition.fetchPersisterError.
    """
    error_code = ErrorCode(error_number)
    if error_code in _HIDDEN_ERRORS:
        message = "Unable to complete operation due to server error."
    return Rejection(
        error=_MEMBER_ERRORS.get(error_code, ErrorCode.unknown_server_error), reason=message or ""
    )


def _server_error(reason: str) -> Rejection:
    return Rejection(error=ErrorCode.unknown_server_error, reason=reason)

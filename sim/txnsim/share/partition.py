"""A share partition on the leader of its partition: which member holds which record of a group.

It decides and remembers; whoever owns it reads the log, sends writes to the share coordinator and
wakes waiting fetches. Every move that is to be persisted has a ``Write`` with a token. Its answer
settles the move or takes it back.

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
"""A write or a read of the log that fails so ends this share partition; the next fetch makes
another (SharePartitionManager.fencedSharePartitionHandler).
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
"""What a member hears when the share coordinator answers so; of all else UNKNOWN_SERVER_ERROR."""
_STATES: Final = frozenset(RecordState)
_NOT_SAID: Final = frozenset({ErrorCode.sasl_authentication_failed, ErrorCode.unsupported_version})


class Phase(Enum):
    """Kafka's SharePartitionState. Only an active one gives records."""

    EMPTY = "Empty"
    INITIALIZING = "Initializing"
    ACTIVE = "Active"
    FAILED = "Failed"
    FENCED = "Fenced"


class _Cause(Enum):
    """What a write persists."""

    MEMBER = "what a member said; the answer decides whether it counts"
    LOCKS = "locks that ran out"
    DEAD_LETTER = "dead letters that are done with"


class _OpenWrite(msgspec.Struct, frozen=True, kw_only=True):
    """A write to the share coordinator that waits for its answer."""

    cause: _Cause
    batches: tuple[StateBatch, ...]
    reasons: tuple[DeadLetterReason, ...]
    """Of each batch, where it is on its way to the dead letters."""


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
        """It is not loaded yet.

        Args:
            key: Whose records, and of what.
            topic: Its name.
            leader_epoch: That of the leader that has it.
            added: Is told the size of each new batch in flight, for metrics.
            rules: Of the release. Where a coordinator combines states in pairs, a leader that
                writes each record by itself once its batch goes by offset is told apart.
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
        """What to ask the share coordinator; None where it is loaded already.

        A fetch that meets LEADER_NOT_AVAILABLE waits; any other refusal is its answer.
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
        """Take over what the share coordinator has.

        Args:
            read: its answer.
            reset_offset: what the reset strategy of the group says; it counts where the answer
                has no start offset.
            settings: those of the group.

        Returns:
            What was on its way to the dead letters, or why this share partition failed.
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
        """Also where the log has no offset to begin at. The owner forgets this share partition."""
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
        """Another broker leads, the topic or the group is gone, or its state has another epoch."""
        self.phase = Phase.FENCED

    # Fetching

    def take_fetch_lock(self, fetch: object) -> bool:
        """One fetch at a time reads for a share partition."""
        if self.phase is not Phase.ACTIVE or self._fetch_lock is not None:
            return False
        self._fetch_lock = fetch
        return True

    def release_fetch_lock(self, fetch: object) -> None:
        assert self._fetch_lock is fetch
        self._fetch_lock = None

    def next_fetch_offset(self) -> int:
        """The offset that the next fetch reads from."""
        return self._records.next_fetch_offset()

    def can_acquire(self, settings: SharePartitionSettings) -> bool:
        """A record in flight is available, or the group may lock more."""
        records = self._records
        return (
            records.next_fetch_offset() != records.end_offset + 1
            or records.number < settings.max_record_locks
        )

    def acquire(
        self, command: Acquire, settings: SharePartitionSettings, now_ms: int
    ) -> Acquired | Rejection:
        """Lock records for a member; they are its own until it acknowledges or the lock ends.

        UNKNOWN_SERVER_ERROR, with a text of Kafka's, is the answer for all partitions of the fetch.
        """
        if self.phase is not Phase.ACTIVE:
            return Acquired()
        return acquire(self._records, command, settings, now_ms)

    def reach(self, read_from: int, settings: SharePartitionSettings) -> int:
        """No acquisition of what was read from there needs a batch behind this offset."""
        return max(read_from, self._records.end_offset + 1) + settings.max_record_locks

    def move_log_start(self, offset: int) -> None:
        """A read was out of range: the log begins at this offset."""
        self._records.move_log_start(offset, moves_gap=self._rules.share_gaps_begin_with_the_log)

    # What moves records

    def acknowledge(
        self,
        member_id: str,
        batches: Iterable[AcknowledgementBatch],
        settings: SharePartitionSettings,
        now_ms: int,
    ) -> Write | Rejection | None:
        """Carry out what a member says, all of it or nothing.

        Returns:
            The write that the member's answer waits for; None where nothing is to be persisted.
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
        """The member is gone: what it holds becomes available."""
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
        """When to call ``expire_locks``, perhaps in vain; None while no record is locked."""
        return self._records.locks.next_ms()

    def expire_locks(self, now_ms: int, settings: SharePartitionSettings) -> Write | None:
        """Take back what was not acknowledged in time: at once, whatever becomes of the write.

        Where there is a write, waiting fetches have to look again, now.
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
        """The share coordinator has answered a write, or could not be asked."""
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
        """Dead letters are in their topic, or can't be: their delivery is complete either way."""
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
        """Records of batches that go by offset, one by one."""
        for batch in batches:
            in_flight = self._records.floor(batch.first_offset)
            if in_flight is None or not in_flight.is_by_offset:
                yield batch
                continue
            for offset in range(batch.first_offset, batch.last_offset + 1):
                yield StateBatch(offset, offset, batch.delivery_state, batch.delivery_count)

    def _roll_back(self, state: InFlightState, now_ms: int) -> None:
        """A move is not persisted. Its records are the member's again, or anybody's."""
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
        """Kafka's InFlightMessageCount: offsets from the start to the end offset."""
        return self._records.number

    @property
    def in_flight_batches(self) -> int:
        """Kafka's InFlightBatchCount."""
        return len(self._records)

    @property
    def next_offset(self) -> int:
        """Where the next fetch reads from."""
        return self._records.next_offset

    def holders(self, looked_at: int | None = None) -> Iterator[tuple[int, int, str]]:
        """First and last offset of what a member holds, neighbours together, and the member; of so
        many ranges of records, if any is given.
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
        """All records in flight, in the order of their offsets."""
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
    """What a member hears of an error of the share coordinator.

    Counterpart: SharePartition.fetchPersisterError.
    """
    code = ErrorCode(error)
    if code in _NOT_SAID:
        message = "Unable to complete operation due to server error."
    return Rejection(error=_ERRORS.get(code, ErrorCode.unknown_server_error), reason=message or "")


def _server_error(reason: str) -> Rejection:
    return Rejection(error=ErrorCode.unknown_server_error, reason=reason)

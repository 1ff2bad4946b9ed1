"""How a group coordinator's records get into ``__consumer_offsets``, and when they are answered.

Records take effect when the local log has them. The client gets its answer when they are
replicated, so that no client sees a position that a failover can undo. Clients get errors of the
log as a coordinator names them.

Counterpart in Kafka: CoordinatorRuntime, CoordinatorPartitionWriter.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Collection, Generator, Sequence
from itertools import groupby
from typing import Final, Protocol, TypeVar
from weakref import WeakValueDictionary

import msgspec

from txnsim.coordinators._coordinator_log import NO_GUARD, CoordinatorLog, append_error
from txnsim.errors import ErrorCode, Rejection
from txnsim.faults.subjects import Subject
from txnsim.group.log_format import (
    EncodedRecords,
    encode_batch,
    encode_in_batch,
    encoding_in_batch,
    share_out,
)
from txnsim.group.offset_commands import CommittingProducer
from txnsim.group.offset_machine import CommitDecision
from txnsim.group.records import GroupRecord, OffsetCommitted, OffsetDeleted
from txnsim.group.shard import GroupShard
from txnsim.metadata.image import ClusterImage
from txnsim.runtime.environment import Clock
from txnsim.runtime.loop_turns import Pace
from txnsim.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition
from txnsim.wire.codec import run_to_end

_NONE: Final = ErrorCode.none
MOVED: Final = Rejection(error=ErrorCode.not_coordinator, reason="the group has moved")
TOO_MUCH: Final = ErrorCode.unknown_server_error
"""Error code for records beyond ``max.message.bytes``."""
_TRIPPED: Final = ErrorCode.unknown_server_error
_SIZE: Final = ErrorCode.invalid_commit_offset_size
_TOO_LARGE: Final = frozenset(
    {
        ErrorCode.message_too_large,
        ErrorCode.record_list_too_large,
        ErrorCode.invalid_fetch_size,
    }
)

_WORDS: Final = {
    ErrorCode.invalid_fetch_size: ErrorCode.unknown_server_error,
    # Of a verification: older clients know how to retry that, and don't look for the coordinator.
    ErrorCode.network_exception: ErrorCode.coordinator_load_in_progress,
}
"""Errors that only groups name differently."""


_ELEMENT_BYTES: Final = 256
MANY_RECORDS: Final = 500
"""Above this number encoding stops at ``max.message.bytes``."""


DecideCommit = Callable[[GroupShard], CommitDecision | Rejection]


def coordinator_error(error: ErrorCode) -> ErrorCode:
    """What an error of the log, or of a verification, is called towards clients
    (CoordinatorOperationExceptionHelper).
    """
    return _WORDS.get(error) or append_error(error)


class DecisionLines:
    """Decisions about a group that take slices are made one after the other, and timers that come
    due meanwhile wait for them, as a real coordinator handles the events of a shard
    (CoordinatorRuntime).
    """

    def __init__(self) -> None:
        self._lines: WeakValueDictionary[tuple[int, str], asyncio.Lock] = WeakValueDictionary()

    def line_of(self, partition: int, group_id: str) -> asyncio.Lock:
        """The line of a group."""
        line = self._lines.get((partition, group_id))
        if line is None:
            line = self._lines[partition, group_id] = asyncio.Lock()
        return line

    def is_busy(self, partition: int, group_id: str) -> bool:
        """Whether something about the group is being decided in slices."""
        line = self._lines.get((partition, group_id))
        return line is not None and line.locked()


class GroupWriter(msgspec.Struct, kw_only=True, eq=False):
    """Appends and applies."""

    log: CoordinatorLog
    clock: Clock
    timeout_ms: Callable[[], int]
    shares_out: bool = True
    """Whether a cleanup takes as many batches as it needs. Before 4.0 it is one for each group, and
    takes effect whatever becomes of it, also where a client asks for it.
    """

    def append(
        self,
        shard: GroupShard,
        records: Sequence[GroupRecord],
        *,
        producer: CommittingProducer | None = None,
        guard: int = NO_GUARD,
        takes_effect: bool = True,
    ) -> int | Rejection:
        """Append records and let them take effect.

        Args:
            shard: Whose records they are.
            records: At least one.
            producer: Where they are part of its transaction; one without an id has none.
            guard: What its verification gave.
            takes_effect: False where the coordinator's memory is ahead of its log already, as with
                the members of classic groups.

        Returns:
            Offset of the last record; or why the log refused them, in a coordinator's words.
        """
        producer_id = NO_PRODUCER_ID if producer is None else producer.producer_id
        epoch = NO_PRODUCER_EPOCH if producer is None else producer.producer_epoch
        if producer_id != NO_PRODUCER_ID and epoch == NO_PRODUCER_EPOCH:
            return Rejection(
                error=_TRIPPED,
                reason="a batch of a producer needs its epoch, found -1 (MemoryRecordsBuilder)",
            )
        if len(records) > MANY_RECORDS and not isinstance(records, EncodedRecords):
            encoded = self._within_limit(shard, records)
            if isinstance(encoded, Rejection):
                return encoded
            records = encoded
        batch = encode_batch(
            records,
            now_ms=self.clock.now_ms(),
            producer_id=producer_id,
            producer_epoch=epoch,
        )
        appended = self.log.append(shard.partition, batch, guard=guard)
        if isinstance(appended, Rejection):
            error = coordinator_error(appended.error)
            if appended.error in _TOO_LARGE:
                error = self._too_large(shard, records)
            return Rejection(error=error, reason=appended.reason)
        if takes_effect:
            replicated = self.log.high_watermark_of(shard.partition)
            for index, record in enumerate(records):
                shard.apply(
                    record,
                    record_offset=appended.base_offset + index,
                    producer_id=None if producer_id == NO_PRODUCER_ID else producer_id,
                    replicated=replicated,
                )
        shard.end_offset = appended.last_offset + 1
        return appended.last_offset

    def _within_limit(
        self, shard: GroupShard, records: Sequence[GroupRecord]
    ) -> EncodedRecords | Rejection:
        """Encode many records, and stop at the first one beyond ``max.message.bytes``."""
        bytes_left = limit = self.log.batch_bytes_max(shard.partition) or sys.maxsize
        if sum(map(_bytes_least, records)) > limit:
            return self._too_large_rejection(shard, records, f"{len(records)} records", limit)
        pieces: list[bytes] = []
        for number, record in enumerate(records):
            pieces.append(encode_in_batch(record, number))
            bytes_left -= len(pieces[-1])
            if bytes_left < 0:
                return self._too_large_rejection(shard, records, f"{number + 1} records", limit)
        encoded = EncodedRecords(records)
        encoded.pieces = pieces
        return encoded

    def refuse_many(self, shard: GroupShard, group_id: str, tombstones: int) -> Rejection | None:
        """Refuse so many tombstones of a group before they are made; before 4.0 they take effect
        whatever the log says.
        """
        limit = self.log.batch_bytes_max(shard.partition)
        if self.shares_out and tombstones * (17 + len(group_id)) > limit > 0:
            return self._too_large_rejection(shard, (), f"{tombstones} tombstones", limit)
        return None

    def _too_large_rejection(
        self, shard: GroupShard, records: Sequence[GroupRecord], subject: str, limit: int
    ) -> Rejection:
        reason = f"{subject} are larger than the {limit} bytes of a batch"
        return Rejection(error=self._too_large(shard, records), reason=reason)

    @staticmethod
    def _too_large(shard: GroupShard, records: Sequence[GroupRecord]) -> ErrorCode:
        error = coordinator_error(ErrorCode.message_too_large)
        if records and isinstance(records[0], OffsetCommitted):
            return error if shard.rules.large_positions_are_server_errors else _SIZE
        return error

    def clean_up(self, shard: GroupShard, records: Sequence[GroupRecord]) -> Rejection | None:
        """Append records that need not go together, each part as soon as the log has it
        (``isAtomic`` of CoordinatorResult, which is false for cleanups alone).

        Returns:
            Why the log refused some of them, which ends it.
        """
        if self.shares_out:
            limit = self.log.batch_bytes_max(shard.partition)
            for part in share_out(records, batch_bytes_max=limit):
                written = self.append(shard, part)
                if isinstance(written, Rejection):
                    return written
            return None
        return self._clean_up_by_group(shard, records)

    def _clean_up_by_group(
        self, shard: GroupShard, records: Sequence[GroupRecord]
    ) -> Rejection | None:
        """Before 4.0 (GroupMetadataManager.cleanupGroupMetadata)."""
        rejection: Rejection | None = None
        for _, group in groupby(records, lambda record: record.group_id):
            part = tuple(group)
            written = self.append(shard, part)
            if isinstance(written, Rejection):
                rejection = written
                for record in part:
                    shard.apply(record, record_offset=shard.end_offset - 1)
        return rejection

    def admit(
        self, shard: GroupShard, producer: CommittingProducer | None
    ) -> Awaitable[Rejection | None] | None:
        """Whether positions may be appended now; None where nothing can delay them."""
        admission = self.log.admit(shard.partition, lambda where: _subject(producer, where))
        return None if admission is None else _in_coordinator_words(admission)

    def high_watermark_of(self, shard: GroupShard) -> int:
        """The high watermark of the shard's log."""
        return self.log.high_watermark_of(shard.partition)

    async def wait_for_commit(self, shard: GroupShard, offset: int) -> ErrorCode:
        """Wait until everything up to ``offset`` is replicated; in a coordinator's words."""
        timeout_ms = self.timeout_ms()
        replication = self.log.wait_for_commit(shard.partition, offset, timeout_ms=timeout_ms)
        return _NONE if replication is None else coordinator_error(await replication)


def _bytes_least(record: GroupRecord) -> int:
    """Lower bound for the size of a record in a batch."""
    if isinstance(record, OffsetDeleted | OffsetCommitted):
        return 17 + len(record.group_id) + len(record.topic_partition.topic)
    return 17


async def prepare_decision(decide: DecideCommit, shard: GroupShard, pace: Pace) -> DecideCommit:
    """``decide``, with the bytes of its records made in slices before it is asked in earnest.

    The group may be another one by then, so it decides anew; where that comes to the same records
    their bytes are there, and the append takes no longer than a small one's.
    """
    first_decision = decide(shard)
    if isinstance(first_decision, Rejection):
        return decide
    encoded_records = await pace.run(encode_records(first_decision.records))

    def anew(shard: GroupShard) -> CommitDecision | Rejection:
        decision = decide(shard)
        if isinstance(decision, Rejection) or decision.records != encoded_records:
            return decision
        return msgspec.structs.replace(decision, records=encoded_records)

    return anew


DECISIONS_MAX: Final = 3
"""So often a decision is made in slices before it is made without a break."""


class GroupDecision(Protocol):
    """A decision of a coordinator, made."""

    @property
    def records(self) -> Sequence[GroupRecord]: ...


DecidedT = TypeVar("DecidedT", bound=GroupDecision)


async def decided_in_slices(
    decide: Callable[[], Generator[int, None, DecidedT | Rejection]],
    read_inputs: Callable[[], object],
    is_current: Callable[[], bool],
    pace: Pace,
    line: asyncio.Lock,
) -> tuple[DecidedT, Sequence[GroupRecord]] | Rejection:
    """A decision and its records, with their bytes if they took a slice: the append takes no longer
    than a small one's then.

    Args:
        decide: Makes the decision, in steps of so many elements.
        read_inputs: What it follows from. It is made anew where that has changed in a break.
        is_current: Whether this broker still coordinates the group, whose log may have got another
            owner in a break.
        pace: Of the request.
        line: The group's (``DecisionLines``).
    """
    async with line:
        for _ in range(DECISIONS_MAX):
            seen_before, pace.has_rested = read_inputs(), False
            decision = with_records(await pace.run(decide()))
            if pace.has_rested and not isinstance(decision, Rejection):
                decided, records = decision
                await pace.yield_turn()
                decision = decided, await pace.run(encode_records(records))
                await pace.yield_turn()
            if not is_current():
                return MOVED
            if not pace.has_rested or read_inputs() == seen_before:
                return decision
        return with_records(run_to_end(decide()))


class Subscribing(Protocol):
    """A heartbeat that may name topics."""

    @property
    def topic_names(self) -> Collection[str] | None: ...


SubscribingT = TypeVar("SubscribingT", bound=Subscribing)


async def with_names(command: SubscribingT, pace: Pace) -> SubscribingT:
    """A heartbeat whose names are a set: of very many, to make it is a step for itself."""
    names = command.topic_names
    if names is None:
        return command
    await pace.yield_turn()
    new_command = msgspec.structs.replace(command, topic_names=frozenset(names))  # type: ignore[type-var] # structs
    await pace.yield_turn()
    return new_command


def in_one_step(
    decide: Callable[[], DecidedT | Rejection], elements: int
) -> Generator[int, None, DecidedT | Rejection]:
    """A decision that is made at once, and a break behind it for so many elements."""
    decided = decide()
    yield elements
    return decided


def decision_inputs(shard: GroupShard, image: ClusterImage, group_id: str) -> tuple[object, ...]:
    """What a decision about a group follows from."""
    return shard.end_offset, image.offset, shard.groups.get(group_id)


def with_records(
    decided: DecidedT | Rejection,
) -> tuple[DecidedT, Sequence[GroupRecord]] | Rejection:
    """A decision and its records."""
    return decided if isinstance(decided, Rejection) else (decided, decided.records)


def encode_records(records: Sequence[GroupRecord]) -> Generator[int, None, EncodedRecords]:
    """Records with their bytes; yields after each."""
    pieces: list[bytes] = []
    for number, record in enumerate(records):
        piece = yield from encoding_in_batch(record, number)
        pieces.append(piece)
        yield 1 + len(piece) // _ELEMENT_BYTES
    encoded_records = EncodedRecords(records)
    encoded_records.pieces = pieces
    return encoded_records


def _subject(producer: CommittingProducer | None, where: TopicPartition) -> Subject:
    if producer is None:
        return Subject(partitions=(where,))
    return Subject(
        transactional_id=producer.transactional_id,
        producer_id=producer.producer_id,
        partitions=(where,),
    )


async def _in_coordinator_words(admission: Awaitable[Rejection | None]) -> Rejection | None:
    refused = await admission
    if refused is None:
        return None
    return Rejection(error=coordinator_error(refused.error), reason=refused.reason)

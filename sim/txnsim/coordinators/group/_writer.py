"""Writes a group coordinator's records to ``__consumer_offsets``, and tells when requests can be
answered.

Records take effect once the local log has them. The client gets its answer once they are
replicated, so that no client sees a position that a failover could undo. Errors of the log are
translated to a coordinator's errors.

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
"""Errors of the log that only groups translate differently."""


_ELEMENT_BYTES: Final = 256
MANY_RECORDS: Final = 500
"""Above this number of records, encoding stops at ``max.message.bytes``."""


DecideCommit = Callable[[GroupShard], CommitDecision | Rejection]


def coordinator_error(error: ErrorCode) -> ErrorCode:
    """The coordinator's error for an error of the log or of a verification
    (CoordinatorOperationExceptionHelper).
    """
    return _WORDS.get(error) or append_error(error)


class DecisionLines:
    """Serialises decisions about a group that are made in slices. Timers that come due meanwhile
    wait for them, as a real coordinator handles a shard's events one by one (CoordinatorRuntime).
    """

    def __init__(self) -> None:
        self._lines: WeakValueDictionary[tuple[int, str], asyncio.Lock] = WeakValueDictionary()

    def line_of(self, partition: int, group_id: str) -> asyncio.Lock:
        """The lock of a group."""
        line = self._lines.get((partition, group_id))
        if line is None:
            line = self._lines[partition, group_id] = asyncio.Lock()
        return line

    def is_busy(self, partition: int, group_id: str) -> bool:
        """Whether a decision about the group is being made in slices."""
        line = self._lines.get((partition, group_id))
        return line is not None and line.locked()


class GroupWriter(msgspec.Struct, kw_only=True, eq=False):
    """Appends and applies a group coordinator's records."""

    log: CoordinatorLog
    clock: Clock
    timeout_ms: Callable[[], int]
    shares_out: bool = True
    """Whether a cleanup may use several batches. Before 4.0 it writes one batch per group, and
    takes effect even if the log refuses it, also for deletions that a client requests.
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
        """Append records and apply them.

        Args:
            shard: The shard of the records.
            records: At least one.
            producer: The producer whose transaction they belong to, if any.
            guard: The guard from the verification.
            takes_effect: Whether to apply them; False if memory already has their effect, as for
                members of classic groups.

        Returns:
            Offset of the last record; or the coordinator's error if the log refused them.
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
                    high_watermark=replicated,
                )
        shard.end_offset = appended.last_offset + 1
        return appended.last_offset

    def _within_limit(
        self, shard: GroupShard, records: Sequence[GroupRecord]
    ) -> EncodedRecords | Rejection:
        """Encode many records; stop at the first one beyond ``max.message.bytes``."""
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
        """Refuse too many tombstones of a group before they are built; before 4.0 they take effect
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
        """Append records that need not be atomic; each batch takes effect as soon as the log has it
        (``isAtomic`` of CoordinatorResult, which is false for cleanups alone).

        Returns:
            The log's error, at which it stops; None on success.
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
        """The cleanup before 4.0: one batch per group
        (GroupMetadataManager.cleanupGroupMetadata).
        """
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
        """Whether positions may be appended now; None if nothing can delay them."""
        admission = self.log.admit(shard.partition, lambda where: _subject(producer, where))
        return None if admission is None else _in_coordinator_words(admission)

    def high_watermark_of(self, shard: GroupShard) -> int:
        """The high watermark of the shard's log."""
        return self.log.high_watermark_of(shard.partition)

    async def wait_for_commit(self, shard: GroupShard, offset: int) -> ErrorCode:
        """Wait until everything up to ``offset`` is replicated; returns the coordinator's error
        code.
        """
        timeout_ms = self.timeout_ms()
        replication = self.log.wait_for_commit(shard.partition, offset, timeout_ms=timeout_ms)
        return _NONE if replication is None else coordinator_error(await replication)


def _bytes_least(record: GroupRecord) -> int:
    """A lower bound for the size of a record in a batch."""
    if isinstance(record, OffsetDeleted | OffsetCommitted):
        return 17 + len(record.group_id) + len(record.topic_partition.topic)
    return 17


async def prepare_decision(decide: DecideCommit, shard: GroupShard, pace: Pace) -> DecideCommit:
    """Run ``decide`` in advance and encode its records in slices; returns a ``decide`` to run
    later.

    The group may have changed by then, so the later run decides again. If it decides the same
    records, their bytes are ready, and the append takes no longer than a small one.
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
"""How often a decision is tried in slices before it is made without a break."""


class GroupDecision(Protocol):
    """A decision of a coordinator, with its records."""

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
    """Make a decision in slices, and encode its records if there are many, so that the append takes
    no longer than a small one.

    Args:
        decide: Makes the decision; each step yields its number of elements.
        read_inputs: Returns what the decision depends on. If that has changed in a break, it is
            made again.
        is_current: Whether this broker still coordinates the group, which may have moved in a
            break.
        pace: The pace of the request.
        line: The group's lock (``DecisionLines``).
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
    """A heartbeat that may name topics to subscribe to."""

    @property
    def topic_names(self) -> Collection[str] | None: ...


SubscribingT = TypeVar("SubscribingT", bound=Subscribing)


async def with_names(command: SubscribingT, pace: Pace) -> SubscribingT:
    """The heartbeat with its topic names as a set; a very large set is built in a step of its
    own.
    """
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
    """A decision that is made without a break, followed by a break for that many elements."""
    decided = decide()
    yield elements
    return decided


def decision_inputs(shard: GroupShard, image: ClusterImage, group_id: str) -> tuple[object, ...]:
    """What a decision about a group depends on."""
    return shard.end_offset, image.offset, shard.groups.get(group_id)


def with_records(
    decided: DecidedT | Rejection,
) -> tuple[DecidedT, Sequence[GroupRecord]] | Rejection:
    """A decision and its records."""
    return decided if isinstance(decided, Rejection) else (decided, decided.records)


def encode_records(records: Sequence[GroupRecord]) -> Generator[int, None, EncodedRecords]:
    """Encode records; yields after each."""
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

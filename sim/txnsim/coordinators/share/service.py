"""The share coordinator of a broker: reads and writes the state of share partitions (KIP-932).

A request has many share partitions; each maps to a partition of ``__share_group_state`` and gets
its own answer. Records take effect once the local log has them. The answer waits until they are
replicated, and so does the answer to a read of records that were just written.

Counterpart in Kafka: ShareCoordinatorService.
"""

from __future__ import annotations

import asyncio
from collections.abc import (
    Awaitable,
    Callable,
    Collection,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from functools import partial
from typing import Any, Final, Protocol, TypeVar

import msgspec

from txnsim.coordinators._coordinator_log import CoordinatorLog, append_error
from txnsim.coordinators._ownership import Ownership
from txnsim.coordinators._write_operation import DecisionLocks, WriteOperation
from txnsim.errors import ErrorCode, Rejection
from txnsim.faults.subjects import Subject
from txnsim.interbroker.share_state import (
    ShareKey,
    ShareState,
    ShareStateError,
    ShareStateSummary,
    WriteShareState,
)
from txnsim.loggers import FailureLog, Logger
from txnsim.metadata.image import ClusterImage
from txnsim.node.peers import (
    DELETE_SHARE_GROUP_STATE,
    INITIALIZE_SHARE_GROUP_STATE,
    READ_SHARE_GROUP_STATE,
    READ_SHARE_GROUP_STATE_SUMMARY,
    WRITE_SHARE_GROUP_STATE,
    ShareAnswer,
    ShareCommand,
)
from txnsim.releases.rules import Rules
from txnsim.runtime.environment import Clock, Tasks
from txnsim.runtime.loop_turns import Pace, rest_where_due
from txnsim.settings import Settings
from txnsim.share_state.decisions import ShareDecision, ShareStateDecisions
from txnsim.share_state.log_format import encode_batch, encode_batch_in_steps
from txnsim.share_state.records import ShareDeleted, ShareRecord, ShareSnapshot
from txnsim.share_state.shard import ShareStateShard
from txnsim.types import SHARE_STATE_TOPIC, BrokerId, CoordinatorEpoch, uuid_from

DeleteRecords = Callable[[int, int], Awaitable[Rejection | None]]
"""(partition of ``__share_group_state``, offset): delete the records below the offset, on all
replicas.
"""

UPKEEP_RECORDS: Final = 16
"""Number of records that the coordinator writes by itself in one step; each has all batches of a
state.
"""

DEVIATIONS: Final = (
    "Snapshots of cold share partitions, and tombstones of deleted topics, go to "
    "__share_group_state in batches of 16 records; in Apache Kafka all of a "
    "partition are one batch, and none is written where that is too large.",
)

_log: Final = Logger("txnsim.share")
_NO_ERROR: Final = ErrorCode.none
_ERROR_TEXTS: Final = {
    ErrorCode.coordinator_load_in_progress: (
        "The coordinator is loading and hence can't process requests."
    ),
    ErrorCode.kafka_storage_error: "Disk error when trying to access log file on the disk.",
    ErrorCode.message_too_large: (
        "The request included a message larger than the max message size the server will accept."
    ),
    ErrorCode.not_coordinator: "This is not the correct coordinator.",
    ErrorCode.not_leader_or_follower: (
        "For requests intended only for the leader, this error indicates that the broker is not "
        "the current leader. For requests intended for any replica, this error indicates that the "
        "broker is not a replica of the topic partition."
    ),
    ErrorCode.not_enough_replicas: (
        "Messages are rejected since there are fewer in-sync replicas than required."
    ),
}
"""Kafka's messages for errors that come from the log (Errors)."""


class ShareStateOperation(msgspec.Struct, frozen=True, kw_only=True):
    """One of the five requests to a share coordinator."""

    name: str
    """Kafka's name, in the message of a timeout."""
    description: str
    """What it does, in the message of an error."""
    decide: Callable[[ShareStateDecisions, Any], ShareDecision | Rejection]
    answer: Callable[..., ShareAnswer]

    def refuse(self, command: ShareCommand, error: ErrorCode, message: str) -> ShareAnswer:
        """The answer with an error; all other fields are zero."""
        return self.answer(key=command.key, error=error, message=message)

    def fail(self, command: ShareCommand, error: ErrorCode, message: str) -> ShareAnswer:
        """The answer if the log is not available or refuses the records."""
        message = _ERROR_TEXTS.get(error, message)
        return self.refuse(command, append_error(error), f"Unable to {self.description}: {message}")


OPERATIONS: Final[Mapping[int, ShareStateOperation]] = {
    INITIALIZE_SHARE_GROUP_STATE: ShareStateOperation(
        name="initialize-share-group-state",
        description="initialize share group state",
        decide=ShareStateDecisions.initialize,
        answer=ShareStateError,
    ),
    READ_SHARE_GROUP_STATE: ShareStateOperation(
        name="read-update-leader-epoch-state",
        description="read share group state",
        decide=ShareStateDecisions.read,
        answer=partial(ShareState, start_offset=0),
    ),
    WRITE_SHARE_GROUP_STATE: ShareStateOperation(
        name="write-share-group-state",
        description="write share group state",
        decide=ShareStateDecisions.write,
        answer=ShareStateError,
    ),
    DELETE_SHARE_GROUP_STATE: ShareStateOperation(
        name="delete-share-group-state",
        description="delete share group state",
        decide=ShareStateDecisions.delete,
        answer=ShareStateError,
    ),
    READ_SHARE_GROUP_STATE_SUMMARY: ShareStateOperation(
        name="read-share-group-state-summary",
        description="read share group state summary",
        decide=ShareStateDecisions.summarize,
        answer=partial(ShareStateSummary, start_offset=0),
    ),
}
"""API key -> the operation."""


class _PreparedAppend(msgspec.Struct, frozen=True, kw_only=True):
    """What is computed in slices before a large append."""

    records: Sequence[ShareRecord]
    batch: bytes
    state_after: ShareSnapshot | None
    """The state that its record leads to; None if it deletes it."""


class _Upkeep(msgspec.Struct, frozen=True, kw_only=True):
    """Records that no request waits for."""

    records: Sequence[ShareRecord]


class _ShareDecision(Protocol):
    @property
    def records(self) -> Sequence[ShareRecord]: ...


_DecisionT = TypeVar("_DecisionT", bound=_ShareDecision)


class _ShareWrites(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What the writes of a broker's share coordinator need."""

    clock: Clock
    log: CoordinatorLog
    ownership: Ownership[ShareStateShard]
    lines: DecisionLocks


class _ShareWrite(WriteOperation[_DecisionT, _PreparedAppend], frozen=True, kw_only=True):
    """One write about a share partition."""

    writes: _ShareWrites
    shard: ShareStateShard
    key: str
    """The share partition; empty for several."""

    def prepare(self, decision: _DecisionT) -> Generator[int, None, _PreparedAppend]:
        now_ms = self.writes.clock.now_ms()
        batch = yield from encode_batch_in_steps(decision.records, now_ms=now_ms)
        yield len(batch) // _ELEMENT_BYTES
        state_after = None
        if len(decision.records) == 1:
            state_after = yield from self.shard.state_after(decision.records[0])
        return _PreparedAppend(records=decision.records, batch=batch, state_after=state_after)

    def read_inputs(self) -> object:
        return self.shard.last_appended_offset

    def admit(self) -> Awaitable[Rejection | None] | None:
        return self.writes.log.admit(
            self.shard.partition, lambda topic_partition: Subject(partitions=(topic_partition,))
        )

    def refuse_moved(self) -> Rejection | None:
        return self.writes.ownership.refuse_moved(self.shard)

    def lock(self) -> asyncio.Lock:
        return self.writes.lines.lock_of(self.shard.partition, self.key)


class ShareCoordinator:
    """The share coordinator of one broker."""

    def __init__(
        self,
        *,
        broker_id: BrokerId,
        clock: Clock,
        settings: Settings,
        release_rules: Rules,
        tasks: Tasks,
        log: CoordinatorLog,
        read_image: Callable[[], ClusterImage],
        delete_records: DeleteRecords,
        partition_count: int | None = None,
    ) -> None:
        """Make a coordinator that is not started yet.

        Args:
            broker_id: Id of its broker.
            clock: The cluster's clock.
            settings: The broker's static settings.
            release_rules: The rules of the broker's release.
            tasks: Owns background tasks.
            log: The partitions of ``__share_group_state``.
            read_image: The metadata as the broker knows it.
            delete_records: Deletes old records of that log.
            partition_count: Number of partitions of ``__share_group_state``, if the topic already
                exists.
        """
        self._clock = clock
        self._settings = settings
        self._rules = release_rules
        self.partitions: Final = (
            partition_count or settings.share_coordinator_state_topic_num_partitions
        )
        """Number of partitions of ``__share_group_state``, by which keys are mapped to partitions
        as long as this broker runs.
        """
        self._tasks = tasks
        self._log = log
        self._image = read_image
        self._delete_records = delete_records
        self._ownership: Ownership[ShareStateShard] = Ownership(
            topic=SHARE_STATE_TOPIC,
            kind="share",
            broker_id=broker_id,
            partition_count=self.partitions,
        )
        self.is_running = False
        self.load_problems_total = 0
        """Number of logs that could be read only in part."""
        self._pruned_below: dict[int, int] = {}
        """Partition -> offset up to which it was last pruned."""
        self._writes = _ShareWrites(
            clock=clock, log=log, ownership=self._ownership, lines=DecisionLocks()
        )
        self._upkeep_refused = FailureLog(_log, "share.upkeep-refused", "partition")

    def stop(self) -> None:
        """Release all states."""
        self.is_running = False
        for shard in self._ownership:
            self.unload(shard.partition)

    def shards(self) -> tuple[ShareStateShard, ...]:
        """Every loaded partition, for invariants."""
        return tuple(self._ownership)

    # Requests

    async def answer(
        self, api_key: int, commands: Sequence[ShareCommand]
    ) -> tuple[ShareAnswer, ...]:
        """Answer the commands of one request, in their order; a large one in slices.

        Args:
            api_key: The API key of one of the five requests.
            commands: One for each share partition.
        """
        pace = None
        is_large_request = any(
            len(getattr(command, "batches", ())) > BATCHES_AT_ONCE for command in commands
        )
        if is_large_request or len(commands) > COMMANDS_AT_ONCE:
            pace = Pace(self._tasks.turns, self._clock.stopwatch_ns)
        operation = OPERATIONS[api_key]
        begun_commands = []
        for command in commands:
            begun_commands.append(await self._begin_command(operation, command, pace))
            await rest_where_due(pace, _ELEMENTS_PER_COMMAND)
        answers = []
        for command, (shard, answer, pending_replication) in zip(
            commands, begun_commands, strict=True
        ):
            error = _NO_ERROR if pending_replication is None else await pending_replication
            if shard is not None and not self._ownership.is_current(shard):
                answer = operation.fail(command, ErrorCode.not_coordinator, "")
            elif error:
                error_text = (
                    self._timed_out(operation) if error is ErrorCode.request_timed_out else ""
                )
                answer = operation.fail(command, error, error_text)
            answers.append(answer)
            await rest_where_due(pace, 1)
        return tuple(answers)

    async def _begin_command(
        self, operation: ShareStateOperation, command: ShareCommand, pace: Pace | None
    ) -> _BegunCommand:
        """Decide and append; returns the answer, and what it has to wait for."""
        if not self.is_running:
            error = ErrorCode.coordinator_not_available
            return (
                None,
                operation.refuse(command, error, "Share coordinator is not available."),
                None,
            )
        shard = self._ownership.find(command.key.coordinator_key)
        if isinstance(shard, Rejection):
            return None, operation.fail(command, shard.error, shard.reason), None
        write_outcome = await self._make_write(operation, shard, command).run(pace)
        if isinstance(write_outcome, Rejection):
            return shard, operation.fail(command, write_outcome.error, write_outcome.reason), None
        decision, _ = write_outcome
        return shard, decision.reply, self._replication_of(shard)

    def _make_write(
        self, operation: ShareStateOperation, shard: ShareStateShard, command: ShareCommand
    ) -> _ShareWrite[ShareDecision]:
        """What a command writes. A refusal of the command is an answer without records."""

        def answer(decision: ShareDecision | Rejection) -> ShareDecision:
            if isinstance(decision, Rejection):
                refusal = operation.refuse(command, decision.error, decision.reason)
                return ShareDecision(reply=refusal)
            return decision

        def decide_in_steps() -> Generator[int, None, ShareDecision | Rejection]:
            assert isinstance(command, WriteShareState)
            return answer((yield from self._decisions_of(shard).write_in_steps(command)))

        return _ShareWrite(
            writes=self._writes,
            shard=shard,
            key=command.key.coordinator_key,
            decide=lambda: answer(operation.decide(self._decisions_of(shard), command)),
            decide_in_steps=decide_in_steps if isinstance(command, WriteShareState) else None,
            append=lambda _, prepared: self._append(shard, prepared),
        )

    def _decisions_of(self, shard: ShareStateShard) -> ShareStateDecisions:
        return ShareStateDecisions(
            shard=shard, count_partitions=self._partition_count, now_ms=self._clock.now_ms()
        )

    def _partition_count(self, topic_id: str) -> int:
        """The number of partitions of a topic."""
        topic = self._image().topic_by_id(uuid_from(topic_id))
        return 0 if topic is None else len(topic.partitions)

    def _append(
        self,
        shard: ShareStateShard,
        prepared_append: Sequence[ShareRecord] | _PreparedAppend,
    ) -> int | Rejection | None:
        """Append records and apply them; returns the offset of the last one, None if there is none,
        or the log's error.
        """
        if not prepared_append:
            return None
        if isinstance(prepared_append, _PreparedAppend):
            records, batch, state_after = (
                prepared_append.records,
                prepared_append.batch,
                prepared_append.state_after,
            )
        else:
            records, state_after = prepared_append, None
            batch = encode_batch(records, now_ms=self._clock.now_ms())
        append_outcome = self._log.append(shard.partition, batch)
        if isinstance(append_outcome, Rejection):
            return append_outcome
        for index, record in enumerate(records):
            shard.apply(
                record, record_offset=append_outcome.base_offset + index, new_state=state_after
            )
        shard.last_appended_offset = append_outcome.last_offset
        return append_outcome.last_offset

    def _replication_of(self, shard: ShareStateShard) -> Awaitable[ErrorCode] | None:
        """The wait until all that this coordinator has written to the partition is replicated."""
        timeout_ms = self._settings.share_coordinator_write_timeout_ms
        return self._log.wait_for_commit(
            shard.partition, shard.last_appended_offset, timeout_ms=timeout_ms
        )

    def _timed_out(self, operation: ShareStateOperation) -> str:
        timeout_ms = self._settings.share_coordinator_write_timeout_ms
        return f"CoordinatorWriteEvent(name={operation.name}) timed out after {timeout_ms}ms"

    # Loading

    def begin_load(self, partition_index: int, coordinator_epoch: CoordinatorEpoch) -> None:
        """Start loading a partition that this broker leads now."""
        self._ownership.begin_load(partition_index, coordinator_epoch)

    def read(
        self, partition_index: int, coordinator_epoch: CoordinatorEpoch, batches: Iterable[bytes]
    ) -> Generator[int, None, bool]:
        """Read the log and own its states; False if this load was cancelled meanwhile. Each step
        yields how many records it has read.
        """
        shard = ShareStateShard(
            partition=partition_index,
            coordinator_epoch=coordinator_epoch,
            rules=self._rules,
            updates_per_snapshot=(
                self._settings.share_coordinator_snapshot_update_records_per_snapshot
            ),
        )
        yield from shard.read(batches)
        if not self._ownership.finish_load(shard):
            return False
        if shard.load_problem is not None:
            self.load_problems_total += 1
            _log.error("share.load-stopped", partition=partition_index, problem=shard.load_problem)
        return True

    def unload(self, partition_index: int, epoch: CoordinatorEpoch | None = None) -> None:
        """Give up a partition; arguments as for ``Ownership.unload``."""
        self._pruned_below.pop(partition_index, None)
        self._ownership.unload(partition_index, epoch)

    # Upkeep

    def prune(self) -> None:
        """Delete records that are no longer needed."""
        for shard in self._ownership:
            if self._pruned_below.get(shard.partition, 0) < shard.snapshot_offsets.redundant_below:
                self._tasks.drive(self._prune(shard), _raise_error, name="share.prune")

    async def _prune(self, shard: ShareStateShard) -> None:
        redundant_below = shard.snapshot_offsets.redundant_below
        pending_replication = self._replication_of(shard)
        error = _NO_ERROR if pending_replication is None else await pending_replication
        if error or not self._ownership.is_current(shard):
            return
        refusal = await self._delete_records(shard.partition, redundant_below)
        self._note_upkeep(shard, refusal)
        if refusal is None and self._ownership.is_current(shard):
            self._pruned_below[shard.partition] = redundant_below

    def snapshot_cold(self) -> None:
        """Write snapshots of states whose last snapshot is old, so that older records can be
        deleted.
        """
        self._append_upkeep(self._snapshot_cold)

    def topics_deleted(self, topic_ids: Collection[str]) -> None:
        """Delete the states of deleted topics."""

        def tombstones_of(shard: ShareStateShard) -> Iterator[Callable[[], Sequence[ShareRecord]]]:
            for keys in _key_slices(shard.keys_of_topics(topic_ids)):
                yield partial(_tombstones, shard, keys)

        self._append_upkeep(tombstones_of)

    def _snapshot_cold(
        self, shard: ShareStateShard
    ) -> Iterator[Callable[[], Sequence[ShareRecord]]]:
        if not shard.has_warm_partition():
            return
        age_ms = self._settings.share_coordinator_cold_partition_snapshot_interval_ms
        for keys in _key_slices(list(shard.states)):
            yield partial(self._cold_snapshots, shard, keys, age_ms)

    def _cold_snapshots(
        self, shard: ShareStateShard, keys: Sequence[ShareKey], age_ms: int
    ) -> Sequence[ShareRecord]:
        return shard.cold_snapshots(keys, now_ms=self._clock.now_ms(), age_ms=age_ms)

    def _append_upkeep(
        self,
        decisions_of: Callable[[ShareStateShard], Iterable[Callable[[], Sequence[ShareRecord]]]],
    ) -> None:
        """Append to each shard, step by step, what its decisions return."""
        self._tasks.drive(self._keep_up(decisions_of), _raise_error, name="share.upkeep")

    async def _keep_up(
        self,
        decisions_of: Callable[[ShareStateShard], Iterable[Callable[[], Sequence[ShareRecord]]]],
    ) -> None:
        pace = Pace(self._tasks.turns, self._clock.stopwatch_ns)
        for shard in self._ownership:
            if not self._ownership.is_current(shard):
                continue
            for decide in decisions_of(shard):
                write_outcome = await self._make_upkeep_write(shard, decide).run()
                refusal = write_outcome if isinstance(write_outcome, Rejection) else None
                self._note_upkeep(shard, refusal)
                if isinstance(write_outcome, Rejection):
                    break
                await rest_where_due(
                    pace, 1 + _ELEMENTS_PER_COMMAND * len(write_outcome[0].records)
                )
                if not self._ownership.is_current(shard):
                    break

    def _make_upkeep_write(
        self, shard: ShareStateShard, decide: Callable[[], Sequence[ShareRecord]]
    ) -> _ShareWrite[_Upkeep]:
        return _ShareWrite(
            writes=self._writes,
            shard=shard,
            key="",
            decide=lambda: _Upkeep(records=decide()),
            append=lambda _, records: self._append(shard, records),
        )

    def _note_upkeep(self, shard: ShareStateShard, refusal: Rejection | None) -> None:
        """Log that the log refused records; the next scan tries again."""
        if refusal is None:
            self._upkeep_refused.forget_failures(shard.partition)
        else:
            error = refusal.error.name.upper()
            self._upkeep_refused.note_failure(shard.partition, error, refusal.reason)


COMMANDS_AT_ONCE: Final = 32
"""Number of share partitions up to which a request has no breaks."""
BATCHES_AT_ONCE: Final = 1_000
"""Number of batches of a share partition's state up to which a request has no breaks."""
_ELEMENTS_PER_COMMAND: Final = 8
"""Number of elements that a command counts as: it is decided, appended and applied."""

_ELEMENT_BYTES: Final = 256
"""Number of bytes of a record that count as another element."""

_BegunCommand = tuple[ShareStateShard | None, ShareAnswer, Awaitable[ErrorCode] | None]
"""The shard, the answer, and what the answer waits for."""


def _tombstones(shard: ShareStateShard, keys: Sequence[ShareKey]) -> list[ShareRecord]:
    """Tombstones of those states that there still are."""
    return [ShareDeleted(key=key) for key in keys if key in shard.states]


def _key_slices(keys: Sequence[ShareKey]) -> Iterator[Sequence[ShareKey]]:
    for slice_start in range(0, len(keys), UPKEEP_RECORDS):
        yield keys[slice_start : slice_start + UPKEEP_RECORDS]


def _raise_error(_result: object, error: BaseException | None) -> None:
    if error is not None and not isinstance(error, asyncio.CancelledError):
        raise error

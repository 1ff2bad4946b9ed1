"""A Fetch request at a replica: read, and wait if there is too little to read.

Kafka's counterparts: ReplicaManager.fetchMessages, readFromLog and DelayedFetch. The handler deals
with versions, topic ids and sessions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import msgspec

from txnsim.errors import ErrorCode, Rejection
from txnsim.faults.points import FaultPoint
from txnsim.faults.subjects import Subject
from txnsim.log.answers import LogRead
from txnsim.log.partition_log import PartitionLog
from txnsim.node.broker_fault_points import BrokerFaultPoints, error_in
from txnsim.node.purgatory import Purgatory
from txnsim.replica.fetch_values import FetchOutcome, FetchPartition, Naming
from txnsim.replica.read_replicas import RACK_SELECTOR, preferred_replica
from txnsim.replica.replicas import Replicas
from txnsim.runtime.loop_turns import LOOK_ELEMENTS, Pace, rest_where_due
from txnsim.runtime.trace import NO_CAUSE, Tracer
from txnsim.settings import Settings
from txnsim.types import IsolationLevel, TopicPartition

CONSUMER_REPLICA_ID: Final = -1
FUTURE_REPLICA_ID: Final = -3
"""Replica id of a replica that moves to another directory of its broker (FetchRequest)."""

TRACED_PARTITIONS_MAX: Final = 100
"""A wait for more partitions is not traced."""

DEVIATIONS: Final = (
    "A client whose Fetch names a follower as its replica reads what that one would, but does not"
    " count as it: the high watermark and the replicas in sync stay as they are.",
    "Racks decide which replica a consumer reads from (KIP-392), not where replicas are placed.",
)


class FetchCommand(msgspec.Struct, frozen=True, kw_only=True):
    """A Fetch request without its version."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation: IsolationLevel
    partitions: tuple[FetchPartition, ...]
    reads_leader_only: bool
    """Whether only the leader may answer: consumers before Fetch v11 (KIP-392), and followers."""
    replica_id: int = CONSUMER_REPLICA_ID
    client_id: str | None = None
    """Of a consumer, for display."""
    client_rack: str = ""
    """The rack that a consumer is in; empty if it names none."""

    @property
    def is_follower(self) -> bool:
        """Whether the request has a broker id as its replica (FetchParams.isFromFollower)."""
        return self.replica_id >= 0

    @property
    def is_to_log_end(self) -> bool:
        """Whether to read up to the log end, not only replicated records
        (FetchIsolation.LOG_END).
        """
        return self.replica_id >= 0 or self.replica_id == FUTURE_REPLICA_ID


Outcomes = list[FetchOutcome]
"""The outcome of each partition of the command, in its order."""


class _BytesLeft:
    """Number of bytes that an answer may still take."""

    __slots__ = ("bytes", "must_progress")

    def __init__(self, max_bytes: int) -> None:
        self.bytes = max_bytes
        self.must_progress = True
        """Whether the next partition with data may exceed the limits; only the first may, so that a
        huge batch never blocks a reader.
        """

    def take(self, taken_bytes: int) -> None:
        self.bytes = max(0, self.bytes - taken_bytes)
        self.must_progress = self.must_progress and taken_bytes == 0


class _EnoughBytes(msgspec.Struct, eq=False):
    """Decides whether a change of one partition completes a parked fetch: enough bytes, or an
    error.

    It remembers the bytes of the other partitions: a fetch may wait for thousands, and several
    fetches for the partition that a neighbour writes to.
    """

    _command: FetchCommand
    _available: Callable[[FetchCommand, FetchPartition], int | None]
    _known_bytes: dict[TopicPartition, int] = {}
    """Available bytes of the partitions that have any."""
    by_partition: dict[TopicPartition, FetchPartition | list[FetchPartition]] = {}
    _is_ready: bool = False
    _is_wrong: bool = False
    _total_bytes: int = 0
    _touched_partitions: dict[TopicPartition, None] = {}

    @property
    def client_id(self) -> str:
        return self._command.client_id or ""

    def is_held_at(self, topic_partition: TopicPartition, stable_offset: int) -> bool:
        """Whether its reader gets nothing of a partition because of the last stable offset."""
        command = self._command
        if command.isolation != IsolationLevel.READ_COMMITTED or command.is_to_log_end:
            return False
        fetched_partitions = self.by_partition.get(topic_partition, [])
        return any(
            fetch_partition.fetch_offset >= stable_offset
            for fetch_partition in (
                fetched_partitions
                if isinstance(fetched_partitions, list)
                else (fetched_partitions,)
            )
        )

    def add(self, partitions: Sequence[FetchPartition]) -> None:
        for fetch_partition in partitions:
            topic_partition = fetch_partition.topic_partition
            earlier_partition = self.by_partition.setdefault(topic_partition, fetch_partition)
            if isinstance(earlier_partition, list):
                earlier_partition.append(fetch_partition)
            elif earlier_partition is not fetch_partition:
                self.by_partition[topic_partition] = [earlier_partition, fetch_partition]

    async def prepare(self, pace: Pace | None) -> bool:
        """Measure the available bytes of all partitions; returns whether the fetch need not wait
        (DelayedFetch.tryComplete, before it is watched).
        """
        for topic_partition in self.by_partition:
            self._measure(topic_partition)
            if pace is not None and pace.has_done(1):
                await pace.yield_turn()
        self._is_ready = True
        for topic_partition in self._touched_partitions:
            self._measure(topic_partition)
        return self._is_wrong or self._total_bytes >= self._command.min_bytes

    def __call__(self, topic_partition: TopicPartition) -> bool:
        """Whether the fetch is complete after a change of this partition."""
        if not self._is_ready:
            self._touched_partitions[topic_partition] = None
            return False
        if self._is_wrong:
            return True
        self._measure(topic_partition)
        return self._is_wrong or self._total_bytes >= self._command.min_bytes

    def _measure(self, topic_partition: TopicPartition) -> None:
        fetched_partitions = self.by_partition[topic_partition]
        available_bytes = 0
        for fetch_partition in (
            fetched_partitions if isinstance(fetched_partitions, list) else (fetched_partitions,)
        ):
            partition_bytes = self._available(self._command, fetch_partition)
            if partition_bytes is None:
                self._is_wrong = True
                return
            available_bytes += partition_bytes
        known_bytes = self._known_bytes.get(topic_partition, 0)
        if available_bytes != known_bytes:
            self._known_bytes[topic_partition] = available_bytes
            self._total_bytes += available_bytes - known_bytes


class FetchPath(msgspec.Struct, kw_only=True, eq=False):
    """The fetch path of one broker."""

    fault_points: BrokerFaultPoints
    settings: Callable[[], Settings]
    replicas: Replicas
    purgatory: Purgatory[TopicPartition]
    tracer: Tracer
    node: str
    """The broker's name in the trace."""

    async def fetch(self, command: FetchCommand, pace: Pace | None = None) -> Outcomes:
        """Read; if there is less than ``min_bytes``, wait up to ``max_wait_ms`` and read again.
        With breaks if given a pace.
        """
        fetch_outcomes = await self._read_partitions(command, pace)
        if self._needs_no_wait(command, fetch_outcomes):
            return fetch_outcomes
        await rest_where_due(pace, len(fetch_outcomes))
        # KafkaApis keeps unknown partitions from the replica manager, which neither waits for them
        # nor looks them up again.
        existing_indexes = [
            index for index, outcome in enumerate(fetch_outcomes) if not outcome.is_missing
        ]
        if len(existing_indexes) == len(fetch_outcomes):
            # What was read is not kept: many wait for thousands of partitions.
            del fetch_outcomes, existing_indexes
            await self._wait_for_records(command, pace)
            return await self._read_partitions(command, pace)
        command = msgspec.structs.replace(
            command, partitions=tuple([command.partitions[index] for index in existing_indexes])
        )
        await self._wait_for_records(command, pace)
        for index, outcome in zip(
            existing_indexes, await self._read_partitions(command, pace), strict=True
        ):
            fetch_outcomes[index] = outcome
        return fetch_outcomes

    def held_readers(self, log: PartitionLog) -> tuple[str, ...]:
        """Client ids of the consumers with read_committed whose Fetch waits at the last stable
        offset of a log that has more, sorted.
        """
        topic_partition, stands_at = log.topic_partition, log.last_stable_offset
        if stands_at >= log.high_watermark:
            return ()
        client_ids = set()
        for operation in (
            *self.purgatory.parked.get(topic_partition, ()),
            *self.purgatory.wide_operations,
        ):
            enough_check = operation.check
            if isinstance(enough_check, _EnoughBytes) and enough_check.is_held_at(
                topic_partition, stands_at
            ):
                client_ids.add(enough_check.client_id)
        return tuple(sorted(client_ids))

    # Parts

    def _needs_no_wait(self, command: FetchCommand, fetch_outcomes: Outcomes) -> bool:
        """Whether the fetch is answered at once (ReplicaManager.fetchMessages)."""
        if command.max_wait_ms <= 0:
            return True
        total_bytes, has_answer = 0, False
        for fetch_outcome in fetch_outcomes:
            if (
                fetch_outcome.error
                or fetch_outcome.diverging_epoch
                or fetch_outcome.preferred_replica >= 0
            ):
                if fetch_outcome.is_missing:
                    continue
                return True
            total_bytes, has_answer = total_bytes + fetch_outcome.size_bytes, True
        return not has_answer or total_bytes >= command.min_bytes

    async def _wait_for_records(self, command: FetchCommand, pace: Pace | None) -> None:
        enough_check = _EnoughBytes(command, self._available_bytes)
        partitions = command.partitions
        if pace is None:
            enough_check.add(partitions)
        else:
            for start in range(0, len(partitions), LOOK_ELEMENTS):
                enough_check.add(partitions[start : start + LOOK_ELEMENTS])
                await rest_where_due(pace, LOOK_ELEMENTS)
        wait_event = self._trace_wait(command) if self.tracer.on else NO_CAUSE
        try:
            await self.purgatory.wait(
                enough_check.by_partition,
                timeout_ms=command.max_wait_ms,
                check=enough_check,
                prepare=partial(enough_check.prepare, pace),
            )
        finally:
            if wait_event != NO_CAUSE:
                self.tracer.emit(
                    "reader.end",
                    self.node,
                    parents=(wait_event,),
                    data={"client": command.client_id or ""},
                )

    def _trace_wait(self, command: FetchCommand) -> int:
        """Trace that a consumer waits behind open transactions; returns the event, -1 if it does
        not, or waits for too many partitions to look at.
        """
        if (
            command.isolation != IsolationLevel.READ_COMMITTED
            or command.is_to_log_end
            or len(command.partitions) > TRACED_PARTITIONS_MAX
        ):
            return NO_CAUSE
        held_partitions = [
            str(log.topic_partition)
            for fetch_partition in command.partitions
            if not isinstance(log := self._log(command, fetch_partition), Rejection)
            and fetch_partition.fetch_offset >= log.last_stable_offset < log.high_watermark
        ]
        if not held_partitions:
            return NO_CAUSE
        event_data = {"partitions": held_partitions, "client": command.client_id or ""}
        return self.tracer.emit("reader.wait", self.node, data=event_data)

    def _available_bytes(
        self, command: FetchCommand, fetch_partition: FetchPartition
    ) -> int | None:
        """Available bytes of one partition; None for an error, which completes the fetch."""
        log = self._log(command, fetch_partition)
        if isinstance(log, Rejection):
            return None
        if not log.log_start_offset <= fetch_partition.fetch_offset <= log.log_end_offset:
            return None
        readable_bytes = log.readable_bytes(
            fetch_partition.fetch_offset, command.isolation, reads_to_log_end=command.is_to_log_end
        )
        return min(readable_bytes, fetch_partition.max_bytes)

    async def _read_partitions(self, command: FetchCommand, pace: Pace | None) -> Outcomes:
        fetch_outcomes: Outcomes = []
        bytes_left = _BytesLeft(min(command.max_bytes, self.settings().fetch_max_bytes))
        for fetch_partition in command.partitions:
            log = self._find_log(command, fetch_partition)
            was_all_stable = False
            if self.fault_points.is_armed and not isinstance(log, FetchOutcome):
                # A fault here strikes between the check of a log and the read.
                was_all_stable = log.is_all_stable
                log = await self._find_log_after_fault(command, fetch_partition)
            if not isinstance(log, FetchOutcome):
                log = self._read_partition(
                    command, fetch_partition, log, bytes_left, was_all_stable=was_all_stable
                )
            bytes_left.take(log.size_bytes)
            fetch_outcomes.append(log)
            if pace is not None and pace.has_done(1):
                await pace.yield_turn()
        return fetch_outcomes

    def _find_log(
        self, command: FetchCommand, fetch_partition: FetchPartition
    ) -> PartitionLog | FetchOutcome:
        """The log to read, or the outcome if there is nothing to read."""
        log = self._log(command, fetch_partition)
        if isinstance(log, Rejection):
            return FetchOutcome(error=log.error)
        divergence_outcome = (
            _divergence(log, fetch_partition) if fetch_partition.last_fetched_epoch >= 0 else None
        )
        return log if divergence_outcome is None else divergence_outcome

    async def _find_log_after_fault(
        self, command: FetchCommand, fetch_partition: FetchPartition
    ) -> PartitionLog | FetchOutcome:
        """Wait for faults that delay the read, then find the log or the error."""
        fault_effect = await self.fault_points.verdict(
            FaultPoint.LOG_READ, Subject(partitions=(fetch_partition.topic_partition,))
        )
        error = error_in(fault_effect)
        return (
            FetchOutcome(error=ErrorCode(error))
            if error
            else self._find_log(command, fetch_partition)
        )

    def _read_partition(
        self,
        command: FetchCommand,
        fetch_partition: FetchPartition,
        log: PartitionLog,
        bytes_left: _BytesLeft,
        *,
        was_all_stable: bool,
    ) -> FetchOutcome:
        if command.client_rack:
            redirection = self._redirection(command, fetch_partition, log)
            if redirection is not None:
                return redirection
        assumes_stable = was_all_stable and not log.config.rules.reads_know_one_high_watermark
        log_read = log.read(
            fetch_partition.fetch_offset,
            max_bytes=min(bytes_left.bytes, fetch_partition.max_bytes),
            isolation=command.isolation,
            reads_one_batch_at_least=bytes_left.must_progress,
            reads_to_log_end=command.is_to_log_end,
            is_all_stable=assumes_stable,
        )
        match log_read:
            case LogRead():
                cut_batch = b"" if command.is_to_log_end else log_read.cut_batch
                return FetchOutcome(
                    high_watermark=log_read.high_watermark,
                    last_stable_offset=log_read.last_stable_offset,
                    log_start_offset=log_read.log_start_offset,
                    aborted_txns=log_read.aborted,
                    records=(*log_read.records, cut_batch) if cut_batch else log_read.records,
                    size_bytes=log_read.size + len(cut_batch),
                )
            case _:
                return FetchOutcome(error=log_read.error)

    def _redirection(
        self, command: FetchCommand, fetch_partition: FetchPartition, log: PartitionLog
    ) -> FetchOutcome | None:
        """The outcome without records that leads a consumer to a replica in its rack; None if it
        reads here (ReplicaManager.readFromLog).
        """
        if command.replica_id >= 0 or self.settings().replica_selector_class != RACK_SELECTOR:
            return None
        replicas, topic_partition = self.replicas, fetch_partition.topic_partition
        replicated_log = replicas.replicated.get(topic_partition)
        if replicated_log is None or topic_partition not in replicas.led:
            return None
        broker_id = preferred_replica(
            replicated_log,
            leader_id=replicas.broker_id,
            brokers=replicas.image.brokers,
            client_rack=command.client_rack,
            fetch_offset=fetch_partition.fetch_offset,
        )
        if broker_id is None:
            return None
        return FetchOutcome(
            high_watermark=log.high_watermark,
            last_stable_offset=log.last_stable_offset,
            log_start_offset=log.log_start_offset,
            preferred_replica=broker_id,
        )

    def _log(
        self, command: FetchCommand, fetch_partition: FetchPartition
    ) -> PartitionLog | Rejection:
        if fetch_partition.naming is not Naming.NAMED:
            return self._naming_rejection(fetch_partition)
        topic_partition, leader_epoch = (
            fetch_partition.topic_partition,
            fetch_partition.current_leader_epoch,
        )
        if not command.reads_leader_only:
            return self.replicas.replica_log(topic_partition, current_leader_epoch=leader_epoch)
        log = self.replicas.leader_log(topic_partition, current_leader_epoch=leader_epoch)
        if command.is_follower and not isinstance(log, Rejection):
            return self._unknown_follower(command, fetch_partition) or log
        return log

    def _unknown_follower(
        self, command: FetchCommand, fetch_partition: FetchPartition
    ) -> Rejection | None:
        """The error for a follower that is not a replica of the partition, or is its leader
        (Partition.followerReplicaOrThrow).
        """
        replicated_log = self.replicas.replicated.get(fetch_partition.topic_partition)
        if replicated_log is not None and command.replica_id in replicated_log.followers:
            return None
        error = (
            ErrorCode.unknown_leader_epoch
            if fetch_partition.current_leader_epoch >= 0
            else ErrorCode.not_leader_or_follower
        )
        return Rejection(
            error=error,
            reason=f"broker {command.replica_id} is no follower of"
            f" {fetch_partition.topic_partition}",
        )

    def _naming_rejection(self, fetch_partition: FetchPartition) -> Rejection:
        """The error for a topic id without a name, or whose name belongs to another topic by
        now.
        """
        if fetch_partition.naming is Naming.NO_NAME:
            return Rejection(error=ErrorCode.unknown_topic_id, reason="no topic has this id")
        log = self.replicas.replica_log(fetch_partition.topic_partition)
        if isinstance(log, Rejection):
            return log
        return Rejection(
            error=ErrorCode.inconsistent_topic_id,
            reason=f"{fetch_partition.topic_partition} has another topic id than the session",
        )


def _divergence(log: PartitionLog, fetch_partition: FetchPartition) -> FetchOutcome | None:
    """The outcome if the reader's last epoch ended at another offset in this log; None if it did
    not (Partition.readRecords).
    """
    epoch_end = log.end_offset_for_epoch(fetch_partition.last_fetched_epoch)
    epoch, end_offset = epoch_end.leader_epoch, epoch_end.end_offset
    if epoch < 0:
        return FetchOutcome(error=ErrorCode.offset_out_of_range)
    if epoch < fetch_partition.last_fetched_epoch or end_offset < fetch_partition.fetch_offset:
        return FetchOutcome(
            high_watermark=log.high_watermark,
            last_stable_offset=log.last_stable_offset,
            log_start_offset=log.log_start_offset,
            diverging_epoch=(epoch, end_offset),
        )
    return None

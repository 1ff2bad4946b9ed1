"""A Produce request at a partition leader: verify, append, wait for replication.

The order of checks is ReplicaManager.handleProduceAppend's: one producer per request, verification
(KIP-890), acks, internal topics, leadership, in-sync replicas, then the log's own rules. Shapes of
the request and authorization are the handler's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from txnsim.broker.verification import TransactionOperation, Verification, produce_error
from txnsim.errors import ErrorCode, Rejection
from txnsim.log.answers import Appended, AppendRejection
from txnsim.log.partition_log import PartitionLog
from txnsim.log.validation import is_heavy, newest_in_steps
from txnsim.log.verification import SENTINEL
from txnsim.node.log_gate import DATA, LogGate
from txnsim.node.log_trace import LogTrace, bounds_for_data
from txnsim.releases.rules import LATEST, Rules
from txnsim.replica.replicas import Replicas
from txnsim.replication.commits import Appends, Commits
from txnsim.replication.watermarks import Watermarks
from txnsim.runtime.env import Clock
from txnsim.settings import Settings
from txnsim.types import (
    INTERNAL_TOPICS,
    ProducerEpoch,
    ProducerId,
    Subject,
    TopicPartition,
    TransactionalId,
)
from txnsim.wire.batch_header import BatchHeader

ACKS_ALL: Final = -1
TURN_NS: Final = 10_000_000
"""About so long the records of a request are looked at before others have a turn."""


class ProducePartition(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One partition's batch, whole and well-formed, as the producer's bytes."""

    topic_partition: TopicPartition
    batch: bytes
    header: BatchHeader


class ProduceCommand(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A Produce request without its version: ``operation`` is what the version stood for."""

    transactional_id: TransactionalId | None
    acks: int
    timeout_ms: int
    operation: TransactionOperation
    partitions: tuple[ProducePartition, ...]
    internal_topics_allowed: bool = False


class ProduceOutcome(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What one partition is answered; offsets are -1 where the answer has none."""

    error: ErrorCode = ErrorCode.none
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: tuple[tuple[int, str], ...] = ()
    """(index in the batch, message) of each refused record (KIP-467)."""
    message: str | None = None


Outcomes = dict[TopicPartition, ProduceOutcome]
Seen = Mapping[TopicPartition, AppendRejection | int]
"""What the records of heavy batches came to, before anything was decided."""
NOTHING_SEEN: Final[Seen] = {}


class Producing:
    """The produce path of one broker."""

    __slots__ = (
        "_clock",
        "_commits",
        "_gate",
        "_log_trace",
        "_replicas",
        "_rules",
        "_settings",
        "_verification",
        "_watermarks",
    )

    def __init__(
        self,
        *,
        clock: Clock,
        settings: Callable[[], Settings],
        replicas: Replicas,
        watermarks: Watermarks,
        commits: Commits,
        verification: Verification,
        gate: LogGate,
        log_trace: LogTrace,
        rules: Rules = LATEST,
    ) -> None:
        self._rules = rules
        self._gate = gate
        self._log_trace = log_trace
        self._clock = clock
        self._settings = settings
        self._replicas = replicas
        self._watermarks = watermarks
        self._commits = commits
        self._verification = verification

    async def produce(self, command: ProduceCommand) -> Outcomes:
        """Append the batches; waits as long as verification and ``acks`` demand."""
        outcomes: Outcomes = {}
        guards: dict[TopicPartition, int] = {}
        newest = NOTHING_SEEN
        if is_heavy([part.header for part in command.partitions]):
            newest = await self._look_ahead(command)
        transactional = [part for part in command.partitions if part.header.is_transactional]
        if transactional and self._rules.transactions_are_verified:
            mixed = _mixed_producers(transactional, self._rules)
            if mixed is not None:
                return {part.topic_partition: mixed for part in command.partitions}
            if self._is_verified(command.operation):
                guards = self._take_guards(command, transactional, outcomes)
                asked = tuple(partition for partition, guard in guards.items() if guard != SENTINEL)
                if asked:
                    await self._verify(command, transactional[0].header, asked, outcomes)
        appended = (
            self._append(command, guards, outcomes, newest)
            if self._gate.is_open
            else await self._append_watched(command, guards, outcomes, newest)
        )
        if command.acks == ACKS_ALL and appended:
            failed = await self._commits.wait(appended, timeout_ms=command.timeout_ms)
            for partition, error in failed.items():
                # DelayedProduce only sets the error: where the records are is told all the same.
                outcomes[partition] = msgspec.structs.replace(outcomes[partition], error=error)
        return outcomes

    async def _look_ahead(self, command: ProduceCommand) -> Seen:
        """Look at the records before anything is decided, with breaks: others have their turn."""
        seen: dict[TopicPartition, AppendRejection | int] = {}
        spent_ns = 0
        for part in command.partitions:
            steps = newest_in_steps(part.header, part.batch)
            try:
                while True:
                    spent_ns += next(steps)
                    if spent_ns > TURN_NS:
                        spent_ns = 0
                        await self._pause(0)
            except StopIteration as end:
                seen[part.topic_partition] = end.value
        return seen

    # Verification

    def _is_verified(self, operation: TransactionOperation) -> bool:
        return (
            operation is TransactionOperation.ADD_PARTITION
            or self._settings().transaction_partition_verification_enable
        )

    def _take_guards(
        self, command: ProduceCommand, parts: list[ProducePartition], outcomes: Outcomes
    ) -> dict[TopicPartition, int]:
        guards: dict[TopicPartition, int] = {}
        now_ms = self._clock.now_ms()
        adds = command.operation is TransactionOperation.ADD_PARTITION
        for part in parts:
            header = part.header
            log = self._replicas.leader(part.topic_partition)
            guard = (
                log
                if isinstance(log, Rejection)
                else log.start_verification(
                    producer_id=header.producer_id,
                    producer_epoch=header.producer_epoch,
                    base_sequence=header.base_sequence,
                    supports_epoch_bump=adds,
                    now_ms=now_ms,
                )
            )
            if isinstance(guard, Rejection):
                outcomes[part.topic_partition] = ProduceOutcome(error=guard.error)
                if self._log_trace.on:
                    self._log_trace.refused(
                        part.topic_partition, header, guard, command.transactional_id
                    )
            else:
                guards[part.topic_partition] = guard
        return guards

    async def _verify(
        self,
        command: ProduceCommand,
        header: BatchHeader,
        partitions: tuple[TopicPartition, ...],
        outcomes: Outcomes,
    ) -> None:
        """Ask the coordinator; an implicit add is repeated while the last transaction is still
        ending (KAFKA-18654).
        """
        assert command.transactional_id is not None
        settings = self._settings()
        started_ms = self._clock.monotonic_ms()
        patience_ms = min(
            settings.add_partitions_to_txn_retry_backoff_max_ms, settings.request_timeout_ms
        )
        while True:
            errors = await self._verification.ask(
                transactional_id=command.transactional_id,
                producer_id=ProducerId(header.producer_id),
                producer_epoch=ProducerEpoch(header.producer_epoch),
                partitions=partitions,
                operation=command.operation,
            )
            if (
                command.operation is not TransactionOperation.ADD_PARTITION
                or not self._rules.implicit_add_is_repeated
                or ErrorCode.concurrent_transactions not in errors.values()
                or self._clock.monotonic_ms() - started_ms >= patience_ms
            ):
                break
            await self._pause(settings.add_partitions_to_txn_retry_backoff_ms)
        for partition, error in errors.items():
            outcomes[partition] = _unverified(error, command.operation, self._rules)

    async def _pause(self, pause_ms: int) -> None:
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timer = self._clock.call_later(pause_ms, lambda: over.set_result(None))
        try:
            await over
        finally:
            timer.cancel()

    # Append

    def _append(
        self,
        command: ProduceCommand,
        guards: dict[TopicPartition, int],
        outcomes: Outcomes,
        seen: Seen,
    ) -> Appends:
        """Append what is left."""
        now_ms = self._clock.now_ms()
        appended: Appends = []
        for part in command.partitions:
            if part.topic_partition not in outcomes:
                log = self._log_for_append(command, part.topic_partition)
                outcomes[part.topic_partition] = (
                    log
                    if isinstance(log, ProduceOutcome)
                    else self._write(
                        log, part, guards, now_ms, appended, seen, command.transactional_id
                    )
                )
        return appended

    async def _append_watched(
        self,
        command: ProduceCommand,
        guards: dict[TopicPartition, int],
        outcomes: Outcomes,
        seen: Seen,
    ) -> Appends:
        """The same while somebody may object to it: a partition that has to wait lets those behind
        it in the request wait, too.
        """
        appended: Appends = []
        for part in command.partitions:
            where = part.topic_partition
            if where in outcomes:
                continue
            log = self._log_for_append(command, where)
            if isinstance(log, ProduceOutcome):
                outcomes[where] = log
                continue
            producer_id = part.header.producer_id
            subject = Subject(
                transactional_id=command.transactional_id,
                producer_id=producer_id if producer_id >= 0 else None,
                partitions=(where,),
            )
            error = await self._gate.admit(subject, kind=DATA)
            if error is not None:
                outcomes[where] = ProduceOutcome(error=error)
                continue
            log = self._log_for_append(command, where)  # it may be another's by now
            if isinstance(log, ProduceOutcome):
                outcomes[where] = log
                continue
            before = self._gate.durable(log)
            now_ms = self._clock.now_ms()
            outcomes[where] = self._write(
                log, part, guards, now_ms, appended, seen, command.transactional_id
            )
            self._gate.appended(log, before)
        return appended

    def _write(
        self,
        log: PartitionLog,
        part: ProducePartition,
        guards: dict[TopicPartition, int],
        now_ms: int,
        appended: Appends,
        seen: Seen,
        transactional_id: str | None,
    ) -> ProduceOutcome:
        """Append one batch; what was written is added to ``appended``."""
        partition = part.topic_partition
        before = bounds_for_data(log, part.header) if self._log_trace.on else None
        result = log.append_client(
            part.batch,
            guard=guards.get(partition, SENTINEL),
            now_ms=now_ms,
            header=part.header,
            newest=seen.get(partition),
        )
        if isinstance(result, Appended):
            if before is None:
                self._watermarks.appended(log)
            else:
                cause = self._log_trace.appended(log, part.header, result, before, transactional_id)
                self._watermarks.appended(log)
                self._log_trace.moved(log, before, cause)
            appended.append((log, result.last_offset))
            return ProduceOutcome(
                base_offset=result.base_offset,
                log_append_time_ms=result.log_append_time_ms,
                log_start_offset=result.log_start_offset,
            )
        if before is not None:
            self._log_trace.refused(partition, part.header, result, transactional_id)
        return ProduceOutcome(
            error=result.error,
            log_start_offset=result.log_start_offset,
            record_errors=result.record_errors,
            message=result.reason if result.record_errors else None,
        )

    def _log_for_append(
        self, command: ProduceCommand, partition: TopicPartition
    ) -> PartitionLog | ProduceOutcome:
        """The led log, or what is answered without it."""
        if command.acks not in (-1, 0, 1):
            return ProduceOutcome(error=ErrorCode.invalid_required_acks)
        if partition.topic in INTERNAL_TOPICS and not command.internal_topics_allowed:
            return ProduceOutcome(error=ErrorCode.invalid_topic_exception)
        log = self._replicas.leader(partition)
        if isinstance(log, Rejection):
            return ProduceOutcome(error=log.error)
        too_few = command.acks == ACKS_ALL and self._replicas.too_few_in_sync(partition)
        if too_few:
            # ReplicaManager.processFailedRecord tells the log start: there is a log.
            return ProduceOutcome(error=too_few.error, log_start_offset=log.log_start_offset)
        return log


def _mixed_producers(parts: list[ProducePartition], rules: Rules) -> ProduceOutcome | None:
    """All transactional batches of one request belong to one (producer id, epoch)."""
    first = parts[0].header
    for part in parts:
        header = part.header
        if header.producer_id != first.producer_id or (
            header.producer_epoch != first.producer_epoch and rules.request_has_one_epoch
        ):
            return ProduceOutcome(
                error=ErrorCode.invalid_producer_id_mapping,
                message="Transactional records contained more than one producer ID",
            )
    return None


def _unverified(error: ErrorCode, operation: TransactionOperation, rules: Rules) -> ProduceOutcome:
    """The partition's answer where the coordinator did not agree; the message names its error, as
    Kafka's does.
    """
    answered = produce_error(error, operation, rules)
    if error is ErrorCode.invalid_txn_state:
        message: str | None = "Partition was not added to the transaction"
    elif answered is not error:
        message = (
            "Unable to verify the partition has been added to the transaction. "
            f"Underlying error: {error.name.upper()}"
        )
    else:
        message = None
    return ProduceOutcome(error=answered, message=message)

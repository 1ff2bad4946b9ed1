"""A Produce request at a partition leader: verify, append, wait for replication.

The order of checks is ReplicaManager.handleProduceAppend's: one producer per request, verification
(KIP-890), acks, internal topics, leadership, in-sync replicas, then the log's own rules. The
handler checks the request's form and the rights.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Final

import msgspec

from txnsim.broker.look_ahead import LookAhead
from txnsim.broker.verification import (
    Errors,
    TransactionOperation,
    VerificationQueues,
    produce_error,
)
from txnsim.errors import ErrorCode, Rejection
from txnsim.faults.subjects import Subject
from txnsim.log.answers import Appended, AppendRejection
from txnsim.log.leader_append import append_client, start_verification
from txnsim.log.partition_log import PartitionLog
from txnsim.log.validation import RereadBatch, check_size, is_heavy_to_check, reread
from txnsim.log.verification import SENTINEL
from txnsim.releases.rules import Rules
from txnsim.replica.replicas import Replicas
from txnsim.replication.append_events import AppendEvents
from txnsim.replication.leader_appends import Appends, Commits, LeaderAppends, WaitingBatch
from txnsim.runtime.environment import Clock, Tasks
from txnsim.runtime.loop_turns import LOOK_ELEMENTS, Pace
from txnsim.runtime.tasks import Pending
from txnsim.types import INTERNAL_TOPICS, ProducerEpoch, ProducerId, TopicPartition, TransactionalId
from txnsim.wire.batch_header import BatchHeader, ReceivedBatch

ACKS_ALL: Final = -1

_WRONG_ACKS: Final = Rejection(
    error=ErrorCode.invalid_required_acks, reason="acks is none of -1, 0 and 1"
)
_INTERNAL_TOPIC: Final = Rejection(
    error=ErrorCode.invalid_topic_exception, reason="clients don't write to internal topics"
)


class ProducePartition(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One partition's batch, complete and well-formed, as the producer sent it."""

    topic_partition: TopicPartition
    batch: ReceivedBatch
    header: BatchHeader


class ProduceCommand(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A Produce request without its version; ``operation`` says what the version supports."""

    transactional_id: TransactionalId | None
    acks: int
    timeout_ms: int
    operation: TransactionOperation
    partitions: tuple[ProducePartition, ...]
    may_write_internal_topics: bool = False


class ProduceOutcome(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The answer for one partition; offsets are -1 if the answer has none."""

    error: ErrorCode = ErrorCode.none
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: Sequence[tuple[int, str]] = ()
    """(index in the batch, message) of each refused record (KIP-467)."""
    message: str | None = None


Outcomes = dict[TopicPartition, ProduceOutcome]
_header_of: Final = attrgetter("header")
_partition_of: Final = attrgetter("topic_partition")
ScanResults = Mapping[TopicPartition, AppendRejection | RereadBatch | int]
"""The result of scanning each heavy batch, before anything is decided."""
NO_SCAN_RESULTS: Final[ScanResults] = {}


class ProducePath(msgspec.Struct, kw_only=True, eq=False):
    """The produce path of one broker."""

    rules: Rules
    appends: LeaderAppends
    log_events: AppendEvents
    clock: Clock
    tasks: Tasks
    replicas: Replicas
    commits: Commits
    verification: VerificationQueues

    async def produce(self, command: ProduceCommand, pace: Pace | None = None) -> Outcomes:
        """Append the batches; waits as verification and ``acks`` demand, and takes breaks between
        partitions if given a pace.
        """
        outcome_by_partition: Outcomes = {}
        guard_by_partition: dict[TopicPartition, int] = {}
        newest_by_partition = NO_SCAN_RESULTS
        if is_heavy_to_check(map(_header_of, command.partitions)):
            newest_by_partition = await self._look_ahead(command)
        transactional_parts = []
        for partition_batch in command.partitions:
            # ReplicaManager: a batch without a producer is of no transaction, whatever it says.
            header = partition_batch.header
            if header.producer_id >= 0 and header.attributes & BatchHeader.TRANSACTIONAL:
                transactional_parts.append(partition_batch)
        if transactional_parts and self.rules.transactions_are_verified:
            mixed_outcome = None
            if len(transactional_parts) > 1:
                mixed_outcome = _mixed_producers(transactional_parts, self.rules)
            if mixed_outcome is not None:
                return {
                    partition_batch.topic_partition: mixed_outcome
                    for partition_batch in command.partitions
                }
            if (
                command.operation is TransactionOperation.ADD_PARTITION
                or self.replicas.dynamic_settings.transaction_partition_verification_enable
            ):
                unverified_batches = self._take_guards(
                    command, transactional_parts, guard_by_partition, outcome_by_partition
                )
                if unverified_batches:
                    assert command.transactional_id is not None
                    header = unverified_batches[0].header  # all of them are of one producer
                    ask_coordinator = partial(
                        self.verification.ask,
                        transactional_id=command.transactional_id,
                        producer_id=ProducerId(header.producer_id),
                        producer_epoch=ProducerEpoch(header.producer_epoch),
                        partitions=tuple(map(_partition_of, unverified_batches)),
                        operation=command.operation,
                    )
                    error_by_partition = await ask_coordinator()
                    if ErrorCode.concurrent_transactions in error_by_partition.values():
                        error_by_partition = await self._ask_again(
                            command, ask_coordinator, error_by_partition
                        )
                    for partition, error in error_by_partition.items():
                        outcome_by_partition[partition] = _unverified_outcome(
                            error, command.operation, self.rules
                        )
        appends = await self._append(
            command, guard_by_partition, outcome_by_partition, newest_by_partition, pace
        )
        if command.acks == ACKS_ALL and self.commits.are_late(appends):
            replication_errors = await self.commits.wait(appends, timeout_ms=command.timeout_ms)
            for partition, error in replication_errors.items():
                # DelayedProduce only sets the error: the answer keeps the offset of the records.
                outcome_by_partition[partition] = msgspec.structs.replace(
                    outcome_by_partition[partition], error=error
                )
        return outcome_by_partition

    async def _look_ahead(self, command: ProduceCommand) -> ScanResults:
        """Scan the records before anything is decided, in slices between which requests run."""
        look_ahead = LookAhead(self.tasks)
        newest_by_partition: dict[TopicPartition, AppendRejection | RereadBatch | int] = {}
        for partition_batch in command.partitions:
            try:
                newest_by_partition[partition_batch.topic_partition] = await self._look_at_records(
                    look_ahead, partition_batch
                )
            finally:
                look_ahead.leave()
        return newest_by_partition

    async def _look_at_records(
        self, look_ahead: LookAhead, partition_batch: ProducePartition
    ) -> AppendRejection | RereadBatch | int:
        log = self.replicas.leader_log(partition_batch.topic_partition)
        if (
            isinstance(log, PartitionLog)
            and partition_batch.header.size > log.config.max_message_bytes
        ):
            size_rejection = check_size(partition_batch.header.size, log.config)
            assert size_rejection is not None
            return size_rejection
        newest_timestamp = await look_ahead.find_newest_timestamp(
            partition_batch.header, partition_batch.batch
        )
        log = self.replicas.leader_log(partition_batch.topic_partition)
        if (
            not look_ahead.was_heavy
            or not isinstance(newest_timestamp, int)
            or isinstance(log, Rejection)
        ):
            return newest_timestamp
        reread_batch = partial(
            reread,
            partition_batch.header,
            partition_batch.batch,
            newest_timestamp,
            topic_partition=partition_batch.topic_partition,
            config=log.config,
            now_ms=self.clock.now_ms(),
            log_start_offset=log.log_start_offset,
            payload=look_ahead.payload,
        )
        reread_result = await look_ahead.do_beside_loop(reread_batch)
        if reread_result is None:
            return newest_timestamp
        return msgspec.structs.replace(reread_result, read_at_ms=self.clock.now_ms())

    # Verification

    def _take_guards(
        self,
        command: ProduceCommand,
        transactional_batches: list[ProducePartition],
        guard_by_partition: dict[TopicPartition, int],
        outcome_by_partition: Outcomes,
    ) -> list[ProducePartition]:
        """Record each partition's guard or error; return the partitions that the coordinator must
        verify.
        """
        unverified_batches = []
        now_ms = self.clock.now_ms()
        adds_partition = command.operation is TransactionOperation.ADD_PARTITION
        for partition_batch in transactional_batches:
            header = partition_batch.header
            topic_partition = partition_batch.topic_partition
            log = self.replicas.led.get(topic_partition) or self.replicas.leader_log(
                topic_partition
            )
            guard_or_rejection = (
                log
                if isinstance(log, Rejection)
                else start_verification(
                    log,
                    producer_id=header.producer_id,
                    producer_epoch=header.producer_epoch,
                    base_sequence=header.base_sequence,
                    supports_epoch_bump=adds_partition,
                    now_ms=now_ms,
                )
            )
            if isinstance(guard_or_rejection, Rejection):
                outcome_by_partition[topic_partition] = ProduceOutcome(
                    error=guard_or_rejection.error
                )
                if self.log_events.tracer.on:
                    self.log_events.trace_refusal(
                        topic_partition, header, guard_or_rejection, command.transactional_id
                    )
            else:
                guard_by_partition[topic_partition] = guard_or_rejection
                if guard_or_rejection != SENTINEL:
                    unverified_batches.append(partition_batch)
        return unverified_batches

    async def _ask_again(
        self,
        command: ProduceCommand,
        ask_coordinator: Callable[[], Pending[Errors]],
        error_by_partition: Errors,
    ) -> Errors:
        """Repeat an implicit add while the previous transaction is still ending (KAFKA-18654)."""
        settings = self.replicas.dynamic_settings
        started_ms = self.clock.monotonic_ms()
        patience_ms = min(
            settings.add_partitions_to_txn_retry_backoff_max_ms, settings.request_timeout_ms
        )
        while (
            command.operation is TransactionOperation.ADD_PARTITION
            and self.rules.implicit_add_is_repeated
            and ErrorCode.concurrent_transactions in error_by_partition.values()
            and self.clock.monotonic_ms() - started_ms < patience_ms
        ):
            await self._pause(settings.add_partitions_to_txn_retry_backoff_ms)
            error_by_partition = await ask_coordinator()
        return error_by_partition

    async def _pause(self, pause_ms: int) -> None:
        pause_end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timer = self.clock.call_later(pause_ms, lambda: pause_end.set_result(None))
        try:
            await pause_end
        finally:
            timer.cancel()

    # Append

    async def _append(
        self,
        command: ProduceCommand,
        guard_by_partition: dict[TopicPartition, int],
        outcome_by_partition: Outcomes,
        newest_by_partition: ScanResults,
        pace: Pace | None,
    ) -> Appends:
        """Append the remaining batches. If a partition has to wait, the later ones of the request
        wait too.
        """
        appends: Appends = []
        element_cost = 1
        if len(command.partitions) > 1 and self.appends.gate.fault_points.is_armed:
            # A crossing may ask very many rules: the clock is looked at after each.
            element_cost = LOOK_ELEMENTS
            pace = pace or Pace(self.tasks.turns, self.clock.stopwatch_ns)
        for partition_batch in command.partitions:
            topic_partition = partition_batch.topic_partition
            if topic_partition not in outcome_by_partition:
                batch = _ClientBatch(
                    partial(
                        append_client,
                        batch=partition_batch.batch,
                        guard=guard_by_partition.get(topic_partition, SENTINEL),
                        header=partition_batch.header,
                        timestamp_check=newest_by_partition.get(topic_partition),
                    ),
                    partial(self.log_for_append, command, topic_partition),
                    command,
                    partition_batch,
                )
                append_result = self.appends.append(batch, appends)
                if not isinstance(append_result, Appended | Rejection):
                    append_result = await append_result
                if isinstance(append_result, Appended):
                    outcome_by_partition[topic_partition] = ProduceOutcome(
                        base_offset=append_result.base_offset,
                        log_append_time_ms=append_result.log_append_time_ms,
                        log_start_offset=append_result.log_start_offset,
                    )
                else:
                    outcome_by_partition[topic_partition] = _refusal_outcome(append_result)
                if pace is not None and pace.has_done(element_cost):
                    await pace.yield_turn()
        return appends

    def log_for_append(
        self, command: ProduceCommand, partition: TopicPartition
    ) -> PartitionLog | Rejection:
        """The log to append to, or the error."""
        if command.acks not in (-1, 0, 1):
            return _WRONG_ACKS
        if partition.topic in INTERNAL_TOPICS and not command.may_write_internal_topics:
            return _INTERNAL_TOPIC
        replicas = self.replicas
        log = replicas.led.get(partition)
        if log is None:
            return replicas.leader_log(partition)
        replicated_log = replicas.replicated.get(partition)
        if (
            replicated_log is not None
            and replicated_log.is_under_min_isr
            and command.acks == ACKS_ALL
        ):
            refusal = self.appends.refuse_too_few_replicas(log)
            assert refusal is not None
            return refusal
        return log


class _ClientBatch(WaitingBatch, frozen=True, gc=False):
    """A client's batch, waiting to be appended to a partition."""

    command: ProduceCommand
    partition_batch: ProducePartition

    def subject(self) -> Subject:
        producer_id = self.partition_batch.header.producer_id
        return Subject(
            transactional_id=self.command.transactional_id,
            producer_id=producer_id if producer_id >= 0 else None,
            partitions=(self.partition_batch.topic_partition,),
        )

    def trace_append(self, events: AppendEvents, log: PartitionLog, appended: Appended) -> int:
        return events.trace_append(
            log, self.partition_batch.header, appended, self.command.transactional_id
        )

    def trace_refusal(self, events: AppendEvents, refusal: Rejection) -> None:
        partition_batch = self.partition_batch
        events.trace_refusal(
            partition_batch.topic_partition,
            partition_batch.header,
            refusal,
            self.command.transactional_id,
        )


def _refusal_outcome(rejection: Rejection) -> ProduceOutcome:
    if not isinstance(rejection, AppendRejection):
        return ProduceOutcome(error=rejection.error)
    return ProduceOutcome(
        error=rejection.error,
        log_start_offset=rejection.log_start_offset,
        record_errors=rejection.record_errors,
        message=rejection.reason if rejection.record_errors else None,
    )


def _mixed_producers(
    transactional_batches: list[ProducePartition], release_rules: Rules
) -> ProduceOutcome | None:
    """The error if transactional batches of one request have different (producer id, epoch)
    pairs.
    """
    first_header = transactional_batches[0].header
    for partition_batch in transactional_batches:
        header = partition_batch.header
        if header.producer_id != first_header.producer_id or (
            header.producer_epoch != first_header.producer_epoch
            and release_rules.request_has_one_epoch
        ):
            return ProduceOutcome(
                error=ErrorCode.invalid_producer_id_mapping,
                message="Transactional records contained more than one producer ID",
            )
    return None


def _unverified_outcome(
    error: ErrorCode, operation: TransactionOperation, release_rules: Rules
) -> ProduceOutcome:
    """The partition's answer if the coordinator did not agree; like Kafka's, the message names the
    error.
    """
    produced_error = produce_error(error, operation, release_rules)
    if error is ErrorCode.invalid_txn_state:
        message: str | None = "Partition was not added to the transaction"
    elif produced_error is not error:
        message = (
            "Unable to verify the partition has been added to the transaction. "
            f"Underlying error: {error.name.upper()}"
        )
    else:
        message = None
    return ProduceOutcome(error=produced_error, message=message)

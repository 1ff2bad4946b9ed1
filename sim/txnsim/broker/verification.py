"""A partition leader asks the coordinator to verify or add partitions before it opens a transaction
(KIP-890).

One queue per coordinator node: each has at most one AddPartitionsToTxn in flight. Verifications
that arrive meanwhile go together in the next one. Answers are translated to errors that the
client's API knows. Kafka's counterpart: AddPartitionsToTxnManager, including its quirks.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import partial
from operator import attrgetter
from typing import Final

import msgspec

from txnsim.errors import ErrorCode, PeerAnsweredError, PeerError
from txnsim.interbroker.transactions import (
    AddPartitionsToTxnCommand,
    AddPartitionsToTxnReply,
    TxnPartitions,
)
from txnsim.loggers import Logger
from txnsim.node.peers import ADD_PARTITIONS_TO_TXN, VERIFICATION_FROM, Peers
from txnsim.releases import interbroker_versions
from txnsim.releases.rules import Rules
from txnsim.runtime.environment import Clock, Tasks
from txnsim.runtime.tasks import Pending
from txnsim.runtime.trace import Tracer
from txnsim.txn.machine import not_added_error
from txnsim.types import (
    CONSUMER_OFFSETS_TOPIC,
    BrokerId,
    ProducerEpoch,
    ProducerId,
    TopicPartition,
    TransactionalId,
)

Errors = dict[TopicPartition, ErrorCode]
_log: Final = Logger("txnsim.txn")


class TransactionOperation(Enum):
    """What the request's version supports (Kafka's TransactionSupportedOperation)."""

    DEFAULT_ERROR = "verify, errors of before KIP-890"
    """For requests of Produce up to v10 and TxnOffsetCommit up to v3."""
    GENERIC_ERROR_SUPPORTED = "verify, TRANSACTION_ABORTABLE understood"
    """For requests of Produce v11 and TxnOffsetCommit v4."""
    ADD_PARTITION = "add implicitly"
    """For requests of Produce from v12 and TxnOffsetCommit from v5: transactions v2."""


class _PendingTxn(msgspec.Struct):
    """One transaction waiting in a queue or on its way."""

    transaction: TxnPartitions
    answer: Pending[Errors]
    since_ns: int
    """When it was queued, by the stopwatch."""
    operation: TransactionOperation
    cause: int = -1
    """The trace event that caused the verification."""
    events: tuple[int, ...] = ()
    """Trace events of the verification, by partition; empty if the trace level leaves them out."""


class _VerificationQueue:
    """The next request to one coordinator."""

    __slots__ = ("in_flight", "is_old", "operation", "waiting")

    def __init__(self) -> None:
        self.in_flight = False
        self.waiting: dict[TransactionalId, _PendingTxn] = {}
        self.operation = TransactionOperation.DEFAULT_ERROR
        self.is_old = False
        """Whether the coordinator's broker is older than verification; the log says so once."""


_RETRIED_AS_NOT_ENOUGH_REPLICAS: Final = frozenset(
    {
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
    }
)


_VERSION_INDEXES: Final = {
    TransactionOperation.DEFAULT_ERROR: 0,
    TransactionOperation.GENERIC_ERROR_SUPPORTED: 1,
    TransactionOperation.ADD_PARTITION: 2,
}
_NO_COORDINATOR_RULES: Final = (
    "verify.no-coordinator.v10",
    "verify.no-coordinator.v11",
    "verify.no-coordinator.v12",
)
_NOT_ADDED_RULES: Final = ("verify.not-added.v10", "verify.not-added.v11", "verify.not-added.v11")
_ANSWER_RULES: Final = {
    ErrorCode.none: ("verify.added.v10", "verify.added.v11", "verify.added.v12"),
    ErrorCode.invalid_txn_state: _NOT_ADDED_RULES,
    ErrorCode.transaction_abortable: _NOT_ADDED_RULES,
    ErrorCode.invalid_producer_epoch: (
        "verify.other-epoch.v10",
        "verify.other-epoch.v11",
        "verify.other-epoch.v12",
    ),
    ErrorCode.invalid_producer_id_mapping: (
        "verify.other-producer.v10",
        "verify.other-producer.v11",
        "verify.other-producer.v12",
    ),
    ErrorCode.concurrent_transactions: (
        "verify.prepared.v10",
        "verify.prepared.v11",
        "verify.prepared.v12",
    ),
    ErrorCode.coordinator_not_available: _NO_COORDINATOR_RULES,
    ErrorCode.not_coordinator: _NO_COORDINATOR_RULES,
    ErrorCode.coordinator_load_in_progress: ("verify.loading",) * 3,
    ErrorCode.network_exception: ("verify.connection-lost",) * 3,
    ErrorCode.invalid_request: ("verify.empty-id",) * 3,
    ErrorCode.unknown_topic_or_partition: ("verify.unknown-partition",) * 3,
    ErrorCode.operation_not_attempted: ("verify.unknown-partition",) * 3,
    ErrorCode.unsupported_version: ("decide.add-at-0",) * 3,
    ErrorCode.unknown_server_error: ("verify.later-error",) * 3,
}
"""Rule ids of docs/rules.md for the answer to a Produce: up to v10, v11, and from v12 on."""
_POSITIONS_RULES: Final = {
    ErrorCode.none: ("txn-commit.verified", "txn-commit.verified", "txn-offset.added.v5"),
    ErrorCode.invalid_txn_state: ("txn-offset.not-added.v3",) * 3,
    ErrorCode.transaction_abortable: ("txn-offset.not-added.v4",) * 3,
    ErrorCode.network_exception: ("txn-offset.network",) * 3,
    ErrorCode.unsupported_version: ("txn-commit.level",) * 3,
}
"""Rule ids of docs/rules.md for the answer to a TxnOffsetCommit: up to v3, v4, and from v5 on.
Other errors are passed on unchanged.
"""

_transaction_of: Final = attrgetter("transaction")
_PASSED_ERROR: Final = "NONE"
"""The trace's value for a verification that succeeded."""


class VerificationQueues(msgspec.Struct, kw_only=True, eq=False):
    """The queues of one broker, by coordinator node."""

    rules: Rules
    clock: Clock
    tasks: Tasks
    tracer: Tracer
    node: str
    peers: Peers
    coordinator_of: Callable[[TransactionalId], BrokerId | None]
    _queues: dict[BrokerId, _VerificationQueue] = {}
    _stopwatch_ns: Callable[[], int] = lambda: 0
    verified: int = 0
    failed: int = 0
    """Number of partitions that were refused or got no answer (VerificationFailureRate counts
    them).
    """
    answered: int = 0
    """Number of answered verifications, including failed ones."""
    waited_us: int = 0
    """Total time of the answered verifications in microseconds (VerificationTimeMs)."""

    def __post_init__(self) -> None:
        self._stopwatch_ns = self.clock.stopwatch_ns

    def ask(
        self,
        *,
        transactional_id: TransactionalId,
        producer_id: ProducerId,
        producer_epoch: ProducerEpoch,
        partitions: tuple[TopicPartition, ...],
        operation: TransactionOperation,
    ) -> Pending[Errors]:
        """Verify or add ``partitions``. The result has the errors by partition; partitions without
        an error are left out.
        """
        pending_answer: Pending[Errors] = Pending(self.tasks)
        pending_txn = _PendingTxn(
            TxnPartitions(
                transactional_id=transactional_id,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                verify_only=operation is not TransactionOperation.ADD_PARTITION,
                partitions=partitions,
            ),
            pending_answer,
            self._stopwatch_ns(),
            operation,
        )
        if self.tracer.on:
            self._trace_question(pending_txn)
        node = self.coordinator_of(transactional_id)
        if node is None:
            error_by_partition = dict.fromkeys(partitions, ErrorCode.coordinator_not_available)
            if self.tracer.on:
                self._trace_answers(pending_txn, error_by_partition, 0)
            pending_answer.resolve(error_by_partition)
            return pending_answer
        queue = self._queues.get(node)
        if queue is None:
            queue = self._queues[node] = _VerificationQueue()
        waiting_txns = queue.waiting
        if not waiting_txns:
            # Kafka maps TRANSACTION_ABORTABLE for a whole batch by the operation of the transaction
            # that opened it.
            queue.operation = operation
        elif transactional_id in waiting_txns and not self._replaces_waiting(
            waiting_txns[transactional_id], pending_txn
        ):
            return pending_answer
        waiting_txns[transactional_id] = pending_txn
        if not queue.in_flight:
            self._send_verification(node, queue)
        return pending_answer

    def queued(self) -> dict[BrokerId, tuple[bool, TransactionOperation, list[TxnPartitions]]]:
        """What is to be asked of each coordinator node: whether a request is on its way, and what
        waits for its end.
        """
        return {
            node: (
                queue.in_flight,
                queue.operation,
                [*map(_transaction_of, queue.waiting.values())],
            )
            for node, queue in self._queues.items()
        }

    # Parts

    def _replaces_waiting(self, waiting_txn: _PendingTxn, new_txn: _PendingTxn) -> bool:
        """Whether a new verification replaces the queued one of the same transaction; the loser
        gets an error.
        """
        new_epoch, waiting_epoch = (
            new_txn.transaction.producer_epoch,
            waiting_txn.transaction.producer_epoch,
        )
        if new_epoch < waiting_epoch:
            self._fail_txn(
                new_txn, ErrorCode.invalid_producer_epoch, rule_id="verify.queue-replaced"
            )
            return False
        # The waiting request gives way: a higher epoch fences it, else its error is retriable.
        self._fail_txn(
            waiting_txn,
            ErrorCode.invalid_producer_epoch
            if new_epoch > waiting_epoch
            else ErrorCode.network_exception,
            rule_id="verify.queue-replaced",
        )
        return True

    def _send_verification(self, broker_id: BrokerId, queue: _VerificationQueue) -> None:
        sent_txns, queue.waiting = queue.waiting, {}
        version = self.peers.version(broker_id, ADD_PARTITIONS_TO_TXN)
        if version < VERIFICATION_FROM:
            self._skip_old_coordinator(broker_id, queue, sent_txns)
            return
        queue.in_flight = True
        transactions = tuple(map(_transaction_of, sent_txns.values()))
        command = AddPartitionsToTxnCommand(transactions=transactions)
        self.peers.add_partitions_to_txn(broker_id, version, command).on_done(
            partial(self._on_answer, broker_id, queue, sent_txns, queue.operation)
        )

    def _skip_old_coordinator(
        self,
        broker_id: BrokerId,
        queue: _VerificationQueue,
        unsent_txns: dict[TransactionalId, _PendingTxn],
    ) -> None:
        """The coordinator's broker is older than verification: all partitions count as verified,
        including those to add (AddPartitionsToTxnHandler, ``versionMismatch``). A leader that does
        not negotiate versions loses its connection instead, each time (KAFKA-16692).
        """
        skips_verification = interbroker_versions.ADD_PARTITIONS_TO_TXN.follows_peer(self.rules)
        if not queue.is_old:
            queue.is_old = True
            _log.warning(
                "txn.verification.skipped" if skips_verification else "txn.verification.closed",
                leader=self.node,
                coordinator=broker_id,
                why=f"broker {broker_id} does not know AddPartitionsToTxn {VERIFICATION_FROM}",
            )
        for pending_txn in unsent_txns.values():
            if skips_verification:
                rule_id = "verify.old-coordinator"
                self._resolve_txn(
                    pending_txn, {}, passing_error="UNSUPPORTED_VERSION", rule_id=rule_id
                )
            else:
                self._fail_txn(
                    pending_txn, ErrorCode.network_exception, rule_id="verify.closed-door"
                )

    def _on_answer(
        self,
        broker_id: BrokerId,
        queue: _VerificationQueue,
        sent_txns: dict[TransactionalId, _PendingTxn],
        operation: TransactionOperation,
        pending_answer: Pending[AddPartitionsToTxnReply],
    ) -> None:
        queue.in_flight = False
        failure, reply = pending_answer.error, pending_answer.value
        if reply is not None:
            self._deliver(sent_txns, reply, operation)
        elif isinstance(failure, PeerAnsweredError):
            self._deliver(sent_txns, AddPartitionsToTxnReply(error=failure.error), operation)
        elif isinstance(failure, PeerError):
            for pending_txn in sent_txns.values():
                self._fail_txn(pending_txn, ErrorCode.network_exception)
        else:
            assert failure is not None
            for pending_txn in sent_txns.values():
                pending_txn.answer.fail(failure)
        if queue.waiting:
            self._send_verification(broker_id, queue)

    def _deliver(
        self,
        sent_txns: dict[TransactionalId, _PendingTxn],
        reply: AddPartitionsToTxnReply,
        operation: TransactionOperation,
    ) -> None:
        if reply.error:
            is_unauthorized = reply.error == ErrorCode.cluster_authorization_failed
            error = ErrorCode.invalid_txn_state if is_unauthorized else ErrorCode(reply.error)
            for pending_txn in sent_txns.values():
                self._fail_txn(
                    pending_txn, error, rule_id="verify.unauthorized" if is_unauthorized else ""
                )
        for transactional_id, partition_errors in reply.results:
            pending_txn = sent_txns[transactional_id]
            error_by_partition: Errors = {}
            for partition, error_code in partition_errors:
                if error_code:
                    error_by_partition[partition] = _leader_error(
                        ErrorCode(error_code), operation, self.rules
                    )
            self.verified += len(partition_errors) - len(error_by_partition)
            self.failed += len(error_by_partition)
            self._resolve_txn(pending_txn, error_by_partition)

    def _fail_txn(self, pending_txn: _PendingTxn, error: ErrorCode, *, rule_id: str = "") -> None:
        self.failed += len(pending_txn.transaction.partitions)
        self._resolve_txn(
            pending_txn, dict.fromkeys(pending_txn.transaction.partitions, error), rule_id=rule_id
        )

    def _resolve_txn(
        self,
        pending_txn: _PendingTxn,
        error_by_partition: Errors,
        *,
        passing_error: str = _PASSED_ERROR,
        rule_id: str = "",
    ) -> None:
        self.answered += 1
        waited_us = (self._stopwatch_ns() - pending_txn.since_ns) // 1_000
        self.waited_us += waited_us
        if self.tracer.on:
            self._trace_answers(
                pending_txn,
                error_by_partition,
                waited_us,
                passing_error=passing_error,
                rule_id=rule_id,
            )
        pending_txn.answer.resolve(error_by_partition)

    # The trace: an event for each partition, so that a reader can count them

    def _trace_question(self, pending_txn: _PendingTxn) -> None:
        pending_txn.cause = self.tracer.cause
        if not self.tracer.full:
            return
        pending_txn.events = tuple(
            self._trace_event(
                "verify.ask", pending_txn.transaction, partition, _added_field(pending_txn)
            )
            for partition in pending_txn.transaction.partitions
        )

    def _trace_answers(
        self,
        pending_txn: _PendingTxn,
        error_by_partition: Errors,
        waited_us: int,
        *,
        passing_error: str = _PASSED_ERROR,
        rule_id: str = "",
    ) -> None:
        """Trace the answers. At level brief only refusals and unverified passes are traced: after a
        success the append follows anyway.
        """
        has_passed = passing_error == _PASSED_ERROR
        if has_passed and not error_by_partition and not self.tracer.full:
            return
        partitions = pending_txn.transaction.partitions
        causes = pending_txn.events or (pending_txn.cause,) * len(partitions)
        for partition, cause in zip(partitions, causes, strict=True):
            error = error_by_partition.get(partition)
            importance = 0 if has_passed and error is None else None
            event_fields: dict[str, object] = {
                "error": passing_error if error is None else error.name.upper(),
                "rule": rule_id or answer_rule(error, pending_txn.operation, partition),
                "waited_us": waited_us,
                **_added_field(pending_txn),
            }
            self._trace_event(
                "verify.answer", pending_txn.transaction, partition, event_fields, cause, importance
            )

    def _trace_event(
        self,
        event_kind: str,
        transaction: TxnPartitions,
        partition: TopicPartition,
        more_fields: dict[str, object],
        cause: int | None = None,
        importance: int | None = None,
    ) -> int:
        return self.tracer.emit(
            event_kind,
            self.node,
            parents=() if cause is None else (cause, self.tracer.cause),
            tx=(
                transaction.transactional_id,
                transaction.producer_id,
                transaction.producer_epoch,
            ),
            data={
                "tp": str(partition),
                "pid": transaction.producer_id,
                "epoch": transaction.producer_epoch,
                **more_fields,
            },
            importance=importance,
        )


def _added_field(pending_txn: _PendingTxn) -> dict[str, object]:
    """Event field that marks a verification that also adds partitions."""
    return {} if pending_txn.transaction.verify_only else {"add": True}


def _leader_error(
    error: ErrorCode, operation: TransactionOperation, release_rules: Rules
) -> ErrorCode:
    """The coordinator's error as the leader returns it (AddPartitionsToTxnManager)."""
    if error is ErrorCode.producer_fenced:
        # Clients learn of fencing on the produce path as INVALID_PRODUCER_EPOCH since 2.7
        # (KIP-588).
        return ErrorCode.invalid_producer_epoch
    if error is ErrorCode.transaction_abortable:
        if error is not not_added_error(release_rules):
            # The coordinator is of 3.8 or later, and this leader does not know the error
            # (Errors.forCode).
            return ErrorCode.unknown_server_error
        if operation is TransactionOperation.DEFAULT_ERROR:
            return ErrorCode.invalid_txn_state
    return error


def answer_rule(
    error: ErrorCode | None, operation: TransactionOperation, partition: TopicPartition
) -> str:
    """The rule id of docs/rules.md that explains how the leader translates the coordinator's
    answer.
    """
    answer_error = ErrorCode.none if error is None else error
    version_index = _VERSION_INDEXES[operation]
    if partition.topic == CONSUMER_OFFSETS_TOPIC:
        rule_ids = _POSITIONS_RULES.get(answer_error)
        return "txn-offset.as-is" if rule_ids is None else rule_ids[version_index]
    rule_ids = _ANSWER_RULES.get(answer_error)
    return "" if rule_ids is None else rule_ids[version_index]


def produce_error(
    error: ErrorCode, operation: TransactionOperation, release_rules: Rules
) -> ErrorCode:
    """The Produce error for a verification error (ReplicaManager.handleProduceAppend).

    Retriable errors become NOT_ENOUGH_REPLICAS, which old clients retry without asking for
    metadata.
    """
    if error is ErrorCode.network_exception:
        return (
            ErrorCode.not_enough_replicas if release_rules.lost_verification_is_retriable else error
        )
    if error in _RETRIED_AS_NOT_ENOUGH_REPLICAS:
        return ErrorCode.not_enough_replicas
    if (
        error is ErrorCode.concurrent_transactions
        and operation is not TransactionOperation.ADD_PARTITION
    ):
        return ErrorCode.not_enough_replicas
    return error

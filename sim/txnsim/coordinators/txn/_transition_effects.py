"""How a transition takes effect: it is written and applied, and its markers are sent.

- ``TransactionLogWriter`` marks the transition as pending, writes its record, waits until it is
  committed, and only then applies it, with the function that loading uses too. If the coordinator
  moved meanwhile, nothing is changed. If the append failed, the transition is withdrawn, except a
  completion that the log could not take at the moment (15): it stays pending and is retried. In
  Kafka: TransactionStateManager.appendTransactionToLog.
- ``MarkerSender`` is the shell around ``MarkerQueue``. Owed markers are collected and routed once
  per turn of the event loop, and sent in one request per broker. When the last partition of a
  transaction has its marker, the completion is appended. Kafka's sender
  (TransactionMarkerChannelManager as a thread) retries an error in the next round of its thread;
  here a short pause replaces that round, because an endless loop of refusals would never let a
  virtual clock advance.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Final, Protocol, TypeVar

import msgspec

from txnsim.coordinators._coordinator_log import TransactionLog, append_error
from txnsim.coordinators._ownership import OwnedPartition, Ownership
from txnsim.coordinators.txn import tracing
from txnsim.errors import ErrorCode, PeerError, Rejection
from txnsim.faults.subjects import Subject
from txnsim.interbroker.transactions import WriteTxnMarkersCommand, WriteTxnMarkersReply
from txnsim.loggers import FailureLog, Logger
from txnsim.releases.rules import Rules
from txnsim.runtime.environment import Clock, Tasks, TimerHandle
from txnsim.runtime.loop_turns import LOOK_ELEMENTS, Pace
from txnsim.runtime.tasks import Pending, coroutine_of, ignore_end
from txnsim.runtime.trace import Tracer
from txnsim.txn.kip_text import record_to_log
from txnsim.txn.log_format import TombstoneBatch, encode_batch, refuse_record
from txnsim.txn.markers import (
    Debt,
    LeaderOf,
    MarkerBatch,
    MarkerOutcome,
    MarkerQueue,
    MarkerSending,
    SendingAndTarget,
    debt_of,
)
from txnsim.txn.state import Tombstone, TransactionState, TxnMetadata, TxnRecord, TxnTransition
from txnsim.txn.transitions import acknowledge_markers, apply, begin, to_complete, withdraw
from txnsim.types import BrokerId, Decision, TopicPartition, TransactionalId, TransactionVersion
from txnsim.wire.batch_header import pack_new_batch

_NO_ERROR: Final = ErrorCode.none
ReplyT = TypeVar("ReplyT")
EffectT = TypeVar("EffectT")
_TV_0: Final = TransactionVersion.TV_0
_TV_1: Final = TransactionVersion.TV_1
_COMPLETE_STATES: Final = frozenset(
    {TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT}
)

_ERRORS_AFTER_APPEND: Final = (
    ErrorCode.request_timed_out,
    ErrorCode.not_enough_replicas_after_append,
)
"""Errors after which the record is in the log anyway."""

_IS_COMMIT: Final = {
    TransactionState.PREPARE_COMMIT: True,
    TransactionState.COMPLETE_COMMIT: True,
    TransactionState.PREPARE_ABORT: False,
    TransactionState.COMPLETE_ABORT: False,
}
"""Whether a transaction in that state is committed."""


class TransitionCallback(Protocol):
    """Called when a transition has taken effect."""

    def __call__(
        self,
        owned_partition: OwnedPartition,
        transactional_id: TransactionalId,
        now_ms: int,
        *,
        fences: bool,
    ) -> object:
        """Act on it at the time ``now_ms``."""


def subject_of(records: Sequence[TxnRecord], topic_partition: TopicPartition) -> Subject:
    """The subject of records in the partition ``topic_partition``, for fault plans."""
    return Subject(
        partitions=(topic_partition,),
        other_subjects=tuple(
            [
                Subject(transactional_id=record.transactional_id, partitions=(topic_partition,))
                if isinstance(record, Tombstone)
                else Subject(
                    transactional_id=record.transactional_id,
                    producer_id=record.producer_id,
                    partitions=(topic_partition,),
                    committed=_IS_COMMIT.get(record.state),
                )
                for record in records
            ]
        ),
    )


class TransactionLogWriter(msgspec.Struct, kw_only=True, eq=False):
    """Writes transitions to ``__transaction_state``."""

    ownership: Ownership[OwnedPartition]
    clock: Clock
    tracer: Tracer
    log: TransactionLog
    rules: Rules
    level: TransactionVersion = _TV_0
    """The finalized level of ``transaction.version``."""
    kip_text: bool = False

    async def append(
        self,
        owned_partition: OwnedPartition,
        decision: Decision[TxnTransition, ReplyT, EffectT],
        *,
        now_ms: int,
        is_begun: bool = False,
        after_transition: TransitionCallback | None = None,
    ) -> ReplyT | Rejection:
        """Mark a transition as pending, write its record, and apply it.

        Returns:
            The reply; or why the transition did not take effect.
        """
        (record,) = decision.records
        records, transactional_id = decision.records, record.transactional_id
        level, entries = self.level, owned_partition.entries
        if not is_begun:
            # Every other command meets CONCURRENT_TRANSACTIONS from now on.
            pending_txn = begin(
                entries.get(transactional_id), record, now_ms=record.last_update_timestamp_ms
            )
            entries[transactional_id] = pending_txn
            if self.tracer.full:
                tracing.trace_preparation(self.tracer, owned_partition.node, pending_txn, level)
        if self.kip_text:
            # The text calls lowering the level harmless: fields that have no room in a record are
            # left out.
            records, refusal = (record_to_log(record),), None
        else:
            refusal = None if level >= _TV_1 else refuse_record(record)
        if refusal is not None:
            # TransactionLog.valueToBytes throws when the move is pending already: the entry stays
            # so until the coordinator moves. A real broker wedges the same way.
            return refusal
        error = self.log.write(
            owned_partition.partition,
            encode_batch(records, finalized_version=level, now_ms=now_ms, release_rules=self.rules),
            subject_of=partial(subject_of, records),
            timeout_ms=record.txn_timeout_ms,
            now_ms=now_ms,
        )
        if not isinstance(error, ErrorCode):
            error, now_ms = await error, self.clock.now_ms()
        if self.tracer.full or (error != _NO_ERROR and self.tracer.on):
            trace_rule = decision.rule if error == _NO_ERROR else _refused_rule(record, error)
            tracing.trace_append(self.tracer, owned_partition.node, record, error, trace_rule)
        if self.ownership.owned.get(owned_partition.partition) is not owned_partition:
            return self.ownership.refuse(owned_partition.partition)
        txn = entries[transactional_id]
        if error != _NO_ERROR:
            return _withdraw_transition(owned_partition, record, error)
        insists_on_order = not self.rules.start_may_step_back
        if (
            insists_on_order
            and record.start_timestamp_ms < txn.start_timestamp_ms
            and record.state is TransactionState.ONGOING
        ):
            return _refuse_step_back(record, txn)
        applied_txn = apply(txn, record, release_rules=self.rules)
        assert applied_txn is not None
        entries[transactional_id] = applied_txn
        if owned_partition.withdrawn_transitions:
            owned_partition.withdrawn_transitions.pop(transactional_id, None)
        if self.tracer.on:
            tracing.trace_completion(self.tracer, owned_partition.node, applied_txn, level)
        if after_transition is not None and decision.effects:
            after_transition(owned_partition, transactional_id, now_ms, fences=record.fences_epoch)
        return decision.reply

    async def write(
        self, owned_partition: OwnedPartition, records: Sequence[TxnRecord], *, timeout_ms: int
    ) -> ErrorCode:
        """Append records with acks=-1 and wait until they are committed; the log's error."""
        now_ms = self.clock.now_ms()
        batch_bytes = encode_batch(
            records, finalized_version=self.level, now_ms=now_ms, release_rules=self.rules
        )
        return await self._write(owned_partition, batch_bytes, records, timeout_ms, now_ms)

    async def write_tombstones(
        self, owned_partition: OwnedPartition, batch: TombstoneBatch, *, timeout_ms: int
    ) -> ErrorCode:
        """``write`` for tombstones that are encoded already."""
        now_ms = self.clock.now_ms()
        tombstones, encoded_records = batch
        batch_bytes = pack_new_batch(encoded_records, timestamp_ms=now_ms)
        return await self._write(owned_partition, batch_bytes, tombstones, timeout_ms, now_ms)

    async def _write(
        self,
        owned_partition: OwnedPartition,
        batch_bytes: bytes,
        records: Sequence[TxnRecord],
        timeout_ms: int,
        now_ms: int,
    ) -> ErrorCode:
        error = self.log.write(
            owned_partition.partition,
            batch_bytes,
            subject_of=partial(subject_of, records),
            timeout_ms=timeout_ms,
            now_ms=now_ms,
        )
        return error if isinstance(error, ErrorCode) else await error


def _refuse_step_back(record: TxnTransition, txn: TxnMetadata) -> Rejection:
    """The rejection for a transition that stays pending until the coordinator moves
    (KAFKA-8803).
    """
    return Rejection(
        error=ErrorCode.unknown_server_error,
        reason=f"{record.transactional_id}: starts at {record.start_timestamp_ms}, before "
        f"{txn.start_timestamp_ms}, and this broker insists on the order",
    )


def _withdraw_transition(
    owned_partition: OwnedPartition, record: TxnTransition, error: ErrorCode
) -> Rejection:
    """Withdraw a transition that the log refused, unless it will be retried."""
    transactional_id = record.transactional_id
    client_error = append_error(error)
    will_be_retried = (
        client_error is ErrorCode.coordinator_not_available and record.state in _COMPLETE_STATES
    )
    if not will_be_retried:
        owned_partition.entries[transactional_id] = withdraw(
            owned_partition.entries[transactional_id], record
        )
        if error in _ERRORS_AFTER_APPEND:
            owned_partition.withdrawn_transitions[transactional_id] = record
    return Rejection(
        error=client_error,
        reason=f"{transactional_id}: the log refused {record.state.wire_name} with {error.name}",
        rule=_refused_rule(record, error),
    )


def _refused_rule(record: TxnTransition, error: ErrorCode) -> str:
    if record.state in _COMPLETE_STATES:
        is_temporary = append_error(error) is ErrorCode.coordinator_not_available
        return "complete.unavailable" if is_temporary else "complete.refused"
    return "end.v4.failed-fence" if record.fences_epoch else "init.failed-append"


# Markers

DEVIATIONS: Final = (
    "Markers refused for a passing reason, markers whose leader is not known and completions that"
    " the log could not take are tried again after 10 ms, requests without an answer after 50 ms;"
    " Apache Kafka tries again as soon as its sender thread comes round.",
    "A leader may answer a marker with an error that a coordinator does not expect:"
    " MESSAGE_TOO_LARGE, where a topic's max.message.bytes is below the 78 bytes of a marker. As on"
    " a real broker, that transaction and all whose markers stand behind it in the same request,"
    " of any producer, stay prepared until their coordinator moves. Apache Kafka throws in the"
    " middle of the answer; which other partitions of the refused transaction count is up to the"
    " order of a hash map. Here none do.",
    "Markers that gather while a request to their leader is under way go out in one request. Apache"
    " Kafka's thread makes a request of what has gathered each time it comes round, so that fewer"
    " transactions share one.",
    "A completion that the log refuses for good is logged and stays prepared; Apache Kafka throws.",
)

SendMarkers = Callable[[BrokerId, WriteTxnMarkersCommand], Awaitable[WriteTxnMarkersReply]]
"""Sends WriteTxnMarkers to a broker; raises PeerError if no answer came."""

SentEvents = Mapping[Debt, int]
"""Trace index of the request's event for each debt; empty while the trace is off."""

RETRY_PAUSE_MS: Final = 10
"""Milliseconds before a retry: marker refused, leader unknown, or completion not appended."""
RECONNECT_PAUSE_MS: Final = 50
"""Milliseconds before a retry after a request without an answer (reconnect.backoff.ms)."""

PATIENCE: Final = 500
"""Number of consecutive attempts, about 10 ms each, after which the log reports markers that don't
arrive.
"""

_log: Final = Logger("txnsim.txn")

FOLLOWED_AT_ONCE: Final = 32
"""If an answer concerns more transactions than this, they are completed in slices."""


class MarkerSender(msgspec.Struct, kw_only=True, eq=False):
    """Sends queued markers, and completes transactions once all their markers are written."""

    queue: MarkerQueue
    ownership: Ownership[OwnedPartition]
    writer: TransactionLogWriter
    clock: Clock
    tasks: Tasks
    tracer: Tracer
    send_markers: SendMarkers
    leader_of: LeaderOf
    _debts_to_complete: list[Debt] = []
    _is_flush_due: bool = False
    _flush_timer: TimerHandle | None = None
    _is_stopped: bool = False
    _retry_counts: dict[TransactionalId, int] = {}
    """How often markers of a transaction had to be sent again, for the trace."""
    _unsent: FailureLog = msgspec.field(
        default_factory=lambda: FailureLog(
            _log, "txn.markers.waiting", "transactional_id", patience=PATIENCE
        )
    )
    _uncompleted: FailureLog = msgspec.field(
        default_factory=lambda: FailureLog(
            _log, "txn.completion.waiting", "transactional_id", patience=PATIENCE
        )
    )
    sent_total: int = 0
    """Number of markers sent, including repeated ones."""
    refused_total: int = 0
    """Number of transactions given up because a leader refused a marker with 47 or 52."""

    @property
    def completions_waiting(self) -> int:
        """Kafka's LogAppendRetryQueueSize."""
        return len(self._debts_to_complete)

    def sendings(self) -> dict[TransactionalId, dict[TopicPartition, SendingAndTarget]]:
        """How the markers of each transaction are sent; without those that are not sent again."""
        sendings = self.queue.sendings()
        for transactional_id in self._retry_counts.keys() & sendings.keys():
            sendings[transactional_id] = {
                partition: (MarkerSending.RETRIED, broker_id)
                if sending is MarkerSending.UNDER_WAY
                else (sending, broker_id)
                for partition, (sending, broker_id) in sendings[transactional_id].items()
            }
        return sendings

    def owe(
        self,
        owned_partition: OwnedPartition,
        transactional_id: TransactionalId,
        now_ms: int,
        *,
        fences: bool = False,
        is_load: bool = False,
    ) -> None:
        """Queue the markers of a prepared transaction; its completion is pending from now on.

        Args:
            owned_partition: The partition of the transactional id.
            transactional_id: The transaction's id.
            now_ms: The time.
            fences: Whether it is an abort that has raised the epoch.
            is_load: Whether the previous coordinator prepared it.
        """
        txn = owned_partition.entries[transactional_id]
        completion = to_complete(txn, now_ms=now_ms)
        tracer = self.tracer
        old_cause = tracer.cause if tracer.on else -1
        pending_txn = owned_partition.entries[transactional_id] = begin(
            txn, completion, now_ms=now_ms
        )
        if tracer.full:
            tracing.trace_preparation(tracer, owned_partition.node, pending_txn, self.writer.level)
        debt = debt_of(
            txn,
            completion,
            txn_partition=owned_partition.partition,
            coordinator_epoch=owned_partition.coordinator_epoch,
            fences=fences,
            cause=tracer.cause if tracer.on else -1,
        )
        self.queue.add_debt(debt, txn.partitions)
        if self.tracer.on:
            tracing.marker(
                self.tracer,
                "marker.owed",
                owned_partition.node,
                debt,
                sorted(txn.partitions),
                rule="sent.resent-after-move" if is_load else "sent.every-partition",
            )
            self.tracer.set_cause(old_cause)
        if not self._is_flush_due:
            self.flush_soon()

    def drop(self, txn_partition: int) -> None:
        """Drop all markers owed for a partition of ``__transaction_state`` that has moved away."""
        dropped_debts = self.queue.drop_partition(txn_partition)
        for debt in dropped_debts:
            self._forget_retries(debt.transactional_id)
        for debt in self._debts_to_complete:
            if debt.txn_partition == txn_partition:
                self._uncompleted.forget_failures(debt.transactional_id)
        self._debts_to_complete = [
            debt for debt in self._debts_to_complete if debt.txn_partition != txn_partition
        ]
        if self.tracer.on:
            node = self.ownership.node_of(txn_partition)
            for debt in dropped_debts:
                event_data = {
                    "pid": debt.producer_id,
                    "epoch": debt.producer_epoch,
                    "rule": "sent.resent-after-move",
                }
                self.tracer.emit(
                    "marker.cancelled",
                    node,
                    parents=(self.tracer.cause, debt.cause),
                    tx=tracing.tx_of(debt),
                    data={**event_data, "reason": "the coordinator moved"},
                )

    def flush_soon(self) -> None:
        """Send in the next turn of the loop. Also useful when leaders have changed."""
        if not self._is_flush_due and not self._is_stopped:
            self._is_flush_due = True
            self.tasks.run_soon(self._flush)

    def stop(self) -> None:
        self._is_stopped = True
        if self._flush_timer is not None:
            self._flush_timer.cancel()
            self._flush_timer = None

    # Sending

    def _flush(self) -> None:
        self._is_flush_due = False
        if self._is_stopped:
            return
        completed_debts, self._debts_to_complete = self._debts_to_complete, []
        # Nobody's cause has to be put back: a flush is a turn of its own, and each of its parts
        # names what caused it.
        for debt in completed_debts:
            self.tracer.set_cause(debt.cause)
            owned_partition = self.ownership.get(debt.txn_partition, debt.coordinator_epoch)
            self._complete(owned_partition, debt, self.clock.now_ms())
        for debt, partitions in self.queue.take_waiting():
            deleted_partitions = self.queue.route(debt, partitions, self.leader_of)
            if deleted_partitions or not partitions:
                self._settle_deleted_partitions(debt, deleted_partitions)
        for batch in self.queue.take_batches():
            self._send_markers(batch)
        if self.queue.leader_unknown:
            for debt, leaderless_partitions in self.queue.leader_unknown:
                first_leaderless = min(leaderless_partitions)
                self._unsent.note_failure(
                    debt.transactional_id, "NO_LEADER", f"no leader of {first_leaderless} is known"
                )
            self._flush_later(RETRY_PAUSE_MS)

    def _flush_later(self, pause_ms: int) -> None:
        if self._flush_timer is None and not self._is_stopped:
            self._flush_timer = self.clock.call_later(pause_ms, self._on_flush_timer)

    def _on_flush_timer(self) -> None:
        self._flush_timer = None
        self.flush_soon()

    def _settle_deleted_partitions(
        self, debt: Debt, deleted_partitions: frozenset[TopicPartition]
    ) -> None:
        """Cancel the markers of deleted partitions; complete the transaction if none is left."""
        # What waits is dropped with its partition.
        owned_partition = self.ownership.owned[debt.txn_partition]
        assert owned_partition.coordinator_epoch == debt.coordinator_epoch
        if self.tracer.on:
            self.tracer.set_cause(debt.cause)
            tracing.marker(
                self.tracer,
                "marker.cancelled",
                owned_partition.node,
                debt,
                sorted(deleted_partitions),
                rule="sent.no-leader",
                reason="it has no leader, and counts as deleted",
            )
        self._remove_from_debt(owned_partition, debt, deleted_partitions, self.clock.now_ms())

    def _send_markers(self, batch: MarkerBatch) -> None:
        self.sent_total += len(batch.owed_markers)
        sent_events: dict[Debt, int] = {}
        if self.tracer.on:
            for owed_marker in batch.owed_markers:
                retry_count = self._retry_counts.get(owed_marker.debt.transactional_id, 0)
                if not retry_count and not self.tracer.full:
                    sent_events[owed_marker.debt] = owed_marker.debt.cause
                    continue
                sent_events[owed_marker.debt] = tracing.marker(
                    self.tracer,
                    "marker.sent",
                    self.ownership.node_of(owed_marker.debt.txn_partition),
                    owed_marker.debt,
                    owed_marker.marker.partitions,
                    broker_id=batch.broker_id,
                    parents=(owed_marker.debt.cause,),
                    rule=owed_marker.debt.epoch_rule,
                    importance=None if retry_count else 0,
                    **({"attempt": retry_count + 1} if retry_count else {}),
                )
            self.tracer.set_cause(next(reversed(sent_events.values()), -1))
        pending_answer = self.send_markers(batch.broker_id, batch.command)
        if isinstance(pending_answer, Pending):
            pending_answer.on_done(
                lambda settled_answer: self._on_answer(
                    batch, sent_events, settled_answer.value, settled_answer.error
                )
            )
        else:
            take_answer = partial(self._on_answer, batch, sent_events)
            self.tasks.drive(coroutine_of(pending_answer), take_answer, name="markers")

    def _on_answer(
        self,
        batch: MarkerBatch,
        sent_events: SentEvents,
        reply: WriteTxnMarkersReply | None,
        error: BaseException | None,
    ) -> None:
        if isinstance(error, asyncio.CancelledError):
            return
        if error is not None and not isinstance(error, PeerError):
            raise error
        if reply is None:
            marker_outcomes = self.queue.on_lost(batch)
            self._flush_later(RECONNECT_PAUSE_MS)
        elif len(batch.owed_markers) > FOLLOWED_AT_ONCE:
            self.queue.end_flight(batch)
            outcomes_coroutine = self._follow_outcomes(batch, sent_events, reply)
            self.tasks.drive(outcomes_coroutine, ignore_end, name="txn.outcomes")
            return
        else:
            marker_outcomes = self.queue.on_reply(batch, reply)
            if len(marker_outcomes) < len(batch.owed_markers):
                self._abandon(batch, reply, sent_events, len(marker_outcomes))
        now_ms = self.clock.now_ms()
        for marker_outcome in marker_outcomes:
            # One answer is about several transactions: each has its own sending for its main cause.
            sent_event = sent_events.get(marker_outcome.debt, -1) if len(sent_events) > 1 else -1
            self._follow_outcome(marker_outcome, batch.broker_id, sent_event, now_ms)
        if self.queue.has_markers_to_send:
            self.flush_soon()

    # Outcomes

    async def _follow_outcomes(
        self, batch: MarkerBatch, sent_events: SentEvents, reply: WriteTxnMarkersReply
    ) -> None:
        """Process the answers about all transactions, in slices if there are very many."""
        pace = Pace(self.tasks.turns, self.clock.stopwatch_ns)
        outcome_count = 0
        for outcome in self.queue.outcomes(batch, reply):
            outcome_count += 1
            sent_event = sent_events.get(outcome.debt, -1)
            self._follow_outcome(outcome, batch.broker_id, sent_event, self.clock.now_ms())
            if pace.has_done(LOOK_ELEMENTS):
                await pace.yield_turn()
                if self._is_stopped:
                    return
        if outcome_count < len(batch.owed_markers):
            self._abandon(batch, reply, sent_events, outcome_count)
        if self.queue.has_markers_to_send:
            self.flush_soon()

    def _abandon(
        self,
        batch: MarkerBatch,
        reply: WriteTxnMarkersReply,
        sent_events: SentEvents,
        followed_count: int,
    ) -> None:
        """Leave the markers of an answer that tells what no leader tells: they are neither done nor
        sent again.
        """
        _log.error("txn.markers.broken_answer", broker=batch.broker_id, reply=reply)
        if not self.tracer.on:
            return
        for owed_marker in batch.owed_markers[followed_count:]:
            tracing.marker(
                self.tracer,
                "marker.abandoned",
                self.ownership.node_of(owed_marker.debt.txn_partition),
                owed_marker.debt,
                owed_marker.marker.partitions,
                broker_id=batch.broker_id,
                parents=(sent_events.get(owed_marker.debt, -1), self.tracer.cause),
                rule="result.unexpected",
            )

    def _follow_outcome(
        self, marker_outcome: MarkerOutcome, broker_id: BrokerId, sent_event: int, now_ms: int
    ) -> None:
        debt = marker_outcome.debt
        owned_partition = self.ownership.get(debt.txn_partition, debt.coordinator_epoch)
        if owned_partition is None:
            self.queue.on_stale_reply(debt)
            return
        old_cause = -1
        if self.tracer.on:
            old_cause = self._trace_outcome(
                owned_partition.node, marker_outcome, broker_id, sent_event
            )
        if marker_outcome.refusal_error:
            if self.queue.forget_debt(debt):
                self._forget_retries(debt.transactional_id)
                self.refused_total += 1
                _log.warning(
                    "txn.markers.refused",
                    transactional_id=debt.transactional_id,
                    error=ErrorCode(marker_outcome.refusal_error).name,
                )
        elif marker_outcome.partitions_to_retry:
            self.queue.route_later(debt, marker_outcome.partitions_to_retry)
            transactional_id = debt.transactional_id
            self._retry_counts[transactional_id] = self._retry_counts.get(transactional_id, 0) + 1
            self._note_retry(marker_outcome, broker_id)
            self._flush_later(RETRY_PAUSE_MS)
        self._remove_from_debt(owned_partition, debt, marker_outcome.written_partitions, now_ms)
        if self.tracer.on:
            self.tracer.set_cause(old_cause)

    def _remove_from_debt(
        self,
        owned_partition: OwnedPartition,
        debt: Debt,
        settled_partitions: frozenset[TopicPartition],
        now_ms: int,
    ) -> None:
        """Remove partitions from the debt; complete the transaction after the last one."""
        transactional_id = debt.transactional_id
        if settled_partitions:
            owned_partition.entries[transactional_id] = acknowledge_markers(
                owned_partition.entries[transactional_id], settled_partitions
            )
        if not owned_partition.entries[transactional_id].partitions and self.queue.forget_debt(
            debt
        ):
            if self._retry_counts or self._unsent.tried:
                self._forget_retries(transactional_id)
            self._complete(owned_partition, debt, now_ms)

    def _forget_retries(self, transactional_id: TransactionalId) -> None:
        """Cancel all retries for the transactional id."""
        self._retry_counts.pop(transactional_id, None)
        self._unsent.forget_failures(transactional_id)

    def _note_retry(self, marker_outcome: MarkerOutcome, broker_id: BrokerId) -> None:
        error = (
            ErrorCode(marker_outcome.retry_error).name.upper()
            if marker_outcome.retry_error
            else "NO_ANSWER"
        )
        first_partition = min(marker_outcome.partitions_to_retry)
        self._unsent.note_failure(
            marker_outcome.debt.transactional_id,
            error,
            f"broker {broker_id} has not taken that of {first_partition}",
        )

    # Completion

    def _complete(self, owned_partition: OwnedPartition | None, debt: Debt, now_ms: int) -> None:
        assert owned_partition is not None, "what waits is dropped with its partition"
        completion_decision: Decision[TxnTransition, None, None] = Decision(
            records=(debt.completion,), reply=None, rule="sent.every-partition"
        )
        completion_coroutine = self.writer.append(
            owned_partition, completion_decision, now_ms=now_ms, is_begun=True
        )
        self.tasks.drive(
            completion_coroutine,
            partial(self._on_completed, owned_partition, debt),
            name="completion",
        )

    def _on_completed(
        self,
        owned_partition: OwnedPartition,
        debt: Debt,
        rejection: Rejection | None,
        error: BaseException | None,
    ) -> None:
        if error is not None:
            ignore_end(None, error)
            return
        if rejection is None or not self.ownership.is_current(owned_partition):
            if self._uncompleted.tried:
                self._uncompleted.forget_failures(debt.transactional_id)
            return
        if rejection.error is ErrorCode.coordinator_not_available:
            self._uncompleted.note_failure(
                debt.transactional_id, rejection.error.name.upper(), rejection.reason
            )
            self._debts_to_complete.append(debt)
            self._flush_later(RETRY_PAUSE_MS)
        else:
            _log.error("txn.completion.refused", error=rejection.error.name, why=rejection.reason)

    # Trace

    def _trace_outcome(
        self, node: str, marker_outcome: MarkerOutcome, broker_id: BrokerId, sent_event: int
    ) -> int:
        """Make the last acknowledgement the cause of the next events; returns the old cause."""
        old_cause = self.tracer.cause
        debt, written_partitions = marker_outcome.debt, sorted(marker_outcome.written_partitions)
        causes = (sent_event, old_cause)
        acked_event = tracing.marker(
            self.tracer,
            "marker.acked",
            node,
            debt,
            written_partitions,
            broker_id=broker_id,
            parents=causes,
            rule="result.done",
        )
        if acked_event >= 0:
            self.tracer.set_cause(acked_event)
        if marker_outcome.refusal_error:
            tracing.marker(
                self.tracer,
                "marker.refused",
                node,
                debt,
                sorted(marker_outcome.refused_partitions),
                broker_id=broker_id,
                parents=causes,
                rule=marker_outcome.refusal_rule,
                error=ErrorCode(marker_outcome.refusal_error).name.upper(),
            )
        return old_cause

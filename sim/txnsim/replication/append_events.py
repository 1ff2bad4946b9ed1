"""Writes appends, and the offsets that move with them, as events of the trace.

The result of an append (``Appended``) says what it has changed. Each method is called only while
the trace is on, after the log has accepted or refused the batch.
"""

from __future__ import annotations

from collections import deque
from typing import Final

import msgspec

from txnsim.errors import Rejection
from txnsim.interbroker.transactions import TxnMarker
from txnsim.log.answers import Appended
from txnsim.log.leader_append import data_rule, marker_rule
from txnsim.log.partition_log import PartitionLog
from txnsim.node.log_events import LogEvents
from txnsim.runtime.trace import NO_CAUSE, LaterPayload, Tracer, Transaction
from txnsim.types import INTERNAL_TOPICS, TRANSACTION_STATE_TOPIC, LeaderEpoch, TopicPartition
from txnsim.wire.batch_header import BatchHeader

TRANSACTIONAL_IDS_MAX: Final = 4_096
"""Number of producer ids whose transactional ids are remembered."""
PENDING_APPENDS_MAX: Final = 1_024
"""Most appends of one partition that are remembered until the high watermark passes them."""
PENDING_MARKERS_MAX: Final = 1_024
"""Most markers of one partition that are remembered until the last stable offset passes them."""


class _PendingAppend(msgspec.Struct, frozen=True):
    """A batch or a marker that the high watermark or the last stable offset has not passed yet."""

    offset: int
    event: int
    tx: Transaction


_NO_APPEND: Final = _PendingAppend(-1, NO_CAUSE, "")


class _TracedLog:
    """What the trace remembers of one log."""

    __slots__ = (
        "closed_appends",
        "is_routine",
        "name",
        "node",
        "replicas",
        "stable_offset",
        "unreplicated_appends",
    )

    def __init__(self, broker: str, topic_partition: TopicPartition) -> None:
        self.name = str(topic_partition)
        self.node = f"{broker}/log/{self.name}"
        self.is_routine = topic_partition.topic == TRANSACTION_STATE_TOPIC
        """Whether it is a log of transaction coordinators, whose high watermark follows each
        record.
        """
        self.unreplicated_appends: deque[_PendingAppend] = deque(maxlen=PENDING_APPENDS_MAX)
        """Appends above the high watermark, in the order of their offsets."""
        self.closed_appends: dict[int, _PendingAppend] = {}
        """First offset of a transaction -> its marker, for markers above the last stable offset."""
        self.stable_offset = 0
        """The last stable offset as the trace last reported it; at first, the one at the start of
        this leader.
        """
        self.replicas = 0
        """Number of the partition's replicas as the trace last reported it."""


class AppendEvents(LogEvents):
    """The append events of one broker's logs.

    When the high watermark or the last stable offset moves, the main cause is the append or the
    marker that it has passed, and not the follower's fetch that moved it: fetches are many and say
    nothing. So appends and markers are remembered until they are passed.
    """

    __slots__ = ("_logs", "_transactional_id_by_producer")

    def __init__(self, tracer: Tracer, broker: str) -> None:
        super().__init__(tracer, broker)
        self._logs: dict[TopicPartition, _TracedLog] = {}
        self._transactional_id_by_producer: dict[int, str] = {}

    def trace_leadership(
        self, log: PartitionLog, leader_epoch: LeaderEpoch, replica_count: int
    ) -> None:
        """Traces that the broker leads a log from now on, with the log's offsets and open
        producers; offsets that are 0 are left out. Nothing is traced for internal topics.

        Args:
            log: The log.
            leader_epoch: The new leader epoch.
            replica_count: Number of the partition's replicas. With a single one, the log end is the
                high watermark.
        """
        log_state = self._log_state(log.topic_partition)
        log_state.stable_offset, log_state.replicas = log.last_stable_offset, replica_count
        if log.topic_partition.topic in INTERNAL_TOPICS:
            return
        offset_fields: dict[str, object] = {
            "start": log.log_start_offset,
            "end": log.log_end_offset,
            "hw": log.high_watermark,
            "lso": log_state.stable_offset,
            "producers": [
                {
                    "pid": producer.producer_id,
                    "epoch": producer.producer_epoch,
                    "first": producer.txn_first_offset,
                    "seq": producer.last_sequence,
                    "timestamp": producer.last_timestamp,
                    "since": log.batch_timestamp_at(producer.txn_first_offset),
                    "coordinator_epoch": producer.coordinator_epoch,
                }
                for producer in log.producers.open_producers()
            ],
        }
        event_data = {
            "tp": log_state.name,
            "role": "leader",
            "epoch": leader_epoch,
            "replicas": replica_count,
        }
        event_data.update({field: value for field, value in offset_fields.items() if value})
        self.tracer.emit("node.role", self.broker, data=event_data)

    def trace_replicas(self, log: PartitionLog, replica_count: int) -> None:
        """Trace a new number of replicas of a led log in the same leader epoch (a reassignment)."""
        log_state = self._log_state(log.topic_partition)
        if log_state.replicas == replica_count or log.topic_partition.topic in INTERNAL_TOPICS:
            return
        log_state.replicas = replica_count
        event_data = {"tp": log_state.name, "role": "replicas", "replicas": replica_count}
        self.tracer.emit("node.role", log_state.node, data=event_data)

    def forget(self, topic_partition: TopicPartition) -> None:
        """Forget a log that the broker no longer hosts."""
        self._logs.pop(topic_partition, None)

    def trace_start(self, log: PartitionLog, reason: str) -> None:
        super().trace_start(log, reason)
        self._log_state(log.topic_partition).stable_offset = log.last_stable_offset

    def trace_append(
        self,
        log: PartitionLog,
        header: BatchHeader,
        appended: Appended,
        transactional_id: str | None,
    ) -> int:
        """Trace an appended or duplicate batch as the current cause; returns the previous cause."""
        tracer, log_state = self.tracer, self._log_state(log.topic_partition)
        if transactional_id is not None:
            self._remember_transactional_id(header.producer_id, transactional_id)
        tx = self._transaction_of(header.producer_id, header.producer_epoch)
        producer = log.producers.state.find(header.producer_id)
        base_offset, rule = appended.base_offset, data_rule(header, appended, producer)
        if appended.duplicate:
            duplicate_payload = (_duplicate_data, log_state.name, header, base_offset, rule)
            return tracer.set_cause(
                tracer.emit("log.duplicate", log_state.node, tx=tx, data=duplicate_payload)
            )
        opens_transaction = header.is_transactional and appended.open_txn_before < 0
        # The brief level has a budget of events.
        size_bytes = header.size if tracer.full else None
        later_payload = (
            _append_data,
            log_state.name,
            header,
            base_offset,
            rule,
            opens_transaction,
            size_bytes,
        )
        cause = self._trace_stored(
            "log.append",
            log_state,
            header.producer_id,
            header.producer_epoch,
            appended,
            tx,
            later_payload,
        )
        if opens_transaction:
            coordinator_epoch = -1 if producer is None else producer.coordinator_epoch
            opening_payload = (
                _opening_data,
                log_state.name,
                header,
                base_offset,
                coordinator_epoch,
            )
            tracer.emit("pid.open", log_state.node, parents=(cause,), tx=tx, data=opening_payload)
        return self._note_end(log_state, log.log_end_offset - 1, cause, tx)

    def trace_refusal(
        self,
        topic_partition: TopicPartition,
        header: BatchHeader,
        refusal: Rejection,
        transactional_id: str | None,
    ) -> None:
        log_state = self._log_state(topic_partition)
        if transactional_id is not None:
            self._remember_transactional_id(header.producer_id, transactional_id)
        event_data = {
            **_batch_data(log_state.name, header),
            "bytes": header.size,
            "error": refusal.error.name.upper(),
            "reason": refusal.reason,
            "rule": refusal.rule,
        }
        tx = self._transaction_of(header.producer_id, header.producer_epoch)
        self.tracer.emit("log.reject", log_state.node, tx=tx, data=event_data)

    def trace_marker(self, log: PartitionLog, marker: TxnMarker, appended: Appended) -> int:
        """Trace an appended marker as the current cause; returns the previous cause."""
        tracer, log_state = self.tracer, self._log_state(log.topic_partition)
        first_offset, marker_offset = appended.open_txn_before, appended.base_offset
        tx = self._transaction_of(marker.producer_id, marker.producer_epoch)
        later_payload = (
            _marker_data,
            log_state.name,
            marker,
            marker_offset,
            marker_rule(marker, appended),
        )
        cause = self._trace_stored(
            "marker.written",
            log_state,
            marker.producer_id,
            marker.producer_epoch,
            appended,
            tx,
            later_payload,
        )
        if first_offset >= 0:
            pending_markers = log_state.closed_appends
            pending_markers[first_offset] = _PendingAppend(marker_offset, cause, tx)
            if len(pending_markers) > PENDING_MARKERS_MAX:
                del pending_markers[next(iter(pending_markers))]
            closing_payload = (_closing_data, log_state.name, marker, first_offset, marker_offset)
            tracer.emit("pid.close", log_state.node, parents=(cause,), tx=tx, data=closing_payload)
            if not marker.committed:
                abort_data = {
                    "tp": log_state.name,
                    "pid": marker.producer_id,
                    "first": first_offset,
                    "last": marker_offset,
                    "lso": log.last_stable_offset,
                }
                tracer.emit("log.aborted", log_state.node, parents=(cause,), tx=tx, data=abort_data)
        return self._note_end(log_state, log.log_end_offset - 1, cause, tx)

    def trace_marker_refusal(
        self, topic_partition: TopicPartition, marker: TxnMarker, refusal: Rejection
    ) -> None:
        """Trace a marker that the leader has refused."""
        log_state = self._log_state(topic_partition)
        error_fields = {"error": refusal.error.name.upper(), "rule": refusal.rule}
        tx = self._transaction_of(marker.producer_id, marker.producer_epoch)
        event_data = {**_marker_fields(marker), "tp": log_state.name, **error_fields}
        self.tracer.emit("marker.refused", log_state.node, tx=tx, data=event_data)

    def note_end_cause(self, log: PartitionLog) -> None:
        """Note the current cause as the cause of the log's new end."""
        _note_append(
            self._log_state(log.topic_partition), log.log_end_offset - 1, self.tracer.cause, ""
        )

    def trace_watermarks(self, log: PartitionLog) -> int:
        """Traces that the high watermark has moved, and the last stable offset if it moved, too;
        returns the event that causes what follows.
        """
        tracer, log_state = self.tracer, self._log_state(log.topic_partition)
        cause, high_watermark, unreplicated_appends = (
            tracer.cause,
            log.high_watermark,
            log_state.unreplicated_appends,
        )
        passed_append = _NO_APPEND
        while unreplicated_appends and unreplicated_appends[0].offset < high_watermark:
            passed_append = unreplicated_appends.popleft()
        if tracer.full:
            last_event = self._trace_offset(
                "log.hw", log_state, high_watermark, (passed_append.event, cause), passed_append.tx
            )
        else:
            last_event = passed_append.event if passed_append.event >= 0 else cause
            if log_state.is_routine:
                return last_event
        last_stable_offset = log.last_stable_offset
        if last_stable_offset != log_state.stable_offset:
            passed_append = _marker_passed_by(log_state, last_stable_offset) or passed_append
            causes = (passed_append.event, last_event, cause)
            importance = 0 if log_state.is_routine else None
            last_event = self._trace_offset(
                "log.lso", log_state, last_stable_offset, causes, passed_append.tx, importance
            )
            log_state.stable_offset = last_stable_offset
        return last_event

    # Parts

    def _trace_stored(
        self,
        event_kind: str,
        log_state: _TracedLog,
        producer_id: int,
        producer_epoch: int,
        appended: Appended,
        tx: Transaction,
        later_payload: LaterPayload,
    ) -> int:
        """Trace a stored batch or marker. If it has raised the producer's epoch, a ``pid.bump``
        follows; in a transaction only at level full, because the event's own name has the epoch.
        """
        tracer = self.tracer
        cause = tracer.emit(event_kind, log_state.node, tx=tx, data=later_payload)
        if 0 <= appended.epoch_before < producer_epoch and (not tx or tracer.full):
            bump_data = {"tp": log_state.name, "pid": producer_id, "epoch": producer_epoch}
            importance = 0 if tx else None
            tracer.emit(
                "pid.bump",
                log_state.node,
                parents=(cause,),
                tx=tx,
                data=bump_data,
                importance=importance,
            )
        return cause

    def _note_end(
        self, log_state: _TracedLog, last_offset: int, cause: int, tx: Transaction
    ) -> int:
        """Note ``cause`` as the cause of the log's end and as the current cause; returns the
        previous cause.
        """
        _note_append(log_state, last_offset, cause, tx)
        return self.tracer.set_cause(cause)

    def _remember_transactional_id(self, producer_id: int, transactional_id: str) -> None:
        transactional_ids = self._transactional_id_by_producer
        if transactional_ids.get(producer_id) != transactional_id:
            transactional_ids[producer_id] = transactional_id
            if len(transactional_ids) > TRANSACTIONAL_IDS_MAX:
                del transactional_ids[next(iter(transactional_ids))]

    def _transaction_of(self, producer_id: int, epoch: int) -> Transaction:
        """The transaction's name in the trace; "" if no batch has named the producer's
        transactional id.
        """
        transactional_id = self._transactional_id_by_producer.get(producer_id)
        return "" if transactional_id is None else (transactional_id, producer_id, epoch)

    def _trace_offset(
        self,
        event_kind: str,
        log_state: _TracedLog,
        offset: int,
        causes: tuple[int, ...],
        tx: Transaction,
        importance: int | None = None,
    ) -> int:
        """Trace a moved offset, unless the trace level leaves it out; returns the event, or the
        joined causes.
        """
        if importance == 0 and not self.tracer.full:
            return self.tracer.cause_of(causes)
        event_data = {"tp": log_state.name, "to": offset}
        return self.tracer.emit(
            event_kind,
            log_state.node,
            parents=causes,
            tx=tx,
            data=event_data,
            importance=importance,
        )

    def _log_state(self, topic_partition: TopicPartition) -> _TracedLog:
        log_state = self._logs.get(topic_partition)
        if log_state is None:
            log_state = self._logs[topic_partition] = _TracedLog(self.broker, topic_partition)
        return log_state


def _note_append(log_state: _TracedLog, last_offset: int, cause: int, tx: Transaction) -> None:
    unreplicated_appends = log_state.unreplicated_appends
    while unreplicated_appends and unreplicated_appends[-1].offset >= last_offset:
        unreplicated_appends.pop()  # cut off meanwhile
    unreplicated_appends.append(_PendingAppend(last_offset, cause, tx))


def _marker_passed_by(log_state: _TracedLog, last_stable_offset: int) -> _PendingAppend | None:
    """The marker whose transaction held the last stable offset back; None if none did."""
    pending_markers = log_state.closed_appends
    if not pending_markers:
        return None
    holding_marker = pending_markers.get(log_state.stable_offset)
    for first_offset in [
        first_offset for first_offset in pending_markers if first_offset < last_stable_offset
    ]:
        passed_marker = pending_markers.pop(first_offset)
        holding_marker = holding_marker or passed_marker
    return holding_marker


# Payloads, made when they are encoded


def _duplicate_data(
    partition_name: str, header: BatchHeader, base_offset: int, append_rule: str
) -> dict[str, object]:
    return {
        **_batch_data(partition_name, header),
        "bytes": header.size,
        "base": base_offset,
        "rule": append_rule,
    }


def _append_data(
    partition_name: str,
    header: BatchHeader,
    base_offset: int,
    rule: str,
    opens_transaction: bool,  # noqa: FBT001 - payloads go by position
    size_bytes: int | None,
) -> dict[str, object]:
    event_data = _batch_data(partition_name, header)
    event_data["base"] = base_offset
    event_data["rule"] = rule
    event_data["last"] = base_offset + header.last_offset_delta
    event_data["opened"] = opens_transaction
    if size_bytes is not None:
        event_data["bytes"] = size_bytes
    return event_data


def _opening_data(
    partition_name: str, header: BatchHeader, first_offset: int, coordinator_epoch: int
) -> dict[str, object]:
    event_data: dict[str, object] = {
        "tp": partition_name,
        "pid": header.producer_id,
        "epoch": header.producer_epoch,
        "first": first_offset,
        "timestamp": header.max_timestamp_ms,
    }
    if coordinator_epoch >= 0:
        event_data["coordinator_epoch"] = coordinator_epoch
    return event_data


def _marker_data(
    partition_name: str, marker: TxnMarker, marker_offset: int, rule: str
) -> dict[str, object]:
    return {**_marker_fields(marker), "tp": partition_name, "offset": marker_offset, "rule": rule}


def _closing_data(
    partition_name: str, marker: TxnMarker, first_offset: int, last_offset: int
) -> dict[str, object]:
    return {
        "tp": partition_name,
        "pid": marker.producer_id,
        "epoch": marker.producer_epoch,
        "first": first_offset,
        "last": last_offset,
        "committed": marker.committed,
    }


def _batch_data(partition_name: str, header: BatchHeader) -> dict[str, object]:
    event_data: dict[str, object] = {
        "tp": partition_name,
        "pid": header.producer_id,
        "epoch": header.producer_epoch,
        "seq": header.base_sequence,
        "txn": header.is_transactional,
    }
    if header.is_control:
        event_data["control"] = True
    return event_data


def _marker_fields(marker: TxnMarker) -> dict[str, object]:
    return {
        "pid": marker.producer_id,
        "epoch": marker.producer_epoch,
        "committed": marker.committed,
        "coordinator_epoch": marker.coordinator_epoch,
    }

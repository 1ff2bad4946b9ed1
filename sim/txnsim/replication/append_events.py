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

NAMES_MAX: Final = 4_096
"""Number of producer ids whose transactional ids are remembered."""
UNREPLICATED_MAX: Final = 1_024
"""Most appends of one partition that are remembered until the high watermark passes them."""
CLOSED_MAX: Final = 1_024
"""Most markers of one partition that are remembered until the last stable offset passes them."""


class _PendingAppend(msgspec.Struct, frozen=True):
    """A batch or a marker that the high watermark or the last stable offset has not passed yet."""

    offset: int
    event: int
    tx: Transaction


_NOTHING: Final = _PendingAppend(-1, NO_CAUSE, "")


class _Log:
    """What the trace remembers of one log."""

    __slots__ = ("closed", "is_routine", "name", "node", "replicas", "stable", "unreplicated")

    def __init__(self, broker: str, topic_partition: TopicPartition) -> None:
        self.name = str(topic_partition)
        self.node = f"{broker}/log/{self.name}"
        self.is_routine = topic_partition.topic == TRANSACTION_STATE_TOPIC
        """Whether it is a log of transaction coordinators, whose high watermark follows each
        record.
        """
        self.unreplicated: deque[_PendingAppend] = deque(maxlen=UNREPLICATED_MAX)
        """Appends above the high watermark, in the order of their offsets."""
        self.closed: dict[int, _PendingAppend] = {}
        """First offset of a transaction -> its marker, for markers above the last stable offset."""
        self.stable = 0
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

    __slots__ = ("_logs", "_names")

    def __init__(self, tracer: Tracer, broker: str) -> None:
        super().__init__(tracer, broker)
        self._logs: dict[TopicPartition, _Log] = {}
        self._names: dict[int, str] = {}

    def led(self, log: PartitionLog, leader_epoch: LeaderEpoch, replicas: int) -> None:
        """Traces that the broker leads a log from now on, with the log's offsets and open
        producers; offsets that are 0 are left out. Nothing is traced for internal topics.

        Args:
            log: The log.
            leader_epoch: The new leader epoch.
            replicas: Number of the partition's replicas. With a single one, the log end is the high
                watermark.
        """
        log_state = self._log(log.topic_partition)
        log_state.stable, log_state.replicas = log.last_stable_offset, replicas
        if log.topic_partition.topic in INTERNAL_TOPICS:
            return
        bounds: dict[str, object] = {
            "start": log.log_start_offset,
            "end": log.log_end_offset,
            "hw": log.high_watermark,
            "lso": log_state.stable,
            "producers": [
                {
                    "pid": producer.producer_id,
                    "epoch": producer.producer_epoch,
                    "first": producer.txn_first_offset,
                    "seq": producer.last_sequence,
                    "timestamp": producer.last_timestamp,
                    "coordinator_epoch": producer.coordinator_epoch,
                }
                for producer in log.producers.open_producers()
            ],
        }
        data = {"tp": log_state.name, "role": "leader", "epoch": leader_epoch, "replicas": replicas}
        data.update({name: value for name, value in bounds.items() if value})
        self.tracer.emit("node.role", self.broker, data=data)

    def trace_replicas(self, log: PartitionLog, replicas: int) -> None:
        """Trace a new number of replicas of a led log in the same leader epoch (a reassignment)."""
        log_state = self._log(log.topic_partition)
        if log_state.replicas == replicas or log.topic_partition.topic in INTERNAL_TOPICS:
            return
        log_state.replicas = replicas
        data = {"tp": log_state.name, "role": "replicas", "replicas": replicas}
        self.tracer.emit("node.role", log_state.node, data=data)

    def trace_start(self, log: PartitionLog, reason: str) -> None:
        super().trace_start(log, reason)
        self._log(log.topic_partition).stable = log.last_stable_offset

    def trace_append(
        self,
        log: PartitionLog,
        header: BatchHeader,
        result: Appended,
        transactional_id: str | None,
    ) -> int:
        """Trace an appended or duplicate batch as the current cause; returns the previous cause."""
        tracer, log_state = self.tracer, self._log(log.topic_partition)
        if transactional_id is not None:
            self._remember(header.producer_id, transactional_id)
        tx = self._tx(header.producer_id, header.producer_epoch)
        entry = log.producers.state.find(header.producer_id)
        base, rule = result.base_offset, data_rule(header, result, entry)
        if result.duplicate:
            duplicate = (_duplicate, log_state.name, header, base, rule)
            return tracer.caused_by(
                tracer.emit("log.duplicate", log_state.node, tx=tx, data=duplicate)
            )
        opened = header.is_transactional and result.open_txn_before < 0
        # The brief level has a budget of events.
        size = header.size if tracer.full else None
        payload = (_append, log_state.name, header, base, rule, opened, size)
        cause = self._trace_stored(
            "log.append", log_state, header.producer_id, header.producer_epoch, result, tx, payload
        )
        if opened:
            epoch = -1 if entry is None else entry.coordinator_epoch
            opening = (_opening, log_state.name, header, base, epoch)
            tracer.emit("pid.open", log_state.node, parents=(cause,), tx=tx, data=opening)
        return self._note_end(log_state, log.log_end_offset - 1, cause, tx)

    def trace_refusal(
        self,
        topic_partition: TopicPartition,
        header: BatchHeader,
        refusal: Rejection,
        transactional_id: str | None,
    ) -> None:
        log_state = self._log(topic_partition)
        if transactional_id is not None:
            self._remember(header.producer_id, transactional_id)
        data = {
            **_records(log_state.name, header),
            "bytes": header.size,
            "error": refusal.error.name.upper(),
            "reason": refusal.reason,
            "rule": refusal.rule,
        }
        tx = self._tx(header.producer_id, header.producer_epoch)
        self.tracer.emit("log.reject", log_state.node, tx=tx, data=data)

    def trace_marker(self, log: PartitionLog, marker: TxnMarker, result: Appended) -> int:
        """Trace an appended marker as the current cause; returns the previous cause."""
        tracer, log_state = self.tracer, self._log(log.topic_partition)
        first_offset, offset = result.open_txn_before, result.base_offset
        tx = self._tx(marker.producer_id, marker.producer_epoch)
        payload = (_marker_data, log_state.name, marker, offset, marker_rule(marker, result))
        cause = self._trace_stored(
            "marker.written",
            log_state,
            marker.producer_id,
            marker.producer_epoch,
            result,
            tx,
            payload,
        )
        if first_offset >= 0:
            closed = log_state.closed
            closed[first_offset] = _PendingAppend(offset, cause, tx)
            if len(closed) > CLOSED_MAX:
                del closed[next(iter(closed))]
            closing = (_closing, log_state.name, marker, first_offset, offset)
            tracer.emit("pid.close", log_state.node, parents=(cause,), tx=tx, data=closing)
            if not marker.committed:
                data = {
                    "tp": log_state.name,
                    "pid": marker.producer_id,
                    "first": first_offset,
                    "last": offset,
                    "lso": log.last_stable_offset,
                }
                tracer.emit("log.aborted", log_state.node, parents=(cause,), tx=tx, data=data)
        return self._note_end(log_state, log.log_end_offset - 1, cause, tx)

    def marker_refused(
        self, topic_partition: TopicPartition, marker: TxnMarker, refusal: Rejection
    ) -> None:
        """Trace a marker that the leader has refused."""
        log_state = self._log(topic_partition)
        error = {"error": refusal.error.name.upper(), "rule": refusal.rule}
        tx = self._tx(marker.producer_id, marker.producer_epoch)
        data = {**_marker(marker), "tp": log_state.name, **error}
        self.tracer.emit("marker.refused", log_state.node, tx=tx, data=data)

    def covers(self, log: PartitionLog) -> None:
        """Note the current cause as the cause of the log's new end."""
        _note(self._log(log.topic_partition), log.log_end_offset - 1, self.tracer.cause, "")

    def trace_bounds(self, log: PartitionLog) -> int:
        """Traces that the high watermark has moved, and the last stable offset if it moved, too;
        returns the event that causes what follows.
        """
        tracer, log_state = self.tracer, self._log(log.topic_partition)
        cause, high, unreplicated = tracer.cause, log.high_watermark, log_state.unreplicated
        covered = _NOTHING
        while unreplicated and unreplicated[0].offset < high:
            covered = unreplicated.popleft()
        if tracer.full:
            last_event = self._bound("log.hw", log_state, high, (covered.event, cause), covered.tx)
        else:
            last_event = covered.event if covered.event >= 0 else cause
            if log_state.is_routine:
                return last_event
        stable = log.last_stable_offset
        if stable != log_state.stable:
            covered = _closed_by(log_state, stable) or covered
            causes = (covered.event, last_event, cause)
            importance = 0 if log_state.is_routine else None
            last_event = self._bound("log.lso", log_state, stable, causes, covered.tx, importance)
            log_state.stable = stable
        return last_event

    # Parts

    def _trace_stored(
        self,
        kind: str,
        log_state: _Log,
        producer_id: int,
        producer_epoch: int,
        result: Appended,
        tx: Transaction,
        payload: LaterPayload,
    ) -> int:
        """Trace a stored batch or marker. If it has raised the producer's epoch, a ``pid.bump``
        follows; in a transaction only at level full, because the event's own name has the epoch.
        """
        tracer = self.tracer
        cause = tracer.emit(kind, log_state.node, tx=tx, data=payload)
        if 0 <= result.epoch_before < producer_epoch and (not tx or tracer.full):
            data = {"tp": log_state.name, "pid": producer_id, "epoch": producer_epoch}
            importance = 0 if tx else None
            tracer.emit(
                "pid.bump",
                log_state.node,
                parents=(cause,),
                tx=tx,
                data=data,
                importance=importance,
            )
        return cause

    def _note_end(self, log_state: _Log, last_offset: int, cause: int, tx: Transaction) -> int:
        """Note ``cause`` as the cause of the log's end and as the current cause; returns the
        previous cause.
        """
        _note(log_state, last_offset, cause, tx)
        return self.tracer.caused_by(cause)

    def _remember(self, producer_id: int, transactional_id: str) -> None:
        names = self._names
        if names.get(producer_id) != transactional_id:
            names[producer_id] = transactional_id
            if len(names) > NAMES_MAX:
                del names[next(iter(names))]

    def _tx(self, producer_id: int, epoch: int) -> Transaction:
        """The transaction's name in the trace; "" if no batch has named the producer's
        transactional id.
        """
        name = self._names.get(producer_id)
        return "" if name is None else (name, producer_id, epoch)

    def _bound(
        self,
        kind: str,
        log_state: _Log,
        to: int,
        causes: tuple[int, ...],
        tx: Transaction,
        importance: int | None = None,
    ) -> int:
        """Trace a moved offset, unless the trace level leaves it out; returns the event, or the
        joined causes.
        """
        if importance == 0 and not self.tracer.full:
            return self.tracer.cause_of(causes)
        data = {"tp": log_state.name, "to": to}
        return self.tracer.emit(
            kind, log_state.node, parents=causes, tx=tx, data=data, importance=importance
        )

    def _log(self, topic_partition: TopicPartition) -> _Log:
        log = self._logs.get(topic_partition)
        if log is None:
            log = self._logs[topic_partition] = _Log(self.broker, topic_partition)
        return log


def _note(log_state: _Log, last_offset: int, cause: int, tx: Transaction) -> None:
    unreplicated = log_state.unreplicated
    while unreplicated and unreplicated[-1].offset >= last_offset:
        unreplicated.pop()  # cut off meanwhile
    unreplicated.append(_PendingAppend(last_offset, cause, tx))


def _closed_by(log_state: _Log, stable: int) -> _PendingAppend | None:
    """The marker whose transaction held the last stable offset back; None if none did."""
    closed = log_state.closed
    if not closed:
        return None
    newest = closed.get(log_state.stable)
    for first_offset in [first_offset for first_offset in closed if first_offset < stable]:
        written = closed.pop(first_offset)
        newest = newest or written
    return newest


# Payloads, made when they are encoded


def _duplicate(name: str, header: BatchHeader, base: int, rule: str) -> dict[str, object]:
    return {**_records(name, header), "bytes": header.size, "base": base, "rule": rule}


def _append(
    name: str,
    header: BatchHeader,
    base: int,
    rule: str,
    opened: bool,  # noqa: FBT001 - payloads go by position
    size: int | None,
) -> dict[str, object]:
    data = _records(name, header)
    data["base"] = base
    data["rule"] = rule
    data["last"] = base + header.last_offset_delta
    data["opened"] = opened
    if size is not None:
        data["bytes"] = size
    return data


def _opening(name: str, header: BatchHeader, first_offset: int, epoch: int) -> dict[str, object]:
    data: dict[str, object] = {
        "tp": name,
        "pid": header.producer_id,
        "epoch": header.producer_epoch,
        "first": first_offset,
        "timestamp": header.max_timestamp_ms,
    }
    if epoch >= 0:
        data["coordinator_epoch"] = epoch
    return data


def _marker_data(name: str, marker: TxnMarker, offset: int, rule: str) -> dict[str, object]:
    return {**_marker(marker), "tp": name, "offset": offset, "rule": rule}


def _closing(
    name: str, marker: TxnMarker, first_offset: int, last_offset: int
) -> dict[str, object]:
    return {
        "tp": name,
        "pid": marker.producer_id,
        "epoch": marker.producer_epoch,
        "first": first_offset,
        "last": last_offset,
        "committed": marker.committed,
    }


def _records(name: str, header: BatchHeader) -> dict[str, object]:
    data: dict[str, object] = {
        "tp": name,
        "pid": header.producer_id,
        "epoch": header.producer_epoch,
        "seq": header.base_sequence,
        "txn": header.is_transactional,
    }
    if header.is_control:
        data["control"] = True
    return data


def _marker(marker: TxnMarker) -> dict[str, object]:
    return {
        "pid": marker.producer_id,
        "epoch": marker.producer_epoch,
        "committed": marker.committed,
        "coordinator_epoch": marker.coordinator_epoch,
    }

"""Appends and the bounds that follow them, as events of the trace.

What an append has changed is in its answer (``Appended``), so nothing is compared. Each method is
called only while the trace is on, after the log has taken or refused the batch.
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
"""Producer ids whose transactional ids are remembered."""
UNREPLICATED_MAX: Final = 1_024
"""Appends of one partition that wait for the high watermark to pass."""
CLOSED_MAX: Final = 1_024
"""Markers of one partition that wait for the last stable offset to pass."""


class _PendingAppend(msgspec.Struct, frozen=True):
    """A batch or a marker that a bound has not passed yet."""

    offset: int
    event: int
    tx: Transaction


_NOTHING: Final = _PendingAppend(-1, NO_CAUSE, "")


class _Log:
    """Remembered values of a log."""

    __slots__ = ("closed", "is_routine", "name", "node", "replicas", "stable", "unreplicated")

    def __init__(self, broker: str, topic_partition: TopicPartition) -> None:
        self.name = str(topic_partition)
        self.node = f"{broker}/log/{self.name}"
        self.is_routine = topic_partition.topic == TRANSACTION_STATE_TOPIC
        """Whether it is a transaction coordinator's log, whose bounds follow each record."""
        self.unreplicated: deque[_PendingAppend] = deque(maxlen=UNREPLICATED_MAX)
        """Above the high watermark, in the order of their offsets."""
        self.closed: dict[int, _PendingAppend] = {}
        """Markers above the last stable offset, by the first offset of their transaction."""
        self.stable = 0
        """The newest last stable offset in the trace; first, that at the start of this leader."""
        self.replicas = 0
        """Number of the partition's replicas, as last announced."""


class AppendEvents(LogEvents):
    """The events of one broker's logs.

    The main cause of a bound that moves is the append or the marker that it has passed: followers'
    fetches, which move it, are many and say nothing. So both are remembered until then.
    """

    __slots__ = ("_logs", "_names")

    def __init__(self, tracer: Tracer, broker: str) -> None:
        super().__init__(tracer, broker)
        self._logs: dict[TopicPartition, _Log] = {}
        self._names: dict[int, str] = {}

    def led(self, log: PartitionLog, leader_epoch: LeaderEpoch, replicas: int) -> None:
        """The broker leads the log from now on: what a reader of the trace must know of it; offsets
        that are 0 are left out. Of coordinators' logs nothing is said.

        Args:
            log: It.
            leader_epoch: From now on.
            replicas: How many the partition has. The log end of a single one is its high watermark.
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
                for producer in log.producers.open()
            ],
        }
        data = {"tp": log_state.name, "role": "leader", "epoch": leader_epoch, "replicas": replicas}
        data.update({name: value for name, value in bounds.items() if value})
        self.tracer.emit("node.role", self.broker, data=data)

    def trace_replicas(self, log: PartitionLog, replicas: int) -> None:
        """A log that the broker leads may have got or lost followers under the same leader epoch
        (a reassignment): what a reader must know of that.
        """
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
        opened = header.is_transactional and result.open_before < 0
        # Brief has a budget.
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
        """A marker is in the log: the current cause from now on, as with ``trace_append``."""
        tracer, log_state = self.tracer, self._log(log.topic_partition)
        first_offset, offset = result.open_before, result.base_offset
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
        """A marker was refused by the leader."""
        log_state = self._log(topic_partition)
        error = {"error": refusal.error.name.upper(), "rule": refusal.rule}
        tx = self._tx(marker.producer_id, marker.producer_epoch)
        data = {**_marker(marker), "tp": log_state.name, **error}
        self.tracer.emit("marker.refused", log_state.node, tx=tx, data=data)

    def covers(self, log: PartitionLog) -> None:
        """The end of the log is due to the current cause."""
        _note(self._log(log.topic_partition), log.log_end_offset - 1, self.tracer.cause, "")

    def trace_bounds(self, log: PartitionLog) -> int:
        """The high watermark has moved, and the last stable offset perhaps with it; the event that
        causes what follows.
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
        """A batch or a marker is in the log; with it the producer's epoch may have risen. With a
        transaction the event itself says so.
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
        """The end of the log is due to ``cause``, the current one from now on; the one before."""
        _note(log_state, last_offset, cause, tx)
        return self.tracer.caused_by(cause)

    def _remember(self, producer_id: int, transactional_id: str) -> None:
        names = self._names
        if names.get(producer_id) != transactional_id:
            names[producer_id] = transactional_id
            if len(names) > NAMES_MAX:
                del names[next(iter(names))]

    def _tx(self, producer_id: int, epoch: int) -> Transaction:
        """The transaction in the trace, where a batch has named its transactional id."""
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
        """Trace a moved bound, unless the trace level leaves it out."""
        if importance == 0 and not self.tracer.full:
            return self.tracer.joined(causes)
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
    """The marker whose transaction held the last stable offset back."""
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

"""Events of a partition's log, for the trace.

The log itself is pure and knows no trace. These functions compare it before and after; they are
called only while the trace is on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from txnsim.errors import Rejection
from txnsim.interbroker.transactions import TxnMarker
from txnsim.log.answers import Appended
from txnsim.log.partition_log import PartitionLog
from txnsim.runtime.trace import NO_CAUSE, Tracer, Transaction
from txnsim.types import TRANSACTION_STATE_TOPIC, TopicPartition
from txnsim.wire.batch_header import BatchHeader

NAMES_MAX: Final = 4_096
"""Producer ids whose transactional ids are remembered."""
UNREPLICATED_MAX: Final = 1_024
"""Appends of one partition that wait for the high watermark to pass."""
CLOSED_MAX: Final = 1_024
"""Markers of one partition that wait for the last stable offset to pass."""


class LogBounds(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds of a log before a change."""

    last_stable_offset: int
    high_watermark: int
    producer_epoch: int
    """The producer's last one, -1 where it is not known."""
    open_offset: int
    """First offset of the producer's open transaction, -1 without one."""
    rule: str = ""
    """Row of docs/rules.md that explains an accepted append."""


def bounds(log: PartitionLog, producer_id: int, rule: str = "") -> LogBounds:
    """The present bounds of the log, and the state of this producer."""
    return LogBounds(
        last_stable_offset=log.last_stable_offset,
        high_watermark=log.high_watermark,
        producer_epoch=log.producers.epoch_of(producer_id),
        open_offset=log.producers.open_transaction_of(producer_id),
        rule=rule,
    )


def as_found(log: PartitionLog, leader_epoch: int) -> dict[str, object]:
    """What a reader of the trace must know of a log when a broker becomes its leader; offsets that
    are 0 are left out.
    """
    found: dict[str, object] = {
        "start": log.log_start_offset,
        "end": log.log_end_offset,
        "hw": log.high_watermark,
        "lso": log.last_stable_offset,
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
    data = {"tp": str(log.topic_partition), "role": "leader", "epoch": leader_epoch}
    return {**data, **{name: value for name, value in found.items() if value}}


def bounds_for_data(log: PartitionLog, header: BatchHeader) -> LogBounds:
    """The same before a batch of a client is appended."""
    return bounds(log, header.producer_id, log.producers.rule_of_data(header))


def bounds_for_marker(log: PartitionLog, marker: TxnMarker) -> LogBounds:
    """The same before a marker is appended."""
    return bounds(log, marker.producer_id, log.producers.rule_of_marker(marker))


class _Written(msgspec.Struct, frozen=True):
    """A batch or a marker that a bound has not passed yet."""

    offset: int
    event: int
    tx: Transaction


_NOTHING: Final = _Written(-1, NO_CAUSE, "")


class _Log:
    """Remembered values of a log."""

    __slots__ = ("closed", "is_routine", "name", "node", "unreplicated")

    def __init__(self, broker: str, topic_partition: TopicPartition) -> None:
        self.name = str(topic_partition)
        self.node = f"{broker}/log/{self.name}"
        self.is_routine = topic_partition.topic == TRANSACTION_STATE_TOPIC
        """Whether it is a transaction coordinator's log, whose bounds follow each record."""
        self.unreplicated: deque[_Written] = deque(maxlen=UNREPLICATED_MAX)
        """Above the high watermark, in the order of their offsets."""
        self.closed: dict[int, _Written] = {}
        """Markers above the last stable offset, by the first offset of their transaction."""


class LogTrace:
    """The log events of one broker.

    The main cause of a bound that moves is the append or the marker that it has passed: followers'
    fetches, which move it, are many and say nothing. So both are remembered until then.
    """

    __slots__ = ("_broker", "_logs", "_names", "tracer")

    def __init__(self, tracer: Tracer, broker: str) -> None:
        self.tracer = tracer
        self._broker = broker
        self._logs: dict[TopicPartition, _Log] = {}
        self._names: dict[int, str] = {}

    @property
    def full(self) -> bool:
        """Whether everything is recorded."""
        return self.tracer.full

    @property
    def on(self) -> bool:
        """Whether the trace has a listener: ask before looking at bounds."""
        return self.tracer.on

    def appended(
        self,
        log: PartitionLog,
        header: BatchHeader,
        result: Appended,
        before: LogBounds,
        transactional_id: str | None,
    ) -> int:
        """A batch of a client is in the log, or has been there before.

        It is the current cause from now on, until ``moved`` gets the one that is returned.
        """
        tracer, producer_id = self.tracer, header.producer_id
        at = self._log(log.topic_partition)
        if transactional_id is not None:
            self._remember(producer_id, transactional_id)
        tx = self._tx(producer_id, header.producer_epoch)
        base = result.base_offset
        if result.duplicate:
            data = (_duplicate, at.name, header, base, before.rule)
            return tracer.caused_by(tracer.emit("log.duplicate", at.node, tx=tx, data=data))
        opened = before.open_offset < 0 <= log.producers.open_transaction_of(producer_id)
        # Brief has a budget.
        size = header.size if tracer.full else None
        payload = (_append, at.name, header, base, before.rule, opened, size)
        cause = tracer.emit("log.append", at.node, tx=tx, data=payload)
        if not tx or tracer.full:
            self._bumped(log, producer_id, before, cause, tx)
        if opened:
            epoch = log.producers.coordinator_epoch_of(producer_id)
            opening = (_opening, at.name, header, base, epoch)
            tracer.emit("pid.open", at.node, parents=(cause,), tx=tx, data=opening)
        return self._covered(at, log.log_end_offset - 1, cause, tx)

    def refused(
        self,
        topic_partition: TopicPartition,
        header: BatchHeader,
        refusal: Rejection,
        transactional_id: str | None,
    ) -> None:
        """A batch did not get into the log."""
        if transactional_id is not None:
            self._remember(header.producer_id, transactional_id)
        self._emit(
            "log.reject",
            topic_partition,
            {
                **_records(str(topic_partition), header),
                "bytes": header.size,
                "error": refusal.error.name.upper(),
                "reason": refusal.reason,
                "rule": refusal.rule,
            },
            tx=self._tx(header.producer_id, header.producer_epoch),
        )

    def marked(self, log: PartitionLog, marker: TxnMarker, offset: int, before: LogBounds) -> int:
        """A marker is in the log: the current cause from now on, as with ``appended``."""
        tracer = self.tracer
        at = self._log(log.topic_partition)
        tx = self._tx(marker.producer_id, marker.producer_epoch)
        payload = (_written, at.name, marker, offset, before.rule)
        cause = tracer.emit("marker.written", at.node, tx=tx, data=payload)
        if not tx or tracer.full:
            self._bumped(log, marker.producer_id, before, cause, tx)
        first = before.open_offset
        if first >= 0:
            closed = at.closed
            closed[first] = _Written(offset, cause, tx)
            if len(closed) > CLOSED_MAX:
                del closed[next(iter(closed))]
            closing = (_closing, at.name, marker, first, offset)
            tracer.emit("pid.close", at.node, parents=(cause,), tx=tx, data=closing)
            if not marker.committed:
                data = {
                    "tp": at.name,
                    "pid": marker.producer_id,
                    "first": first,
                    "last": offset,
                    "lso": log.last_stable_offset,
                }
                tracer.emit("log.aborted", at.node, parents=(cause,), tx=tx, data=data)
        return self._covered(at, log.log_end_offset - 1, cause, tx)

    def marker_refused(
        self, topic_partition: TopicPartition, marker: TxnMarker, refusal: Rejection
    ) -> None:
        """A marker was refused by the leader."""
        self._emit(
            "marker.refused",
            topic_partition,
            {
                **_marker(marker),
                "tp": str(topic_partition),
                "error": refusal.error.name.upper(),
                "rule": refusal.rule,
            },
            tx=self._tx(marker.producer_id, marker.producer_epoch),
        )

    def covers(self, log: PartitionLog) -> int:
        """The end of the log is due to the current cause, which is returned."""
        scope = self.tracer.scope
        cause = self.tracer.cause if scope is None else scope
        where = log.topic_partition
        at = self._logs.get(where) or self._log(where)
        _note(at, log.log_end_offset - 1, cause, "")
        return cause

    def _covered(self, at: _Log, last: int, cause: int, tx: Transaction) -> int:
        """The end of the log is due to ``cause``, the current one from now on; the one before."""
        _note(at, last, cause, tx)
        return self.tracer.caused_by(cause)

    def moved(self, log: PartitionLog, before: LogBounds, cause: int | None = None) -> int:
        """High watermark or last stable offset may be elsewhere now.

        Args:
            log: The log.
            before: Its bounds before.
            cause: To be the current cause again; none where nothing was appended.

        Returns:
            The event that causes those of waiting readers; -1 for none.
        """
        last = NO_CAUSE
        # Only with the high watermark may the last stable offset move.
        if log.high_watermark != before.high_watermark:
            last = self._moved(log, before.high_watermark, before.last_stable_offset)
        if cause is not None:
            self.tracer.caused_by(cause)
        return last

    def advanced(
        self, log: PartitionLog, hw_before: int, lso_before: int, follow: Callable[[], object]
    ) -> None:
        """The same where a follower or the ISR has moved the high watermark.

        Args:
            log: The log.
            hw_before: Its high watermark before.
            lso_before: Its last stable offset before.
            follow: Called with the move as the current cause of events.
        """
        tracer = self.tracer
        moved = self._moved(log, hw_before, lso_before)
        before = tracer.scope
        if before is None:
            before = tracer.caused_by(moved)
            try:
                follow()
            finally:
                tracer.caused_by(before)
            return
        tracer.scope = moved  # caused_by, written out: the hot path
        try:
            follow()
        finally:
            tracer.scope = before

    def _moved(self, log: PartitionLog, hw_before: int, lso_before: int) -> int:
        tracer = self.tracer
        scope = tracer.scope
        now = tracer.cause if scope is None else scope
        where = log.topic_partition
        at = self._logs.get(where) or self._log(where)
        high = log.high_watermark
        waiting = at.unreplicated
        covered = _NOTHING
        while waiting and waiting[0].offset < high:
            covered = waiting.popleft()
        last = NO_CAUSE
        if high != hw_before:
            if tracer.full:
                last = self._bound("log.hw", at, high, (covered.event, now), covered.tx)
            else:
                last = covered.event if covered.event >= 0 else now
                if at.is_routine:
                    return last
        stable = log.last_stable_offset
        if stable != lso_before:
            covered = _closed_by(at, lso_before, stable) or covered
            causes = (covered.event, last, now)
            importance = 0 if at.is_routine else None
            last = self._bound("log.lso", at, stable, causes, covered.tx, importance)
        return last

    def truncated(self, log: PartitionLog) -> None:
        """The end of a log was cut off, or all of it dropped."""
        name = str(log.topic_partition)
        self._emit(
            "log.truncate",
            log.topic_partition,
            {"tp": name, "epoch": log.leader_epoch, "to": log.log_end_offset},
        )

    def started(self, log: PartitionLog, reason: str) -> None:
        """The log begins at a later offset; transactions that were open there may be gone."""
        data = {
            "tp": str(log.topic_partition),
            "to": log.log_start_offset,
            "lso": log.last_stable_offset,
            "open": [producer.producer_id for producer in log.producers.open()],
            "reason": reason,
        }
        self._emit("log.start", log.topic_partition, data)

    def timer(self, name: str, waited_ms: int) -> int:
        """A timer of the broker has run out and finds something to do: the current cause from now
        on; the one before.
        """
        data = {"timer": name, "waited_ms": waited_ms}
        tracer = self.tracer
        fired = tracer.emit("timer.fire", self._broker, parents=(NO_CAUSE,), data=data)
        return tracer.caused_by(fired)

    def expired(self, log: PartitionLog, producer_ids: Iterable[int]) -> None:
        """Idle producers were forgotten."""
        for producer_id in producer_ids:
            data: dict[str, object] = {
                "tp": str(log.topic_partition),
                "pid": producer_id,
                "rule": "producer.expires",
            }
            self._emit("pid.expire", log.topic_partition, data)

    # Parts

    def _bumped(
        self, log: PartitionLog, producer_id: int, before: LogBounds, cause: int, tx: Transaction
    ) -> None:
        """The producer's epoch may have risen; with a transaction the event of the cause has it
        already.
        """
        epoch = log.producers.epoch_of(producer_id)
        if 0 <= before.producer_epoch < epoch:
            data = _pid(log, producer_id, epoch)
            importance = 0 if tx else None
            where = log.topic_partition
            self._emit("pid.bump", where, data, (cause,), tx=tx, importance=importance)

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
        at: _Log,
        to: int,
        causes: tuple[int, ...],
        tx: Transaction,
        importance: int | None = None,
    ) -> int:
        """A bound has moved; nothing is made of it where the level leaves it out."""
        if importance == 0 and not self.tracer.full:
            return self.tracer.joined(causes)
        data = {"tp": at.name, "to": to}
        return self.tracer.emit(
            kind, at.node, parents=causes, tx=tx, data=data, importance=importance
        )

    def _emit(
        self,
        kind: str,
        topic_partition: TopicPartition,
        data: dict[str, object],
        causes: tuple[int, ...] = (),
        *,
        tx: Transaction = "",
        importance: int | None = None,
    ) -> int:
        node = self._log(topic_partition).node
        return self.tracer.emit(kind, node, parents=causes, tx=tx, data=data, importance=importance)

    def _log(self, topic_partition: TopicPartition) -> _Log:
        log = self._logs.get(topic_partition)
        if log is None:
            log = self._logs[topic_partition] = _Log(self._broker, topic_partition)
        return log


def _note(at: _Log, last: int, cause: int, tx: Transaction) -> None:
    waiting = at.unreplicated
    while waiting and waiting[-1].offset >= last:
        waiting.pop()  # cut off meanwhile
    waiting.append(_Written(last, cause, tx))


def _closed_by(at: _Log, lso_before: int, stable: int) -> _Written | None:
    """The marker whose transaction held the last stable offset back."""
    closed = at.closed
    if not closed:
        return None
    found = closed.get(lso_before)
    for first in [first for first in closed if first < stable]:
        one = closed.pop(first)
        found = found or one
    return found


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


def _opening(name: str, header: BatchHeader, first: int, epoch: int) -> dict[str, object]:
    data: dict[str, object] = {
        "tp": name,
        "pid": header.producer_id,
        "epoch": header.producer_epoch,
        "first": first,
        "timestamp": header.max_timestamp_ms,
    }
    if epoch >= 0:
        data["coordinator_epoch"] = epoch
    return data


def _written(name: str, marker: TxnMarker, offset: int, rule: str) -> dict[str, object]:
    return {**_marker(marker), "tp": name, "offset": offset, "rule": rule}


def _closing(name: str, marker: TxnMarker, first: int, last: int) -> dict[str, object]:
    return {
        "tp": name,
        "pid": marker.producer_id,
        "epoch": marker.producer_epoch,
        "first": first,
        "last": last,
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


def _pid(log: PartitionLog, producer_id: int, epoch: int) -> dict[str, object]:
    return {"tp": str(log.topic_partition), "pid": producer_id, "epoch": epoch}


def _marker(marker: TxnMarker) -> dict[str, object]:
    return {
        "pid": marker.producer_id,
        "epoch": marker.producer_epoch,
        "committed": marker.committed,
        "coordinator_epoch": marker.coordinator_epoch,
    }

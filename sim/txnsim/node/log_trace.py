"""What happens to a partition's log, told to the trace.

The log itself is pure and tells nobody; these functions compare it before and after, and are called
only while the trace is on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from txnsim.errors import Rejection
from txnsim.log.answers import Appended
from txnsim.log.partition_log import PartitionLog
from txnsim.runtime.trace import NO_CAUSE, Tracer
from txnsim.types import TRANSACTION_STATE_TOPIC, TopicPartition, TxnMarker
from txnsim.wire.batch_header import BatchHeader

NAMES_MAX: Final = 4_096
"""Producer ids whose transactional ids are remembered."""
UNREPLICATED_MAX: Final = 1_024
"""Appends of one partition that wait for the high watermark to pass."""
CLOSED_MAX: Final = 1_024
"""Markers of one partition that wait for the last stable offset to pass."""


class LogBounds(msgspec.Struct, frozen=True, kw_only=True):
    """Where a log stood before something was done to it."""

    last_stable_offset: int
    high_watermark: int
    producer_epoch: int
    """The producer's last one, -1 where it is not known."""
    open_offset: int
    """First offset of the producer's open transaction, -1 without one."""
    rule: str = ""
    """Row of docs/rules.md by which what was done is taken, unless it is refused."""


def bounds(log: PartitionLog, producer_id: int) -> LogBounds:
    """Where the log stands now, as far as this producer is concerned."""
    return LogBounds(
        last_stable_offset=log.last_stable_offset,
        high_watermark=log.high_watermark,
        producer_epoch=log.epoch_of(producer_id),
        open_offset=log.open_transaction_of(producer_id),
    )


def bounds_for_data(log: PartitionLog, header: BatchHeader) -> LogBounds:
    """The same before a batch of a client is appended."""
    rule = log.rule_of_data(header)
    return msgspec.structs.replace(bounds(log, header.producer_id), rule=rule)


def bounds_for_marker(log: PartitionLog, marker: TxnMarker) -> LogBounds:
    """The same before a marker is appended."""
    rule = log.rule_of_marker(
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        transaction_version=marker.transaction_version,
    )
    return msgspec.structs.replace(bounds(log, marker.producer_id), rule=rule)


class _Written(msgspec.Struct, frozen=True):
    """A batch or a marker that a bound has not passed yet."""

    offset: int
    event: int
    tx: str


_NOTHING: Final = _Written(-1, NO_CAUSE, "")


class LogTrace:
    """The log events of one broker.

    The main cause of a bound that moves is the append or the marker that it has passed: followers'
    fetches, which move it, are many and say nothing. So both are remembered until then.
    """

    __slots__ = ("_broker", "_closed", "_names", "_tracer", "_unreplicated")

    def __init__(self, tracer: Tracer, broker: str) -> None:
        self._tracer = tracer
        self._broker = broker
        self._unreplicated: dict[TopicPartition, deque[_Written]] = {}
        """Above the high watermark, in the order of their offsets."""
        self._closed: dict[TopicPartition, dict[int, _Written]] = {}
        """Markers above the last stable offset, by the first offset of their transaction."""
        self._names: dict[int, str] = {}

    @property
    def on(self) -> bool:
        """Whether anybody listens: ask before looking at bounds."""
        return self._tracer.on

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
        where = log.topic_partition
        if transactional_id is not None:
            self._remember(header.producer_id, transactional_id)
        tx = self._tx(header.producer_id, header.producer_epoch)
        records = {
            **_records(where, header),
            "base": result.base_offset,
            "rule": before.rule,
        }
        if result.duplicate:
            return self._tracer.caused_by(self._emit("log.duplicate", where, records, tx=tx))
        opened = before.open_offset < 0 <= log.open_transaction_of(header.producer_id)
        last = result.base_offset + header.last_offset_delta
        cause = self._emit("log.append", where, {**records, "last": last, "opened": opened}, tx=tx)
        self._bumped(log, header.producer_id, before, cause, tx)
        if opened:
            data = _pid(log, header.producer_id, header.producer_epoch)
            self._emit("pid.open", where, {**data, "first": result.base_offset}, (cause,), tx=tx)
        return self.covers(log, cause, tx=tx)

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
                **_records(topic_partition, header),
                "error": refusal.error.name.upper(),
                "reason": refusal.reason,
                "rule": refusal.rule,
            },
            tx=self._tx(header.producer_id, header.producer_epoch),
        )

    def marked(self, log: PartitionLog, marker: TxnMarker, offset: int, before: LogBounds) -> int:
        """A marker is in the log: the current cause from now on, as with ``appended``."""
        where = log.topic_partition
        tx = self._tx(marker.producer_id, marker.producer_epoch)
        data = {**_marker(marker), "tp": str(where), "offset": offset, "rule": before.rule}
        cause = self._emit("marker.written", where, data, tx=tx)
        self._bumped(log, marker.producer_id, before, cause, tx)
        first = before.open_offset
        if first >= 0:
            closed = self._closed.setdefault(where, {})
            closed[first] = _Written(offset, cause, tx)
            if len(closed) > CLOSED_MAX:
                del closed[next(iter(closed))]
            data = {
                **_pid(log, marker.producer_id, marker.producer_epoch),
                "first": first,
                "last": offset,
                "committed": marker.committed,
            }
            self._emit("pid.close", where, data, (cause,), tx=tx)
            if not marker.committed:
                data = {
                    "tp": str(where),
                    "pid": marker.producer_id,
                    "first": first,
                    "last": offset,
                    "lso": log.last_stable_offset,
                }
                self._emit("log.aborted", where, data, (cause,), tx=tx)
        return self.covers(log, cause, tx=tx)

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

    def covers(self, log: PartitionLog, cause: int | None = None, *, tx: str = "") -> int:
        """The end of the log is due to ``cause``, or to the current one; the one before."""
        before = self._tracer.cause
        if cause is None:
            cause = before
        written = _Written(log.log_end_offset - 1, cause, tx)
        waiting = self._unreplicated.get(log.topic_partition)
        if waiting is None:
            waiting = self._unreplicated[log.topic_partition] = deque(maxlen=UNREPLICATED_MAX)
        while waiting and waiting[-1].offset >= written.offset:
            waiting.pop()  # cut off meanwhile
        waiting.append(written)
        return self._tracer.caused_by(cause)

    def moved(self, log: PartitionLog, before: LogBounds, cause: int | None = None) -> int:
        """High watermark or last stable offset may be elsewhere now.

        Args:
            log: The log.
            before: Where it stood.
            cause: To be the current cause again; none where nothing was appended.

        Returns:
            The event that readers of the log are due to; -1 for none.
        """
        now = self._tracer.cause
        passed = self._passed(log)
        last = -1
        if log.high_watermark != before.high_watermark:
            covered = passed or _NOTHING
            causes: tuple[int, ...] = (covered.event, now)
            last = self._bound("log.hw", log, log.high_watermark, causes, covered.tx, importance=0)
        stable = log.last_stable_offset
        if stable != before.last_stable_offset:
            covered = self._closed_by(log, before) or passed or _NOTHING
            # In the coordinators' log it follows each record: nothing there is transactional.
            is_routine = log.topic_partition.topic == TRANSACTION_STATE_TOPIC
            causes = (covered.event, last, now)
            importance = 0 if is_routine else None
            last = self._bound("log.lso", log, stable, causes, covered.tx, importance=importance)
        if cause is not None:
            self._tracer.caused_by(cause)
        return last

    def due_to(self, cause: int, follow: Callable[[], object]) -> None:
        """Do what follows from an event of a log."""
        self._tracer.bound(follow, cause)()

    def truncated(self, log: PartitionLog) -> None:
        """The end of a log was cut off, or all of it dropped."""
        name = str(log.topic_partition)
        self._emit(
            "log.truncate",
            log.topic_partition,
            {"tp": name, "epoch": log.leader_epoch, "to": log.log_end_offset},
        )

    def started(self, log: PartitionLog, reason: str) -> None:
        """The log begins at a later offset."""
        data = {"tp": str(log.topic_partition), "to": log.log_start_offset, "reason": reason}
        self._emit("log.start", log.topic_partition, data)

    def timer(self, name: str, waited_ms: int) -> int:
        """A timer of the broker has run out and finds something to do: the current cause from now
        on; the one before.
        """
        data = {"timer": name, "waited_ms": waited_ms}
        tracer = self._tracer
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
        self, log: PartitionLog, producer_id: int, before: LogBounds, cause: int, tx: str
    ) -> None:
        """The producer's epoch may have risen."""
        epoch = log.epoch_of(producer_id)
        if 0 <= before.producer_epoch < epoch:
            data = _pid(log, producer_id, epoch)
            self._emit("pid.bump", log.topic_partition, data, (cause,), tx=tx)

    def _passed(self, log: PartitionLog) -> _Written | None:
        """The last of what the high watermark has passed since it was looked at."""
        waiting = self._unreplicated.get(log.topic_partition)
        passed = None
        while waiting and waiting[0].offset < log.high_watermark:
            passed = waiting.popleft()
        return passed

    def _closed_by(self, log: PartitionLog, before: LogBounds) -> _Written | None:
        """The marker whose transaction held the last stable offset back."""
        closed = self._closed.get(log.topic_partition)
        if not closed:
            return None
        passed = [first for first in closed if first < log.last_stable_offset]
        found = closed.get(before.last_stable_offset)
        for first in passed:
            one = closed.pop(first)
            found = found or one
        return found

    def _remember(self, producer_id: int, transactional_id: str) -> None:
        names = self._names
        if names.get(producer_id) != transactional_id:
            names[producer_id] = transactional_id
            if len(names) > NAMES_MAX:
                del names[next(iter(names))]

    def _tx(self, producer_id: int, epoch: int) -> str:
        """The transaction's name in the trace, where a batch has told its transactional id."""
        name = self._names.get(producer_id)
        return "" if name is None else f"{name}/{producer_id}:{epoch}"

    def _bound(
        self,
        kind: str,
        log: PartitionLog,
        to: int,
        causes: tuple[int, ...],
        tx: str,
        *,
        importance: int | None,
    ) -> int:
        """A bound has moved; nothing is made of it where the level leaves it out."""
        if importance == 0 and not self._tracer.full:
            return self._tracer.joined(causes)
        where = log.topic_partition
        data: dict[str, object] = {"tp": str(where), "to": to}
        return self._emit(kind, where, data, causes, tx=tx, importance=importance)

    def _emit(
        self,
        kind: str,
        topic_partition: TopicPartition,
        data: dict[str, object],
        causes: tuple[int, ...] = (),
        *,
        tx: str = "",
        importance: int | None = None,
    ) -> int:
        return self._tracer.emit(
            kind,
            f"{self._broker}/log/{topic_partition}",
            parents=causes,
            tx=tx,
            data=data,
            importance=importance,
        )


def _records(topic_partition: TopicPartition, header: BatchHeader) -> dict[str, object]:
    return {
        "tp": str(topic_partition),
        "pid": header.producer_id,
        "epoch": header.producer_epoch,
        "seq": header.base_sequence,
        "txn": header.is_transactional,
        **({"control": True} if header.is_control else {}),
    }


def _pid(log: PartitionLog, producer_id: int, epoch: int) -> dict[str, object]:
    return {"tp": str(log.topic_partition), "pid": producer_id, "epoch": epoch}


def _marker(marker: TxnMarker) -> dict[str, object]:
    return {
        "pid": marker.producer_id,
        "epoch": marker.producer_epoch,
        "committed": marker.committed,
        "coordinator_epoch": marker.coordinator_epoch,
    }

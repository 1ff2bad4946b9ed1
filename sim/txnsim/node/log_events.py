"""Traces what happens to a log besides appends.

A log is pure and writes no trace. The code that moves its start, truncates it or expires its
producers calls the methods here, if ``tracer.on``.
"""

from __future__ import annotations

from collections.abc import Iterable

from txnsim.log.partition_log import PartitionLog
from txnsim.runtime.trace import NO_CAUSE, Tracer


class LogEvents:
    """Traces changes of one broker's logs, other than appends."""

    __slots__ = ("broker", "tracer")

    def __init__(self, tracer: Tracer, broker: str) -> None:
        self.tracer = tracer
        self.broker = broker

    def trace_truncation(self, log: PartitionLog) -> None:
        """Traces that a log was truncated, or emptied."""
        self._emit("log.truncate", log, {"epoch": log.leader_epoch, "to": log.log_end_offset})

    def trace_start(self, log: PartitionLog, reason: str) -> None:
        """Traces that the log starts at a later offset, with the producers whose transactions are
        still open.
        """
        bound_offsets = {"to": log.log_start_offset, "lso": log.last_stable_offset}
        open_producers = {
            "open": [producer.producer_id for producer in log.producers.open_producers()],
            "reason": reason,
        }
        self._emit("log.start", log, {**bound_offsets, **open_producers})

    def trace_expiry(self, log: PartitionLog, producer_ids: Iterable[int]) -> None:
        """Traces that idle producers were forgotten."""
        for producer_id in producer_ids:
            self._emit("pid.expire", log, {"pid": producer_id, "rule": "producer.expires"})

    def trace_timer(self, name: str, waited_ms: int) -> int:
        """Trace a timer that found work as the current cause; returns the previous cause."""
        tracer, data = self.tracer, {"timer": name, "waited_ms": waited_ms}
        timer_event = tracer.emit("timer.fire", self.broker, parents=(NO_CAUSE,), data=data)
        return tracer.set_cause(timer_event)

    def _emit(self, kind: str, log: PartitionLog, data: dict[str, object]) -> None:
        name = str(log.topic_partition)
        self.tracer.emit(kind, f"{self.broker}/log/{name}", data={"tp": name, **data})

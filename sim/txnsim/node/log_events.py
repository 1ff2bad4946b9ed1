"""What happens to a log besides appends, as events of the trace.

A log is pure and knows no trace. The code that moves its start, cuts its end or forgets its
producers tells it here, where ``tracer.on``.
"""

from __future__ import annotations

from collections.abc import Iterable

from txnsim.log.partition_log import PartitionLog
from txnsim.runtime.trace import NO_CAUSE, Tracer


class LogEvents:
    """Events of the logs of one broker."""

    __slots__ = ("broker", "tracer")

    def __init__(self, tracer: Tracer, broker: str) -> None:
        self.tracer = tracer
        self.broker = broker

    def trace_truncation(self, log: PartitionLog) -> None:
        """The end of a log was cut off, or all of it dropped."""
        self._emit("log.truncate", log, {"epoch": log.leader_epoch, "to": log.log_end_offset})

    def trace_start(self, log: PartitionLog, reason: str) -> None:
        """The log begins at a later offset; transactions that were open there may be gone."""
        bounds = {"to": log.log_start_offset, "lso": log.last_stable_offset}
        open_producers = {
            "open": [producer.producer_id for producer in log.producers.open()],
            "reason": reason,
        }
        self._emit("log.start", log, {**bounds, **open_producers})

    def trace_expiry(self, log: PartitionLog, producer_ids: Iterable[int]) -> None:
        """Idle producers were forgotten."""
        for producer_id in producer_ids:
            self._emit("pid.expire", log, {"pid": producer_id, "rule": "producer.expires"})

    def timer(self, name: str, waited_ms: int) -> int:
        """A timer of the broker has run out and finds something to do: the current cause from now
        on; the one before.
        """
        tracer, data = self.tracer, {"timer": name, "waited_ms": waited_ms}
        fired = tracer.emit("timer.fire", self.broker, parents=(NO_CAUSE,), data=data)
        return tracer.caused_by(fired)

    def _emit(self, kind: str, log: PartitionLog, data: dict[str, object]) -> None:
        name = str(log.topic_partition)
        self.tracer.emit(kind, f"{self.broker}/log/{name}", data={"tp": name, **data})

"""What happens to a partition's log, told to the trace.

The log itself is pure and tells nobody; these functions compare it before and after, and are called
only while the trace is on.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from txnsim.errors import Rejection
from txnsim.log.answers import Appended
from txnsim.log.partition_log import PartitionLog
from txnsim.runtime.trace import Tracer
from txnsim.types import TRANSACTION_STATE_TOPIC, TopicPartition, TxnMarker
from txnsim.wire.batch_header import BatchHeader


class LogBounds(msgspec.Struct, frozen=True, kw_only=True):
    """Where a log stood before something was done to it."""

    last_stable_offset: int
    high_watermark: int
    open_offset: int
    """First offset of the producer's open transaction, -1 without one."""


def bounds(log: PartitionLog, producer_id: int) -> LogBounds:
    """Where the log stands now, as far as this producer is concerned."""
    return LogBounds(
        last_stable_offset=log.last_stable_offset,
        high_watermark=log.high_watermark,
        open_offset=log.open_transaction_of(producer_id),
    )


class LogTrace:
    """The log events of one broker."""

    __slots__ = ("_broker", "_tracer")

    def __init__(self, tracer: Tracer, broker: str) -> None:
        self._tracer = tracer
        self._broker = broker

    @property
    def on(self) -> bool:
        """Whether anybody listens: ask before looking at bounds."""
        return self._tracer.on

    def appended(
        self, log: PartitionLog, header: BatchHeader, result: Appended, before: LogBounds
    ) -> None:
        """A batch of a client is in the log, or has been there before."""
        records = self._records(log.topic_partition, header)
        base_offset = result.base_offset
        if result.duplicate:
            self._emit("log.duplicate", log.topic_partition, {**records, "base": base_offset})
            return
        opened = before.open_offset < 0 <= log.open_transaction_of(header.producer_id)
        cause = self._emit(
            "log.append",
            log.topic_partition,
            {
                **records,
                "base": base_offset,
                "last": base_offset + header.last_offset_delta,
                "opened": opened,
            },
        )
        if opened:
            self._emit(
                "pid.open",
                log.topic_partition,
                {
                    "tp": str(log.topic_partition),
                    "pid": header.producer_id,
                    "epoch": header.producer_epoch,
                    "first": base_offset,
                },
                cause,
            )
        self.moved(log, before, cause)

    def refused(
        self, topic_partition: TopicPartition, header: BatchHeader, refusal: Rejection
    ) -> None:
        """A batch did not get into the log."""
        records = self._records(topic_partition, header)
        self._emit(
            "log.reject",
            topic_partition,
            {**records, "error": refusal.error.name.upper(), "reason": refusal.reason},
        )

    def marked(self, log: PartitionLog, marker: TxnMarker, offset: int, before: LogBounds) -> None:
        """A marker is in the log."""
        name = str(log.topic_partition)
        cause = self._emit(
            "marker.written",
            log.topic_partition,
            {**_marker(marker), "tp": name, "offset": offset},
        )
        if before.open_offset >= 0:
            self._emit(
                "pid.close",
                log.topic_partition,
                {
                    "tp": name,
                    "pid": marker.producer_id,
                    "epoch": marker.producer_epoch,
                    "first": before.open_offset,
                    "last": offset,
                    "committed": marker.committed,
                },
                cause,
            )
        self.moved(log, before, cause)

    def marker_refused(
        self, topic_partition: TopicPartition, marker: TxnMarker, refusal: Rejection
    ) -> None:
        """A marker was refused by the leader."""
        self._emit(
            "marker.refused",
            topic_partition,
            {**_marker(marker), "tp": str(topic_partition), "error": refusal.error.name.upper()},
        )

    def moved(self, log: PartitionLog, before: LogBounds, cause: int | None = None) -> None:
        """High watermark or last stable offset may be elsewhere now."""
        name = str(log.topic_partition)
        if log.high_watermark != before.high_watermark:
            self._emit("log.hw", log.topic_partition, {"tp": name, "to": log.high_watermark}, cause)
        if log.last_stable_offset != before.last_stable_offset:
            # In the coordinators' log it follows each record: nothing there is transactional.
            is_routine = log.topic_partition.topic == TRANSACTION_STATE_TOPIC
            self._emit(
                "log.lso",
                log.topic_partition,
                {"tp": name, "to": log.last_stable_offset},
                cause,
                importance=0 if is_routine else None,
            )

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

    def expired(self, log: PartitionLog, producer_ids: Iterable[int]) -> None:
        """Idle producers were forgotten."""
        for producer_id in producer_ids:
            data: dict[str, object] = {"tp": str(log.topic_partition), "pid": producer_id}
            self._emit("pid.expire", log.topic_partition, data)

    # Parts

    def _emit(
        self,
        kind: str,
        topic_partition: TopicPartition,
        data: dict[str, object],
        cause: int | None = None,
        importance: int | None = None,
    ) -> int:
        return self._tracer.emit(
            kind,
            f"{self._broker}/log/{topic_partition}",
            parents=() if cause is None else (cause,),
            data=data,
            importance=importance,
        )

    def _records(self, topic_partition: TopicPartition, header: BatchHeader) -> dict[str, object]:
        return {
            "tp": str(topic_partition),
            "pid": header.producer_id,
            "epoch": header.producer_epoch,
            "seq": header.base_sequence,
            "txn": header.is_transactional,
        }


def _marker(marker: TxnMarker) -> dict[str, object]:
    return {
        "pid": marker.producer_id,
        "epoch": marker.producer_epoch,
        "committed": marker.committed,
        "coordinator_epoch": marker.coordinator_epoch,
    }

"""WriteTxnMarkers at a partition leader: check, append, wait until the markers are committed.

Kafka's counterpart: KafkaApis.handleWriteTxnMarkersRequest.
"""

from __future__ import annotations

from collections.abc import Callable

from txnsim.broker.group_host import GroupHost
from txnsim.errors import ErrorCode, Rejection
from txnsim.node.log_gate import MARKER, LogGate
from txnsim.node.log_trace import LogTrace, bounds_for_marker
from txnsim.releases.rules import LATEST, Rules
from txnsim.replica.replicas import Replicas
from txnsim.replication.commits import Appends, Commits
from txnsim.replication.watermarks import Watermarks
from txnsim.runtime.env import Clock
from txnsim.runtime.pending import Pending
from txnsim.settings import Settings
from txnsim.types import (
    CONSUMER_OFFSETS_TOPIC,
    ProducerId,
    Subject,
    TopicPartition,
    TxnMarker,
    WriteTxnMarkersCommand,
    WriteTxnMarkersReply,
)


class _Written:
    """What a request has written, and what of it is waited for."""

    __slots__ = ("appends", "completions")

    def __init__(self) -> None:
        self.appends: Appends = []
        self.completions: list[tuple[TopicPartition, Pending[ErrorCode]]] = []


class MarkerWrites:
    """The markers that one broker writes."""

    __slots__ = (
        "_clock",
        "_commits",
        "_gate",
        "_groups",
        "_log_trace",
        "_replicas",
        "_rules",
        "_settings",
        "_watermarks",
    )

    def __init__(
        self,
        *,
        clock: Clock,
        settings: Callable[[], Settings],
        replicas: Replicas,
        watermarks: Watermarks,
        commits: Commits,
        groups: GroupHost,
        gate: LogGate,
        log_trace: LogTrace,
        rules: Rules = LATEST,
    ) -> None:
        self._rules = rules
        self._gate = gate
        self._clock = clock
        self._settings = settings
        self._replicas = replicas
        self._watermarks = watermarks
        self._commits = commits
        self._groups = groups
        self._log_trace = log_trace

    async def write(self, command: WriteTxnMarkersCommand) -> WriteTxnMarkersReply:
        """Write the markers that this broker leads."""
        written = _Written()
        merged: dict[ProducerId, dict[TopicPartition, int]] = {}
        now_ms = self._clock.now_ms()
        for marker in command.markers:
            if self._is_unwritable(marker):
                return _failed(command)
            errors = merged.setdefault(marker.producer_id, {})
            for topic_partition in dict.fromkeys(marker.partitions):
                errors[topic_partition] = (
                    self._write(marker, topic_partition, now_ms, written)
                    if self._gate.is_open
                    else await self._write_watched(marker, topic_partition, now_ms, written)
                )
        appends = written.appends
        is_forgotten = self._is_forgotten(command, appends)
        late = await self._commits.wait(appends, timeout_ms=self._settings().request_timeout_ms)
        for topic_partition, completion in written.completions:
            # The positions of the transaction come before the answer (KAFKA-17507).
            failed = await completion
            if failed:
                late.setdefault(topic_partition, failed)
        if late:
            for errors in merged.values():
                for topic_partition, error in errors.items():
                    errors[topic_partition] = error or late.get(topic_partition, ErrorCode.none)
        return WriteTxnMarkersReply(
            results=tuple(
                (producer_id, tuple(errors.items()))
                for producer_id, errors in merged.items()
                if errors
            ),
            is_forgotten=is_forgotten,
        )

    # Parts

    def _is_forgotten(self, command: WriteTxnMarkersCommand, appends: Appends) -> bool:
        """Whether the handler of Kafka forgets to answer.

        It answers when the last append completes, and counts a marker none of whose partitions is
        here as one that has; but it does not look whether that was the last one. So nobody answers
        where such a marker comes last and the appends before it are complete, unless it is all
        there is.

        Nor does anybody where a marker names a partition twice: it is appended once, and the second
        append is waited for.
        """
        if any(map(self._repeats, command.markers)):
            return True
        if not command.markers or self._is_here(command.markers[-1]):
            return False
        is_written = any(map(self._is_here, command.markers))
        return is_written and all(log.high_watermark > offset for log, offset in appends)

    def _repeats(self, marker: TxnMarker) -> bool:
        """Whether it names a partition that is here twice; groups count theirs one by one."""
        partitions = marker.partitions
        return len(set(partitions)) < len(partitions) and any(
            partitions.count(partition) > 1
            for partition in partitions
            if partition in self._replicas.hosted and partition.topic != CONSUMER_OFFSETS_TOPIC
        )

    def _is_here(self, marker: TxnMarker) -> bool:
        return any(partition in self._replicas.hosted for partition in marker.partitions)

    def _is_unwritable(self, marker: TxnMarker) -> bool:
        """Whether there is no control record for it that this broker could write.

        MemoryRecords.withEndTransactionMarker throws where the producer id or epoch is negative,
        and the whole request is answered with what the client sees of any bug: markers before this
        one are written, those behind it are not.
        """
        has_producer = marker.producer_id >= 0 and marker.producer_epoch >= 0
        return not has_producer and self._is_here(marker)

    async def _write_watched(
        self, marker: TxnMarker, topic_partition: TopicPartition, now_ms: int, written: _Written
    ) -> ErrorCode:
        """The same while somebody may object to it."""
        if topic_partition not in self._replicas.led:
            return self._write(marker, topic_partition, now_ms, written)
        subject = Subject(
            producer_id=marker.producer_id,
            partitions=(topic_partition,),
            committed=marker.committed,
        )
        error = await self._gate.admit(subject, kind=MARKER)
        if error is not None:
            return error
        log = self._replicas.led.get(topic_partition)
        if log is None:
            return self._write(marker, topic_partition, now_ms, written)
        before, end = self._gate.durable(log), log.log_end_offset
        answer = self._write(marker, topic_partition, now_ms, written)
        if answer is ErrorCode.none:
            self._gate.appended(
                log,
                before,
                aborted_at=None if marker.committed else end,
                producer_id=marker.producer_id,
            )
        return answer

    def _write(
        self, marker: TxnMarker, topic_partition: TopicPartition, now_ms: int, written: _Written
    ) -> ErrorCode:
        # "Not hosted online here" is answered 3 whether or not the partition exists elsewhere: the
        # sender looks the leader up again.
        if topic_partition not in self._replicas.hosted:
            if not self._rules.unhosted_markers_are_retried:
                return ErrorCode.unsupported_for_message_format  # KAFKA-5610
            return ErrorCode.unknown_topic_or_partition
        log = self._replicas.leader(topic_partition)
        if isinstance(log, Rejection):
            return log.error
        too_few = self._replicas.too_few_in_sync(topic_partition)
        if too_few is not None:
            return too_few.error
        if self._groups.refuses_markers(topic_partition):
            return ErrorCode.not_leader_or_follower
        before = bounds_for_marker(log, marker) if self._log_trace.on else None
        appended = log.append_marker(
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            committed=marker.committed,
            coordinator_epoch=marker.coordinator_epoch,
            transaction_version=marker.transaction_version,
            now_ms=now_ms,
            start_offset=marker.start_offset,
        )
        if isinstance(appended, Rejection):
            if before is not None:
                self._log_trace.marker_refused(topic_partition, marker, appended)
            return appended.error
        if before is None:
            self._watermarks.appended(log)
        else:
            cause = self._log_trace.marked(log, marker, appended.base_offset, before)
            self._watermarks.appended(log)
            self._log_trace.moved(log, before, cause)
        completion = self._groups.marker_written(topic_partition, marker, appended.base_offset)
        if completion is not None and self._rules.positions_come_before_answer:
            written.completions.append((topic_partition, completion))
        written.appends.append((log, appended.base_offset))
        return ErrorCode.none


def _failed(command: WriteTxnMarkersCommand) -> WriteTxnMarkersReply:
    """UNKNOWN_SERVER_ERROR for all of it; of two markers of one producer the last one is told
    (WriteTxnMarkersRequest.getErrorResponse).
    """
    failed = ErrorCode.unknown_server_error
    last = {marker.producer_id: marker.partitions for marker in command.markers}
    return WriteTxnMarkersReply(
        results=tuple(
            (producer_id, tuple((partition, failed) for partition in partitions))
            for producer_id, partitions in last.items()
        )
    )

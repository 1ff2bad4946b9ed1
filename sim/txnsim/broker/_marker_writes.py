"""Markers of transactions at the leaders of their partitions (WriteTxnMarkers).

Counterpart in Kafka: KafkaApis.handleWriteTxnMarkersRequest.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import ClassVar, Final

import msgspec

from txnsim.broker.coordinator_host import GroupHost
from txnsim.errors import ErrorCode, Rejection
from txnsim.faults.subjects import Subject
from txnsim.interbroker.transactions import TxnMarker, WriteTxnMarkersCommand, WriteTxnMarkersReply
from txnsim.log.answers import Appended
from txnsim.log.leader_append import append_marker
from txnsim.log.partition_log import PartitionLog
from txnsim.node.log_gate import MARKER
from txnsim.releases.rules import Rules
from txnsim.replica.replicas import Replicas
from txnsim.replication.append_events import AppendEvents
from txnsim.replication.leader_appends import Appends, Commits, LeaderAppends, WaitingBatch
from txnsim.runtime.loop_turns import Pace
from txnsim.runtime.tasks import Pending
from txnsim.types import CONSUMER_OFFSETS_TOPIC, ProducerId, TopicPartition

MARKERS_AT_ONCE: Final = 500
"""Number of markers that are written without a break, which takes some milliseconds. Coordinators
send all that they owe at once.
"""

_NOT_HOSTED: Final = Rejection(
    error=ErrorCode.unknown_topic_or_partition, reason="the partition is not here"
)
_NOT_HOSTED_FOR_GOOD: Final = Rejection(
    error=ErrorCode.unsupported_for_message_format, reason="the partition is not here"
)
_NOT_LOADED: Final = Rejection(
    error=ErrorCode.not_leader_or_follower, reason="the group's positions are not loaded yet"
)


class _PendingAppends(msgspec.Struct, eq=False):
    """The results that a request has so far, and the appends that it still waits for."""

    appends: Appends = []
    completions: list[tuple[TopicPartition, Pending[ErrorCode]]] = []


class MarkerWrites(msgspec.Struct, kw_only=True, eq=False):
    """Writes markers on one broker."""

    rules: Rules
    appends: LeaderAppends
    replicas: Replicas
    commits: Commits
    groups: GroupHost

    async def write(
        self, command: WriteTxnMarkersCommand, pace: Pace | None = None
    ) -> WriteTxnMarkersReply:
        """Write markers to the partitions that this broker leads; in slices between partitions if
        given a pace.
        """
        pending_appends, now_ms = _PendingAppends(), self.appends.clock.now_ms()
        errors_by_producer: dict[ProducerId, dict[TopicPartition, int]] = {}
        for marker in command.markers:
            if (marker.producer_id < 0 or marker.producer_epoch < 0) and self._has_a_partition(
                marker
            ):
                # MemoryRecords.withEndTransactionMarker throws, and the whole request is answered
                # with what the client sees of any bug: markers before this one are written, those
                # behind it are not.
                return _server_errors(command)
            error_by_partition = errors_by_producer.setdefault(marker.producer_id, {})
            for topic_partition in dict.fromkeys(marker.partitions):
                batch = _Marker(
                    partial(append_marker, marker=marker),
                    partial(self.log_for_marker, topic_partition),
                    marker,
                    topic_partition,
                )
                append_outcome = self.appends.append(batch, pending_appends.appends, now_ms=now_ms)
                if not isinstance(append_outcome, Appended | Rejection):
                    append_outcome, now_ms = await append_outcome, self.appends.clock.now_ms()
                if isinstance(append_outcome, Rejection):
                    error_by_partition[topic_partition] = append_outcome.error
                else:
                    error_by_partition[topic_partition] = ErrorCode.none
                    if topic_partition.topic == CONSUMER_OFFSETS_TOPIC:
                        self._complete_positions(
                            marker, topic_partition, append_outcome.base_offset, pending_appends
                        )
                if pace is not None and pace.has_done(1):
                    await pace.yield_turn()
                    now_ms = self.appends.clock.now_ms()
        appends = pending_appends.appends
        is_forgotten = self._is_never_answered(command, appends)
        late_errors: dict[TopicPartition, ErrorCode] = {}
        if self.commits.are_late(appends):
            timeout_ms = self.replicas.dynamic_settings.request_timeout_ms
            late_errors = await self.commits.wait(appends, timeout_ms=timeout_ms)
        for topic_partition, pending_completion in pending_appends.completions:
            # The positions of the transaction come before the answer (KAFKA-17507).
            completion_error = await pending_completion
            if completion_error:
                late_errors.setdefault(topic_partition, completion_error)
        if late_errors:
            for error_by_partition in errors_by_producer.values():
                for topic_partition, error in error_by_partition.items():
                    error_by_partition[topic_partition] = error or late_errors.get(
                        topic_partition, ErrorCode.none
                    )
        return WriteTxnMarkersReply(
            results=tuple(
                [
                    (producer_id, tuple(error_by_partition.items()))
                    for producer_id, error_by_partition in errors_by_producer.items()
                    if error_by_partition
                ]
            ),
            is_forgotten=is_forgotten,
        )

    # Parts

    def _is_never_answered(self, command: WriteTxnMarkersCommand, appends: Appends) -> bool:
        """Whether Kafka's handler never answers this request.

        It answers when the last append completes. A marker without any partition on this broker
        counts as complete, but there Kafka does not check whether it was the last one. So the
        client gets no answer if such a marker comes last and the earlier appends are complete,
        unless the request has no other markers.

        Nor does it if a marker names a partition twice: Kafka appends the marker once, and waits
        for the second append.
        """
        for marker in command.markers:
            # The length is asked first, as it saves a call for each marker of most transactions.
            if len(marker.partitions) > 1 and self._names_partition_twice(marker):
                return True
        if not command.markers or self._has_a_partition(command.markers[-1]):
            return False
        is_written = any(map(self._has_a_partition, command.markers))
        return is_written and all(log.high_watermark > offset for log, offset in appends)

    def _names_partition_twice(self, marker: TxnMarker) -> bool:
        """Whether the marker names a partition of this broker twice. The group coordinator's
        partitions are not checked, because it counts them one by one.
        """
        partitions = marker.partitions
        return len(set(partitions)) < len(partitions) and any(
            times_named > 1
            and partition in self.replicas.hosted
            and partition.topic != CONSUMER_OFFSETS_TOPIC
            for partition, times_named in Counter(partitions).items()
        )

    def _has_a_partition(self, marker: TxnMarker) -> bool:
        return not self.replicas.hosted.keys().isdisjoint(marker.partitions)

    def _complete_positions(
        self,
        marker: TxnMarker,
        topic_partition: TopicPartition,
        offset: int,
        pending_appends: _PendingAppends,
    ) -> None:
        """Pass a marker that is in a log of positions to the group coordinator, which completes the
        positions that it ends.
        """
        pending_completion = self.groups.marker_written(topic_partition, marker, offset)
        if pending_completion is not None and self.rules.positions_come_before_answer:
            pending_appends.completions.append((topic_partition, pending_completion))

    def log_for_marker(self, topic_partition: TopicPartition) -> PartitionLog | Rejection:
        """The log for a marker if this broker leads the partition, else the error."""
        # "Not hosted online here" is answered 3 whether or not the partition exists elsewhere: the
        # sender looks the leader up again.
        if topic_partition not in self.replicas.hosted:
            is_retried = self.rules.unhosted_markers_are_retried  # KAFKA-5610
            return _NOT_HOSTED if is_retried else _NOT_HOSTED_FOR_GOOD
        log = self.replicas.led.get(topic_partition)
        if log is None:
            return self.replicas.leader_log(topic_partition)
        replicated_log = self.replicas.replicated.get(topic_partition)
        if replicated_log is not None and replicated_log.is_under_min_isr:
            refusal = self.appends.refuse_too_few_replicas(log)
            assert refusal is not None
            return refusal
        is_offsets_topic = topic_partition.topic == CONSUMER_OFFSETS_TOPIC
        if is_offsets_topic and self.groups.refuses_markers(topic_partition):
            return _NOT_LOADED
        return log


class _Marker(WaitingBatch, frozen=True, gc=False):
    """A coordinator's marker, waiting to be appended to a partition of its transaction."""

    kind: ClassVar[str] = MARKER
    marker: TxnMarker
    topic_partition: TopicPartition

    def subject(self) -> Subject:
        return Subject(
            producer_id=self.marker.producer_id,
            partitions=(self.topic_partition,),
            committed=self.marker.committed,
        )

    def trace_append(self, events: AppendEvents, log: PartitionLog, appended: Appended) -> int:
        return events.trace_marker(log, self.marker, appended)

    def trace_refusal(self, events: AppendEvents, refusal: Rejection) -> None:
        events.trace_marker_refusal(self.topic_partition, self.marker, refusal)

    @property
    def aborted_producer_id(self) -> int | None:
        return None if self.marker.committed else self.marker.producer_id


def _server_errors(command: WriteTxnMarkersCommand) -> WriteTxnMarkersReply:
    """UNKNOWN_SERVER_ERROR for every marker; for two markers of one producer only the last one is
    in the answer (WriteTxnMarkersRequest.getErrorResponse).
    """
    server_error = ErrorCode.unknown_server_error
    partitions_by_producer = {marker.producer_id: marker.partitions for marker in command.markers}
    return WriteTxnMarkersReply(
        results=tuple(
            (producer_id, tuple((partition, server_error) for partition in partitions))
            for producer_id, partitions in partitions_by_producer.items()
        )
    )

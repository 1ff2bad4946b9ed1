"""WriteTxnMarkers at a partition leader: check, append, wait until the markers are committed.

Kafka's counterpart: KafkaApis.handleWriteTxnMarkersRequest.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import ClassVar, Final

import msgspec

from txnsim.broker._group_host import GroupHost
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
from txnsim.runtime.tasks import Pending
from txnsim.runtime.turns import Pace
from txnsim.types import CONSUMER_OFFSETS_TOPIC, ProducerId, TopicPartition

MARKERS_AT_ONCE: Final = 500
"""So many are written in one go, some milliseconds; coordinators send as many as they owe."""

_NOT_HOSTED: Final = Rejection(
    error=ErrorCode.unknown_topic_or_partition, reason="the partition is not here"
)
_NOT_HOSTED_FOR_GOOD: Final = Rejection(
    error=ErrorCode.unsupported_for_message_format, reason="the partition is not here"
)
_NOT_LOADED: Final = Rejection(
    error=ErrorCode.not_leader_or_follower, reason="the group's positions are not loaded yet"
)


class _Written(msgspec.Struct, eq=False):
    """What a request has written, and the appends that it still waits for."""

    appends: Appends = []
    completions: list[tuple[TopicPartition, Pending[ErrorCode]]] = []


class MarkerWrites(msgspec.Struct, kw_only=True, eq=False):
    """The markers that one broker writes."""

    rules: Rules
    appends: LeaderAppends
    replicas: Replicas
    commits: Commits
    groups: GroupHost

    async def write(
        self, command: WriteTxnMarkersCommand, pace: Pace | None = None
    ) -> WriteTxnMarkersReply:
        """Write the markers that this broker leads; with breaks between the partitions where it has
        a pace.
        """
        written, now_ms = _Written(), self.appends.clock.now_ms()
        merged: dict[ProducerId, dict[TopicPartition, int]] = {}
        for marker in command.markers:
            if (marker.producer_id < 0 or marker.producer_epoch < 0) and self._is_here(marker):
                # MemoryRecords.withEndTransactionMarker throws, and the whole request is answered
                # with what the client sees of any bug: markers before this one are written, those
                # behind it are not.
                return _failed(command)
            errors = merged.setdefault(marker.producer_id, {})
            for topic_partition in dict.fromkeys(marker.partitions):
                batch = _Marker(
                    partial(append_marker, marker=marker),
                    partial(self.log_for_marker, topic_partition),
                    marker,
                    topic_partition,
                )
                appended = self.appends.append(batch, written.appends, now_ms=now_ms)
                if not isinstance(appended, Appended | Rejection):
                    appended, now_ms = await appended, self.appends.clock.now_ms()
                if isinstance(appended, Rejection):
                    errors[topic_partition] = appended.error
                else:
                    errors[topic_partition] = ErrorCode.none
                    if topic_partition.topic == CONSUMER_OFFSETS_TOPIC:
                        self._positions(marker, topic_partition, appended.base_offset, written)
                if pace is not None and pace.has_done(1):
                    await pace.rest()
                    now_ms = self.appends.clock.now_ms()
        appends = written.appends
        is_forgotten = self._is_forgotten(command, appends)
        late: dict[TopicPartition, ErrorCode] = {}
        if self.commits.are_late(appends):
            timeout_ms = self.replicas.dynamic.request_timeout_ms
            late = await self.commits.wait(appends, timeout_ms=timeout_ms)
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
                [
                    (producer_id, tuple(errors.items()))
                    for producer_id, errors in merged.items()
                    if errors
                ]
            ),
            is_forgotten=is_forgotten,
        )

    # Parts

    def _is_forgotten(self, command: WriteTxnMarkersCommand, appends: Appends) -> bool:
        """Whether the handler of Kafka forgets to answer.

        It answers when the last append completes. A marker without any partition on this broker
        counts as complete, but there Kafka does not check whether it was the last one. So the
        client gets no answer where such a marker comes last and the earlier appends are complete,
        unless the request has no other markers.

        The client gets no answer either where a marker names a partition twice: Kafka appends it
        once, and waits for the second append.
        """
        for marker in command.markers:
            if len(marker.partitions) > 1 and self._repeats(marker):
                return True
        if not command.markers or self._is_here(command.markers[-1]):
            return False
        is_written = any(map(self._is_here, command.markers))
        return is_written and all(log.high_watermark > offset for log, offset in appends)

    def _repeats(self, marker: TxnMarker) -> bool:
        """Whether it names a partition that is here twice; groups count theirs one by one."""
        partitions = marker.partitions
        return len(set(partitions)) < len(partitions) and any(
            count > 1
            and partition in self.replicas.hosted
            and partition.topic != CONSUMER_OFFSETS_TOPIC
            for partition, count in Counter(partitions).items()
        )

    def _is_here(self, marker: TxnMarker) -> bool:
        return not self.replicas.hosted.keys().isdisjoint(marker.partitions)

    def _positions(
        self, marker: TxnMarker, topic_partition: TopicPartition, offset: int, written: _Written
    ) -> None:
        """A marker is in a log of positions: those that it ends are the group's now."""
        completion = self.groups.marker_written(topic_partition, marker, offset)
        if completion is not None and self.rules.positions_come_before_answer:
            written.completions.append((topic_partition, completion))

    def log_for_marker(self, topic_partition: TopicPartition) -> PartitionLog | Rejection:
        """The led log that takes a marker, or the error."""
        # "Not hosted online here" is answered 3 whether or not the partition exists elsewhere: the
        # sender looks the leader up again.
        if topic_partition not in self.replicas.hosted:
            is_retried = self.rules.unhosted_markers_are_retried  # KAFKA-5610
            return _NOT_HOSTED if is_retried else _NOT_HOSTED_FOR_GOOD
        log = self.replicas.led.get(topic_partition)
        if log is None:
            return self.replicas.leader(topic_partition)
        led = self.replicas.replicated.get(topic_partition)
        if led is not None and led.is_under_min_isr:
            return self.appends.refuse_few(log) or log
        is_positions = topic_partition.topic == CONSUMER_OFFSETS_TOPIC
        if is_positions and self.groups.refuses_markers(topic_partition):
            return _NOT_LOADED
        return log


class _Marker(WaitingBatch, frozen=True, gc=False):
    """What a coordinator brings to a partition of its transaction."""

    kind: ClassVar[str] = MARKER
    marker: TxnMarker
    topic_partition: TopicPartition

    def subject(self) -> Subject:
        return Subject(
            producer_id=self.marker.producer_id,
            partitions=(self.topic_partition,),
            committed=self.marker.committed,
        )

    def stored(self, events: AppendEvents, log: PartitionLog, appended: Appended) -> int:
        return events.marked(log, self.marker, appended)

    def refused(self, events: AppendEvents, refusal: Rejection) -> None:
        events.marker_refused(self.topic_partition, self.marker, refusal)

    @property
    def aborts(self) -> int | None:
        return None if self.marker.committed else self.marker.producer_id


def _failed(command: WriteTxnMarkersCommand) -> WriteTxnMarkersReply:
    """UNKNOWN_SERVER_ERROR for every marker; of two markers of one producer the answer has the last
    one (WriteTxnMarkersRequest.getErrorResponse).
    """
    failed = ErrorCode.unknown_server_error
    last = {marker.producer_id: marker.partitions for marker in command.markers}
    return WriteTxnMarkersReply(
        results=tuple(
            (producer_id, tuple((partition, failed) for partition in partitions))
            for producer_id, partitions in last.items()
        )
    )

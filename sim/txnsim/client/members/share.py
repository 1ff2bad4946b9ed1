"""A member of a share group, for programs: subscribe, poll, acknowledge, leave (KIP-932).

The brokers keep the group's positions; a poll acquires records that no other member has at that
time. The member's acknowledgements go with its next poll, or at once with ``commit``. Offsets of
markers and missing records are acknowledged as gaps automatically.

It has a share session with each leader of a partition that it is assigned. A lost session (the
connection was closed, for instance) releases all its records; the next poll opens another one.

Kafka's counterparts are ``ShareConsumeRequestManager``, ``ShareSessionHandler`` and
``ShareCompletedFetch``.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from typing import Any, Final

import msgspec

from txnsim.client.cluster import LOST_ANSWER_ERRORS, Cluster
from txnsim.client.isolation import ConsumedRecord, visible_records
from txnsim.client.members.member import JoiningMember
from txnsim.client.members.membership import MemberOptions
from txnsim.client.reactions import REFRESHING
from txnsim.client.requests import MessageRow, versioned_request
from txnsim.client.versions import ClientApi, VersionedRequest
from txnsim.errors import ErrorCode
from txnsim.types import IsolationLevel, TopicPartition

FETCH_BYTES_MAX: Final = 52_428_800
"""fetch.max.bytes."""
RECORDS_MAX: Final = 500
"""max.poll.records."""
OPENING: Final = 0
CLOSING: Final = -1
"""Epochs of a share session."""
_LOST_ANSWER_CODES: Final = frozenset({ErrorCode.network_exception, ErrorCode.request_timed_out})
_SESSION_LOST: Final = frozenset(
    {ErrorCode.share_session_not_found, ErrorCode.invalid_share_session_epoch}
)
LANE: Final = "share"
"""The lane of the connection that the share session belongs to."""


class Acknowledge(IntEnum):
    """How a member acknowledges a record: Java's ``AcknowledgeType``, and the gap that only clients
    use.
    """

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class AcknowledgedRange(msgspec.Struct, frozen=True):
    """An acknowledged range of offsets, and the leader's answer."""

    topic_partition: TopicPartition
    first_offset: int
    last_offset: int
    type: Acknowledge
    error: ErrorCode = ErrorCode.none


class AcquiredRecords(msgspec.Struct, frozen=True, kw_only=True):
    """Records that one leader gave from one partition."""

    topic_partition: TopicPartition
    error: ErrorCode = ErrorCode.none
    records: tuple[tuple[ConsumedRecord, int], ...] = ()
    """Records, each with its delivery count."""
    lock_ms: int = -1
    """Duration of the acquisition lock in ms; -1 if the answer has none."""
    leader_epoch: int = -1
    """Leader epoch of the partition in the client's metadata."""
    is_lost: bool = False
    """Whether the answer was lost: records may have been acquired."""


class ShareAnswers(msgspec.Struct, frozen=True, kw_only=True):
    """Leaders' answers to a poll or a commit of acknowledgements."""

    acquired: tuple[AcquiredRecords, ...] = ()
    acknowledged_ranges: tuple[AcknowledgedRange, ...] = ()
    """Acknowledgements with their errors, without gaps."""

    @property
    def error(self) -> ErrorCode:
        """The first error among acknowledgements, else among partitions."""
        errors = [
            *(outcome.error for outcome in self.acknowledged_ranges),
            *(outcome.error for outcome in self.acquired),
        ]
        return next((error_code for error_code in errors if error_code), ErrorCode.none)


class ShareMember(JoiningMember):
    """One consumer in a share group; ``close`` it."""

    def __init__(self, cluster: Cluster, options: MemberOptions) -> None:
        """Nothing is sent before ``subscribe``."""
        super().__init__(cluster, msgspec.structs.replace(options, protocol="share"))
        self._sessions: dict[int, _ShareSession] = {}
        """Share sessions by leader."""
        self._queued_acknowledgements: list[AcknowledgedRange] = []
        """Acknowledgements for the next request."""

    async def poll(
        self,
        *,
        until: frozenset[TopicPartition] | None = None,
        max_wait_ms: int = 0,
        timeout_ms: float | None = None,
    ) -> ShareAnswers:
        """Follow the assignment, send queued acknowledgements, and ask each leader once for
        records.

        Args:
            until: Wait until these partitions are assigned.
            max_wait_ms: How long a leader may wait for records.
            timeout_ms: How long to wait for the assignment.

        Raises:
            ClientError: The coordinator refuses the member.
            RetriableError: Not assigned in time, or a partition has no leader.
        """
        with self._suspend_rebalance_timeout():
            await self._wait_until_assigned(until, timeout_ms)
            epochs_by_leader = await self._by_leader()
            for leader in self._sessions.keys() - epochs_by_leader.keys():
                # The request tells it that the member has nothing there any more.
                epochs_by_leader[leader] = {}
            answers = await asyncio.gather(
                *(
                    self._fetch_from_leader(leader, leader_epochs, max_wait_ms)
                    for leader, leader_epochs in sorted(epochs_by_leader.items())
                )
            )
        acquired_batches = tuple(batch for answer in answers for batch in answer.acquired)
        return ShareAnswers(
            acquired=acquired_batches,
            acknowledged_ranges=self._settle_lost(answer.acknowledged_ranges for answer in answers),
        )

    def acknowledge(
        self, partition: TopicPartition, offsets: Iterable[int], as_: str = "accept"
    ) -> None:
        """Queue acknowledgements of acquired records for the next request to their leader.

        Args:
            partition: The partition of the records.
            offsets: The offsets of the records.
            as_: ``accept``, ``release``, ``reject`` or ``renew``.
        """
        acknowledge_type = Acknowledge[as_.upper()]
        self._queued_acknowledgements += [
            AcknowledgedRange(partition, first_offset, last_offset, acknowledge_type)
            for first_offset, last_offset in _ranges(offsets)
        ]

    async def commit(self) -> ShareAnswers:
        """Send queued acknowledgements now (``commitSync``).

        Returns:
            The leaders' answers. After REQUEST_TIMED_OUT and NETWORK_EXCEPTION it is unknown
                whether they took effect.
        """
        with self._suspend_rebalance_timeout():
            leaders = [
                leader for leader, session in self._sessions.items() if session.topic_partitions
            ]
            acknowledged_ranges = await asyncio.gather(*map(self._acknowledge, sorted(leaders)))
        return ShareAnswers(acknowledged_ranges=self._settle_lost(acknowledged_ranges))

    async def leave(self) -> None:
        """Leave the group, like a consumer that is closed: close the share sessions and tell the
        coordinator.

        Raises:
            ClientError: Refused, or not answered.
        """
        await self._end_heartbeats()
        for leader, session in sorted(self._sessions.items()):
            if session.epoch != OPENING:
                session.epoch = CLOSING
                await self._acknowledge(leader)
        self._sessions.clear()
        await super().leave()

    # Inside

    async def _by_leader(self) -> dict[int, dict[TopicPartition, int]]:
        """Leader -> the member's partitions that it leads, with their leader epochs."""
        epochs_by_leader: dict[int, dict[TopicPartition, int]] = defaultdict(dict)
        for partition in sorted(self.assigned):
            leader = await self._cluster.leader(partition)
            epochs_by_leader[leader.leader_id][partition] = leader.leader_epoch
        return epochs_by_leader

    def _take_acknowledgements(self, session: _ShareSession) -> list[AcknowledgedRange]:
        """Take the acknowledgements that are queued for a leader."""
        own_acknowledgements = [
            acknowledgement
            for acknowledgement in self._queued_acknowledgements
            if acknowledgement.topic_partition in session.topic_partitions
        ]
        self._queued_acknowledgements = [
            acknowledgement
            for acknowledgement in self._queued_acknowledgements
            if acknowledgement.topic_partition not in session.topic_partitions
        ]
        return own_acknowledgements

    def _settle_lost(
        self, acknowledged_ranges: Iterable[tuple[AcknowledgedRange, ...]]
    ) -> tuple[AcknowledgedRange, ...]:
        """Acknowledgements with their errors; without a session the locks are lost."""
        session_partitions = {
            partition
            for session in self._sessions.values()
            for partition in session.topic_partitions
        }
        lost_acknowledgements = [
            acknowledgement
            for acknowledgement in self._queued_acknowledgements
            if acknowledgement.topic_partition not in session_partitions
        ]
        self._queued_acknowledgements = [
            acknowledgement
            for acknowledgement in self._queued_acknowledgements
            if acknowledgement.topic_partition in session_partitions
        ]
        error = ErrorCode.not_leader_or_follower
        acknowledgements = (
            *(
                acknowledgement
                for settled_ranges in acknowledged_ranges
                for acknowledgement in settled_ranges
            ),
            *_all_with_error(lost_acknowledgements, error),
        )
        return tuple(
            acknowledgement
            for acknowledgement in acknowledgements
            if acknowledgement.type is not Acknowledge.GAP
        )

    async def _fetch_from_leader(
        self, leader_id: int, leader_epochs: Mapping[TopicPartition, int], max_wait_ms: int
    ) -> ShareAnswers:
        """Fetch once; if the session was lost meanwhile, again in a new one."""
        first_answer = await self._fetch_once(leader_id, leader_epochs, max_wait_ms)
        if all(batch.error not in _SESSION_LOST for batch in first_answer.acquired):
            return first_answer
        second_answer = await self._fetch_once(leader_id, leader_epochs, max_wait_ms)
        return ShareAnswers(
            acquired=second_answer.acquired, acknowledged_ranges=first_answer.acknowledged_ranges
        )

    async def _fetch_once(
        self, leader_id: int, leader_epochs: Mapping[TopicPartition, int], max_wait_ms: int
    ) -> ShareAnswers:
        session = self._sessions.setdefault(leader_id, _ShareSession())
        acknowledgements = [] if session.epoch == OPENING else self._take_acknowledgements(session)
        new_partitions, dropped_partitions = (
            leader_epochs.keys() - session.topic_partitions,
            session.topic_partitions - leader_epochs.keys(),
        )
        session.topic_partitions = set(leader_epochs)
        session.learn_ids(self._cluster)
        if not leader_epochs:
            session.epoch = CLOSING
        request = versioned_request(
            ClientApi.SHARE_FETCH,
            group_id=self.options.group_id,
            member_id=self.metadata.member_id,
            share_session_epoch=session.epoch,
            max_wait=max_wait_ms,
            min_bytes=1,
            max_bytes=FETCH_BYTES_MAX,
            max_records=RECORDS_MAX,
            batch_size=RECORDS_MAX,
            share_acquire_mode=0,
            is_renew_ack=any(
                acknowledgement.type is Acknowledge.RENEW for acknowledgement in acknowledgements
            ),
            topics=_topic_rows(
                "FetchTopic", "FetchPartition", new_partitions, acknowledgements, session
            ),
            forgotten_topics_data=_forgotten_topics(dropped_partitions, session),
            request_timeout_ms=self._cluster.settings.request_timeout_ms + max_wait_ms,
        )
        answer = await self._ask_leader(leader_id, session, request)
        if isinstance(answer, ErrorCode):
            is_lost = answer in _LOST_ANSWER_CODES
            failed_records = tuple(
                AcquiredRecords(
                    topic_partition=partition, error=answer, leader_epoch=epoch, is_lost=is_lost
                )
                for partition, epoch in leader_epochs.items()
            )
            return ShareAnswers(
                acquired=failed_records,
                acknowledged_ranges=_all_with_error(acknowledgements, answer),
            )
        partition_rows = session.rows(answer)
        lock_ms = _ms(getattr(answer, "acquisition_lock_timeout", -1))
        # An answer leaves out a partition without new records.
        acquired_batches = tuple(
            self._read_acquired_records(partition, partition_rows[partition], lock_ms, epoch)
            if partition in partition_rows
            else AcquiredRecords(topic_partition=partition, leader_epoch=epoch)
            for partition, epoch in leader_epochs.items()
        )
        return ShareAnswers(
            acquired=acquired_batches,
            acknowledged_ranges=_ranges_with_outcomes(
                acknowledgements, partition_rows, "acknowledge_error_code"
            ),
        )

    async def _acknowledge(self, leader_id: int) -> tuple[AcknowledgedRange, ...]:
        session = self._sessions[leader_id]
        acknowledgements = self._take_acknowledgements(session)
        if session.epoch == OPENING:
            return _all_with_error(acknowledgements, ErrorCode.share_session_not_found)
        if not acknowledgements and session.epoch != CLOSING:
            return ()
        request = versioned_request(
            ClientApi.SHARE_ACKNOWLEDGE,
            group_id=self.options.group_id,
            member_id=self.metadata.member_id,
            share_session_epoch=session.epoch,
            is_renew_ack=any(
                acknowledgement.type is Acknowledge.RENEW for acknowledgement in acknowledgements
            ),
            topics=_topic_rows(
                "AcknowledgeTopic", "AcknowledgePartition", (), acknowledgements, session
            ),
        )
        answer = await self._ask_leader(leader_id, session, request)
        if isinstance(answer, ErrorCode):
            return _all_with_error(acknowledgements, answer)
        return _ranges_with_outcomes(acknowledgements, session.rows(answer), "error_code")

    async def _ask_leader(
        self, leader_id: int, session: _ShareSession, request: VersionedRequest
    ) -> Any:
        """Send a request; returns the answer, or the error after which the session has been
        replaced.
        """
        try:
            answer = await self._cluster.ask(leader_id, request, lane=LANE)
            error = ErrorCode(answer.error_code)
        except LOST_ANSWER_ERRORS as lost:
            answer, error = None, lost.error or ErrorCode.network_exception
        if error != ErrorCode.none:
            session.epoch = OPENING
            session.topic_partitions = set()
            for partition in self.assigned:
                self._cluster.forget_leader(partition.topic)
            return error
        session.epoch = OPENING if session.epoch == CLOSING else session.epoch + 1
        return answer

    def _read_acquired_records(
        self, partition: TopicPartition, partition_row: Any, lock_ms: int, leader_epoch: int
    ) -> AcquiredRecords:
        """The acquired records of a partition; offsets without a record are acknowledged as
        gaps.
        """
        error = ErrorCode(partition_row.error_code)
        if error in REFRESHING:
            self._cluster.forget_leader(partition.topic)
        delivery_counts = {
            offset: acquired_range.delivery_count
            for acquired_range in partition_row.acquired_records
            for offset in range(acquired_range.first_offset, acquired_range.last_offset + 1)
        }
        visible_part = visible_records(
            partition,
            partition_row.records or b"",
            fetch_offset=min(delivery_counts, default=0),
            isolation=IsolationLevel.READ_UNCOMMITTED,  # aborted ones were not acquired
        )
        records = tuple(
            (record, delivery_counts[record.offset])
            for record in visible_part.records
            if record.offset in delivery_counts
        )
        self.acknowledge(
            partition, delivery_counts.keys() - {record.offset for record, _ in records}, "gap"
        )
        return AcquiredRecords(
            topic_partition=partition,
            error=error,
            records=records,
            lock_ms=lock_ms,
            leader_epoch=leader_epoch,
        )


class _ShareSession:
    """A share session with one leader."""

    def __init__(self) -> None:
        self.epoch = OPENING
        self.topic_partitions: set[TopicPartition] = set()
        """Partitions in the session, as the leader has them."""
        self.ids: dict[str, Any] = {}
        """Topic name -> topic id."""

    def learn_ids(self, cluster: Cluster) -> None:
        for partition in self.topic_partitions:
            topic = cluster.view.topic(partition.topic)
            if topic is not None and topic.topic_id is not None:
                self.ids[partition.topic] = topic.topic_id

    def rows(self, answer: Any) -> dict[TopicPartition, Any]:
        topic_names = {topic_id: topic_name for topic_name, topic_id in self.ids.items()}
        return {
            TopicPartition(
                topic_names[topic.topic_id], partition_row.partition_index
            ): partition_row
            for topic in answer.responses
            if topic.topic_id in topic_names
            for partition_row in topic.partitions
        }


def _topic_rows(
    topic: str,
    partition: str,
    new_partitions: Iterable[TopicPartition],
    acknowledgements: list[AcknowledgedRange],
    session: _ShareSession,
) -> list[MessageRow]:
    """Rows of a request: partitions new to the session, partitions with acknowledgements."""
    batches: dict[TopicPartition, list[MessageRow]] = {
        topic_partition: [] for topic_partition in sorted(new_partitions)
    }
    for acknowledgement in acknowledgements:
        batches.setdefault(acknowledgement.topic_partition, []).append(
            MessageRow(
                "AcknowledgementBatch",
                first_offset=acknowledgement.first_offset,
                last_offset=acknowledgement.last_offset,
                acknowledge_types=(acknowledgement.type,),
            )
        )

    def row(topic_partition: TopicPartition) -> MessageRow:
        ordered_batches = sorted(
            batches[topic_partition], key=lambda batch: batch.fields["first_offset"]
        )
        return MessageRow(
            partition,
            partition_index=topic_partition.partition,
            acknowledgement_batches=ordered_batches,
        )

    rows_by_topic: dict[str, list[MessageRow]] = defaultdict(list)
    for topic_partition in batches:
        rows_by_topic[topic_partition.topic].append(row(topic_partition))
    return [
        MessageRow(topic, topic_id=session.ids[topic_name], partitions=partition_rows)
        for topic_name, partition_rows in rows_by_topic.items()
    ]


def _forgotten_topics(
    partitions: Iterable[TopicPartition], session: _ShareSession
) -> list[MessageRow]:
    indexes_by_topic: dict[str, list[int]] = defaultdict(list)
    for partition in sorted(partitions):
        indexes_by_topic[partition.topic].append(partition.partition)
    return [
        MessageRow("ForgottenTopic", topic_id=session.ids[topic_name], partitions=tuple(indexes))
        for topic_name, indexes in indexes_by_topic.items()
    ]


def _ranges_with_outcomes(
    acknowledgements: list[AcknowledgedRange],
    partition_rows: Mapping[TopicPartition, Any],
    error_field: str,
) -> tuple[AcknowledgedRange, ...]:
    """Acknowledgements with the leader's error for each partition."""
    error_by_partition = {
        partition: ErrorCode(getattr(partition_row, error_field))
        for partition, partition_row in partition_rows.items()
    }
    unknown_error = ErrorCode.unknown_server_error
    return tuple(
        _with_error(
            acknowledgement, error_by_partition.get(acknowledgement.topic_partition, unknown_error)
        )
        for acknowledgement in acknowledgements
    )


def _with_error(acknowledgement: AcknowledgedRange, error: ErrorCode) -> AcknowledgedRange:
    return msgspec.structs.replace(acknowledgement, error=error)


def _all_with_error(
    acknowledgements: Iterable[AcknowledgedRange], error: ErrorCode
) -> tuple[AcknowledgedRange, ...]:
    return tuple(_with_error(acknowledgement, error) for acknowledgement in acknowledgements)


def _ranges(offsets: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Ranges of consecutive offsets, both ends included."""
    first_offset = last_offset = None
    for offset in sorted(offsets):
        if last_offset is None or offset != last_offset + 1:
            if first_offset is not None and last_offset is not None:
                yield first_offset, last_offset
            first_offset = offset
        last_offset = offset
    if first_offset is not None and last_offset is not None:
        yield first_offset, last_offset


def _ms(milliseconds: Any) -> int:
    return (
        milliseconds
        if isinstance(milliseconds, int)
        else round(milliseconds.total_seconds() * 1_000)
    )

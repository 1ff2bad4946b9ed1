"""The leader's side of replication: the position of each follower, its news, and its parked Fetch.

Each follower has one session, with all partitions that it follows here (KIP-227): a request names
only the partitions that have changed, an answer only those with news. A Fetch that finds no news is
parked. An append marks the partition as news; after the present callback all news goes out in one
answer. The answer holds references to the leader's batches.

An answer is due when there are new records, a new log start or an error. A high watermark is sent
with the records of its partition; alone it is sent after ``replica.fetch.wait.max.ms``. Kafka's
counterparts: ReplicaManager.fetchMessages for followers, Partition.fetchRecords and
updateFollowerFetchState.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import msgspec

from txnsim.errors import ErrorCode, Rejection
from txnsim.interbroker.replication import (
    NO_REPLICA,
    ReplicaFetchCommand,
    ReplicaFetchedPartition,
    ReplicaFetchPartition,
    ReplicaFetchReply,
    ReplicaOffsetCommand,
    ReplicaOffsetReply,
    ReplicatedBatch,
)
from txnsim.log.partition_log import PartitionLog
from txnsim.replica.partition import UNKNOWN_EPOCH, LeaderPartition
from txnsim.replica.replicas import Replicas
from txnsim.replication.isr_changes import IsrChanges
from txnsim.replication.leader_appends import Watermarks
from txnsim.runtime.environment import Clock, Tasks
from txnsim.runtime.tasks import Pending
from txnsim.types import BrokerId, TopicPartition

LATEST_TIMESTAMP: Final = -1
"""Timestamp in ListOffsets that asks for the log end."""
FULL_FETCH_EPOCH: Final = 0
"""Session epoch of a request that begins a session."""
BATCHES_MAX: Final = 250
"""Most batches in one answer, from all partitions: sending and appending them takes 1 ms of the
event loop, which all brokers share. Kafka's answer is bounded by bytes alone.
"""


# Not a struct: a field of one takes twice as long to set, and these are set all the time.
@dataclass(slots=True, eq=False)
class _FollowerSession:
    """The session of one follower; the ``Reader`` of its partitions."""

    _sessions: ReplicaSessions
    follower_id: BrokerId
    session_id: int
    epoch: int = FULL_FETCH_EPOCH + 1
    """Epoch of the next request."""
    positions: dict[TopicPartition, ReplicaFetchPartition] = field(default_factory=dict)
    partitions_with_news: dict[TopicPartition, None] = field(default_factory=dict)
    stale_partitions: dict[TopicPartition, None] = field(default_factory=dict)
    """Partitions whose present high watermark the follower does not know."""
    partitions_out_of_isr: dict[TopicPartition, None] = field(default_factory=dict)
    """Partitions whose ISR the follower is not in."""
    reported_all_ms: int = 0
    """Time at which the session last got the high watermarks of all its partitions."""
    parked_request: Pending[ReplicaFetchReply] | None = None
    is_answer_due: bool = False
    last_fetch_ms: int = 0
    deadline_ms: int = 0
    timer_ms: int | None = None
    """Time at which the timer for the deadline fires; None if none is armed."""
    response_max_bytes: int = 0

    def answer_soon(self) -> None:
        self.is_answer_due = True
        # After the current callback: all records that it appends go out in one answer.
        self._sessions.tasks.run_soon(partial(self._sessions.answer, self))

    def note_out_of_isr(self, topic_partition: TopicPartition) -> None:
        self.partitions_out_of_isr[topic_partition] = None


class ReplicaSessions(msgspec.Struct, kw_only=True, eq=False):
    """The sessions of all followers of the partitions that one broker leads."""

    clock: Clock
    tasks: Tasks
    replicas: Replicas
    watermarks: Watermarks
    isr_changes: IsrChanges
    _by_follower: dict[BrokerId, _FollowerSession] = {}
    _session_count: int = 0

    # Commands

    def fetch(self, command: ReplicaFetchCommand) -> Pending[ReplicaFetchReply]:
        """Note the follower's positions; answer with the news, now or when there is some."""
        session = self._by_follower.get(command.replica_id)
        if (
            session is not None
            and session.session_id == command.session_id
            and session.epoch == command.session_epoch
        ):
            session.epoch += 1
        elif command.session_epoch == FULL_FETCH_EPOCH:
            session = self._begin_session(command.replica_id, session)
        elif session is None or session.session_id != command.session_id:
            return self._answer_now(ReplicaFetchReply(error=ErrorCode.fetch_session_id_not_found))
        else:
            return self._answer_now(ReplicaFetchReply(error=ErrorCode.invalid_fetch_session_epoch))
        now_ms = session.last_fetch_ms = self.clock.monotonic_ms()
        if session.parked_request is not None:
            self._supersede_parked(session)
        session.response_max_bytes = command.max_bytes
        for topic_id, topic_partition in command.forgotten_partitions:
            self._forget_partition(session, self._with_topic_name(topic_id, topic_partition))
        refused_partitions = self._note_positions(session, command, now_ms)
        wait_ms = command.max_wait_ms
        if session.partitions_out_of_isr:
            self._ask_to_join_isr(session, command.replica_epoch)
            wait_ms = min(wait_ms, self.replicas.dynamic_settings.replica_fetch_wait_max_ms)
        if refused_partitions or session.partitions_with_news or wait_ms <= 0:
            return self._answer_now(self._reply_of(session, refused_partitions))
        parked_answer: Pending[ReplicaFetchReply] = Pending(self.tasks)
        session.parked_request = parked_answer
        session.deadline_ms = now_ms + wait_ms
        if session.timer_ms is None or session.timer_ms > session.deadline_ms:
            self._arm_timer(session, session.deadline_ms)
        return parked_answer

    def list_offset(self, command: ReplicaOffsetCommand) -> ReplicaOffsetReply:
        """Answer ListOffsets with the log start or the log end; for a consumer the end is the high
        watermark (Partition.fetchOffsetForTimestamp).
        """
        topic_partition = command.topic_partition
        log = self.replicas.leader_log(
            topic_partition, current_leader_epoch=command.current_leader_epoch
        )
        if isinstance(log, Rejection):
            return ReplicaOffsetReply(topic_partition=topic_partition, error=log.error)
        end_offset = log.high_watermark if command.replica_id == NO_REPLICA else log.log_end_offset
        answered_offset = (
            end_offset if command.timestamp_ms == LATEST_TIMESTAMP else log.log_start_offset
        )
        return ReplicaOffsetReply(topic_partition=topic_partition, offset=answered_offset)

    def stop(self) -> None:
        """Answer all parked requests, because the broker stops."""
        for session in self._by_follower.values():
            if session.parked_request is not None:
                self._supersede_parked(session)
        self._by_follower.clear()

    # Parts: sessions

    def _begin_session(
        self, follower_id: BrokerId, old_session: _FollowerSession | None
    ) -> _FollowerSession:
        if old_session is not None:
            if old_session.parked_request is not None:
                self._supersede_parked(old_session)
            for topic_partition in list(old_session.positions):
                self._forget_partition(old_session, topic_partition)
        self._session_count += 1
        session = self._by_follower[follower_id] = _FollowerSession(
            self, follower_id, self._session_count
        )
        return session

    def _forget_partition(self, session: _FollowerSession, topic_partition: TopicPartition) -> None:
        session.positions.pop(topic_partition, None)
        session.partitions_with_news.pop(topic_partition, None)
        session.stale_partitions.pop(topic_partition, None)
        leader_partition = self.replicas.replicated.get(topic_partition)
        follower = (
            None
            if leader_partition is None
            else leader_partition.followers.get(session.follower_id)
        )
        if follower is not None and follower.reader is session:
            follower.reader = None

    def _with_topic_name(
        self, topic_id: uuid.UUID, topic_partition: TopicPartition
    ) -> TopicPartition:
        """Add the topic's name to a partition: a request that was decoded from Kafka's bytes has
        only the topic id.
        """
        if topic_partition.topic:
            return topic_partition
        topic_name = self.replicas.image.topic_names.get(topic_id, "")
        return TopicPartition(topic_name, topic_partition.partition)

    # Parts: positions

    def _note_positions(
        self, session: _FollowerSession, command: ReplicaFetchCommand, now_ms: int
    ) -> list[ReplicaFetchedPartition]:
        """Note the follower's position in each partition; returns the answers for those that are
        refused.
        """
        refused_partitions: list[ReplicaFetchedPartition] = []
        follower_id, replica_epoch = session.follower_id, command.replica_epoch
        replicated_partitions = self.replicas.replicated
        broker = self.replicas.image.brokers.get(follower_id)
        # The Fetch is from an earlier process of that broker (Replica.updateFetchStateOrThrow).
        is_outdated = broker is not None and -1 < replica_epoch < broker.epoch
        for position in command.partitions:
            if not position.topic_partition.topic:
                named_partition = self._with_topic_name(position.topic_id, position.topic_partition)
                position = msgspec.structs.replace(position, topic_partition=named_partition)
            topic_partition, fetch_offset = position.topic_partition, position.fetch_offset
            leader_partition = replicated_partitions.get(topic_partition)
            if (
                leader_partition is None
                or is_outdated
                or leader_partition.leader_epoch != position.current_leader_epoch
                or (
                    leader_partition.topic_id is not position.topic_id
                    and leader_partition.topic_id != position.topic_id
                )
                or (follower := leader_partition.followers.get(follower_id)) is None
            ):
                error = self._refusal(session, position, leader_partition)
                refused_partitions.append(self._refused_partition(session, position, error))
                continue
            log = leader_partition.log
            end_offset, last_fetched_epoch = log.local.end_offset, position.last_fetched_epoch
            if last_fetched_epoch != UNKNOWN_EPOCH and (
                last_fetched_epoch != log.epochs.latest or fetch_offset > end_offset
            ):
                diverging_partition = self._divergence(session, position, log)
                if diverging_partition is not None:
                    refused_partitions.append(diverging_partition)
                    continue
            if not log.log_start_offset <= fetch_offset <= end_offset:
                refused_partitions.append(
                    self._refused_partition(session, position, ErrorCode.offset_out_of_range)
                )
                continue
            session.positions[topic_partition] = position
            end_before, start_before = follower.log_end_offset, follower.log_start_offset
            follower.reader = session
            follower.note_fetch(
                fetch_offset=fetch_offset,
                log_start_offset=position.log_start_offset,
                leader_end=end_offset,
                broker_epoch=replica_epoch,
                now_ms=now_ms,
            )
            # Records may have been deleted while this leader did not know the follower.
            if fetch_offset < end_offset or position.log_start_offset < log.log_start_offset:
                session.partitions_with_news[topic_partition] = None
            else:
                session.partitions_with_news.pop(topic_partition, None)
            if position.high_watermark != log.high_watermark:
                session.stale_partitions[topic_partition] = None
            if follower_id not in leader_partition.isr:
                session.note_out_of_isr(topic_partition)
            if fetch_offset != end_before:
                self.watermarks.advance(leader_partition)
            if position.log_start_offset != start_before:
                self.watermarks.note_deletion(leader_partition)
        return refused_partitions

    def _divergence(
        self, session: _FollowerSession, position: ReplicaFetchPartition, log: PartitionLog
    ) -> ReplicaFetchedPartition | None:
        """The answer to a follower whose log diverges from this one (KIP-595); None if it does
        not.
        """
        epoch_end = log.end_offset_for_epoch(position.last_fetched_epoch)
        if epoch_end.leader_epoch < 0 or epoch_end.end_offset < 0:
            return self._refused_partition(session, position, ErrorCode.offset_out_of_range)
        if (
            epoch_end.leader_epoch >= position.last_fetched_epoch
            and epoch_end.end_offset >= position.fetch_offset
        ):
            return None
        self._forget_partition(session, position.topic_partition)
        return ReplicaFetchedPartition(
            topic_id=position.topic_id,
            topic_partition=position.topic_partition,
            high_watermark=log.high_watermark,
            log_start_offset=log.log_start_offset,
            diverging_epoch=(epoch_end.leader_epoch, epoch_end.end_offset),
        )

    def _refusal(
        self,
        session: _FollowerSession,
        position: ReplicaFetchPartition,
        leader_partition: LeaderPartition | None,
    ) -> ErrorCode:
        if leader_partition is None:
            log = self.replicas.leader_log(
                position.topic_partition, current_leader_epoch=position.current_leader_epoch
            )
            # A partition without followers: the sender has newer metadata than this broker.
            return log.error if isinstance(log, Rejection) else ErrorCode.unknown_leader_epoch
        if leader_partition.topic_id != position.topic_id:
            return ErrorCode.unknown_topic_id
        if position.current_leader_epoch < leader_partition.leader_epoch:
            return ErrorCode.fenced_leader_epoch
        if position.current_leader_epoch > leader_partition.leader_epoch:
            return ErrorCode.unknown_leader_epoch
        if session.follower_id not in leader_partition.followers:
            return ErrorCode.unknown_leader_epoch
        return ErrorCode.not_leader_or_follower  # ``is_outdated``

    def _refused_partition(
        self, session: _FollowerSession, position: ReplicaFetchPartition, error: ErrorCode
    ) -> ReplicaFetchedPartition:
        self._forget_partition(session, position.topic_partition)
        return ReplicaFetchedPartition(
            topic_id=position.topic_id,
            topic_partition=position.topic_partition,
            error=error,
        )

    def _ask_to_join_isr(self, session: _FollowerSession, broker_epoch: int) -> None:
        """Ask the controller for a larger ISR of each partition whose follower has caught up."""
        for topic_partition in list(session.partitions_out_of_isr):
            leader_partition = self.replicas.replicated.get(topic_partition)
            follower = (
                None
                if leader_partition is None
                else leader_partition.followers.get(session.follower_id)
            )
            if (
                leader_partition is None
                or follower is None
                or follower.reader is not session
                or session.follower_id in leader_partition.isr
            ):
                del session.partitions_out_of_isr[topic_partition]
                continue
            follower.broker_epoch = broker_epoch
            isr_change = leader_partition.expand_isr(follower)
            if isr_change is not None:
                self.isr_changes.submit(leader_partition, isr_change)

    # Parts: answers

    def _reply_of(
        self, session: _FollowerSession, fetched_partitions: list[ReplicaFetchedPartition]
    ) -> ReplicaFetchReply:
        """The reply with everything that is new, as far as its size allows."""
        partitions_with_news, session.partitions_with_news = session.partitions_with_news, {}
        stale_partitions, replicated_partitions = session.stale_partitions, self.replicas.replicated
        remaining_bytes, remaining_batches = session.response_max_bytes, BATCHES_MAX
        partition_max_bytes = self.replicas.dynamic_settings.replica_fetch_max_bytes
        for topic_partition in partitions_with_news:
            position = session.positions.get(topic_partition)
            if position is None:
                continue
            if remaining_bytes <= 0 or remaining_batches <= 0:
                session.partitions_with_news[topic_partition] = None
                continue
            leader_partition = replicated_partitions.get(topic_partition)
            if (
                leader_partition is None
                or leader_partition.leader_epoch != position.current_leader_epoch
            ):
                fetched_partitions.append(
                    self._refused_partition(session, position, ErrorCode.not_leader_or_follower)
                )
                continue
            stale_partitions.pop(topic_partition, None)
            log = leader_partition.log
            log_tail, fetch_offset = log.local.tail, position.fetch_offset
            if log_tail and log_tail[-1].base_offset == fetch_offset:
                new_batches: tuple[ReplicatedBatch, ...] = (log_tail[-1],)
            else:
                new_batches = log.local.batches_for_follower(
                    fetch_offset, max_bytes=partition_max_bytes, max_batches=remaining_batches
                )
            for batch in new_batches:
                remaining_bytes -= len(batch.batch_bytes)
                remaining_batches -= 1
            fetched_partitions.append(
                ReplicaFetchedPartition(
                    topic_id=position.topic_id,
                    topic_partition=topic_partition,
                    high_watermark=log.high_watermark,
                    log_start_offset=log.log_start_offset,
                    batches=new_batches,
                )
            )
        if stale_partitions:
            now_ms = self.clock.monotonic_ms()
            if (
                now_ms - session.reported_all_ms
                >= self.replicas.dynamic_settings.replica_fetch_wait_max_ms
            ):
                session.reported_all_ms = now_ms
                self._add_high_watermarks(session, fetched_partitions)
        return ReplicaFetchReply(
            session_id=session.session_id, partitions=tuple(fetched_partitions)
        )

    def _add_high_watermarks(
        self, session: _FollowerSession, fetched_partitions: list[ReplicaFetchedPartition]
    ) -> None:
        stale_partitions, session.stale_partitions = session.stale_partitions, {}
        for topic_partition in stale_partitions:
            position = session.positions.get(topic_partition)
            leader_partition = self.replicas.replicated.get(topic_partition)
            if position is None or leader_partition is None:
                continue
            log = leader_partition.log
            fetched_partitions.append(
                ReplicaFetchedPartition(
                    topic_id=position.topic_id,
                    topic_partition=topic_partition,
                    high_watermark=log.high_watermark,
                    log_start_offset=log.log_start_offset,
                )
            )

    # Parts: waiting

    def _answer_now(self, reply: ReplicaFetchReply) -> Pending[ReplicaFetchReply]:
        pending_answer: Pending[ReplicaFetchReply] = Pending(self.tasks)
        pending_answer.resolve(reply)
        return pending_answer

    def _arm_timer(self, session: _FollowerSession, deadline_ms: int) -> None:
        session.timer_ms = deadline_ms
        self.clock.call_later(
            deadline_ms - self.clock.monotonic_ms(), lambda: self._on_timer(session, deadline_ms)
        )

    def _on_timer(self, session: _FollowerSession, timer_ms: int) -> None:
        if session.timer_ms != timer_ms:
            return  # an earlier one was armed meanwhile
        session.timer_ms = None
        if session.parked_request is None:
            return
        if session.deadline_ms > self.clock.monotonic_ms():
            self._arm_timer(session, session.deadline_ms)
        else:
            self.answer(session)

    def answer(self, session: _FollowerSession) -> None:
        """Answer a parked Fetch."""
        parked_answer, session.parked_request = session.parked_request, None
        session.is_answer_due = False
        if parked_answer is not None:
            parked_answer.resolve(self._reply_of(session, []))

    def _supersede_parked(self, session: _FollowerSession) -> None:
        """Answer a parked Fetch with nothing, because the follower's next request has arrived."""
        parked_answer, session.parked_request = session.parked_request, None
        if parked_answer is not None:
            parked_answer.resolve(ReplicaFetchReply(session_id=session.session_id))

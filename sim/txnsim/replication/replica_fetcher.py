"""The fetches of a follower: it copies its leaders' batches to its own replicas.

There is one fetcher for each leader, with one outstanding Fetch for all partitions that this broker
follows there. The fetcher appends the batches as they come, and takes over the leader's high
watermark and log start. The next Fetch has the new position, which acknowledges the batches. A log
that diverges from its leader's is truncated first (KIP-595). When the partitions change, a new
Fetch is sent at once, and the leader answers the old one.

An idle fetcher asks less and less often, down to once in a quarter of ``replica.lag.time.max.ms``:
an append at the leader ends the wait at once anyway. Kafka's counterparts: ReplicaFetcherManager,
ReplicaFetcherThread, AbstractFetcherThread.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import deque
from collections.abc import Iterable
from functools import partial
from typing import Final

import msgspec

from txnsim.errors import ErrorCode, PeerError
from txnsim.interbroker.replication import (
    ReplicaFetchCommand,
    ReplicaFetchedPartition,
    ReplicaFetchPartition,
    ReplicaFetchReply,
    ReplicaOffsetCommand,
    ReplicaOffsetReply,
    ReplicatedBatch,
)
from txnsim.log.partition_log import PartitionLog
from txnsim.loggers import FailureLog, Logger
from txnsim.node.log_events import LogEvents
from txnsim.node.log_gate import LogGate
from txnsim.node.peers import BROKER_EPOCHS_FROM, Peers
from txnsim.node.purgatory import Purgatory
from txnsim.replica.partition import truncation_offset
from txnsim.replica.replicas import FollowedReplica, Replicas
from txnsim.runtime.environment import Clock, Tasks
from txnsim.runtime.loop_turns import Pace
from txnsim.runtime.tasks import Pending
from txnsim.types import BrokerId, LeaderEpoch, TopicPartition

DEVIATIONS: Final = (
    "A follower with nothing to fetch asks its leader ever more seldom, up to a quarter of "
    "replica.lag.time.max.ms instead of every replica.fetch.wait.max.ms; an append ends the wait "
    "at once. It learns a new high watermark alone after replica.fetch.wait.max.ms, also while "
    "other partitions have news.",
)

IDLE_FETCHES_PER_LAG_TIME: Final = 4
"""Minimum number of fetches of an idle follower per ``replica.lag.time.max.ms``."""
LATEST_TIMESTAMP: Final = -1
EARLIEST_TIMESTAMP: Final = -2
FAILURES_BEFORE_WARNING: Final = 10
"""Failures in a row before one is logged; a ``replica.fetch.backoff.ms`` passes after each."""

_logger: Final = Logger("txnsim.replication")


class _FollowedPartition(msgspec.Struct, eq=False):
    """One followed partition in one leader epoch."""

    topic_id: uuid.UUID
    log: PartitionLog
    leader_epoch: LeaderEpoch
    first_request: int
    """Number of the first request in this leader epoch: answers to earlier requests are ignored."""
    is_delayed: bool = False
    """Whether the partition is left out after an error, until the pause ends or new metadata
    arrives.
    """


class ReplicaFetchers(msgspec.Struct, kw_only=True, eq=False):
    """All fetchers of one broker."""

    broker_id: BrokerId
    clock: Clock
    tasks: Tasks
    replicas: Replicas
    peers: Peers
    purgatory: Purgatory[TopicPartition]
    gate: LogGate
    log_events: LogEvents
    lagging_partitions: set[TopicPartition] = msgspec.field(default_factory=set)
    """Partitions that a fault lets fall behind. The broker's owner may set a set that outlives the
    broker.
    """
    _held_back_replicas: dict[TopicPartition, FollowedReplica] = {}
    """The lagging partitions that would otherwise be fetched."""
    _fetcher_by_leader: dict[BrokerId, _Fetcher] = {}
    _leader_by_partition: dict[TopicPartition, BrokerId] = {}
    leader_failures: FailureLog = msgspec.field(
        default_factory=lambda: FailureLog(
            _logger, "replica.fetch.failing", "leader", patience=FAILURES_BEFORE_WARNING
        )
    )
    partition_failures: FailureLog = msgspec.field(
        default_factory=lambda: FailureLog(
            _logger, "replica.partition.failing", "partition", patience=FAILURES_BEFORE_WARNING
        )
    )

    def apply(
        self,
        followed_replicas: Iterable[FollowedReplica],
        unfollowed_partitions: Iterable[TopicPartition],
    ) -> None:
        """Starts following the new partitions and stops following the old ones."""
        changed_leaders: dict[BrokerId, None] = {}
        for topic_partition in unfollowed_partitions:
            self._held_back_replicas.pop(topic_partition, None)
            self._stop_following(topic_partition, changed_leaders)
        for replica in followed_replicas:
            topic_partition = replica.log.topic_partition
            self._stop_following(topic_partition, changed_leaders)
            if topic_partition in self.lagging_partitions:
                self._held_back_replicas[topic_partition] = replica
                continue
            fetcher = self._fetcher_by_leader.get(replica.leader)
            if fetcher is None:
                fetcher = self._fetcher_by_leader[replica.leader] = _Fetcher(self, replica.leader)
            fetcher.add(replica)
            self._leader_by_partition[topic_partition] = replica.leader
            changed_leaders[replica.leader] = None
        for leader in changed_leaders:
            # After the present callback, so that the leader has the same metadata by then.
            self.tasks.run_soon(self._fetcher_by_leader[leader].send_changes)

    def let_lag(self, topic_partition: TopicPartition) -> None:
        """Stops fetching a partition until ``catch_up``, even if its leader changes."""
        self.lagging_partitions.add(topic_partition)
        leader = self._leader_by_partition.get(topic_partition)
        if leader is not None:
            replica = self._fetcher_by_leader[leader].following(topic_partition)
            self.apply([replica], [])

    def catch_up(self, topic_partition: TopicPartition) -> None:
        """Fetch the partition again after ``let_lag``."""
        self.lagging_partitions.discard(topic_partition)
        replica = self._held_back_replicas.pop(topic_partition, None)
        if replica is not None:
            self.apply([replica], [])

    def stop(self) -> None:
        for fetcher in self._fetcher_by_leader.values():
            fetcher.stop()
        self._fetcher_by_leader.clear()
        self._leader_by_partition.clear()
        self._held_back_replicas.clear()

    def _stop_following(
        self, topic_partition: TopicPartition, changed_leaders: dict[BrokerId, None]
    ) -> None:
        leader = self._leader_by_partition.pop(topic_partition, None)
        if leader is not None:
            self._fetcher_by_leader[leader].drop(topic_partition)
            changed_leaders[leader] = None


class _Fetcher:
    """Fetches from one leader."""

    __slots__ = (
        *(
            "_broker_id",
            "_changed_partitions",
            "_clock",
            "_followed",
            "_forgotten_topic_ids",
            "_gate",
        ),
        *("_is_standing", "_is_stopped", "_is_waiting", "_leader", "_log_events", "_fetcher_name"),
        *("_peers", "_purgatory", "_request", "_session_epoch", "_session_id", "_tasks"),
        *(
            "_replies_behind",
            "_is_late",
            "_partition_names",
            "_refused",
            "_replicas",
            "_unanswered",
            "_wait_ms",
        ),
    )

    def __init__(self, fetchers: ReplicaFetchers, leader_id: BrokerId) -> None:
        self._log_events = fetchers.log_events
        self._tasks = fetchers.tasks
        self._gate = fetchers.gate
        self._broker_id = fetchers.broker_id
        self._unanswered = fetchers.leader_failures
        self._refused = fetchers.partition_failures
        self._leader = leader_id
        self._clock = fetchers.clock
        self._replicas = fetchers.replicas
        self._peers = fetchers.peers
        self._purgatory = fetchers.purgatory
        self._followed: dict[TopicPartition, _FollowedPartition] = {}
        self._partition_names: tuple[TopicPartition, ...] | None = None
        """Names of the followed partitions; None if they have changed."""
        self._changed_partitions: dict[TopicPartition, None] = {}
        """Partitions that the next request must name."""
        self._forgotten_topic_ids: dict[TopicPartition, uuid.UUID] = {}
        self._session_id = 0
        self._session_epoch = 0
        self._request = 0
        """Number of the newest request: only after its answer is another one sent."""
        self._wait_ms = 0
        self._is_waiting = False
        """Whether the fetcher pauses after an error of a whole request."""
        self._fetcher_name = f"replica fetcher {fetchers.broker_id} of {leader_id}"
        self._is_standing = False
        """Whether an answer is being applied, and an append may have to wait. Meanwhile the fetcher
        does nothing else, like Kafka's fetcher thread.
        """
        self._replies_behind: deque[tuple[int, ReplicaFetchReply]] = deque()
        """Answers that arrived meanwhile, to older or newer requests."""
        self._is_late = False
        """Whether a request was due while an answer was being applied."""
        self._is_stopped = False

    # Partitions

    def add(self, replica: FollowedReplica) -> None:
        topic_partition = replica.log.topic_partition
        self._followed[topic_partition] = _FollowedPartition(
            replica.topic_id, replica.log, replica.leader_epoch, self._request + 1
        )
        self._partition_names = None
        self._changed_partitions[topic_partition] = None
        self._forgotten_topic_ids.pop(topic_partition, None)

    def drop(self, topic_partition: TopicPartition) -> None:
        """Stops fetching a partition."""
        followed_partition = self._followed.pop(topic_partition, None)
        self._changed_partitions.pop(topic_partition, None)
        self._partition_names = None
        if followed_partition is not None:
            self._forgotten_topic_ids[topic_partition] = followed_partition.topic_id

    def following(self, topic_partition: TopicPartition) -> FollowedReplica:
        """How this broker follows a partition that it fetches here: topic id, log, leader and
        leader epoch.
        """
        followed_partition = self._followed[topic_partition]
        return FollowedReplica(
            topic_id=followed_partition.topic_id,
            log=followed_partition.log,
            leader=self._leader,
            leader_epoch=followed_partition.leader_epoch,
        )

    def stop(self) -> None:
        """Stops fetching; answers that still arrive are ignored."""
        self._is_stopped = True

    # Requests

    def send_changes(self) -> None:
        """Send a request, unless one has named all changes already (two images in one turn of the
        loop).
        """
        if self._changed_partitions or self._forgotten_topic_ids:
            self.send()

    def send(self) -> None:
        """Fetch from the present position; a request that is still in flight is superseded."""
        if self._is_stopped or self._is_waiting or self._is_standing or not self._followed:
            self._is_late = self._is_standing
            return
        self._request += 1
        request_number = self._request
        settings = self._replicas.dynamic_settings
        if self._wait_ms == 0:
            self._wait_ms = settings.replica_fetch_wait_max_ms
        changed_partitions, self._changed_partitions = self._changed_partitions, {}
        forgotten_topic_ids: dict[TopicPartition, uuid.UUID] = {}
        if self._forgotten_topic_ids:
            forgotten_topic_ids, self._forgotten_topic_ids = self._forgotten_topic_ids, {}
        wait_ms = self._wait_ms
        if not self._session_id:
            # There is no session yet, or its first answer is still out: begin one with everything.
            # A second session is answered at once, else each new topic would name all others again.
            wait_ms = 0 if self._session_epoch else wait_ms
            changed_partitions, forgotten_topic_ids = dict.fromkeys(self._followed), {}
            self._session_epoch = 0
        if self._partition_names is None:
            self._partition_names = tuple(self._followed)
        partitions: list[ReplicaFetchPartition] = []
        for topic_partition in changed_partitions:
            followed_partition = self._followed[topic_partition]
            if followed_partition.is_delayed:
                continue
            log = followed_partition.log
            partitions.append(
                ReplicaFetchPartition(
                    topic_id=followed_partition.topic_id,
                    topic_partition=topic_partition,
                    current_leader_epoch=followed_partition.leader_epoch,
                    fetch_offset=log.local.end_offset,
                    last_fetched_epoch=log.epochs.latest,
                    log_start_offset=log.log_start_offset,
                    high_watermark=log.high_watermark,
                    max_bytes=settings.replica_fetch_max_bytes,
                )
            )
        broker = self._replicas.image.brokers.get(self._broker_id)
        is_old_version = self._peers.replica_fetch_version < BROKER_EPOCHS_FROM
        command = ReplicaFetchCommand(
            replica_id=self._broker_id,
            replica_epoch=-1 if broker is None or is_old_version else broker.epoch,
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=settings.replica_fetch_response_max_bytes,
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            partitions=tuple(partitions),
            forgotten_partitions=tuple(
                [
                    (topic_id, topic_partition)
                    for topic_partition, topic_id in forgotten_topic_ids.items()
                ]
            )
            if forgotten_topic_ids
            else (),
            followed_partitions=self._partition_names,
        )
        self._session_epoch += 1
        pending_answer = self._peers.replica_fetch(self._leader, command)
        if pending_answer.is_done:
            self._on_answer(request_number, pending_answer)
        else:
            pending_answer.callbacks.append(partial(self._on_answer, request_number))

    def _on_answer(self, request_number: int, pending_answer: Pending[ReplicaFetchReply]) -> None:
        if self._is_stopped:
            return
        error, reply = pending_answer.error, pending_answer.value
        if reply is None:
            assert error is not None
            if not isinstance(error, PeerError):
                raise error
            if request_number == self._request:
                complaint = (
                    f"broker {self._broker_id} copies nothing from broker {self._leader}: {error}"
                )
                self._unanswered.note_failure(self._leader, type(error).__name__, complaint)
                self._begin_new_session(
                    pause_ms=self._replicas.dynamic_settings.replica_fetch_backoff_ms
                )
            return
        if self._unanswered.tried:
            self._unanswered.forget_failures(self._leader)
        if reply.error:
            if request_number == self._request:
                self._begin_new_session(pause_ms=0)
            return
        self._session_id = reply.session_id
        if self._is_standing:
            self._replies_behind.append((request_number, reply))
        else:
            self._begin_applying(request_number, reply)

    def _followed_partition(
        self, request_number: int, fetched_partition: ReplicaFetchedPartition
    ) -> _FollowedPartition | None:
        """The followed partition that an answer is about; None if this broker does not follow it
        any more.
        """
        followed_partition = self._followed.get(fetched_partition.topic_partition)
        if followed_partition is None and not fetched_partition.topic_partition.topic:
            followed_partition = self._followed_by_topic_id(fetched_partition)
        if followed_partition is None or request_number < followed_partition.first_request:
            return None
        return followed_partition

    async def _apply_answer(self, request_number: int, reply: ReplicaFetchReply) -> None:
        """Apply the leader's answer (AbstractFetcherThread.processFetchRequest). An append that has
        to wait delays everything after it.
        """
        now_ms = self._clock.now_ms() if reply.partitions else 0
        gate = self._gate
        for fetched_partition in reply.partitions:
            followed_partition = self._followed.get(fetched_partition.topic_partition)
            if followed_partition is None or request_number < followed_partition.first_request:
                followed_partition = self._followed_partition(request_number, fetched_partition)
            if followed_partition is None:
                continue
            if fetched_partition.error:
                self._on_partition_error(followed_partition, fetched_partition.error)
                continue
            if self._refused.tried:
                self._refused.forget_failures(str(fetched_partition.topic_partition))
            if fetched_partition.diverging_epoch is not None:
                await self._truncate_at_divergence(
                    followed_partition.log, fetched_partition.diverging_epoch
                )
                continue
            log = followed_partition.log
            is_abandoned = False
            for batch in fetched_partition.batches:
                durable_before = None
                if gate.fault_points.network.interceptor.is_armed or gate.disk.is_full:
                    error = await self._gate.admit_replicated(log.topic_partition, batch)
                    is_abandoned = (
                        self._is_stopped
                        or self._followed_partition(request_number, fetched_partition)
                        is not followed_partition
                    )
                    if is_abandoned:
                        break
                    if error is not None:
                        self._delay_partition(followed_partition, error)
                        is_abandoned = True
                        break
                    now_ms = self._clock.now_ms()
                    durable_before = self._gate.durable_part(log)
                if batch.base_offset < log.local.end_offset and self._was_sent_twice(log, batch):
                    continue
                if batch.leader_epoch > followed_partition.leader_epoch:
                    break  # written by a leader that is unknown here (KAFKA-18723)
                log.append(batch, now_ms=now_ms)
                self._changed_partitions[log.topic_partition] = None
                if durable_before is not None:
                    self._gate.after_replication(log, durable_before, batch)
            if is_abandoned:
                continue
            has_offset_moved = False
            if fetched_partition.high_watermark != log.high_watermark:
                has_offset_moved = log.follow_high_watermark(fetched_partition.high_watermark)
            if fetched_partition.log_start_offset > log.log_start_offset:
                has_offset_moved = (
                    self._follow_log_start(log, fetched_partition.log_start_offset)
                    or has_offset_moved
                )
            purgatory, topic_partition = self._purgatory, log.topic_partition
            if has_offset_moved and (
                topic_partition in purgatory.parked or purgatory.wide_operations
            ):
                purgatory.touch(topic_partition)

    def _begin_applying(self, request_number: int, reply: ReplicaFetchReply) -> None:
        self._is_standing = True
        self._tasks.drive(
            self._apply_answer(request_number, reply),
            partial(self._on_applied, request_number, reply),
            name=self._fetcher_name,
        )

    def _on_applied(
        self, request_number: int, reply: ReplicaFetchReply, _: None, error: BaseException | None
    ) -> None:
        if error is None and self._replies_behind and not self._is_stopped:
            self._is_late = self._is_late or request_number == self._request
            self._begin_applying(*self._replies_behind.popleft())
            return
        self._is_standing = False
        is_request_late, self._is_late = self._is_late, False
        if error is not None:
            if not isinstance(error, asyncio.CancelledError):
                raise error
        elif request_number == self._request:
            if reply.partitions:
                self._wait_ms = 0
            else:
                self._wait_longer()
            self.send()
        elif is_request_late or self._changed_partitions:
            self.send()  # else a newer one is out, and another would only supersede it

    def _followed_by_topic_id(
        self, fetched_partition: ReplicaFetchedPartition
    ) -> _FollowedPartition | None:
        """The followed partition by its topic id: an answer that was decoded from Kafka's bytes
        names no topic.
        """
        topic_name = self._replicas.image.topic_names.get(fetched_partition.topic_id, "")
        return self._followed.get(
            TopicPartition(topic_name, fetched_partition.topic_partition.partition)
        )

    def _wait_longer(self) -> None:
        """Double the wait after an empty answer, up to a limit."""
        settings = self._replicas.dynamic_settings
        longest_ms = max(
            settings.replica_lag_time_max_ms // IDLE_FETCHES_PER_LAG_TIME,
            settings.replica_fetch_wait_max_ms,
        )
        self._wait_ms = min(2 * self._wait_ms, longest_ms)

    def _begin_new_session(self, *, pause_ms: int) -> None:
        """Begin a new fetch session with all partitions."""
        self._session_id = self._session_epoch = 0
        self._forgotten_topic_ids.clear()
        self._changed_partitions = dict.fromkeys(self._followed)
        self._request += 1  # answers to older requests no longer count
        if not pause_ms:
            self.send()
            return
        self._is_waiting = True

        def go_on() -> None:
            self._is_waiting = False
            self.send()

        self._clock.call_later(pause_ms, go_on)

    # Answers

    async def _truncate_at_divergence(
        self, log: PartitionLog, diverging_epoch_and_end: tuple[int, int]
    ) -> None:
        """Truncate a log to the offset at which it diverges from the leader's.

        Args:
            log: The follower's log.
            diverging_epoch_and_end: The leader's answer: the largest epoch that it shares, and its
                end offset.
        """
        own_epoch_end = log.end_offset_for_epoch(diverging_epoch_and_end[0])
        offset = truncation_offset(
            log_end_offset=log.log_end_offset,
            leader_answer=diverging_epoch_and_end,
            follower_answer=(own_epoch_end.leader_epoch, own_epoch_end.end_offset),
        )
        await self._truncate_log(log, offset)
        if log.topic_partition in self._followed:
            self._changed_partitions[log.topic_partition] = None

    def _was_sent_twice(self, log: PartitionLog, batch: ReplicatedBatch) -> bool:
        """Whether a batch that begins below the log end is a repetition: the answer to a superseded
        request was on its way.
        """
        if batch.last_offset < log.log_end_offset or log.log_end_offset > log.log_start_offset:
            return True
        # The leader's log starts within this batch
        # (Partition.appendRecordsToFollowerOrFutureReplica).
        self._restart_log(log, batch.base_offset)
        return False

    def _follow_log_start(self, log: PartitionLog, offset: int) -> bool:
        """Take over the leader's log start; returns whether it has changed."""
        if not log.raise_log_start(offset):
            return False
        self._changed_partitions[log.topic_partition] = None
        if self._log_events.tracer.on:
            self._log_events.trace_start(log, "the leader's log does")
        return True

    def _on_partition_error(self, followed_partition: _FollowedPartition, error: int) -> None:
        if error == ErrorCode.offset_out_of_range:
            self._ask_leader_offset(followed_partition, LATEST_TIMESTAMP)
            return
        self._delay_partition(followed_partition, error)

    def _delay_partition(self, followed_partition: _FollowedPartition, error: int | None) -> None:
        """Leave the partition out for ``replica.fetch.backoff.ms``; new metadata may end that
        earlier.
        """
        followed_partition.is_delayed = True
        self._refused.note_failure(
            str(followed_partition.log.topic_partition),
            "NO_ANSWER" if error is None else ErrorCode(error).name.upper(),
            f"broker {self._broker_id} can't copy it from broker {self._leader}",
        )

        def fetch_again() -> None:
            topic_partition = followed_partition.log.topic_partition
            if self._followed.get(topic_partition) is followed_partition:
                followed_partition.is_delayed = False
                self._changed_partitions[topic_partition] = None
                self.send()

        self._clock.call_later(
            self._replicas.dynamic_settings.replica_fetch_backoff_ms, fetch_again
        )

    # Truncation

    async def _truncate_log(self, log: PartitionLog, offset: int) -> None:
        """Truncate a log. The producer state is rebuilt in slices: it may be read from tens of
        thousands of batches.
        """
        end_before = log.log_end_offset
        steps = log.begin_truncation(offset, now_ms=self._clock.now_ms())
        has_shrunk = log.log_end_offset < end_before
        pace = Pace(self._tasks.turns, self._clock.stopwatch_ns)
        for batch_count in steps:
            if pace.has_done(batch_count):
                await pace.yield_turn()
        if self._log_events.tracer.on and has_shrunk:
            self._log_events.trace_truncation(log)

    def _restart_log(self, log: PartitionLog, offset: int) -> None:
        log.restart_at(offset, now_ms=self._clock.now_ms())
        if self._log_events.tracer.on:
            self._log_events.trace_truncation(log)
            self._log_events.trace_start(log, "it had nothing in common with the leader's")

    # Out of range

    def _ask_leader_offset(self, followed_partition: _FollowedPartition, timestamp_ms: int) -> None:
        """Ask the leader for its log end, then for its log start, because this log ends outside of
        the leader's (AbstractFetcherThread.fetchOffsetAndTruncate).
        """
        followed_partition.is_delayed = True
        command = ReplicaOffsetCommand(
            replica_id=self._broker_id,
            topic_partition=followed_partition.log.topic_partition,
            current_leader_epoch=followed_partition.leader_epoch,
            timestamp_ms=timestamp_ms,
        )
        self._peers.replica_offset(self._leader, command).on_done(
            lambda answer: self._on_leader_offset(followed_partition, timestamp_ms, answer)
        )

    def _on_leader_offset(
        self,
        followed_partition: _FollowedPartition,
        timestamp_ms: int,
        pending_answer: Pending[ReplicaOffsetReply],
    ) -> None:
        topic_partition = followed_partition.log.topic_partition
        if self._is_stopped or self._followed.get(topic_partition) is not followed_partition:
            return
        error = pending_answer.exception()
        if error is not None and not isinstance(error, PeerError):
            raise error
        if error is not None or pending_answer.result().error:
            self._delay_partition(
                followed_partition, pending_answer.result().error if error is None else None
            )
            return
        offset, log = pending_answer.result().offset, followed_partition.log
        if timestamp_ms == LATEST_TIMESTAMP:
            if offset >= log.log_end_offset:
                self._ask_leader_offset(followed_partition, EARLIEST_TIMESTAMP)
                return
            self._tasks.drive(
                self._truncate_log(log, offset),
                partial(self._resume_fetching, followed_partition),
                name=self._fetcher_name,
            )
            return
        if offset > log.log_end_offset:
            self._restart_log(log, offset)
        self._resume_fetching(followed_partition, None, None)

    def _resume_fetching(
        self, followed_partition: _FollowedPartition, _: None, error: BaseException | None
    ) -> None:
        """Fetch the partition again: its log now ends within the leader's."""
        if error is not None and not isinstance(error, asyncio.CancelledError):
            raise error
        topic_partition = followed_partition.log.topic_partition
        if not self._is_stopped and self._followed.get(topic_partition) is followed_partition:
            followed_partition.is_delayed = False
            self._changed_partitions[topic_partition] = None
            self.send()

"""A led partition with followers, as its leader sees it (Kafka's Partition).

It holds the followers and their positions, the ISR that the controller has granted, and the ISR
that the leader has requested. While a request is open, the *maximal* ISR counts, the union of both:
the high watermark never relies on a replica that the controller may not know of (KIP-497).
Partitions without followers have none of this: their high watermark is the log end.

It sends nothing: it returns the requests for the controller, and reaches followers through their
``FollowerReader``. Kafka's counterparts: Partition (maybeIncrementLeaderHW, getOutOfSyncReplicas),
Replica, AbstractFetcherThread.getOffsetTruncationState.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Container, Iterable
from typing import Final, Protocol

import msgspec

from txnsim.errors import ErrorCode
from txnsim.interbroker.replication import AlteredPartition, IsrChange
from txnsim.log.partition_log import PartitionLog
from txnsim.metadata.image import PartitionImage
from txnsim.releases.rules import Rules
from txnsim.types import BrokerId, LeaderEpoch, TopicPartition

UNKNOWN_OFFSET: Final = -1
UNKNOWN_EPOCH: Final = -1
NEVER_MS: Final = -(2**62)
"""Longer ago than any allowed lag, on a monotonic clock that starts anywhere."""

_RESET_ERRORS: Final = frozenset({ErrorCode.operation_not_attempted, ErrorCode.ineligible_replica})
"""Errors with which the controller has not made the change: the ISR stays as it was."""
_FINAL_ERRORS: Final = frozenset(
    {
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_id,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.invalid_update_version,
        ErrorCode.invalid_request,
        ErrorCode.new_leader_elected,
    }
)
"""Errors of a leader with outdated metadata; the change stays pending until new metadata
arrives.
"""

MayJoinIsr = Callable[[BrokerId, int], bool]
"""(broker id, broker epoch from its fetch, -1 if it gave none) -> whether the controller would
accept the broker in an ISR: alive, not shutting down, and not restarted since (KIP-903).
"""


MaxLagAndNow = Callable[[], tuple[int, int]]
"""Gives (``replica.lag.time.max.ms``, the monotonic time in ms); called only if a replica is about
to join.
"""


def effective_min_isr(min_isr: int, image: PartitionImage, release_rules: Rules) -> int:
    """Number of replicas that must be in sync (Partition.effectiveMinIsr)."""
    return min(min_isr, len(image.replicas)) if release_rules.min_isr_is_bounded else min_isr


class LeaderPartition:
    """The leader's view of one partition."""

    __slots__ = (
        *(
            "_requested_change",
            "_known_log_end",
            "_leader",
            "_may_join_isr",
            "followers",
            "is_under_min_isr",
            "isr",
        ),
        *("leader_epoch", "log", "maximal_isr", "min_isr", "partition_epoch", "replicas"),
        *("topic_id", "topic_partition"),
    )

    def __init__(
        self,
        *,
        leader: BrokerId,
        log: PartitionLog,
        topic_id: uuid.UUID,
        may_join: MayJoinIsr,
    ) -> None:
        self._leader = leader
        self._may_join_isr = may_join
        self._requested_change: IsrChange | None = None
        self._known_log_end = log.log_end_offset
        self.log = log
        self.topic_id = topic_id
        self.topic_partition: TopicPartition = log.topic_partition
        self.leader_epoch = LeaderEpoch(-1)
        self.partition_epoch = -1
        self.replicas: tuple[BrokerId, ...] = ()
        self.isr: tuple[BrokerId, ...] = ()
        """The ISR that the controller has granted."""
        self.maximal_isr: frozenset[BrokerId] = frozenset()
        self.min_isr = 1
        """``min.insync.replicas``, at most the number of replicas (Partition.effectiveMinIsr)."""
        self.is_under_min_isr = True
        """Whether too few replicas are in sync for acks=-1."""
        self.followers: dict[BrokerId, Follower] = {}

    # Metadata

    def apply_image(self, image: PartitionImage, *, min_isr: int, now_ms: int) -> None:
        """Apply the partition's metadata (Partition.makeLeader)."""
        self.min_isr = effective_min_isr(min_isr, image, self.log.config.rules)
        self.is_under_min_isr = len(self.isr) < self.min_isr
        if image.partition_epoch <= self.partition_epoch:
            return
        is_new_epoch = image.leader_epoch != self.leader_epoch
        self.leader_epoch = image.leader_epoch
        self._adopt_isr(image.isr, image.partition_epoch)
        self.replicas = image.replicas
        log_end = self._known_log_end = self.log.log_end_offset
        old_followers, self.followers = self.followers, {}
        for broker_id in image.replicas:
            if broker_id == self._leader:
                continue
            follower = old_followers.get(broker_id)
            if follower is None or is_new_epoch:
                follower = Follower(broker_id)
                follower.reset(is_in_isr=broker_id in image.isr, leader_end=log_end, now_ms=now_ms)
            self.followers[broker_id] = follower
            if follower.reader is not None and broker_id not in image.isr:
                follower.reader.note_out_of_isr(self.topic_partition)

    # Data

    def note_append(self, read_lag_and_now: MaxLagAndNow) -> bool:
        """Tell the followers that the log has new records; returns whether the high watermark has
        moved already.
        """
        end_before, self._known_log_end = self._known_log_end, self.log.local.end_offset
        topic_partition = self.topic_partition
        for follower in self.followers.values():
            reader = follower.reader
            if reader is not None:
                if follower.log_end_offset == end_before:
                    # A follower that has all records fetches again and again, without naming each
                    # partition. It was up to date at its last fetch.
                    follower.caught_up_ms = reader.last_fetch_ms
                reader.partitions_with_news[topic_partition] = None
                if reader.parked_request is not None and not reader.is_answer_due:
                    reader.answer_soon()
        if len(self.maximal_isr) > 1:
            return False
        return self.advance_high_watermark(read_lag_and_now)

    def note_raised_log_start(self) -> None:
        """Tell the followers that records were deleted, so that they delete them, too."""
        for follower in self.followers.values():
            reader = follower.reader
            if reader is not None:
                reader.partitions_with_news[self.topic_partition] = None
                if reader.parked_request is not None and not reader.is_answer_due:
                    reader.answer_soon()

    def advance_high_watermark(self, read_lag_and_now: MaxLagAndNow) -> bool:
        """Move the high watermark as far as possible; returns whether it has moved
        (Partition.maybeIncrementLeaderHW).
        """
        log = self.log
        new_high_watermark = log.local.end_offset
        if log.high_watermark == new_high_watermark:
            return False
        if len(self.isr) < self.min_isr and log.config.rules.high_watermark_needs_min_isr:
            return False
        awaited_replicas = self.maximal_isr
        followers = self.followers
        if len(awaited_replicas) <= len(followers):
            awaited_replicas |= self._joining_replicas(*read_lag_and_now())
        high_watermark = log.high_watermark
        for follower in followers.values():
            if (
                follower.log_end_offset < new_high_watermark
                and follower.broker_id in awaited_replicas
            ):
                new_high_watermark = follower.log_end_offset
                if new_high_watermark <= high_watermark:
                    return False
        log.advance_high_watermark(new_high_watermark)
        for follower in followers.values():
            if follower.reader is not None:
                follower.reader.stale_partitions[self.topic_partition] = None
        return True

    def _joining_replicas(self, lag_max_ms: int, now_ms: int) -> frozenset[BrokerId]:
        """Replicas that are about to join the ISR: the high watermark waits for them, or they could
        never join.
        """
        leader_end = self.log.log_end_offset
        return frozenset(
            follower.broker_id
            for follower in self.followers.values()
            if follower.broker_id not in self.maximal_isr
            and follower.is_caught_up(leader_end=leader_end, lag_max_ms=lag_max_ms, now_ms=now_ms)
            and self._may_join_isr(follower.broker_id, follower.broker_epoch)
        )

    def low_watermark(self, is_alive: Callable[[BrokerId], bool]) -> int:
        """Lowest log start of all live replicas (Partition.lowWatermarkIfLeader)."""
        log_starts = [
            follower.log_start_offset
            for follower in self.followers.values()
            if is_alive(follower.broker_id)
        ]
        return min([self.log.log_start_offset, *log_starts])

    # In-sync replicas

    def expand_isr(self, follower: Follower) -> IsrChange | None:
        """The ISR change to request after a fetch of this follower; None if there is none
        (Partition.maybeExpandIsr).
        """
        if self._requested_change is not None or follower.broker_id in self.isr:
            return None
        if not self._may_join_isr(follower.broker_id, follower.broker_epoch) or not has_caught_up(
            follower,
            high_watermark=self.log.high_watermark,
            epoch_start_offset=self.log.leader_epoch_start_offset,
        ):
            return None
        return self._request_isr(frozenset((*self.isr, follower.broker_id)))

    def shrink_isr(self, *, lag_max_ms: int, now_ms: int) -> IsrChange | None:
        """The ISR change to request because followers have fallen behind; None if none has
        (Partition.maybeShrinkIsr).
        """
        if self._requested_change is not None:
            return None
        lagging_followers = out_of_sync_followers(
            self.followers.values(),
            self.isr,
            leader_end=self.log.log_end_offset,
            lag_max_ms=lag_max_ms,
            now_ms=now_ms,
        )
        return (
            self._request_isr(frozenset(self.isr).difference(lagging_followers))
            if lagging_followers
            else None
        )

    def take_answer(self, answer: AlteredPartition, request: IsrChange) -> IsrChange | None:
        """Apply the controller's answer; returns the change to request again, or None
        (Partition.submitAlterPartition).
        """
        if request is not self._requested_change:
            return None  # newer metadata was here first
        if answer.error in _RESET_ERRORS:
            self._requested_change = None
            self.maximal_isr = frozenset(self.isr)
        elif answer.error in _FINAL_ERRORS:
            return None
        elif answer.error:
            return request
        elif answer.leader_epoch != self.leader_epoch or (
            answer.partition_epoch < self.partition_epoch
        ):
            return None
        else:
            self._adopt_isr(answer.isr, answer.partition_epoch)
        return None

    def _request_isr(self, new_isr: frozenset[BrokerId]) -> IsrChange:
        self.maximal_isr = new_isr | frozenset(self.isr)
        followers = self.followers
        self._requested_change = IsrChange(
            topic_id=self.topic_id,
            topic_partition=self.topic_partition,
            leader_epoch=self.leader_epoch,
            new_isr=tuple(
                (broker_id, followers[broker_id].broker_epoch if broker_id in followers else -1)
                for broker_id in sorted(new_isr)  # a real leader sorts them, too
            ),
            partition_epoch=self.partition_epoch,
        )
        return self._requested_change

    def _adopt_isr(self, isr: tuple[BrokerId, ...], partition_epoch: int) -> None:
        self.isr = isr
        self.is_under_min_isr = len(isr) < self.min_isr
        self.maximal_isr = frozenset(isr)
        self.partition_epoch = partition_epoch
        self._requested_change = None


class FollowerReader(Protocol):
    """A follower's fetch session, as the partition uses it."""

    last_fetch_ms: int
    stale_partitions: dict[TopicPartition, None]
    """Partitions whose present high watermark the follower does not know."""

    partitions_with_news: dict[TopicPartition, None]
    """Partitions with records, or with a log start, that the follower has not received."""
    is_answer_due: bool
    """Whether an answer is already scheduled."""

    @property
    def parked_request(self) -> object | None:
        """The follower's request that waits for news; None if there is none."""

    def answer_soon(self) -> None:
        """Answer the parked request after the present callback."""

    def note_out_of_isr(self, topic_partition: TopicPartition) -> None:
        """Notes that the follower is out of the partition's ISR: each Fetch checks whether it may
        join.
        """


class Follower(msgspec.Struct, eq=False):
    """The position of one follower, as its fetches report it (Kafka's Replica)."""

    broker_id: BrokerId
    broker_epoch: int = -1
    log_end_offset: int = UNKNOWN_OFFSET
    log_start_offset: int = UNKNOWN_OFFSET
    caught_up_ms: int = NEVER_MS
    """Last time at which the follower had the leader's whole log."""
    last_fetch_ms: int = NEVER_MS
    last_fetch_leader_end: int = 0
    reader: FollowerReader | None = None

    def reset(self, *, is_in_isr: bool, leader_end: int, now_ms: int) -> None:
        """Reset the position at a new leader, which knows only whether the follower was in the ISR
        (Replica.resetReplicaState).
        """
        self.log_end_offset = self.log_start_offset = UNKNOWN_OFFSET
        self.last_fetch_leader_end = leader_end
        self.broker_epoch = -1
        self.caught_up_ms = self.last_fetch_ms = now_ms if is_in_isr else NEVER_MS
        self.reader = None

    def note_fetch(
        self,
        *,
        fetch_offset: int,
        log_start_offset: int,
        leader_end: int,
        broker_epoch: int,
        now_ms: int,
    ) -> None:
        """Note a fetch: the follower has all records below ``fetch_offset``
        (Replica.updateFetchStateOrThrow).
        """
        if fetch_offset >= leader_end:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif fetch_offset >= self.last_fetch_leader_end:
            # It now has all records that existed at its last fetch: then it was up to date.
            self.caught_up_ms = max(self.caught_up_ms, self.last_fetch_ms)
        self.log_end_offset = fetch_offset
        self.log_start_offset = log_start_offset
        self.broker_epoch = broker_epoch
        self.last_fetch_leader_end = leader_end
        self.last_fetch_ms = now_ms

    def is_caught_up(self, *, leader_end: int, lag_max_ms: int, now_ms: int) -> bool:
        """Whether the follower has the leader's whole log, or had it recently."""
        return self.log_end_offset == leader_end or now_ms - self.caught_up_ms <= lag_max_ms


def out_of_sync_followers(
    followers: Iterable[Follower],
    isr: Container[BrokerId],
    *,
    leader_end: int,
    lag_max_ms: int,
    now_ms: int,
) -> tuple[BrokerId, ...]:
    """Members of the ISR that have been behind for longer than ``replica.lag.time.max.ms``."""
    return tuple(
        follower.broker_id
        for follower in followers
        if follower.broker_id in isr
        and not follower.is_caught_up(leader_end=leader_end, lag_max_ms=lag_max_ms, now_ms=now_ms)
    )


def has_caught_up(follower: Follower, *, high_watermark: int, epoch_start_offset: int) -> bool:
    """Whether a follower may join the ISR (Partition.isFollowerInSync)."""
    return follower.log_end_offset >= max(high_watermark, epoch_start_offset)


def truncation_offset(
    *,
    log_end_offset: int,
    leader_answer: tuple[int, int],
    follower_answer: tuple[int, int],
) -> int:
    """The offset to which a diverging follower truncates its log
    (AbstractFetcherThread.getOffsetTruncationState).

    Args:
        log_end_offset: The follower's log end.
        leader_answer: (epoch, end offset of that epoch) in the leader's log.
        follower_answer: (epoch, end offset of that epoch) in the follower's own log, looked up for
            the leader's epoch.
    """
    leader_epoch, leader_end = leader_answer
    follower_epoch, follower_end = follower_answer
    if UNKNOWN_EPOCH in (leader_epoch, follower_epoch):
        return min(leader_end, log_end_offset)
    if follower_epoch != leader_epoch:
        # The epoch is not known here: go back to the end of the one before and ask again.
        return min(follower_end, log_end_offset)
    return min(follower_end, leader_end, log_end_offset)

"""A leader's conclusions from the positions of its followers. Pure.

The high watermark, who has fallen out of the ISR and who may come back, how far records are deleted
everywhere, and what a follower cuts off when its log parts from its leader's. Nothing is done here.
Kafka's counterparts: Replica, Partition (maybeIncrementLeaderHW, getOutOfSyncReplicas),
AbstractFetcherThread.getOffsetTruncationState.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Final, Protocol

import msgspec

from txnsim.types import BrokerId, TopicPartition

UNKNOWN_OFFSET: Final = -1
UNKNOWN_EPOCH: Final = -1
NEVER_MS: Final = -(2**62)
"""Longer ago than any lag that is allowed, on a clock that starts anywhere."""


class Reader(Protocol):
    """Where a follower's requests come in: its fetch session."""

    last_fetch_ms: int
    """When it fetched last."""
    stale: dict[TopicPartition, None]
    """Partitions whose high watermark the follower does not know any more."""

    news: dict[TopicPartition, None]
    """Partitions with something that the follower has not got."""
    is_due: bool
    """Its answer is on its way."""

    @property
    def parked(self) -> object | None:
        """Its request that waits for news."""

    def answer_soon(self) -> None:
        """Give that one its answer after the present callback."""

    def is_out(self, topic_partition: TopicPartition) -> None:
        """The follower is not in the ISR: with each Fetch it is to be seen whether it may join."""


class Follower(msgspec.Struct, eq=False):
    """The position of one follower, as its fetches report it (Kafka's Replica)."""

    broker_id: BrokerId
    broker_epoch: int = -1
    log_end_offset: int = UNKNOWN_OFFSET
    log_start_offset: int = UNKNOWN_OFFSET
    caught_up_ms: int = NEVER_MS
    """When it had last all that there was."""
    last_fetch_ms: int = NEVER_MS
    last_fetch_leader_end: int = 0
    reader: Reader | None = None

    def reset(self, *, is_in_isr: bool, leader_end: int, now_ms: int) -> None:
        """A new leader knows nothing of it yet but whether it was in the ISR
        (Replica.resetReplicaState).
        """
        self.log_end_offset = self.log_start_offset = UNKNOWN_OFFSET
        self.last_fetch_leader_end = leader_end
        self.broker_epoch = -1
        self.caught_up_ms = self.last_fetch_ms = now_ms if is_in_isr else NEVER_MS
        self.reader = None

    def fetched(
        self,
        *,
        offset: int,
        log_start_offset: int,
        leader_end: int,
        broker_epoch: int,
        now_ms: int,
    ) -> None:
        """It asked for ``offset``, so it has all below (Replica.updateFetchStateOrThrow)."""
        if offset >= leader_end:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif offset >= self.last_fetch_leader_end:
            # It now has all records that existed at its last fetch: then it was up to date.
            self.caught_up_ms = max(self.caught_up_ms, self.last_fetch_ms)
        self.log_end_offset = offset
        self.log_start_offset = log_start_offset
        self.broker_epoch = broker_epoch
        self.last_fetch_leader_end = leader_end
        self.last_fetch_ms = now_ms

    def is_caught_up(self, *, leader_end: int, lag_max_ms: int, now_ms: int) -> bool:
        """Whether it has all there is, or had so not long ago."""
        return self.log_end_offset == leader_end or now_ms - self.caught_up_ms <= lag_max_ms


def out_of_sync(
    followers: Iterable[Follower],
    isr: Container[BrokerId],
    *,
    leader_end: int,
    lag_max_ms: int,
    now_ms: int,
) -> tuple[BrokerId, ...]:
    """Members of the ISR that have not kept up for ``replica.lag.time.max.ms``."""
    return tuple(
        follower.broker_id
        for follower in followers
        if follower.broker_id in isr
        and not follower.is_caught_up(leader_end=leader_end, lag_max_ms=lag_max_ms, now_ms=now_ms)
    )


def has_caught_up(follower: Follower, *, high_watermark: int, epoch_start_offset: int) -> bool:
    """Whether it may be taken into the ISR: it has all that is committed, and all that there was
    when this leader began (Partition.isFollowerInSync).
    """
    return follower.log_end_offset >= max(high_watermark, epoch_start_offset)


def truncation_offset(
    *,
    log_end_offset: int,
    leader_answer: tuple[int, int],
    own_answer: tuple[int, int],
) -> int:
    """Where a diverging follower cuts off (AbstractFetcherThread.getOffsetTruncationState).

    Args:
        log_end_offset: The follower's.
        leader_answer: (epoch, where it ended) by the leader.
        own_answer: (epoch, where it ended) by the follower's own log, asked for the leader's epoch.
    """
    leader_epoch, leader_end = leader_answer
    own_epoch, own_end = own_answer
    if UNKNOWN_EPOCH in (leader_epoch, own_epoch):
        return min(leader_end, log_end_offset)
    if own_epoch != leader_epoch:
        # The epoch is not known here: go back to the end of the one before and ask again.
        return min(own_end, log_end_offset)
    return min(own_end, leader_end, log_end_offset)

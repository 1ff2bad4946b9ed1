"""Commands of a follower to the leader of its partitions, of a leader to the controller, and their
answers (KIP-227, KIP-497, KIP-595, KIP-903).
"""

from __future__ import annotations

import uuid
from typing import Final

import msgspec

from txnsim.types import BrokerId, LeaderEpoch, TopicPartition


class ReplicatedBatch(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One stored batch on its way to a follower: the leader's bytes, not a copy of them, and what
    a log has to know of them, so that the header is not read again.
    """

    data: bytes
    base_offset: int
    last_offset: int
    leader_epoch: int
    producer_id: int
    producer_epoch: int
    last_sequence: int
    timestamp_ms: int
    """The batch's largest timestamp."""
    is_transactional: bool
    is_control: bool
    committed: bool = False
    """What a marker says; of no meaning without ``is_marker``."""
    coordinator_epoch: int = -1
    is_marker: bool = False
    """A control batch that ends a transaction."""


class ReplicaFetchPartition(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A follower's fetch position in a partition; acknowledges all offsets below."""

    topic_id: uuid.UUID
    topic_partition: TopicPartition
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    """-1 while the follower's log knows no epoch (KIP-595)."""
    log_start_offset: int
    high_watermark: int = -1
    """What the follower knows of it (Fetch v18, KIP-1166); -1 where it does not tell."""
    max_bytes: int = 1_048_576
    """``replica.fetch.max.bytes``."""


class ReplicaFetchCommand(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Fetch from a follower to the leader of partitions, within a session of its own (KIP-227)."""

    replica_id: BrokerId
    replica_epoch: int
    """The follower's broker epoch (KIP-903)."""
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    session_id: int
    session_epoch: int
    """0 asks for a new session with exactly these partitions; then it counts the requests."""
    partitions: tuple[ReplicaFetchPartition, ...] = ()
    """Those whose state has changed since the last request of the session."""
    forgotten: tuple[tuple[uuid.UUID, TopicPartition], ...] = ()
    followed: tuple[TopicPartition, ...] = ()
    """All that the session is about, for fault plans: it does not travel."""


class ReplicaFetchedPartition(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The leader's answer for one partition."""

    topic_id: uuid.UUID
    topic_partition: TopicPartition
    error: int = 0
    high_watermark: int = -1
    log_start_offset: int = -1
    last_stable_offset: int = -1
    diverging: tuple[int, int] | None = None
    """(leader epoch, end offset): the follower's log parts from the leader's (KIP-595)."""
    current_leader: tuple[int, int] | None = None
    """(leader id, leader epoch) with errors that mean "ask somebody else" (KIP-951)."""
    batches: tuple[ReplicatedBatch, ...] = ()


class ReplicaFetchReply(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The answer to a follower; of a session only the partitions with news."""

    error: int = 0
    session_id: int = 0
    partitions: tuple[ReplicaFetchedPartition, ...] = ()


NO_REPLICA: Final = BrokerId(-1)
"""The replica id of a consumer, which sees a log up to its high watermark."""


class ReplicaOffsetCommand(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """ListOffsets from a follower that finds itself outside of its leader's log, or from a group
    coordinator that asks as a consumer does.
    """

    replica_id: BrokerId
    topic_partition: TopicPartition
    current_leader_epoch: int
    timestamp_ms: int
    """-1 for the log end, -2 for the log start."""


class ReplicaOffsetReply(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The leader's answer; of no meaning with an error."""

    topic_partition: TopicPartition
    error: int = 0
    offset: int = -1


class IsrChange(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The ISR that a leader asks for, with all that the controller needs to see whether the leader
    is still up to date.
    """

    topic_id: uuid.UUID
    topic_partition: TopicPartition
    leader_epoch: LeaderEpoch
    new_isr: tuple[tuple[BrokerId, int], ...]
    """(broker id, broker epoch as the leader knows it, -1 where it does not), by broker id; the
    epoch keeps a restarted broker from being taken for the old one (KIP-903).
    """
    partition_epoch: int


class AlterPartitionCommand(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """AlterPartition from a leader to the controller (KIP-497)."""

    broker_id: BrokerId
    broker_epoch: int
    partitions: tuple[IsrChange, ...]


class AlteredPartition(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The result of a change: an error, or the new state of the partition."""

    topic_id: uuid.UUID
    topic_partition: TopicPartition
    error: int = 0
    leader: BrokerId = BrokerId(-1)
    leader_epoch: LeaderEpoch = LeaderEpoch(-1)
    isr: tuple[BrokerId, ...] = ()
    partition_epoch: int = -1


class AlterPartitionReply(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """``error`` is the top-level code (STALE_BROKER_EPOCH, NOT_CONTROLLER)."""

    error: int = 0
    partitions: tuple[AlteredPartition, ...] = ()

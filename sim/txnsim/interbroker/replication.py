"""Commands from a follower to a partition's leader and from a leader to the controller, and their
replies (KIP-227, KIP-497, KIP-595, KIP-903).
"""

from __future__ import annotations

import uuid
from typing import Final

import msgspec

from txnsim.types import BrokerId, LeaderEpoch, TopicPartition


class ReplicatedBatch(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One stored batch on its way to a follower: the leader's bytes, not a copy of them, and the
    header fields that a log needs, so that the header is not parsed again.
    """

    batch_bytes: bytes
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
    """Whether the marker is a COMMIT; meaningless if ``is_marker`` is false."""
    coordinator_epoch: int = -1
    is_marker: bool = False
    """Whether the batch is a control batch that ends a transaction."""


class ReplicaFetchPartition(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A follower's fetch position in a partition; it acknowledges all offsets below."""

    topic_id: uuid.UUID
    topic_partition: TopicPartition
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    """Leader epoch of the follower's last batch; -1 while its log is empty (KIP-595)."""
    log_start_offset: int
    high_watermark: int = -1
    """The high watermark that the follower knows (Fetch v18, KIP-1166); -1 if it does not tell."""
    max_bytes: int = 1_048_576
    """``replica.fetch.max.bytes``."""


class ReplicaFetchCommand(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Fetch from a follower to the leader of partitions, in a fetch session (KIP-227)."""

    replica_id: BrokerId
    replica_epoch: int
    """The follower's broker epoch (KIP-903)."""
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    session_id: int
    session_epoch: int
    """0 asks for a new session with exactly these partitions; after that the epoch counts the
    requests.
    """
    partitions: tuple[ReplicaFetchPartition, ...] = ()
    """The partitions whose fetch state has changed since the last request of the session."""
    forgotten_partitions: tuple[tuple[uuid.UUID, TopicPartition], ...] = ()
    followed_partitions: tuple[TopicPartition, ...] = ()
    """All partitions of the session, for fault plans; this field is not encoded."""


class ReplicaFetchedPartition(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The leader's reply for one partition."""

    topic_id: uuid.UUID
    topic_partition: TopicPartition
    error: int = 0
    high_watermark: int = -1
    log_start_offset: int = -1
    last_stable_offset: int = -1
    diverging_epoch: tuple[int, int] | None = None
    """(leader epoch, end offset) at which the follower's log diverges from the leader's
    (KIP-595).
    """
    current_leader: tuple[int, int] | None = None
    """(leader id, leader epoch), with errors that mean that another broker leads (KIP-951)."""
    batches: tuple[ReplicatedBatch, ...] = ()


class ReplicaFetchReply(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The reply to a follower; in a session it has only the partitions with news."""

    error: int = 0
    session_id: int = 0
    partitions: tuple[ReplicaFetchedPartition, ...] = ()


NO_REPLICA: Final = BrokerId(-1)
"""The replica id of a consumer, which sees a log up to its high watermark."""


class ReplicaOffsetCommand(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """ListOffsets from a follower whose fetch offset is out of the leader's range, or from a group
    coordinator, which asks like a consumer.
    """

    replica_id: BrokerId
    topic_partition: TopicPartition
    current_leader_epoch: int
    timestamp_ms: int
    """-1 for the log end, -2 for the log start."""


class ReplicaOffsetReply(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The leader's reply; the offset is meaningless if there is an error."""

    topic_partition: TopicPartition
    error: int = 0
    offset: int = -1


class IsrChange(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The ISR that a leader asks for, with the epochs by which the controller sees whether the
    leader is up to date.
    """

    topic_id: uuid.UUID
    topic_partition: TopicPartition
    leader_epoch: LeaderEpoch
    new_isr: tuple[tuple[BrokerId, int], ...]
    """(broker id, broker epoch) of each member, by broker id; the epoch is -1 if the leader does
    not know it. The epoch keeps a restarted broker from being taken for the old one (KIP-903).
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
    """The result of each change; ``error`` is the top-level code (STALE_BROKER_EPOCH,
    NOT_CONTROLLER).
    """

    error: int = 0
    partitions: tuple[AlteredPartition, ...] = ()

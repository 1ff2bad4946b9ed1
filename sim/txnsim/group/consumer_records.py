"""What ``__consumer_offsets`` remembers of groups that speak the consumer protocol (KIP-848).

Unlike a classic group, such a group is nothing but its records: every heartbeat that changes
something writes them, and a coordinator that loads knows all that the last one knew.

Counterpart in Kafka: GroupCoordinatorRecordHelpers.
"""

from __future__ import annotations

import uuid

import msgspec

TopicIdPartition = tuple[uuid.UUID, int]
"""A partition by its topic's id."""

Epochs = tuple[tuple[uuid.UUID, int, int], ...]
"""(topic id, partition, epoch at which the member got it), sorted."""


class ClassicMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """What a member of the classic protocol has sent, in a group of the consumer protocol."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


class SubscriptionStored(msgspec.Struct, frozen=True, kw_only=True):
    """A member and what it subscribes to."""

    group_id: str
    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str
    client_host: str
    topic_names: tuple[str, ...] = ()
    topic_regex: str | None = None
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ClassicMetadata | None = None


class SubscriptionDeleted(msgspec.Struct, frozen=True, kw_only=True):
    """A member is gone."""

    group_id: str
    member_id: str


class EpochStored(msgspec.Struct, frozen=True, kw_only=True):
    """The group's epoch, and a hash of the topics that it was made for."""

    group_id: str
    epoch: int
    metadata_hash: int = 0


class EpochDeleted(msgspec.Struct, frozen=True, kw_only=True):
    """The group is gone."""

    group_id: str


class TopicsDeleted(msgspec.Struct, frozen=True, kw_only=True):
    """What coordinators of before 4.1 remembered of the group's topics is gone, if any."""

    group_id: str


class TargetEpochStored(msgspec.Struct, frozen=True, kw_only=True):
    """The target assignment is complete for this epoch."""

    group_id: str
    epoch: int
    timestamp_ms: int = 0


class TargetEpochDeleted(msgspec.Struct, frozen=True, kw_only=True):
    """There is no target assignment any more."""

    group_id: str


class TargetStored(msgspec.Struct, frozen=True, kw_only=True):
    """The target assignment of a member."""

    group_id: str
    member_id: str
    partitions: tuple[TopicIdPartition, ...] = ()
    """Sorted."""


class TargetDeleted(msgspec.Struct, frozen=True, kw_only=True):
    """A member is to have nothing."""

    group_id: str
    member_id: str


class CurrentStored(msgspec.Struct, frozen=True, kw_only=True):
    """The current assignment of a member, and the partitions that it has to give up."""

    group_id: str
    member_id: str
    epoch: int
    previous_epoch: int
    state: int
    assigned: Epochs = ()
    pending_revocation: Epochs = ()


class CurrentDeleted(msgspec.Struct, frozen=True, kw_only=True):
    """A member has nothing any more."""

    group_id: str
    member_id: str


class RegexStored(msgspec.Struct, frozen=True, kw_only=True):
    """The topics that match a regular expression."""

    group_id: str
    regex: str
    topics: tuple[str, ...] = ()
    """Sorted."""
    version: int
    """Metadata offset at which it was looked up."""
    timestamp_ms: int


class RegexDeleted(msgspec.Struct, frozen=True, kw_only=True):
    """No member subscribes to it any more."""

    group_id: str
    regex: str


ConsumerRecord = (
    SubscriptionStored
    | SubscriptionDeleted
    | EpochStored
    | EpochDeleted
    | TopicsDeleted
    | TargetEpochStored
    | TargetEpochDeleted
    | TargetStored
    | TargetDeleted
    | CurrentStored
    | CurrentDeleted
    | RegexStored
    | RegexDeleted
)

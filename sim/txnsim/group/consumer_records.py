"""Records of ``__consumer_offsets`` about groups of the consumer protocol (KIP-848) and share
groups (KIP-932).

Unlike a classic group, such a group consists only of its records: every heartbeat that changes
something writes them, and a coordinator that loads them knows everything that the previous one
knew.

Counterpart in Kafka: GroupCoordinatorRecordHelpers.
"""

from __future__ import annotations

import uuid

import msgspec

TopicIdPartition = tuple[uuid.UUID, int]
"""A partition by its topic's id."""

Epochs = tuple[tuple[uuid.UUID, int, int], ...]
"""(topic id, partition, epoch at which the member got it), sorted."""


class _GroupRecord(msgspec.Struct, frozen=True, kw_only=True):
    group_id: str


class _MemberRecord(_GroupRecord, frozen=True, kw_only=True):
    member_id: str


class _RegexRecord(_GroupRecord, frozen=True, kw_only=True):
    regex: str


class ClassicMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """The metadata that a classic member has sent, in a group of the consumer protocol."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


class SubscriptionStored(_MemberRecord, frozen=True, kw_only=True):
    """ConsumerGroupMemberMetadata: who a member is and what it subscribes to."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str
    client_host: str
    topic_names: tuple[str, ...] = ()
    topic_regex: str | None = None
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ClassicMetadata | None = None


class SubscriptionDeleted(_MemberRecord, frozen=True, kw_only=True):
    """The tombstone of a member."""


class EpochStored(_GroupRecord, frozen=True, kw_only=True):
    """The group's epoch, and the hash of the topic metadata behind it."""

    group_epoch: int
    metadata_hash: int = 0


class EpochDeleted(_GroupRecord, frozen=True, kw_only=True):
    """The tombstone of a group."""


class TopicsDeleted(_GroupRecord, frozen=True, kw_only=True):
    """Deletes the topics that coordinators before 4.1 stored for the group, if any."""


class TargetEpochStored(_GroupRecord, frozen=True, kw_only=True):
    """The target assignment is complete for this epoch."""

    assignment_epoch: int
    timestamp_ms: int = 0


class TargetEpochDeleted(_GroupRecord, frozen=True, kw_only=True):
    """The tombstone of a target assignment's epoch."""


class TargetStored(_MemberRecord, frozen=True, kw_only=True):
    """The target assignment of a member."""

    partitions: tuple[TopicIdPartition, ...] = ()
    """Sorted."""


class TargetDeleted(_MemberRecord, frozen=True, kw_only=True):
    """The tombstone of a member's target assignment."""


class CurrentAssignmentStored(_MemberRecord, frozen=True, kw_only=True):
    """A member's current assignment, and the partitions that it must revoke."""

    member_epoch: int
    previous_member_epoch: int
    state: int
    assigned: Epochs = ()
    pending_revocation: Epochs = ()


class CurrentAssignmentDeleted(_MemberRecord, frozen=True, kw_only=True):
    """The tombstone of a member's current assignment."""


class RegexStored(_RegexRecord, frozen=True, kw_only=True):
    """The topics that match a regular expression."""

    topics: tuple[str, ...] = ()
    """Sorted."""
    version: int
    """Metadata offset at which it was looked up."""
    timestamp_ms: int


class RegexDeleted(_RegexRecord, frozen=True, kw_only=True):
    """The tombstone of a regular expression without subscribers."""


ConsumerTombstone = (
    SubscriptionDeleted
    | EpochDeleted
    | TopicsDeleted
    | TargetEpochDeleted
    | TargetDeleted
    | CurrentAssignmentDeleted
    | RegexDeleted
)
ConsumerRecord = (
    SubscriptionStored
    | EpochStored
    | TargetEpochStored
    | TargetStored
    | CurrentAssignmentStored
    | RegexStored
    | ConsumerTombstone
)


# Share groups (KIP-932): kinds 10 to 15


class _ShareGroupRecord(msgspec.Struct, frozen=True, kw_only=True):
    group_id: str


class _ShareMemberRecord(_ShareGroupRecord, frozen=True, kw_only=True):
    member_id: str


class ShareTopic(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """Partitions of a topic whose share state is initialised or being initialised."""

    topic_id: uuid.UUID
    topic_name: str
    partitions: tuple[int, ...]
    """Sorted."""


class DeletingTopic(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """A topic whose share state is being deleted."""

    topic_id: uuid.UUID
    topic_name: str


class ShareMemberStored(_ShareMemberRecord, frozen=True, kw_only=True):
    """A member and its subscription."""

    rack_id: str | None = None
    client_id: str
    client_host: str
    topic_names: tuple[str, ...] = ()
    """Sorted."""


class ShareMemberDeleted(_ShareMemberRecord, frozen=True, kw_only=True):
    """The tombstone of a member."""


class ShareEpochStored(_ShareGroupRecord, frozen=True, kw_only=True):
    """The group's epoch, and the hash of the topic metadata behind it."""

    group_epoch: int
    metadata_hash: int = 0


class ShareEpochDeleted(_ShareGroupRecord, frozen=True, kw_only=True):
    """The tombstone of a group."""


class ShareTargetEpochStored(_ShareGroupRecord, frozen=True, kw_only=True):
    """The target assignment is complete for this epoch."""

    assignment_epoch: int
    timestamp_ms: int = 0


class ShareTargetEpochDeleted(_ShareGroupRecord, frozen=True, kw_only=True):
    """The tombstone of a target assignment's epoch."""


class ShareTargetStored(_ShareMemberRecord, frozen=True, kw_only=True):
    """The target assignment of a member."""

    partitions: tuple[TopicIdPartition, ...] = ()
    """Sorted."""


class ShareTargetDeleted(_ShareMemberRecord, frozen=True, kw_only=True):
    """The tombstone of a member's target assignment."""


class ShareCurrentAssignmentStored(_ShareMemberRecord, frozen=True, kw_only=True):
    """A member's current assignment."""

    member_epoch: int
    previous_member_epoch: int
    state: int = 0
    """A MemberState; a member of a share group is always stable."""
    partitions: tuple[TopicIdPartition, ...] = ()
    """Sorted."""


class ShareCurrentAssignmentDeleted(_ShareMemberRecord, frozen=True, kw_only=True):
    """The tombstone of a member's current assignment."""


class ShareTopicsStored(_ShareGroupRecord, frozen=True, kw_only=True):
    """Topics whose share state is being initialised, initialised, or being deleted."""

    initializing: tuple[ShareTopic, ...] = ()
    """Sorted by topic id, like the two other kinds."""
    initialized: tuple[ShareTopic, ...] = ()
    deleting: tuple[DeletingTopic, ...] = ()
    stored_at_ms: int = 0
    """Not in the log: after a load, the time of the load (ShareProtocol.resumed)."""


class ShareTopicsDeleted(_ShareGroupRecord, frozen=True, kw_only=True):
    """The tombstone of the share state topics."""


ShareTombstone = (
    ShareMemberDeleted
    | ShareEpochDeleted
    | ShareTargetEpochDeleted
    | ShareTargetDeleted
    | ShareCurrentAssignmentDeleted
    | ShareTopicsDeleted
)
ShareRecord = (
    ShareMemberStored
    | ShareEpochStored
    | ShareTargetEpochStored
    | ShareTargetStored
    | ShareCurrentAssignmentStored
    | ShareTopicsStored
    | ShareTombstone
)

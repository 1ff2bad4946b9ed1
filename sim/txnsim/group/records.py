"""Records of ``__consumer_offsets``: one frozen struct per kind.

All durable state of a coordinator is written as one of these, and a coordinator that loads reads
only these. ``group.log_format`` encodes them. The records of the consumer protocol (KIP-848) are in
``group.consumer_records``.

Counterpart in Kafka: GroupCoordinatorRecordHelpers.
"""

from __future__ import annotations

import uuid

import msgspec

from txnsim.group.consumer_records import ConsumerRecord, ShareRecord
from txnsim.group.streams._records import StreamsRecord
from txnsim.types import TopicPartition


class OffsetCommitted(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A group's position on a partition (OffsetCommitKey, OffsetCommitValue).

    In a transactional batch it is pending until the producer's marker.
    """

    group_id: str
    topic_partition: TopicPartition
    position: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp_ms: int
    expire_timestamp_ms: int = -1
    """When it expires regardless of the group's retention; -1 if there is no such time (commits up
    to v4 have one).
    """
    topic_id: uuid.UUID | None = None
    """The topic's id as the committer knew it; None before v10."""


class OffsetDeleted(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The tombstone of a position; it also removes pending positions of the partition."""

    group_id: str
    topic_partition: TopicPartition


class StoredMember(msgspec.Struct, frozen=True, kw_only=True):
    """A member of a classic group, stored with its generation."""

    member_id: str
    group_instance_id: str | None = None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int = -1
    session_timeout_ms: int
    subscription: bytes = b""
    assignment: bytes = b""


class ClassicGroupStored(msgspec.Struct, frozen=True, kw_only=True):
    """A generation of a classic group (GroupMetadataKey, GroupMetadataValue)."""

    group_id: str
    protocol_type: str = ""
    generation: int = 0
    protocol: str | None = None
    leader: str | None = None
    state_timestamp_ms: int = -1
    members: tuple[StoredMember, ...] = ()


class ClassicGroupDeleted(msgspec.Struct, frozen=True, kw_only=True):
    """The tombstone of a classic group."""

    group_id: str


GroupRecord = (
    OffsetCommitted
    | OffsetDeleted
    | ClassicGroupStored
    | ClassicGroupDeleted
    | ConsumerRecord
    | ShareRecord
    | StreamsRecord
)

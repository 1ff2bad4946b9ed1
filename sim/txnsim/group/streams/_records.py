"""Records of ``__consumer_offsets`` about streams groups (KIP-1071): kinds 17 to 23.

Counterpart in Kafka: StreamsCoordinatorRecordHelpers.
"""

from __future__ import annotations

import msgspec

from txnsim.group.streams.topology import Subtopology

Partitions = tuple[tuple[str, int], ...]
"""Tasks: (subtopology, partition), sorted."""
Epochs = tuple[tuple[str, int, int], ...]
"""Tasks with the epoch at which a member got each, sorted."""


class _StreamsGroupRecord(msgspec.Struct, frozen=True, kw_only=True):
    group_id: str


class _StreamsMemberRecord(_StreamsGroupRecord, frozen=True, kw_only=True):
    member_id: str


class StreamsEpochStored(_StreamsGroupRecord, frozen=True, kw_only=True):
    """Group epoch, metadata hash, validated topology epoch."""

    group_epoch: int
    metadata_hash: int = 0
    validated_topology_epoch: int = -1
    """The epoch of the topology whose topics all exist and are valid."""
    assignment_configs: tuple[tuple[str, str], ...] | None = None
    """The group configs that the assignor used, sorted."""
    stored_description_topology_epoch: int = -1
    failed_description_topology_epoch: int = -1


class StreamsEpochDeleted(_StreamsGroupRecord, frozen=True, kw_only=True):
    """The tombstone of a group."""


class StreamsMemberStored(_StreamsMemberRecord, frozen=True, kw_only=True):
    """Member metadata: process, endpoint, tags, timeout."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int = -1
    topology_epoch: int
    process_id: str
    endpoint: tuple[str, int] | None = None
    """Host and port for interactive queries."""
    client_tags: tuple[tuple[str, str], ...] = ()
    """Sorted."""


class StreamsMemberDeleted(_StreamsMemberRecord, frozen=True, kw_only=True):
    """The tombstone of a member."""


class StreamsTargetEpochStored(_StreamsGroupRecord, frozen=True, kw_only=True):
    """The target assignment is complete for this epoch."""

    assignment_epoch: int
    timestamp_ms: int = 0


class StreamsTargetEpochDeleted(_StreamsGroupRecord, frozen=True, kw_only=True):
    """The tombstone of a target assignment's epoch."""


class StreamsTargetStored(_StreamsMemberRecord, frozen=True, kw_only=True):
    """The target assignment of a member."""

    active: Partitions = ()
    standby: Partitions = ()
    warmup: Partitions = ()


class StreamsTargetDeleted(_StreamsMemberRecord, frozen=True, kw_only=True):
    """The tombstone of a member's target assignment."""


class StreamsCurrentAssignmentStored(_StreamsMemberRecord, frozen=True, kw_only=True):
    """A member's current tasks and pending revocations."""

    member_epoch: int
    previous_member_epoch: int
    state: int
    active: Epochs = ()
    standby: Partitions = ()
    warmup: Partitions = ()
    active_revoked: Epochs = ()
    standby_revoked: Partitions = ()
    warmup_revoked: Partitions = ()


class StreamsCurrentAssignmentDeleted(_StreamsMemberRecord, frozen=True, kw_only=True):
    """The tombstone of a member's current tasks."""


class StreamsTopologyStored(_StreamsGroupRecord, frozen=True, kw_only=True):
    """The application's topology."""

    topology_epoch: int
    subtopologies: tuple[Subtopology, ...] = ()


class StreamsTopologyDeleted(_StreamsGroupRecord, frozen=True, kw_only=True):
    """The tombstone of a topology."""


StreamsTombstone = (
    StreamsEpochDeleted
    | StreamsMemberDeleted
    | StreamsTargetEpochDeleted
    | StreamsTargetDeleted
    | StreamsCurrentAssignmentDeleted
    | StreamsTopologyDeleted
)
StreamsRecord = (
    StreamsEpochStored
    | StreamsMemberStored
    | StreamsTargetEpochStored
    | StreamsTargetStored
    | StreamsCurrentAssignmentStored
    | StreamsTopologyStored
    | StreamsTombstone
)

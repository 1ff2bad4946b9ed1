"""Decisions about positions: who may commit, read and delete them, and when they expire. Pure.

Counterpart in Kafka: OffsetMetadataManager, and the parts of Group that it calls.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from txnsim.errors import ErrorCode, Rejection
from txnsim.group._offsets import NO_RECORD_LIMIT
from txnsim.group.offset_commands import (
    CommitOffsets,
    DeleteOffsets,
    FetchedPosition,
    FetchOffsets,
    PartitionErrors,
)
from txnsim.group.records import GroupRecord, OffsetCommitted, OffsetDeleted
from txnsim.group.shard import GroupShard
from txnsim.group.state import Group, GroupType
from txnsim.types import Decision, TopicPartition

_NO_ERROR: Final = ErrorCode.none

PENDING_MAX: Final = 50_000
"""Limit of pending positions of a producer on a partition of ``__consumer_offsets``, because its
marker decides all of them in one step.
"""

DEVIATIONS: Final = (
    "A transaction has at most 50,000 positions on a partition of __consumer_offsets; a "
    "TxnOffsetCommit with more is refused (INVALID_COMMIT_OFFSET_SIZE).",
)

CommitDecision = Decision[OffsetCommitted, PartitionErrors, None]
DeleteDecision = Decision[GroupRecord, PartitionErrors, None]


def decide_commit(
    shard: GroupShard, command: CommitOffsets, *, metadata_bytes_max: int, now_ms: int
) -> CommitDecision | Rejection:
    """Decide which positions to write; only positions with too much metadata fail by themselves.

    Args:
        shard: The group's shard.
        command: The positions to commit.
        metadata_bytes_max: ``offset.metadata.max.bytes``; counted in characters, as Kafka does.
        now_ms: The cluster's time.
    """
    refusal = check_commit(shard, command)
    if refusal is not None:
        return refusal
    group = shard.groups.get(command.group_id)
    expires_ms = -1 if command.retention_ms == -1 else now_ms + command.retention_ms
    records: list[OffsetCommitted] = []
    partition_errors: list[tuple[TopicPartition, ErrorCode]] = []
    for position in command.positions:
        metadata = position.metadata or ""
        if len(metadata) > metadata_bytes_max:
            partition_errors.append((position.topic_partition, ErrorCode.offset_metadata_too_large))
            continue
        if group is not None and position.topic_id is not None:
            topic_id_partition = (position.topic_id, position.topic_partition.partition)
            refusal = group.check_position(command, topic_id_partition)
            if refusal is not None:
                return _refusal_for_version(command, refusal)
        partition_errors.append((position.topic_partition, _NO_ERROR))
        records.append(
            OffsetCommitted(
                group_id=command.group_id,
                topic_partition=position.topic_partition,
                position=position.offset,
                leader_epoch=position.leader_epoch,
                metadata=metadata,
                commit_timestamp_ms=now_ms,
                expire_timestamp_ms=expires_ms,
                topic_id=position.topic_id if command.keeps_topic_ids else None,
            )
        )
    return Decision(records=tuple(records), reply=tuple(partition_errors))


def check_commit(shard: GroupShard, command: CommitOffsets) -> Rejection | None:
    """The error of an invalid member id or epoch; any client may commit for a group without
    members.
    """
    group = shard.groups.get(command.group_id)
    if group is None:
        if command.generation < 0:
            return None
        return Rejection(
            error=ErrorCode.group_id_not_found
            if command.names_missing_group and shard.release_rules.missing_groups_are_named
            else ErrorCode.illegal_generation,
            reason=f"there is no group {command.group_id}",
        )
    refusal = group.check_offset_commit(command)
    return None if refusal is None else _refusal_for_version(command, refusal)


def _refusal_for_version(command: CommitOffsets, refusal: Rejection) -> Rejection:
    """The error in a transaction, where only TxnOffsetCommit v6 (KIP-1319) knows
    STALE_MEMBER_EPOCH.
    """
    if refusal.error is ErrorCode.stale_member_epoch and not command.names_stale_epoch:
        return Rejection(error=ErrorCode.illegal_generation, reason=refusal.reason)
    return refusal


def fetch_offsets(
    shard: GroupShard, command: FetchOffsets, *, high_watermark: int
) -> tuple[FetchedPosition, ...] | Rejection:
    """The group's positions; -1 if there is none.

    Args:
        shard: The group's shard.
        command: The requested positions.
        high_watermark: High watermark. A client that requires stable positions also sees those
            above it, and gets its answer once they are replicated.
    """
    end_offset = NO_RECORD_LIMIT if command.require_stable else high_watermark
    group = shard.groups.get(command.group_id)
    refusal = None if group is None else group.check_offset_fetch(command)
    if refusal is not None and refusal.error is not ErrorCode.group_id_not_found:
        return refusal
    if group is None or refusal is not None:
        return tuple(
            FetchedPosition(topic_partition=topic_partition)
            for topic_partition in command.partitions or ()
        )
    if command.partitions is None:
        commits = shard.offsets.committed_offsets(command.group_id, record_limit=end_offset)
        return tuple(
            _fetched_position(shard, command, record, record.topic_partition) for record in commits
        )
    positions = []
    for topic_partition in command.partitions:
        record = shard.offsets.committed_offset(
            command.group_id, topic_partition, record_limit=end_offset
        )
        wanted_topic_id = command.topic_ids.get(topic_partition.topic)
        if record is not None and None not in (wanted_topic_id, record.topic_id):
            # A position of an older topic of that name is none of this topic's.
            record = record if record.topic_id == wanted_topic_id else None
        positions.append(_fetched_position(shard, command, record, topic_partition))
    return tuple(positions)


def _fetched_position(
    shard: GroupShard,
    command: FetchOffsets,
    record: OffsetCommitted | None,
    topic_partition: TopicPartition,
) -> FetchedPosition:
    if command.require_stable and shard.offsets.is_pending(command.group_id, topic_partition):
        return FetchedPosition(
            topic_partition=topic_partition, error=ErrorCode.unstable_offset_commit
        )
    if record is None:
        return FetchedPosition(topic_partition=topic_partition)
    return FetchedPosition(
        topic_partition=record.topic_partition,
        offset=record.position,
        leader_epoch=record.leader_epoch,
        metadata=record.metadata,
    )


def decide_delete_offsets(shard: GroupShard, command: DeleteOffsets) -> DeleteDecision | Rejection:
    """Decide which positions to delete; those of topics that a member consumes stay. Before 4.0 a
    group without members is deleted with its last position
    (GroupMetadataManager.cleanupGroupMetadata).
    """
    group = shard.groups.get(command.group_id)
    if group is None:
        return Rejection(
            error=ErrorCode.group_id_not_found, reason=f"there is no group {command.group_id}"
        )
    refusal = group.check_offset_delete()
    if refusal is not None:
        return refusal
    records: list[GroupRecord] = []
    partition_errors: list[tuple[TopicPartition, ErrorCode]] = []
    remaining_partitions = _partitions_with_positions(shard, command.group_id)
    for topic_partition in command.partitions:
        if group.has_subscriber(topic_partition.topic):
            partition_errors.append((topic_partition, ErrorCode.group_subscribed_to_topic))
            continue
        partition_errors.append((topic_partition, _NO_ERROR))
        if remaining_partitions.pop(topic_partition, topic_partition) is None:
            records.append(
                OffsetDeleted(group_id=command.group_id, topic_partition=topic_partition)
            )
    deletes_empty_group = not shard.release_rules.groups_outlive_positions
    if deletes_empty_group and records and not remaining_partitions and group.is_empty:
        records += group.tombstones()
    return Decision(records=tuple(records), reply=tuple(partition_errors))


def delete_all_offsets(shard: GroupShard, group_id: str) -> tuple[OffsetDeleted, ...]:
    """Tombstones of all committed and pending positions of a group."""
    topic_partitions = _partitions_with_positions(shard, group_id)
    return tuple(
        OffsetDeleted(group_id=group_id, topic_partition=topic_partition)
        for topic_partition in topic_partitions
    )


def _partitions_with_positions(shard: GroupShard, group_id: str) -> dict[TopicPartition, None]:
    """Partitions with a committed or pending position of a group."""
    committed_partitions = (
        record.topic_partition for record in shard.offsets.committed_offsets(group_id)
    )
    pending_partitions = shard.offsets.pending_partitions(group_id)
    return dict.fromkeys((*committed_partitions, *pending_partitions))


def delete_topic_offsets(shard: GroupShard, topics: frozenset[str]) -> tuple[OffsetDeleted, ...]:
    """Tombstones of every group's positions on deleted topics."""
    return tuple(
        OffsetDeleted(group_id=group_id, topic_partition=topic_partition)
        for topic in sorted(topics)
        for group_id, topic_partition in shard.offsets.positions_on_topic(topic)
    )


def expire_offsets(
    shard: GroupShard,
    group: Group,
    *,
    retention_ms: int,
    now_ms: int,
    topic_partitions: Iterable[TopicPartition] | None = None,
) -> tuple[GroupRecord, ...]:
    """Tombstones of expired positions, and of the group if it has none left (KIP-211). A position
    that a transaction may still change stays.

    Args:
        shard: The group's shard.
        group: The group.
        retention_ms: ``offsets.retention.minutes``.
        now_ms: The cluster's time.
        topic_partitions: Only positions on these partitions, and not the group; None for
            everything.
    """
    group_id = group.group_id
    expiry_base_of = group.offsets_expire_from()

    def is_expired(record: OffsetCommitted) -> bool:
        topic_partition = record.topic_partition
        if expiry_base_of is None or group.has_subscriber(topic_partition.topic):
            return False
        if shard.offsets.is_pending(group_id, topic_partition):
            return False
        if record.expire_timestamp_ms != -1:
            return now_ms >= record.expire_timestamp_ms
        return now_ms - expiry_base_of(record.commit_timestamp_ms) >= retention_ms

    records: list[GroupRecord] = []
    keeps_positions = topic_partitions is not None or bool(
        shard.offsets.pending_partitions(group_id)
    )
    commits: Iterable[OffsetCommitted | None] = (
        shard.offsets.committed_offsets(group_id)
        if topic_partitions is None
        else (
            shard.offsets.committed_offset(group_id, topic_partition)
            for topic_partition in topic_partitions
        )
    )
    for record in commits:
        if record is not None and is_expired(record):
            records.append(OffsetDeleted(group_id=group_id, topic_partition=record.topic_partition))
        else:
            keeps_positions = True
    # A share group never expires.
    if not keeps_positions and group.is_empty and group.type is not GroupType.SHARE:
        records += group.tombstones()
    return tuple(records)

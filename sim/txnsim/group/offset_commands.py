"""Commands to a group coordinator about positions, and its answers.

Handlers have translated API versions, except the one that decides the error for a missing group.
"""

from __future__ import annotations

import uuid
from typing import Final

import msgspec

from txnsim.errors import ErrorCode
from txnsim.types import ProducerEpoch, ProducerId, TopicPartition, TransactionalId

NO_GENERATION: Final = -1


class NewPosition(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A position to commit."""

    topic_partition: TopicPartition
    offset: int
    leader_epoch: int = -1
    metadata: str | None = None
    topic_id: uuid.UUID | None = None


class CommitOffsets(msgspec.Struct, frozen=True, kw_only=True):
    """Commit positions of a group (OffsetCommit, TxnOffsetCommit)."""

    group_id: str
    member_id: str = ""
    group_instance_id: str | None = None
    generation: int = NO_GENERATION
    """Generation, or member epoch in the consumer protocol."""
    positions: tuple[NewPosition, ...]
    retention_ms: int = -1
    """Retention of these positions (up to v4); -1 for the coordinator's."""
    is_transactional: bool = False
    names_missing_group: bool = True
    """Whether a missing group has its own error (OffsetCommit v9); else it is an illegal
    generation.
    """
    names_stale_epoch: bool = True
    """Whether a stale member epoch has its own error (OffsetCommit, TxnOffsetCommit v6); else it is
    an illegal generation.
    """
    keeps_topic_ids: bool = True
    """Whether topic ids are stored (OffsetCommit, TxnOffsetCommit v6)."""
    api_version: int = 0
    """Version of the request; members of the consumer protocol need one with epochs."""


class CommittingProducer(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The producer and its transaction, for a commit of positions."""

    transactional_id: TransactionalId
    producer_id: ProducerId
    producer_epoch: ProducerEpoch


PartitionErrors = tuple[tuple[TopicPartition, ErrorCode], ...]


class FetchOffsets(msgspec.Struct, frozen=True, kw_only=True):
    """Read positions of a group."""

    group_id: str
    partitions: tuple[TopicPartition, ...] | None
    """None for all partitions with a position."""
    topic_ids: dict[str, uuid.UUID] = {}
    """Ids of the requested topics, if the request names topics by id."""
    member_id: str | None = None
    member_epoch: int = -1
    require_stable: bool = False
    """Whether a position that a transaction may still change is refused (KIP-447)."""


class FetchedPosition(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A position in an answer."""

    topic_partition: TopicPartition
    offset: int = -1
    leader_epoch: int = -1
    metadata: str = ""
    error: ErrorCode = ErrorCode.none


class DeleteOffsets(msgspec.Struct, frozen=True, kw_only=True):
    """Delete the positions of a group in partitions to which no member is subscribed."""

    group_id: str
    partitions: tuple[TopicPartition, ...]

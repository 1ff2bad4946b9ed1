"""Commands for a group coordinator about positions, and its answers.

API versions have been translated away by the handlers, but for the one that decides on the error of
a missing group.
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
    """Generation, or member epoch of the consumer protocol."""
    positions: tuple[NewPosition, ...]
    retention_ms: int = -1
    """Their own retention (up to v4); -1: the coordinator's."""
    is_transactional: bool = False
    missing_group_named: bool = True
    """A missing group may be called so (OffsetCommit v9); else it is an illegal generation."""
    stale_epoch_named: bool = True
    """A stale member epoch may be called so (OffsetCommit, TxnOffsetCommit v6); else it is an
    illegal generation.
    """
    keeps_topic_ids: bool = True
    """Ids of topics are written down (OffsetCommit, TxnOffsetCommit v6)."""
    api_version: int = 0
    """Version of the request: members of the consumer protocol need one with epochs."""


class CommittingProducer(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """On whose behalf positions are committed in a transaction."""

    transactional_id: TransactionalId
    producer_id: ProducerId
    producer_epoch: ProducerEpoch


PartitionErrors = tuple[tuple[TopicPartition, ErrorCode], ...]


class FetchOffsets(msgspec.Struct, frozen=True, kw_only=True):
    """Read positions of a group."""

    group_id: str
    partitions: tuple[TopicPartition, ...] | None
    """None: all that there are."""
    topic_ids: dict[str, uuid.UUID] = {}
    """Ids of the requested topics, where the request names them by id."""
    member_id: str | None = None
    member_epoch: int = -1
    require_stable: bool = False
    """A position that a transaction may still change is no answer (KIP-447)."""


class Position(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A position as it is answered."""

    topic_partition: TopicPartition
    offset: int = -1
    leader_epoch: int = -1
    metadata: str = ""
    error: ErrorCode = ErrorCode.none


class DeleteOffsets(msgspec.Struct, frozen=True, kw_only=True):
    """Delete positions of a group."""

    group_id: str
    partitions: tuple[TopicPartition, ...]

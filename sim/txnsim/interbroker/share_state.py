"""Commands between brokers about the state of share partitions, and their replies (KIP-932).

A partition's leader reads and writes the state; the group coordinator initialises and deletes it,
and reads its summary. The share coordinator of the key replies. One request has the partitions of
one group.
"""

from __future__ import annotations

import msgspec

UNKNOWN_OFFSET = -1
"""Stands for no start offset: none is given, or the share partition has none before its first
write.
"""


class ShareKey(msgspec.Struct, frozen=True, order=True, cache_hash=True, gc=False):
    """A share partition: a group and a partition of a topic (SharePartitionKey)."""

    group_id: str
    topic_id: str
    """The topic id in Kafka's text form (Uuid.toString)."""
    partition: int

    @property
    def coordinator_key(self) -> str:
        """The key for FindCoordinator: ``group:topicId:partition``."""
        return f"{self.group_id}:{self.topic_id}:{self.partition}"


class StateBatch(msgspec.Struct, frozen=True, order=True, gc=False):
    """The state of a range of offsets (PersisterStateBatch)."""

    first_offset: int
    last_offset: int
    """The last offset, inclusive."""
    delivery_state: int
    """0 available, 2 acknowledged, 4 archived."""
    delivery_count: int


class InitializeShareState(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One partition of InitializeShareGroupState."""

    key: ShareKey
    state_epoch: int
    start_offset: int = UNKNOWN_OFFSET


class ReadShareState(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One partition of ReadShareGroupState, and of ReadShareGroupStateSummary."""

    key: ShareKey
    leader_epoch: int = -1


class WriteShareState(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One partition of WriteShareGroupState."""

    key: ShareKey
    state_epoch: int
    leader_epoch: int
    start_offset: int = UNKNOWN_OFFSET
    delivery_complete_count: int = -1
    """Number of offsets from the start offset on whose delivery is complete (WriteShareGroupState
    v1).
    """
    batches: tuple[StateBatch, ...] = ()


class DeleteShareState(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One partition of DeleteShareGroupState."""

    key: ShareKey


class ShareStateError(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The result of initialising, writing or deleting one partition's state; the error is 0 on
    success.
    """

    key: ShareKey
    error: int = 0
    message: str | None = None


class ShareState(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The reply to ReadShareGroupState for one partition."""

    key: ShareKey
    error: int = 0
    message: str | None = None
    state_epoch: int = 0
    start_offset: int = UNKNOWN_OFFSET
    batches: tuple[StateBatch, ...] = ()


class ShareStateSummary(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The reply to ReadShareGroupStateSummary for one partition."""

    key: ShareKey
    error: int = 0
    message: str | None = None
    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = UNKNOWN_OFFSET
    delivery_complete_count: int = -1

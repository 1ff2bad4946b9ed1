"""Commands between brokers about the state of share partitions, and their answers (KIP-932).

The leader of a partition asks and writes; the group coordinator initialises, deletes and sums up.
The share coordinator of the key answers. One request has the partitions of one group.
"""

from __future__ import annotations

import msgspec

UNKNOWN_OFFSET = -1
"""No start offset is given, or the share partition has none before its first write."""


class ShareKey(msgspec.Struct, frozen=True, order=True, cache_hash=True, gc=False):
    """A share partition: a group and a partition of a topic (SharePartitionKey)."""

    group_id: str
    topic_id: str
    """As Kafka writes a Uuid."""
    partition: int

    @property
    def coordinator_key(self) -> str:
        """What FindCoordinator asks with: ``group:topicId:partition``."""
        return f"{self.group_id}:{self.topic_id}:{self.partition}"


class StateBatch(msgspec.Struct, frozen=True, order=True, gc=False):
    """The state of a range of offsets (PersisterStateBatch)."""

    first_offset: int
    last_offset: int
    """Inclusive."""
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
    """Offsets from the start on whose delivery is complete; from v1 on."""
    batches: tuple[StateBatch, ...] = ()


class DeleteShareState(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One partition of DeleteShareGroupState."""

    key: ShareKey


class ShareStateError(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The answer to an initialise, a write or a delete of one partition; 0 where it is done."""

    key: ShareKey
    error: int = 0
    message: str | None = None


class ShareState(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The answer to a read of one partition."""

    key: ShareKey
    error: int = 0
    message: str | None = None
    state_epoch: int = 0
    start_offset: int = UNKNOWN_OFFSET
    batches: tuple[StateBatch, ...] = ()


class ShareStateSummary(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The answer to a summary of one partition."""

    key: ShareKey
    error: int = 0
    message: str | None = None
    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = UNKNOWN_OFFSET
    delivery_complete_count: int = -1

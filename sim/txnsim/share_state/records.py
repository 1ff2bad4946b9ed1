"""The records of ``__share_group_state``: one frozen value per kind of record.

Counterpart in Kafka: ShareCoordinatorRecordHelpers, ShareGroupOffset.
"""

from __future__ import annotations

import msgspec

from txnsim.interbroker.share_state import ShareKey, StateBatch


class ShareSnapshot(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The whole state of a share partition (ShareSnapshotValue)."""

    key: ShareKey
    snapshot_epoch: int = 0
    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int
    delivery_complete_count: int
    create_timestamp_ms: int = 0
    write_timestamp_ms: int = 0
    """Later than ``create_timestamp_ms`` if an unchanged state was written again."""
    batches: tuple[StateBatch, ...] = ()


class ShareUpdate(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A change since the last snapshot or update (ShareUpdateValue)."""

    key: ShareKey
    snapshot_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...] = ()


class ShareDeleted(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The tombstone of a share partition."""

    key: ShareKey


ShareRecord = ShareSnapshot | ShareUpdate | ShareDeleted

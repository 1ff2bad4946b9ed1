"""Finds the open transactions of a replica: from snapshots if they suffice, else from its segments.
Pure.

A *fragment* is what one producer did in a piece of a log: the epoch of its last marker, and the
transaction after that marker. Pieces are merged in the order of the log. The result is what is
open at the end: the first transaction that began after the last marker of all.

A producer in a snapshot is a fragment of everything below the snapshot's offset, so a log is read
only from there on. Kafka's counterparts: ProducerStateManager.truncateAndReload,
ProducerAppendInfo.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from txnsim.log.producer_snapshot import SnapshotEntry
from txnsim_spark.forensics.verdicts import OpenTxn

BEFORE_EVERYTHING: Final = -1
"""Sorts the fragment of a snapshot in front of all pieces."""


class Fragment(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What one producer did in one piece of a log: what matters for open transactions."""

    producer_id: int
    first_offset: int
    """Offset of its first batch in the piece; pieces are sorted by it."""
    markers: int = 0
    coordinator_epoch: int | None = None
    """Coordinator epoch in the last marker; None before the first marker."""
    open_offset: int | None = None
    """First offset of a transaction after the last marker; None without one."""
    open_position: int | None = None
    """Position in the segment of the batch that begins it, if a search for the offset would find
    that batch.
    """
    open_timestamp_ms: int | None = None
    open_last_timestamp_ms: int | None = None
    open_epoch: int | None = None


def merge_fragments(fragments: Iterable[Fragment]) -> OpenTxn | None:
    """The transaction that a producer has open at the end of a replica.

    Args:
        fragments: All of its fragments, in any order; at least one.
    """
    fragments_by_offset = sorted(fragments, key=lambda fragment: fragment.first_offset)
    marker_indexes = [
        index for index, fragment in enumerate(fragments_by_offset) if fragment.markers
    ]
    fragments_since_marker = (
        fragments_by_offset[marker_indexes[-1] :] if marker_indexes else fragments_by_offset
    )
    open_fragments = [
        fragment for fragment in fragments_since_marker if fragment.open_offset is not None
    ]
    if not open_fragments:
        return None
    first_open_fragment, last_open_fragment = open_fragments[0], open_fragments[-1]
    coordinator_epochs = [
        fragment.coordinator_epoch
        for fragment in fragments_by_offset
        if fragment.coordinator_epoch is not None
    ]
    assert first_open_fragment.open_offset is not None
    assert last_open_fragment.open_epoch is not None
    assert last_open_fragment.open_last_timestamp_ms is not None
    return OpenTxn(
        producer_id=first_open_fragment.producer_id,
        producer_epoch=last_open_fragment.open_epoch,
        start_offset=first_open_fragment.open_offset,
        start_position=first_open_fragment.open_position,
        start_timestamp_ms=first_open_fragment.open_timestamp_ms,
        last_timestamp_ms=last_open_fragment.open_last_timestamp_ms,
        coordinator_epoch=coordinator_epochs[-1] if coordinator_epochs else None,
    )


def open_transactions_after(
    seed_by_producer: Mapping[int, SnapshotEntry],
    fragments_by_piece: Sequence[Mapping[int, Fragment]],
) -> dict[int, OpenTxn]:
    """Producer id -> its open transaction at the end of a log, by its entry in the snapshot where
    reading began and its fragment of each piece.
    """
    fragments_by_producer: dict[int, list[Fragment]] = {
        entry.producer_id: [fragment_of_snapshot(entry)] for entry in seed_by_producer.values()
    }
    for fragment_by_producer in fragments_by_piece:
        for producer_id, fragment in fragment_by_producer.items():
            fragments_by_producer.setdefault(producer_id, []).append(fragment)
    merged_txns = (
        (producer_id, merge_fragments(fragments))
        for producer_id, fragments in fragments_by_producer.items()
    )
    return {producer_id: txn for producer_id, txn in merged_txns if txn is not None}


def fragment_of_snapshot(entry: SnapshotEntry) -> Fragment:
    """The fragment that a snapshot's entry stands for: all that lies below the snapshot."""
    is_open = entry.txn_first_offset >= 0
    return Fragment(
        producer_id=entry.producer_id,
        first_offset=BEFORE_EVERYTHING,
        coordinator_epoch=entry.coordinator_epoch if entry.coordinator_epoch >= 0 else None,
        open_offset=entry.txn_first_offset if is_open else None,
        open_last_timestamp_ms=entry.timestamp if is_open else None,
        open_epoch=entry.producer_epoch if is_open else None,
    )

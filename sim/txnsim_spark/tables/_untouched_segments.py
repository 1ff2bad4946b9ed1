"""Segments that some producers wrote nothing to, as the snapshots at their two ends say.

A broker takes a snapshot of its producers where a segment begins. Where a producer's entry is the
same in front of a closed segment and behind it, no batch in between is the producer's: each changes
the entry. (One that ends nothing, of the coordinator's same epoch and in the same millisecond as
the batch before, leaves it as it is.) A producer without an entry may have written and been
forgotten since, so nothing is known of it. Kafka's counterparts:
ProducerStateManager.takeSnapshot, ProducerAppendInfo.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from txnsim.errors import CorruptLogRecordError
from txnsim.log.producer_state import SnapshotEntry
from txnsim.storage import names, producer_snapshot
from txnsim.storage.regular_file import RegularFile
from txnsim_spark.scan.segments import SegmentFile


def not_silent(
    segments: Sequence[SegmentFile], producer_ids: frozenset[int] | None
) -> Iterator[SegmentFile]:
    """The segments that may hold batches of some producers.

    Args:
        segments: In order.
        producer_ids: The producers; None: any.
    """
    path = Path()
    entries: Mapping[int, SnapshotEntry] = {}
    for segment in segments:
        if producer_ids is None or segment.is_last or segment.is_recovered:
            yield segment
            continue
        front = _snapshot(segment, segment.base_offset)
        entries_before = entries if front == path else _entries(front)
        path = _snapshot(segment, segment.next_base_offset or 0)
        entries = _entries(path)
        if not all(
            producer_id in entries_before
            and entries_before[producer_id] == entries.get(producer_id)
            for producer_id in producer_ids
        ):
            yield segment


def _snapshot(segment: SegmentFile, offset: int) -> Path:
    return Path(segment.replica.path) / names.Suffix.SNAPSHOT.at(offset)


def _entries(path: Path) -> Mapping[int, SnapshotEntry]:
    """Producer id -> entry of the snapshot at an offset; empty without a sound snapshot."""
    try:
        return {
            entry.producer_id: entry for entry in producer_snapshot.decode(RegularFile(path).read())
        }
    except (OSError, CorruptLogRecordError):
        return {}

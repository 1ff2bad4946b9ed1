"""Finds segments without batches of some producers, from the snapshots at both of their ends. A
broker takes a snapshot of its producers when a segment begins. If a producer's entry is the same
before and after a closed segment, no batch between is the producer's, since each batch changes the
entry. (One that ends nothing, of the coordinator's same epoch and in the same millisecond as the
batch before, does not change it.) A producer without an entry may have written and been forgotten
since, so nothing is known of it. Kafka's counterparts: ProducerStateManager.takeSnapshot,
ProducerAppendInfo.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from txnsim.errors import CorruptLogRecordError
from txnsim.log.producer_snapshot import SnapshotEntry
from txnsim.storage import names, producer_snapshot
from txnsim.storage.regular_file import RegularFile
from txnsim_spark.scan.segments import SegmentFile


def segments_with_batches(
    segments: Sequence[SegmentFile], producer_ids: frozenset[int] | None
) -> Iterator[SegmentFile]:
    """The segments that may hold batches of some producers.

    Args:
        segments: In order.
        producer_ids: The producers; None for all.
    """
    snapshot_path = Path()
    entry_by_producer: Mapping[int, SnapshotEntry] = {}
    for segment in segments:
        if producer_ids is None or segment.is_last or segment.is_recovered:
            yield segment
            continue
        snapshot_path_before = _snapshot_path(segment, segment.base_offset)
        entry_by_producer_before = (
            entry_by_producer
            if snapshot_path_before == snapshot_path
            else _entries_in_file(snapshot_path_before)
        )
        snapshot_path = _snapshot_path(segment, segment.next_base_offset or 0)
        entry_by_producer = _entries_in_file(snapshot_path)
        if not all(
            producer_id in entry_by_producer_before
            and entry_by_producer_before[producer_id] == entry_by_producer.get(producer_id)
            for producer_id in producer_ids
        ):
            yield segment


def _snapshot_path(segment: SegmentFile, offset: int) -> Path:
    return Path(segment.replica.path) / names.Suffix.SNAPSHOT.file_name(offset)


def _entries_in_file(path: Path) -> Mapping[int, SnapshotEntry]:
    """Producer id -> entry of the snapshot at an offset; empty without a sound snapshot."""
    try:
        return {
            entry.producer_id: entry for entry in producer_snapshot.decode(RegularFile(path).read())
        }
    except (OSError, CorruptLogRecordError):
        return {}

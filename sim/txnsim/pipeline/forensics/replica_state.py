"""How a replica was left, by its small files: how far its log goes, what is known of its producers
without reading it, and which segments are left to read.

A broker that stopped in order left a snapshot of producer state at the log's end: nothing is left
to read then. One that was killed left snapshots where segments begin, as of which it would go on
itself when it starts again: the segments behind the last of them are left. A snapshot that can't
be read is passed over for an older one. Kafka's counterparts: LogLoader, LogManager.loadLog,
ProducerStateManager.loadFromSnapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from txnsim.errors import CorruptLogRecordError
from txnsim.log.producer_state import SnapshotEntry
from txnsim.pipeline.forensics.verdicts import ReplicaEnds
from txnsim.pipeline.scan.log_dirs import LogDirectory, OnProblem, read_small
from txnsim.pipeline.scan.log_seek import end_offset_of
from txnsim.pipeline.scan.segments import Replica, SegmentFile, segments_of
from txnsim.storage import checkpoints, names, producer_snapshot

_TIMED: Final = (names.HIGH_WATERMARKS_NAME, names.CLEAN_SHUTDOWN_NAME)
"""Files of a log directory whose time tells when the broker was last there."""


class LogDirNotes(msgspec.Struct, frozen=True, kw_only=True):
    """What a broker had noted of all replicas in a log directory."""

    directory: LogDirectory
    newest_ms: int
    """When one of its notes was last written; -1 where there is none."""


class ReplicaState(msgspec.Struct, frozen=True, kw_only=True):
    """A replica, as far as its small files tell."""

    ends: ReplicaEnds
    segments: tuple[SegmentFile, ...]
    seeds: Mapping[int, SnapshotEntry] = {}
    """Producer id -> its entry in the snapshot that is gone on from."""
    seeded_from: int | None = None
    """That snapshot's offset; None without one."""
    unread: tuple[SegmentFile, ...] = ()
    """The segments behind it. Empty: ``seeds`` is how things stood at the end."""
    is_clean: bool = False
    """Its broker stopped in order."""
    newest_ms: int = -1
    """When a segment was last written to."""

    @property
    def replica(self) -> Replica:
        """Whose state it is."""
        return self.ends.replica

    @property
    def unread_bytes(self) -> int:
        """Of segments that are left to read."""
        return sum(segment.size for segment in self.unread)


def notes_of(log_dir: Path, on_problem: OnProblem) -> LogDirNotes:
    """The notes in a log directory; what is missing or can't be read says nothing."""
    return LogDirNotes(
        directory=LogDirectory.at(log_dir, on_problem),
        newest_ms=max((_modified_ms(log_dir / name) for name in _TIMED), default=-1),
    )


def state_of(
    replica: Replica, notes: LogDirNotes, on_problem: OnProblem, *, use_snapshots: bool = True
) -> ReplicaState:
    """Look at one replica.

    Args:
        replica: Which.
        notes: Of its log directory.
        on_problem: Told of files that make no sense.
        use_snapshots: Without, every segment is left to read.

    Raises:
        OSError: The folder or a segment can't be read.
    """
    directory = notes.directory
    segments = tuple(segments_of(replica, directory))
    partition = replica.topic_partition
    oldest = segments[0].base_offset if segments else 0
    snapshots = _snapshots(Path(replica.path)) if use_snapshots else ()
    end = _end_of(segments, snapshots, is_clean=directory.is_clean)
    epochs = Path(replica.path) / names.LEADER_EPOCHS_NAME
    ends = ReplicaEnds(
        replica=replica,
        log_start_offset=max(oldest, directory.log_starts.get(partition, oldest)),
        end_offset=end,
        high_watermark=directory.high_watermarks.get(partition),
        epochs=read_small(epochs, checkpoints.decode_leader_epochs, on_problem) or (),
    )
    starts = {end, *(segment.base_offset for segment in segments)}
    offset, seeds = _newest(
        [(at, path) for at, path in snapshots if at in starts and at <= end], on_problem
    )
    unread = tuple(
        segment
        for segment in segments
        if segment.size and offset != end and (offset is None or segment.base_offset >= offset)
    )
    if not unread:  # then only what is open is asked for: all else would be kept for nothing
        seeds = {one: entry for one, entry in seeds.items() if entry.txn_first_offset >= 0}
    return ReplicaState(
        ends=ends,
        segments=segments,
        seeds=seeds,
        seeded_from=offset,
        unread=unread,
        is_clean=directory.is_clean,
        newest_ms=max((_modified_ms(Path(segment.path)) for segment in segments), default=-1),
    )


def _end_of(
    segments: Sequence[SegmentFile],
    snapshots: Sequence[tuple[int, Path]],
    *,
    is_clean: bool,
) -> int:
    """Where the log ends. A snapshot behind the last segment's start is written as a broker stops,
    and what it says is taken for it; else the last segment is asked.
    """
    if not segments:
        return 0
    last = segments[-1]
    if is_clean and snapshots and snapshots[-1][0] > last.base_offset:
        return snapshots[-1][0]
    return end_offset_of(last)


def _snapshots(directory: Path) -> tuple[tuple[int, Path], ...]:
    return names.numbered_files(directory, names.SNAPSHOT_SUFFIX)


def _newest(
    snapshots: Iterable[tuple[int, Path]], on_problem: OnProblem
) -> tuple[int | None, Mapping[int, SnapshotEntry]]:
    """The newest one that can be read."""
    for offset, path in sorted(snapshots, reverse=True):
        try:
            entries = producer_snapshot.decode(path.read_bytes())
        except (OSError, CorruptLogRecordError) as error:
            on_problem(f"{path}: {error}; an older one is taken")
            continue
        return offset, {entry.producer_id: entry for entry in entries}
    return None, {}


def _modified_ms(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns // 1_000_000
    except FileNotFoundError:
        return -1

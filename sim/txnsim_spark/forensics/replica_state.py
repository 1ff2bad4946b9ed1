"""The state of a replica, from its small files. They say how far its log goes, what is known of its
producers without reading it, and which segments have to be read.

A broker that was stopped in order left a snapshot of producer state at the log's end, and nothing
has to be read. A broker that was killed left snapshots where segments begin, and would start from
them itself: the segments after the last snapshot have to be read. Where a snapshot can't be read,
an older one is used. Kafka's counterparts: LogLoader, LogManager.loadLog,
ProducerStateManager.loadFromSnapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from txnsim.errors import CorruptLogRecordError
from txnsim.log.producer_snapshot import SnapshotEntry
from txnsim.storage import checkpoints, names, producer_snapshot
from txnsim.storage.regular_file import RegularFile
from txnsim_spark.forensics.verdicts import ReplicaEnds
from txnsim_spark.scan.log_dirs import (
    LogDirectory,
    OnProblem,
    ignore_problem,
    modified_ms,
    read_small,
    topic_id_of,
)
from txnsim_spark.scan.log_seek import tail_of
from txnsim_spark.scan.segments import Replica, Section, SegmentFile, segments_of


class SegmentMemory(msgspec.Struct, frozen=True, kw_only=True):
    """The result for a sound segment, up to the position read."""

    size: int
    next_base_offset: int | None
    """Base offset of the next segment when the segment was read; None for the last one."""
    fragments: bytes = b""
    """Rows of ``walk.fragment_rows``, as bytes."""
    gaps: tuple[tuple[int, int], ...] = ()


class ReplicaMemory(msgspec.Struct, frozen=True, kw_only=True):
    """The saved state of a replica from the previous search (``since``)."""

    topic_id: str | None = None
    end_offset: int = 0
    """Offset after the last batch that was read."""
    last_position: int = 0
    last_header: bytes = b""
    """Header of that batch."""
    newest: int = -1
    """Base offset of the segment with that batch."""
    segments: Mapping[int, SegmentMemory] = {}
    """Base offset -> saved result of the segment."""

    def memory_of_segment(self, segment: SegmentFile) -> SegmentMemory | None:
        """The saved result of a segment, if still valid."""
        segment_memory = self.segments.get(segment.base_offset)
        if segment_memory is None or segment.base_offset == self.newest:
            return segment_memory
        is_same = (segment_memory.size, segment_memory.next_base_offset) == (
            segment.size,
            segment.next_base_offset,
        )
        return segment_memory if is_same else None

    def unread_part(self, segment: SegmentFile) -> SegmentFile | None:
        """The unread rest of a segment; None if fully read."""
        segment_memory = self.memory_of_segment(segment)
        if segment_memory is None:
            return segment
        if (segment_memory.size, segment_memory.next_base_offset) == (
            segment.size,
            segment.next_base_offset,
        ):
            return None
        section = Section(
            start=segment_memory.size,
            first_offset=self.end_offset,
            next_offset=segment.next_base_offset,
            has_followers=False,
        )
        return msgspec.structs.replace(segment, section=section)


class ReplicaState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a replica, from its small files."""

    ends: ReplicaEnds
    segments: tuple[SegmentFile, ...]
    seed_by_producer: Mapping[int, SnapshotEntry] = {}
    """Producer id -> its entry in the snapshot from which reading goes on."""
    snapshot_offset: int | None = None
    """That snapshot's offset; None without one."""
    unread_segments: tuple[SegmentFile, ...] = ()
    """The segments after that snapshot. Where there are none, ``seeds`` is the state at the log's
    end.
    """
    is_clean: bool = False
    """Whether its broker stopped in order."""
    recovery_point: int | None = None
    """Recovery point in the checkpoint file; None if it is missing there."""
    damage: tuple[str, ...] = ()
    """Unreadable files and implausible ends, each with its place."""
    lost_end: str = ""
    """Signs in its files that the log was longer; empty without any."""
    newest_ms: int = -1
    """Newest modification time of a segment; -1 without one."""
    topic_id: str | None = None
    """None where unknown, as before Kafka 2.8."""
    memory: ReplicaMemory | None = None
    """Results of the previous search; None where no results are saved."""

    @property
    def unread_parts(self) -> tuple[SegmentFile, ...]:
        if self.memory is None:
            return self.unread_segments
        unread_segments = map(self.memory.unread_part, self.unread_segments)
        return tuple(segment for segment in unread_segments if segment is not None)

    @property
    def replica(self) -> Replica:
        return self.ends.replica

    @property
    def shortcomings(self) -> tuple[str, ...]:
        """Offsets that its broker had recorded and that are after the log's end, in words."""
        end_offset = self.ends.end_offset
        recorded_offsets = {
            "high watermark": self.ends.high_watermark,
            "recovery point": self.recovery_point,
        }
        return tuple(
            f"ends at offset {end_offset}, below its {offset_name} {offset}"
            for offset_name, offset in recorded_offsets.items()
            if offset is not None and offset > end_offset
        )

    @property
    def unread_bytes(self) -> int:
        return sum(segment.unread_bytes for segment in self.unread_parts)


def state_of(
    replica: Replica,
    log_directory: LogDirectory | None = None,
    on_problem: OnProblem = ignore_problem,
    *,
    uses_snapshots: bool = True,
) -> ReplicaState:
    """The state of one replica.

    Args:
        replica: The replica.
        log_directory: The small files of its log directory; read unless given.
        on_problem: Called with malformed files.
        uses_snapshots: Whether snapshots are used; otherwise every segment is unread.
    """
    log_directory = log_directory or LogDirectory.read(Path(replica.log_dir), on_problem)
    damage_texts: list[str] = []
    segments = _readable_segments(segments_of(replica, log_directory), damage_texts.append)
    partition = replica.topic_partition
    recovery_point = (log_directory.recovery_points or {}).get(partition)
    oldest_offset = segments[0].base_offset if segments else 0
    snapshots = names.Suffix.SNAPSHOT.files_in(Path(replica.path))
    end_offset = _log_end_offset(segments, damage_texts.append)
    for problem in damage_texts:
        on_problem(problem)
    epochs_file = Path(replica.path) / names.FileName.LEADER_EPOCHS
    ends = ReplicaEnds(
        replica=replica,
        log_start_offset=max(oldest_offset, log_directory.log_starts.get(partition, oldest_offset)),
        end_offset=end_offset,
        high_watermark=log_directory.high_watermarks.get(partition),
        epochs=read_small(epochs_file, checkpoints.decode_leader_epochs, on_problem) or (),
    )
    segment_bounds = {end_offset, *(segment.base_offset for segment in segments)}
    # A starting broker goes through what is to be recovered, so nothing in it is taken for granted.
    recovered_offsets = [segment.base_offset for segment in segments if segment.is_recovered]
    offset_max = min([end_offset, *recovered_offsets])
    usable_snapshots = [
        (start, path)
        for start, path in snapshots
        if start in segment_bounds and start <= offset_max
    ]
    offset, seed_by_producer = _newest_snapshot(
        usable_snapshots if uses_snapshots else [], on_problem
    )
    unread_segments = _unread_segments(segments, offset, end_offset)
    if not unread_segments:
        # Then only what is open is asked for: all else would be kept for nothing.
        seed_by_producer = {
            key: entry for key, entry in seed_by_producer.items() if entry.txn_first_offset >= 0
        }
    return ReplicaState(
        ends=ends,
        segments=segments,
        seed_by_producer=seed_by_producer,
        snapshot_offset=offset,
        unread_segments=unread_segments,
        is_clean=log_directory.is_clean,
        recovery_point=recovery_point,
        damage=tuple(damage_texts),
        lost_end=_lost_end_sign(
            end_offset,
            snapshots,
            segments,
            recovery_point=None if log_directory.is_clean else recovery_point,
        ),
        newest_ms=max((modified_ms(Path(segment.path)) for segment in segments), default=-1),
        topic_id=topic_id_of(Path(replica.path), on_problem),
    )


def _unread_segments(
    segments: Sequence[SegmentFile], snapshot_offset: int | None, end_offset: int
) -> tuple[SegmentFile, ...]:
    """The segments of which no snapshot tells."""
    unread_segments = tuple(
        segment
        for segment in segments
        if (segment.is_recovered or snapshot_offset != end_offset)
        and (snapshot_offset is None or segment.base_offset >= snapshot_offset)
    )
    if len(unread_segments) == 1 and not unread_segments[0].size:
        return ()  # beside others, an empty segment shows how far the one before it went
    return unread_segments


def _readable_segments(
    segments: Iterable[SegmentFile], on_damage: OnProblem
) -> tuple[SegmentFile, ...]:
    """The segments that can be opened; the others are reported."""
    segments_read = []
    for segment in segments:
        reason = RegularFile(Path(segment.path)).why_unreadable()
        if reason:
            on_damage(f"{segment.path}: {reason}; passed by")
        else:
            segments_read.append(segment)
    return tuple(segments_read)


def _log_end_offset(segments: Sequence[SegmentFile], on_damage: OnProblem) -> int:
    """End of the log, from its last segment; a snapshot may be after it. What a starting broker
    would cut off is reported when the segment is read.
    """
    if not segments:
        return 0
    last_segment = segments[-1]
    try:
        tail = tail_of(last_segment)
    except OSError as error:
        on_damage(f"{last_segment.path}: {error.strerror}; passed by")
        return last_segment.base_offset
    if tail.problem and not last_segment.is_recovered:
        on_damage(tail.problem)
    return tail.end_offset


def _lost_end_sign(
    end_offset: int,
    snapshots: Sequence[tuple[int, Path]],
    segments: Sequence[SegmentFile],
    *,
    recovery_point: int | None,
) -> str:
    """Signs in snapshots that a log was longer: one lies after its end; or one lies at the end
    where no segment begins. A broker that stops in order writes one there too, but it also notes
    the recovery point there, so that one is no sign.
    """
    snapshot_offsets_beyond = [offset for offset, _ in snapshots if offset > end_offset]
    if snapshot_offsets_beyond:
        return (
            f"the log ends at offset {end_offset}, but there is a snapshot of offset"
            f" {snapshot_offsets_beyond[-1]}"
        )
    if len(segments) > 1 and not segments[-1].size:
        return (
            f"the segment from offset {end_offset} on is empty, and brokers make one as they"
            " write to it"
        )
    has_snapshot_at_end = any(offset == end_offset for offset, _ in snapshots)
    if not has_snapshot_at_end or recovery_point is None or recovery_point >= end_offset:
        return ""
    if any(segment.base_offset == end_offset for segment in segments):
        return ""
    return f"there is a snapshot of offset {end_offset}, but no segment that begins there"


def _newest_snapshot(
    snapshots: Iterable[tuple[int, Path]], on_problem: OnProblem
) -> tuple[int | None, Mapping[int, SnapshotEntry]]:
    """The newest snapshot that can be read."""
    for offset, path in sorted(snapshots, reverse=True):
        try:
            snapshot_entries = producer_snapshot.decode(RegularFile(path).read())
        except (OSError, CorruptLogRecordError) as error:
            reason = (error.strerror if isinstance(error, OSError) else "") or str(error)
            on_problem(f"{path}: {reason}; an older one is taken")
            continue
        return offset, {entry.producer_id: entry for entry in snapshot_entries}
    return None, {}

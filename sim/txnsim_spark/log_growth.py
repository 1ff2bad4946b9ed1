"""Finds how far log directories have grown: the offsets of
``spark.readStream.format("kafka_log")``.

A table of records (``RECORD_TABLES``) gives each row once. For each replica its stream offset has
the offset in the log after the last complete batch, so a batch of rows that is repeated after a
crash is the same. A replica's place is its topic's id, its partition and its broker, not its
folder: a disk may be mounted elsewhere, and a topic that was created again is another one. If data
is gone before it was read, the query ends with an error (``lost_unread_rows``), unless it allows
this.

Every other table shows the present state, and a change in one file may change any of its rows. Its
stream offset names a state of all files. When that state changes, the whole table is read again.
"""

from __future__ import annotations

import hashlib
import heapq
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice
from pathlib import Path
from typing import Final

import msgspec

from txnsim_spark.empty_reads import refuse_unknown_names, refuse_unreadable
from txnsim_spark.log_query import RowScope
from txnsim_spark.options import KafkaLogOptions
from txnsim_spark.planning import (
    FILES_OF_TABLE,
    Share,
    divide_in_tasks,
    position_near,
    replicas_of,
    segments_in,
    shares_of,
    start_at_offset,
)
from txnsim_spark.scan.log_dirs import meta_of, topic_id_of
from txnsim_spark.scan.log_seek import end_offset_of
from txnsim_spark.scan.sections import cut_at, cut_behind
from txnsim_spark.scan.segments import Replica, SegmentFile, log_dirs_in
from txnsim_spark.schemas import DECODED_TABLES
from txnsim_spark.stores.mirror import overlapping_map, with_store_names
from txnsim_spark.stream_scope import StreamScope, refuse_mismatch, refuse_other_logs

RECORD_TABLES: Final = frozenset({"batches", "endings", *DECODED_TABLES})
"""Tables of records: their rows never change, since each is made of appended data."""


class StreamOffset(msgspec.Struct, frozen=True, kw_only=True):
    """How far a stream has read; empty for a new stream."""

    ends: dict[str, int] = {}
    """For a table in ``RECORD_TABLES``: place of a replica -> offset in its log after the part that
    was read.
    """
    state: str = ""
    """For the other tables: a hash of the state of the files that was read."""
    scope: StreamScope | None = None
    """What the stream reads; None for a new stream, and in offsets of older releases."""

    @property
    def is_new(self) -> bool:
        return not self.ends and not self.state


class LogListing(msgspec.Struct, frozen=True, kw_only=True):
    """The files at one moment; all rows of a batch are from the same look."""

    options: KafkaLogOptions
    scope: StreamScope
    segments: Mapping[str, tuple[SegmentFile, ...]] = {}
    """For a table in ``RECORD_TABLES``: place of a replica -> its segments, in order."""


def list_logs(options: KafkaLogOptions) -> LogListing:
    log_dir_metas = map(meta_of, log_dirs_in(options.paths))
    clusters = frozenset(
        log_dir_meta.cluster_id
        for log_dir_meta in log_dir_metas
        if log_dir_meta is not None and log_dir_meta.cluster_id
    )
    scope = StreamScope.of(options, clusters)
    if options.table not in RECORD_TABLES:
        return LogListing(options=options, scope=scope)
    listed_segments = segments_in(options, FILES_OF_TABLE[options.table])
    segments_by_folder = {path: segments for path, segments in listed_segments.items() if segments}
    place_by_replica = _places_of([segments[0].replica for segments in segments_by_folder.values()])
    segments = dict(zip(place_by_replica, segments_by_folder.values(), strict=True))
    return LogListing(options=options, scope=scope, segments=segments)


def _places_of(replicas: Sequence[Replica]) -> list[str]:
    """The name of each replica's place. It includes the folder only if two replicas are of one
    broker and partition.
    """
    place_names = []
    for replica in replicas:
        topic_id = topic_id_of(Path(replica.path))
        topic_id_suffix = "" if topic_id is None else f":{topic_id}"
        place_names.append(f"{replica.topic_partition}{topic_id_suffix}@{replica.broker}")
    name_counts = Counter(place_names)
    return [
        place_name
        if name_counts[place_name] == 1
        else f"{place_name}:{with_store_names(replica.path)}"
        for place_name, replica in zip(place_names, replicas, strict=True)
    ]


def refuse_other_stream(listing: LogListing, stream_start: StreamOffset) -> None:
    """Refuse to continue from the offset of another stream.

    Raises:
        CheckpointMismatchError: The offset is of another stream; the message names the difference.
    """
    if not stream_start.is_new:
        refuse_mismatch(stream_start.scope, listing.scope)
        refuse_other_logs(stream_start.ends, listing.segments)


def refuse_empty_stream(listing: LogListing) -> None:
    """Refuse a new stream that would never have a row.

    Raises:
        BadInputError: A topic or partition does not exist, or nothing can be read.
    """
    options, problems = listing.options, list[str]()
    known_replicas = replicas_of(
        options, RowScope(), FILES_OF_TABLE[options.table], problems.append
    )
    refuse_unknown_names(options, known_replicas)
    segments = (
        segment for replica_segments in listing.segments.values() for segment in replica_segments
    )
    refuse_unreadable(options.table, known_replicas, segments, problems)


class LogEnds:
    """Finds the ends of logs. A log that has not changed since the last look is not read again."""

    def __init__(self) -> None:
        self._known_end_by_path: dict[str, tuple[SegmentFile, int, int]] = {}
        """Folder of a replica -> its last segment, the segment's modification time, the end of the
        log.
        """

    def end_offsets(self, segments: Mapping[str, tuple[SegmentFile, ...]]) -> dict[str, int]:
        """Place of each replica -> the end of its log. Replicas that can't be read now are left
        out, as a later look may find them.
        """
        last_segments = {
            partition: segments_of_replica[-1]
            for partition, segments_of_replica in segments.items()
        }
        with overlapping_map(segment.path for segment in last_segments.values()) as map_segments:
            end_offsets: dict[str, int | None] = dict(
                zip(
                    last_segments,
                    map_segments(self._end_offset_or_none, last_segments.values()),
                    strict=True,
                )
            )
        return {
            partition: end_offset
            for partition, end_offset in end_offsets.items()
            if end_offset is not None
        }

    def _end_offset_or_none(self, last_segment: SegmentFile) -> int | None:
        replica_folder = last_segment.replica.path
        try:
            written_ns = os.stat(last_segment.path).st_mtime_ns
            known_end = self._known_end_by_path.get(replica_folder)
            if known_end is None or known_end[:2] != (last_segment, written_ns):
                known_end = self._known_end_by_path[replica_folder] = (
                    last_segment,
                    written_ns,
                    end_offset_of(last_segment),
                )
        except OSError:
            return None
        return known_end[2]


def latest_offset(
    listing: LogListing, stream_start: StreamOffset, log_ends: LogEnds
) -> StreamOffset:
    """How far a stream can read now; equal to ``stream_start`` if there is nothing new."""
    if listing.options.table not in RECORD_TABLES:
        return StreamOffset(state=_files_state(listing.options), scope=listing.scope)
    return updated_offset(
        stream_start, StreamOffset(ends=log_ends.end_offsets(listing.segments), scope=listing.scope)
    )


def updated_offset(offset: StreamOffset, other_offset: StreamOffset) -> StreamOffset:
    """The second stream offset, and of the first one the places that the second lacks. A log that
    was cut back goes on from there: a query that may not miss rows was stopped before
    (``lost_unread_rows``).
    """
    return StreamOffset(
        ends={**offset.ends, **other_offset.ends},
        state=other_offset.state,
        scope=other_offset.scope,
    )


def lost_unread_rows(
    listing: LogListing, stream_start: StreamOffset, stream_end: StreamOffset
) -> Iterator[str]:
    """Sentences about rows that a stream can't read any more because logs have lost data."""
    if listing.options.table not in RECORD_TABLES:
        return
    for partition, reached_offset in stream_start.ends.items():
        segments = listing.segments.get(partition)
        if segments is None:
            yield f"{partition}: it is not there any more (read up to offset {reached_offset})"
        elif segments[0].base_offset > reached_offset:
            last_offset = segments[0].base_offset - 1
            yield (
                f"{partition}: offsets {reached_offset} to {last_offset} are gone, and were not"
                " read"
            )
        elif stream_end.ends.get(partition, reached_offset) < reached_offset:
            end_offset = stream_end.ends[partition]
            yield (
                f"{partition}: it was read up to offset {reached_offset}, and ends at {end_offset}"
            )


def offsets_behind(
    listing: LogListing, reached_offset: StreamOffset, logs_end_offset: StreamOffset
) -> int:
    """Number of offsets by which a stream is behind the ends of the logs."""
    return sum(
        max(
            0,
            end_offset
            - reached_offset.ends.get(partition, listing.segments[partition][0].base_offset),
        )
        for partition, end_offset in logs_end_offset.ends.items()
        if partition in listing.segments
    )


def shares_between(
    listing: LogListing, stream_start: StreamOffset, stream_end: StreamOffset
) -> list[Share]:
    """The tasks of one batch of rows; none if there is nothing new."""
    if (stream_start.ends, stream_start.state) == (stream_end.ends, stream_end.state):
        return []
    options = listing.options
    if options.table not in RECORD_TABLES:
        return shares_of(options, RowScope.of(options), FILES_OF_TABLE[options.table])
    segments = tuple(_segments_between(listing, stream_start, stream_end))
    return [Share(segments=task_segments) for task_segments in divide_in_tasks(segments, options)]


def end_within_limits(
    listing: LogListing,
    stream_start: StreamOffset,
    stream_end: StreamOffset,
    *,
    bytes_max: int | None = None,
    files_max: int | None = None,
) -> StreamOffset:
    """The end of one batch of rows on the way to ``stream_end``: it takes the segments that were
    written first, as many as the limits allow, at least one. A segment that exceeds the limit is
    divided at a batch that its index has.

    Args:
        listing: The files, for a table in ``RECORD_TABLES``.
        stream_start: Start of the batch of rows.
        stream_end: The end of what can be read.
        bytes_max: Limit of the bytes of logs.
        files_max: Limit of the number of segments.
    """
    start_by_partition = {
        partition: min(offset, stream_end.ends.get(partition, offset))
        for partition, offset in stream_start.ends.items()
    }
    end_by_partition = dict(start_by_partition)
    unread_bytes_left = sys.maxsize if bytes_max is None else bytes_max
    partition_of_folder = {
        segments_of_replica[0].replica.path: partition
        for partition, segments_of_replica in listing.segments.items()
    }
    segments_by_replica = _group_by_replica(_segments_between(listing, stream_start, stream_end))
    segments_oldest_first = heapq.merge(*segments_by_replica, key=_modification_order)
    for segment in islice(segments_oldest_first, files_max):
        first_offset, end_offset = segment.offset_span or (0, 0)
        partition = partition_of_folder[segment.replica.path]
        if end_offset == end_by_partition.get(partition):
            continue  # came with a segment before it
        if segment.next_base_offset is not None:
            end_offset = min(end_offset, segment.next_base_offset)
        start_position = position_near(segment, first_offset)
        unread_bytes = segment.size - start_position
        if unread_bytes > unread_bytes_left:
            section_cut = cut_behind(segment, first_offset, start_position + unread_bytes_left)
            has_progress = end_by_partition != start_by_partition
            if has_progress and (
                section_cut is None or section_cut.position > start_position + unread_bytes_left
            ):
                break
            if section_cut is not None:
                end_by_partition[partition] = min(end_offset, section_cut.offset)
                break
        end_by_partition[partition] = end_offset
        unread_bytes_left = max(0, unread_bytes_left - unread_bytes)
    return StreamOffset(ends=end_by_partition, scope=stream_end.scope)


def _segments_between(
    listing: LogListing, stream_start: StreamOffset, stream_end: StreamOffset
) -> Iterator[SegmentFile]:
    """The segments with rows between two offsets; nothing after these is read. The new part is
    checked for damage.
    """
    scope = RowScope.of(listing.options)
    for partition, end_offset in stream_end.ends.items():
        first_offset = stream_start.ends.get(partition, 0)
        if first_offset >= end_offset:
            continue
        grown_scope = msgspec.structs.replace(
            scope, offset_min=first_offset, offset_max=end_offset - 1
        )
        for whole_segment in filter(grown_scope.has_segment, listing.segments.get(partition, ())):
            if (
                whole_segment.next_base_offset is not None
                and whole_segment.next_base_offset <= first_offset
            ):
                continue  # what a cut in it would end was judged as it was read
            segment = start_at_offset(whole_segment, first_offset, listing.options.table)
            sound_end = segment.start or position_near(whole_segment, first_offset)
            section_cut = cut_at(segment, end_offset)
            part_end = segment.size if section_cut is None else section_cut.position
            yield msgspec.structs.replace(
                segment, size=part_end, offset_span=(first_offset, end_offset), sound_to=sound_end
            )


def _group_by_replica(segments: Iterable[SegmentFile]) -> list[list[SegmentFile]]:
    return [
        list(replica_segments)
        for _, replica_segments in groupby(segments, key=lambda segment: segment.replica.path)
    ]


def _modification_order(segment: SegmentFile) -> tuple[int, str]:
    try:
        return os.stat(segment.path).st_mtime_ns, segment.path
    except OSError:
        return 0, segment.path  # gone: nothing of it is read


def _files_state(options: KafkaLogOptions) -> str:
    """A hash of names, sizes and times of all files from which a table may be made."""
    replicas = replicas_of(options, RowScope.of(options), FILES_OF_TABLE[options.table])
    folder_paths = [*map(str, log_dirs_in(options.paths)), *(replica.path for replica in replicas)]
    state_hash = hashlib.sha256()
    for folder in folder_paths:
        for file_line in _file_lines(folder):
            state_hash.update(file_line.encode(errors="surrogateescape"))
    return state_hash.hexdigest()


def _file_lines(folder: str) -> Iterator[str]:
    try:
        with os.scandir(folder) as folder_entries:
            for folder_entry in sorted(folder_entries, key=lambda file: file.name):
                if folder_entry.is_file(follow_symlinks=False):
                    file_stat = folder_entry.stat(follow_symlinks=False)
                    # Each process has its own mirror of a store, so inodes there mean nothing.
                    path = with_store_names(folder_entry.path)
                    inode = file_stat.st_ino if path == folder_entry.path else 0
                    yield f"{path}\n{inode} {file_stat.st_size} {file_stat.st_mtime_ns}\n"
    except OSError:
        return  # what was renamed or deleted meanwhile is seen the next time

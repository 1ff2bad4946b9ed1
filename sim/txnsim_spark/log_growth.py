"""Finds how far log directories have grown: the offsets of
``spark.readStream.format("kafka_log")``.

A table of records (``LOGS``) gives each row once. For each replica its stream offset has the offset
in the log after the last complete batch, so a batch of rows that is repeated after a crash is the
same. A replica's place is its topic's id, its partition and its broker, not its folder: a disk may
be mounted elsewhere, and a topic that was created again is another one. If data is gone before it
was read, the query ends with an error (``unread_lost``), unless it allows this.

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
    READS,
    Share,
    begun_at,
    divide_in_tasks,
    position_near,
    replicas_of,
    segments_in,
    shares_of,
)
from txnsim_spark.scan.log_dirs import meta_of, topic_id_of
from txnsim_spark.scan.log_seek import end_offset_of
from txnsim_spark.scan.sections import cut_at, cut_behind
from txnsim_spark.scan.segments import Replica, SegmentFile, log_dirs_in
from txnsim_spark.schemas import DECODED
from txnsim_spark.stores.mirror import overlapping_map, with_store_names
from txnsim_spark.stream_scope import StreamScope, refuse_mismatch, refuse_other_logs

LOGS: Final = frozenset({"batches", "endings", *DECODED})
"""Tables of records: their rows never change, since each is made of appended data."""


class StreamOffset(msgspec.Struct, frozen=True, kw_only=True):
    """How far a stream has read; empty for a new stream."""

    ends: dict[str, int] = {}
    """For a table in ``LOGS``: place of a replica -> offset in its log after the part that was
    read.
    """
    state: str = ""
    """For the other tables: a hash of the state of the files that was read."""
    scope: StreamScope | None = None
    """What the stream reads; None for a new stream, and in offsets of older releases."""

    @property
    def is_new(self) -> bool:
        return not self.ends and not self.state


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """The files at one moment; all rows of a batch are from the same look."""

    options: KafkaLogOptions
    scope: StreamScope
    segments: Mapping[str, tuple[SegmentFile, ...]] = {}
    """For a table in ``LOGS``: place of a replica -> its segments, in order."""


def look_at(options: KafkaLogOptions) -> Look:
    metas = map(meta_of, log_dirs_in(options.paths))
    clusters = frozenset(meta.cluster_id for meta in metas if meta is not None and meta.cluster_id)
    scope = StreamScope.of(options, clusters)
    if options.table not in LOGS:
        return Look(options=options, scope=scope)
    by_replica = segments_in(options, READS[options.table])
    segments_there = {path: segments for path, segments in by_replica.items() if segments}
    places = _places_of([segments[0].replica for segments in segments_there.values()])
    segments = dict(zip(places, segments_there.values(), strict=True))
    return Look(options=options, scope=scope, segments=segments)


def _places_of(replicas: Sequence[Replica]) -> list[str]:
    """The name of each replica's place. It includes the folder only if two replicas are of one
    broker and partition.
    """
    named = []
    for replica in replicas:
        topic_id = topic_id_of(Path(replica.path))
        topic_id_suffix = "" if topic_id is None else f":{topic_id}"
        named.append(f"{replica.topic_partition}{topic_id_suffix}@{replica.broker}")
    times = Counter(named)
    return [
        name if times[name] == 1 else f"{name}:{with_store_names(replica.path)}"
        for name, replica in zip(named, replicas, strict=True)
    ]


def refuse_other_stream(look: Look, start: StreamOffset) -> None:
    """Refuse to continue from the offset of another stream.

    Raises:
        CheckpointMismatchError: The offset is of another stream; the message names the difference.
    """
    if not start.is_new:
        refuse_mismatch(start.scope, look.scope)
        refuse_other_logs(start.ends, look.segments)


def refuse_nothing(look: Look) -> None:
    """Refuse a new stream that would never have a row.

    Raises:
        BadInputError: A topic or partition does not exist, or nothing can be read.
    """
    options, problems = look.options, list[str]()
    named = replicas_of(options, RowScope(), READS[options.table], problems.append)
    refuse_unknown_names(options, named)
    segments = (
        segment for segments_of_replica in look.segments.values() for segment in segments_of_replica
    )
    refuse_unreadable(options.table, named, segments, problems)


class Ends:
    """Finds the ends of logs. A log that has not changed since the last look is not read again."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[SegmentFile, int, int]] = {}
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
        with overlapping_map(segment.path for segment in last_segments.values()) as mapped:
            end_offsets: dict[str, int | None] = dict(
                zip(last_segments, mapped(self._end_or_none, last_segments.values()), strict=True)
            )
        return {path: end for path, end in end_offsets.items() if end is not None}

    def _end_or_none(self, last_segment: SegmentFile) -> int | None:
        path = last_segment.replica.path
        try:
            written_ns = os.stat(last_segment.path).st_mtime_ns
            remembered = self._known.get(path)
            if remembered is None or remembered[:2] != (last_segment, written_ns):
                remembered = self._known[path] = (
                    last_segment,
                    written_ns,
                    end_offset_of(last_segment),
                )
        except OSError:
            return None
        return remembered[2]


def latest(look: Look, start: StreamOffset, ends: Ends) -> StreamOffset:
    """How far a stream can read now; equal to ``start`` if there is nothing new."""
    if look.options.table not in LOGS:
        return StreamOffset(state=_state(look.options), scope=look.scope)
    return later(start, StreamOffset(ends=ends.end_offsets(look.segments), scope=look.scope))


def later(offset: StreamOffset, other_offset: StreamOffset) -> StreamOffset:
    """The second stream offset, and of the first one the places that the second lacks. A log that
    was cut back goes on from there: a query that may not miss rows was stopped before
    (``unread_lost``).
    """
    return StreamOffset(
        ends={**offset.ends, **other_offset.ends},
        state=other_offset.state,
        scope=other_offset.scope,
    )


def unread_lost(look: Look, start: StreamOffset, end: StreamOffset) -> Iterator[str]:
    """Sentences about rows that a stream can't read any more because logs have lost data."""
    if look.options.table not in LOGS:
        return
    for partition, reached in start.ends.items():
        segments = look.segments.get(partition)
        if segments is None:
            yield f"{partition}: it is not there any more (read up to offset {reached})"
        elif segments[0].base_offset > reached:
            last_offset = segments[0].base_offset - 1
            yield f"{partition}: offsets {reached} to {last_offset} are gone, and were not read"
        elif end.ends.get(partition, reached) < reached:
            end_offset = end.ends[partition]
            yield f"{partition}: it was read up to offset {reached}, and ends at {end_offset}"


def offsets_behind(look: Look, reached: StreamOffset, logs_end: StreamOffset) -> int:
    """Number of offsets by which a stream is behind the ends of the logs."""
    return sum(
        max(0, end - reached.ends.get(partition, look.segments[partition][0].base_offset))
        for partition, end in logs_end.ends.items()
        if partition in look.segments
    )


def shares_between(look: Look, start: StreamOffset, end: StreamOffset) -> list[Share]:
    """The tasks of one batch of rows; none if there is nothing new."""
    if (start.ends, start.state) == (end.ends, end.state):
        return []
    options = look.options
    if options.table not in LOGS:
        return shares_of(options, RowScope.of(options), READS[options.table])
    segments = tuple(_between(look, start, end))
    return [Share(segments=part) for part in divide_in_tasks(segments, options)]


def end_within_limits(
    look: Look,
    start: StreamOffset,
    end: StreamOffset,
    *,
    bytes_max: int | None = None,
    files_max: int | None = None,
) -> StreamOffset:
    """The end of one batch of rows on the way to ``end``: it takes the segments that were written
    first, as many as the limits allow, at least one. A segment that exceeds the limit is divided at
    a batch that its index has.

    Args:
        look: The files, for a table in ``LOGS``.
        start: Start of the batch of rows.
        end: The end of what can be read.
        bytes_max: Limit of the bytes of logs.
        files_max: Limit of the number of segments.
    """
    begun = {
        partition: min(offset, end.ends.get(partition, offset))
        for partition, offset in start.ends.items()
    }
    ends = dict(begun)
    bytes_left = sys.maxsize if bytes_max is None else bytes_max
    place_of = {
        segments_of_replica[0].replica.path: partition
        for partition, segments_of_replica in look.segments.items()
    }
    queues = _by_replica(_between(look, start, end))
    oldest_first = heapq.merge(*queues, key=_time_and_path)
    for segment in islice(oldest_first, files_max):
        first_offset, until = segment.span or (0, 0)
        partition = place_of[segment.replica.path]
        if until == ends.get(partition):
            continue  # came with a segment before it
        if segment.next_base_offset is not None:
            until = min(until, segment.next_base_offset)
        position = position_near(segment, first_offset)
        size = segment.size - position
        if size > bytes_left:
            cut = cut_behind(segment, first_offset, position + bytes_left)
            is_begun = ends != begun
            if is_begun and (cut is None or cut.position > position + bytes_left):
                break
            if cut is not None:
                ends[partition] = min(until, cut.offset)
                break
        ends[partition] = until
        bytes_left = max(0, bytes_left - size)
    return StreamOffset(ends=ends, scope=end.scope)


def _between(look: Look, start: StreamOffset, end: StreamOffset) -> Iterator[SegmentFile]:
    """The segments with rows between two offsets; nothing after these is read. The new part is
    checked for damage.
    """
    scope = RowScope.of(look.options)
    for partition, until in end.ends.items():
        first_offset = start.ends.get(partition, 0)
        if first_offset >= until:
            continue
        grown = msgspec.structs.replace(scope, offset_min=first_offset, offset_max=until - 1)
        for whole_segment in filter(grown.has_segment, look.segments.get(partition, ())):
            if (
                whole_segment.next_base_offset is not None
                and whole_segment.next_base_offset <= first_offset
            ):
                continue  # what a cut in it would end was judged as it was read
            segment = begun_at(whole_segment, first_offset, look.options.table)
            sound_to = segment.start or position_near(whole_segment, first_offset)
            cut = cut_at(segment, until)
            size = segment.size if cut is None else cut.position
            yield msgspec.structs.replace(
                segment, size=size, span=(first_offset, until), sound_to=sound_to
            )


def _by_replica(segments: Iterable[SegmentFile]) -> list[list[SegmentFile]]:
    return [
        list(neighbours)
        for _, neighbours in groupby(segments, key=lambda segment: segment.replica.path)
    ]


def _time_and_path(segment: SegmentFile) -> tuple[int, str]:
    try:
        return os.stat(segment.path).st_mtime_ns, segment.path
    except OSError:
        return 0, segment.path  # gone: nothing of it is read


def _state(options: KafkaLogOptions) -> str:
    """A hash of names, sizes and times of all files from which a table may be made."""
    replicas = replicas_of(options, RowScope.of(options), READS[options.table])
    folders = [*map(str, log_dirs_in(options.paths)), *(replica.path for replica in replicas)]
    digest = hashlib.sha256()
    for folder in folders:
        for line in _files_in(folder):
            digest.update(line.encode(errors="surrogateescape"))
    return digest.hexdigest()


def _files_in(folder: str) -> Iterator[str]:
    try:
        with os.scandir(folder) as below:
            for entry in sorted(below, key=lambda file: file.name):
                if entry.is_file(follow_symlinks=False):
                    is_now = entry.stat(follow_symlinks=False)
                    # Each process has its own mirror of a store, so inodes there mean nothing.
                    path = with_store_names(entry.path)
                    number = is_now.st_ino if path == entry.path else 0
                    yield f"{path}\n{number} {is_now.st_size} {is_now.st_mtime_ns}\n"
    except OSError:
        return  # what was renamed or deleted meanwhile is seen the next time

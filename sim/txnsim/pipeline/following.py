"""How far log directories have grown: the offsets of ``spark.readStream.format("kafka_log")``.

A table of records (``LOGS``) gives each row once. For each replica its stream offset has the offset
in the log behind the last whole batch, so a batch of rows that is repeated after a crash is the
same.

Every other table shows the present state, and a change in one file may change any of its rows. Its
stream offset names a state of all files. When that state changes, the whole table is read again.
"""

from __future__ import annotations

import hashlib
import heapq
import os
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import groupby, islice
from pathlib import Path
from typing import Final

import msgspec

from txnsim.pipeline.log_query import Wanted
from txnsim.pipeline.options import KafkaLogOptions
from txnsim.pipeline.planning import (
    READS,
    Share,
    divided,
    grown_segments_of,
    replicas_of,
    shares_of,
)
from txnsim.pipeline.scan.log_dirs import LogDirectory
from txnsim.pipeline.scan.log_seek import end_offset_of, position_before
from txnsim.pipeline.scan.sections import cut_at, cut_behind
from txnsim.pipeline.scan.segments import SegmentFile, log_dirs_in, segments_of

LOGS: Final = frozenset({"batches", "records", "endings", "transactions", "offsets"})
"""Tables whose rows never change, as each is made of what was appended to a log."""


class StreamOffset(msgspec.Struct, frozen=True, kw_only=True):
    """How far a stream has come. One without anything is that of a new stream."""

    ends: dict[str, int] = {}
    """Of a table in ``LOGS``: folder of a replica -> offset in its log behind what was read."""
    state: str = ""
    """Of any other table: which state of the files was read."""


def latest(options: KafkaLogOptions, start: StreamOffset) -> StreamOffset:
    """How far it can be read now; the same as ``start`` where nothing is new.

    Raises:
        BadInputError: A path is no directory, or there is nothing of Kafka's in it.
    """
    if options.table not in LOGS:
        return StreamOffset(state=_state(options))
    return later(start, StreamOffset(ends=_ends(options)))


def later(one: StreamOffset, other: StreamOffset) -> StreamOffset:
    """The larger offset of each replica, so that a log that was cut back is not read again; of
    states the other one.
    """
    ends = {path: max(end, one.ends.get(path, 0)) for path, end in other.ends.items()}
    return StreamOffset(ends={**one.ends, **ends}, state=other.state)


def shares_between(options: KafkaLogOptions, start: StreamOffset, end: StreamOffset) -> list[Share]:
    """The tasks of one batch of rows; none where nothing is new.

    Raises:
        BadInputError: A path is no directory, or there is nothing of Kafka's in it.
    """
    if start == end:
        return []
    if options.table not in LOGS:
        return shares_of(options, Wanted(), READS[options.table])
    segments = tuple(_between(options, start, end))
    return [Share(segments=part) for part in divided(segments, options)]


def bounded(
    options: KafkaLogOptions,
    start: StreamOffset,
    end: StreamOffset,
    *,
    bytes_max: int | None = None,
    files_max: int | None = None,
) -> StreamOffset:
    """How far one batch of rows goes on the way to ``end``: the segments that were written first,
    as many as the bound allows, at least one.

    A segment that is more than all of the bound ends where its index says that a batch begins. What
    is behind a recovery point comes at once: damage in it ends what follows.

    Args:
        options: What is read: a table of ``LOGS``.
        start: Where it begins.
        end: How far it can be read.
        bytes_max: How much is read of logs.
        files_max: How many segments.
    """
    ends = dict(start.ends)
    left = sys.maxsize if bytes_max is None else bytes_max
    queues = _by_replica(_between(options, start, end))
    oldest_first = heapq.merge(*queues, key=_written_at)
    for segment in islice(oldest_first, files_max):
        first, until = segment.span or (0, 0)
        path = segment.replica.path
        if until == ends.get(path):
            continue  # came with a segment before it
        if not segment.is_recovered and segment.next_base_offset is not None:
            until = min(until, segment.next_base_offset)
        position = _position_of(segment, first)
        size = segment.size - position
        if size > left:
            cut = None if segment.is_recovered else cut_behind(segment, first, position + left)
            is_begun = ends != start.ends
            if is_begun and (cut is None or cut.position > position + left):
                break
            if cut is not None:
                ends[path] = min(until, cut.offset)
                break
        ends[path] = until
        left = max(0, left - size)
    return StreamOffset(ends=ends)


def _between(
    options: KafkaLogOptions, start: StreamOffset, end: StreamOffset
) -> Iterator[SegmentFile]:
    """The segments with rows between two offsets; nothing behind these is read."""
    spans = {path: (start.ends.get(path, 0), until) for path, until in end.ends.items()}
    grown = {path: span for path, span in spans.items() if span[0] < span[1]}
    for segment in grown_segments_of(options, READS[options.table], grown):
        cut = None if segment.is_recovered else cut_at(segment, spans[segment.replica.path][1])
        yield segment if cut is None else msgspec.structs.replace(segment, size=cut.position)


def _by_replica(segments: Iterable[SegmentFile]) -> list[list[SegmentFile]]:
    return [list(mine) for _, mine in groupby(segments, key=lambda one: one.replica.path)]


def _position_of(segment: SegmentFile, offset: int) -> int:
    try:
        return position_before(segment, offset)
    except OSError:
        return 0  # gone: nothing of it is read


def _written_at(segment: SegmentFile) -> tuple[int, str]:
    try:
        return os.stat(segment.path).st_mtime_ns, segment.path
    except OSError:
        return 0, segment.path  # gone: nothing of it is read


def _ends(options: KafkaLogOptions) -> dict[str, int]:
    """Folder of each replica -> where its log ends."""
    directory_at = cache(LogDirectory.at)
    ends: dict[str, int] = {}
    for replica in replicas_of(options, Wanted(), READS[options.table]):
        directory = directory_at(Path(replica.log_dir))
        try:
            segments = list(segments_of(replica, directory))
            if segments:
                ends[replica.path] = end_offset_of(segments[-1])
        except OSError:
            continue  # a later look may find what can't be read now
    return ends


def _state(options: KafkaLogOptions) -> str:
    """A hash of names, sizes and times of all files that a table may be made of."""
    replicas = replicas_of(options, Wanted(), READS[options.table])
    folders = [*map(str, log_dirs_in(options.paths)), *(one.path for one in replicas)]
    found = hashlib.sha256()
    for folder in folders:
        for line in _files_in(folder):
            found.update(line.encode(errors="surrogateescape"))
    return found.hexdigest()


def _files_in(folder: str) -> Iterator[str]:
    try:
        with os.scandir(folder) as below:
            for entry in sorted(below, key=lambda one: one.name):
                if entry.is_file(follow_symlinks=False):
                    is_now = entry.stat(follow_symlinks=False)
                    yield f"{entry.path}\n{is_now.st_ino} {is_now.st_size} {is_now.st_mtime_ns}\n"
    except OSError:
        return  # what was renamed or deleted meanwhile is seen the next time

"""How far log directories have grown: the offsets of ``spark.readStream.format("kafka_log")``.

A table of records (``LOGS``) gives each row once. For each replica its stream offset has the offset
in the log behind the last whole batch, so a batch of rows that is repeated after a crash is the
same.

Every other table shows the present state, and a change in one file may change any of its rows. Its
stream offset names a state of all files. When that state changes, the whole table is read again.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from txnsim.pipeline.log_query import Wanted
from txnsim.pipeline.options import KafkaLogOptions
from txnsim.pipeline.planning import READS, Share, grown_shares_of, replicas_of, shares_of
from txnsim.pipeline.scan.log_dirs import LogDirectory
from txnsim.pipeline.scan.log_seek import end_offset_of
from txnsim.pipeline.scan.segments import log_dirs_in, segments_of

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
    reads = READS[options.table]
    if options.table not in LOGS:
        return shares_of(options, Wanted(), reads)
    spans = {path: (start.ends.get(path, 0), until) for path, until in end.ends.items()}
    grown = {path: span for path, span in spans.items() if span[0] < span[1]}
    return grown_shares_of(options, reads, grown)


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

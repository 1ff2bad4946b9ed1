"""Decides which files of a replica's folder a starting broker uses for its log, and which it
deletes.

A broker that was killed during compaction leaves copies: ``.cleaned`` files are unfinished and
deleted; ``.swap`` files are finished and replace all files of the offsets that they cover;
``.deleted`` files were replaced already. Nothing is changed on disk here. Kafka's counterpart:
LogLoader.removeTempFilesAndCollectSwapFiles and the passes after it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import msgspec

from txnsim.storage.log_file import read_log_file
from txnsim.storage.names import Suffix

_NUMBERED: Final = re.compile(
    r"(\d{20})(?:-[a-zA-Z0-9_-]{22}(?!\.snapshot))?(\.[a-z]+)(\.cleaned|\.swap|\.deleted)?"
)
"""Name of a file with an offset, as in ``names``, with the suffixes of interrupted compaction."""


class SegmentFiles(msgspec.Struct, frozen=True, kw_only=True):
    """The files of one segment."""

    base_offset: int
    log: Path
    txn_index: Path | None
    has_index: bool
    """Whether the segment has an offset index; without one it is always recovered."""


class ReplicaFiles(msgspec.Struct, frozen=True, kw_only=True):
    """The files of a replica's folder that a broker uses."""

    segments: tuple[SegmentFiles, ...]
    """The segments, by base offset."""
    snapshots: tuple[tuple[int, Path], ...]
    """(offset, path) of the producer snapshots, by offset."""


def replica_files(folder: Path) -> ReplicaFiles:
    """The files that a broker uses that starts with this folder.

    Raises:
        OSError: The folder or a file can't be read.
    """
    numbered = [
        (int(match[1]), match[2], match[3], path)
        for path in sorted(folder.iterdir())
        if (match := _NUMBERED.fullmatch(path.name))
    ]
    half_done = min((offset for offset, _, mark, _ in numbered if mark == ".cleaned"), default=None)
    swapped = [
        (offset, suffix, path)
        for offset, suffix, mark, path in numbered
        if mark == ".swap" and (half_done is None or offset < half_done)
    ]
    covered = _covered_offsets(
        [(base_offset, path) for base_offset, suffix, path in swapped if suffix == Suffix.LOG]
    )
    latest: dict[tuple[str, int], Path] = {
        (suffix, offset): path
        for offset, suffix, mark, path in numbered
        if mark is None and offset not in covered
    }
    latest |= {(suffix, offset): path for offset, suffix, path in swapped}
    return ReplicaFiles(
        segments=tuple(
            SegmentFiles(
                base_offset=offset,
                log=path,
                txn_index=latest.get((Suffix.TXN_INDEX, offset)),
                has_index=(Suffix.INDEX, offset) in latest,
            )
            for (suffix, offset), path in sorted(latest.items())
            if suffix == Suffix.LOG
        ),
        snapshots=tuple(
            (offset, path)
            for (suffix, offset), path in sorted(latest.items())
            if suffix == Suffix.SNAPSHOT
        ),
    )


def _covered_offsets(swapped: list[tuple[int, Path]]) -> range:
    """The offsets whose files the compacted segments replace."""
    if not swapped:
        return range(0)
    end_offsets = []
    for base_offset, path in swapped:
        end = base_offset
        for batch in read_log_file(path, on_torn=lambda _: None, check_crc=False):
            end = batch.header.last_offset + 1
        end_offsets.append(end)
    return range(min(base for base, _ in swapped), max(end_offsets))

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
from txnsim.storage.names import Suffix, checked_offset

_OFFSET_FILE_RE: Final = re.compile(
    r"([0-9]{20})(?:-[a-zA-Z0-9_-]{22}(?!\.snapshot))?(\.[a-z]+)(\.cleaned|\.swap|\.deleted)?"
)
"""Name of a file with an offset, as in ``names``, with the suffixes of interrupted compaction."""


class SegmentFiles(msgspec.Struct, frozen=True, kw_only=True):
    """A segment of a replica, and which of its side files are there."""

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
    numbered_files = [
        (checked_offset(int(match[1]), path), match[2], match[3], path)
        for path in sorted(folder.iterdir())
        if (match := _OFFSET_FILE_RE.fullmatch(path.name))
    ]
    unfinished_offset = min(
        (offset for offset, _, state_suffix, _ in numbered_files if state_suffix == ".cleaned"),
        default=None,
    )
    swap_files = [
        (offset, suffix, path)
        for offset, suffix, state_suffix, path in numbered_files
        if state_suffix == ".swap" and (unfinished_offset is None or offset < unfinished_offset)
    ]
    covered_offsets = _covered_offsets(
        [(base_offset, path) for base_offset, suffix, path in swap_files if suffix == Suffix.LOG]
    )
    files_in_use: dict[tuple[str, int], Path] = {
        (suffix, offset): path
        for offset, suffix, state_suffix, path in numbered_files
        if state_suffix is None and offset not in covered_offsets
    }
    files_in_use |= {(suffix, offset): path for offset, suffix, path in swap_files}
    return ReplicaFiles(
        segments=tuple(
            SegmentFiles(
                base_offset=offset,
                log=path,
                txn_index=files_in_use.get((Suffix.TXN_INDEX, offset)),
                has_index=(Suffix.INDEX, offset) in files_in_use,
            )
            for (suffix, offset), path in sorted(files_in_use.items())
            if suffix == Suffix.LOG
        ),
        snapshots=tuple(
            (offset, path)
            for (suffix, offset), path in sorted(files_in_use.items())
            if suffix == Suffix.SNAPSHOT
        ),
    )


def _covered_offsets(swap_logs: list[tuple[int, Path]]) -> range:
    """The offsets whose files the compacted segments replace."""
    if not swap_logs:
        return range(0)
    end_offsets = []
    for base_offset, path in swap_logs:
        end_offset = base_offset
        for batch in read_log_file(path, on_torn=lambda _: None, checks_crc=False):
            end_offset = batch.header.last_offset + 1
        end_offsets.append(end_offset)
    return range(min(base_offset for base_offset, _ in swap_logs), max(end_offsets))

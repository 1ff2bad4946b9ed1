"""Damages copies of the kept directory, by name: one kind of damage each.

A recipe gets the log directory and changes its files. Most recipes are applied to both stages:
``clean`` was left by an orderly stop, ``killed`` by a kill.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from struct import pack
from typing import Final, NamedTuple

from tests.spark.pipeline.damaged import files
from tests.spark.pipeline.damaged.files import is_data, is_marker, logs, snapshots
from tests.spark.pipeline.damaged.make import STAGES
from txnsim.storage import names
from txnsim.wire.batch import iter_batches

Do = Callable[[Path], object]

GHOST: Final = "orders-0"
"""A partition with a hanging transaction between plain batches and commits, over some segments."""
SPREAD: Final = "stock-0"
"""A partition with a hanging transaction that has batches in all segments."""
ALONE: Final = "orders-2"
"""A partition with one batch, which hangs."""
ALIVE: Final = "orders-1"
QUIET: Final = "stock-1"
"""A partition without an open transaction; many have ended."""
STATE: Final = "__transaction_state"
JUNK: Final = bytes(range(7, 207)) * 5
HUGE_BYTES: Final = 200 << 20
FUTURE_MS: Final = 4_000_000_000_000


class Variant(NamedTuple):
    """A damaged directory: its origin, and the damage."""

    name: str
    stage: str
    do: Do


def variants() -> list[Variant]:
    variants = [
        Variant(f"{stage_name}/{recipe_name}", stage_name, do)
        for recipe_name, do in RECIPES.items()
        for stage_name in STAGES
        if ONLY.get(recipe_name, stage_name) == stage_name
    ]
    return sorted(variants)


def make_variant(variant: Variant, path: Path, target_path: Path) -> Path:
    """Copy the stage of a variant and damage the copy; ``path`` is never changed."""
    shutil.copytree(path / variant.stage, target_path)
    variant.do(target_path)
    return target_path


def _do_all(*steps: Do) -> Do:
    def do(log_dir: Path) -> None:
        for step in steps:
            step(log_dir)

    return do


def _state_of(log_dir: Path, number: int) -> Path:
    """The replica of ``__transaction_state`` with the most bytes, or another one by number."""
    paths = sorted(
        log_dir.glob(f"{STATE}-*"), key=lambda path: -sum(p.stat().st_size for p in logs(path))
    )
    return paths[number]


def _segment(folder_path: str, number: int) -> Callable[[Path], Path]:
    return lambda log_dir: logs(log_dir / folder_path)[number]


def _state_segment(number: int) -> Callable[[Path], Path]:
    return lambda log_dir: logs(_state_of(log_dir, number))[-1]


def _file(*parts: str) -> Callable[[Path], Path]:
    return lambda log_dir: log_dir.joinpath(*parts)


def _on(path: Callable[[Path], Path], step: Callable[..., object], *values: object) -> Do:
    return lambda log_dir: step(path(log_dir), *values)


def _in(folder_path: str, step: Callable[..., object], *values: object, **keywords: object) -> Do:
    return lambda log_dir: step(log_dir / folder_path, *values, **keywords)


def _halve_file(path: Path) -> None:
    files.cut(path, path.stat().st_size // 2)


def _drop_batches(folder: Path, count: int) -> None:
    """Remove the last batches, cutting exactly between batches."""
    rows = [
        (path, position) for path in logs(folder) for position, _ in iter_batches(path.read_bytes())
    ]
    path, position = rows[-count]
    for later_log_file in logs(folder):
        if later_log_file > path:
            files.remove_segment(later_log_file)
    files.cut(path, position)


def _last_marker_gone(folder: Path) -> None:
    """Remove the last marker and everything after it."""
    path, position, _ = files.find_batch(folder, is_marker, -1)
    for later_log_file in logs(folder):
        if later_log_file > path:
            files.remove_segment(later_log_file)
    files.cut(path, position)


def _snapshot(folder_path: str, snapshot_number: int = -1) -> Callable[[Path], Path]:
    return lambda log_dir: snapshots(log_dir / folder_path)[snapshot_number]


def _foreign_snapshot(log_dir: Path) -> None:
    """Replace the newest snapshot by that of another partition."""
    shutil.copy(snapshots(log_dir / SPREAD)[-1], snapshots(log_dir / QUIET)[-1])


def _hiding_snapshot(log_dir: Path) -> None:
    shutil.copy(snapshots(log_dir / QUIET)[-1], snapshots(log_dir / SPREAD)[-1])


def _no_snapshots(folder: Path) -> None:
    for path in snapshots(folder):
        path.unlink()


def _no_indexes(folder: Path) -> None:
    for path in logs(folder):
        path.with_suffix(names.Suffix.INDEX).unlink(missing_ok=True)


def _neighbour_file(suffix: str, number: int = 0) -> Callable[[Path], Path]:
    return lambda log_dir: logs(log_dir / GHOST)[number].with_suffix(suffix)


def _unknown_control(folder: Path, number: int) -> None:
    """Change a control record to type 99, with a correct CRC: its key is int16 version, int16
    type.
    """
    path, position, header = files.find_batch(folder, is_marker, number)
    type_position = 61 + 1 + 1 + 1 + 1 + 1
    files.change(
        path, position + type_position + 2, pack(">h", 99), crc_at=position, size=header.size
    )


def _control_version(folder: Path, number: int) -> None:
    path, position, header = files.find_batch(folder, is_marker, number)
    files.change(path, position + 66, pack(">h", 9), crc_at=position, size=header.size)


def _swap_segments(folder: Path) -> None:
    """Swap the contents of two segments."""
    path, other_log_file = logs(folder)[1:3]
    file_bytes = path.read_bytes()
    path.write_bytes(other_log_file.read_bytes())
    other_log_file.write_bytes(file_bytes)


def _twice(folder: Path) -> None:
    path = [path for path in logs(folder) if path.stat().st_size][-1]
    file_bytes = path.read_bytes()
    position, _ = list(iter_batches(file_bytes))[-1]
    files.add(path, file_bytes[position:])


def _without_a_batch(folder: Path) -> None:
    """Remove a batch in the middle of a segment."""
    path = max(logs(folder), key=lambda path: path.stat().st_size)
    file_bytes = path.read_bytes()
    rows = list(iter_batches(file_bytes))
    position, header = rows[len(rows) // 2]
    path.write_bytes(file_bytes[:position] + file_bytes[position + header.size :])
    path.with_suffix(names.Suffix.INDEX).write_bytes(b"")


def _huge(path: Path) -> None:
    """Make a file of two hundred megabytes, most of them a hole."""
    path.write_bytes(JUNK)
    files.cut(path, HUGE_BYTES)


def _stamp_last_batch(folder: Path, time_ms: int) -> None:
    """Set the timestamps of the last data batch, with a correct CRC."""
    path, position, header = files.find_batch(folder, is_data, -1)
    stamps = pack(">q", time_ms)
    files.change(
        path, position + files.BASE_TIMESTAMP, stamps * 2, crc_at=position, size=header.size
    )


def _future_snapshot(folder: Path) -> None:
    files.change_snapshot(snapshots(folder)[-1], 26, pack(">q", FUTURE_MS))


def _future_file(log_dir: Path) -> None:
    """Set the modification time of a file to the future."""
    seconds = FUTURE_MS // 1_000
    os.utime(logs(log_dir / QUIET)[-1], (seconds, seconds))


def _rename(old_name: str, new_name: str) -> Do:
    return lambda log_dir: (log_dir / old_name).rename(log_dir / new_name)


def _copy_file(old_name: str, new_name: str) -> Do:
    return lambda log_dir: shutil.copytree(log_dir / old_name, log_dir / new_name)


def _fifo(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def _linked_folder(log_dir: Path) -> None:
    (log_dir / "linked-0").symlink_to("linked-0")


def _leave_file(suffix: str) -> Do:
    def do(log_dir: Path) -> None:
        path = logs(log_dir / GHOST)[1]
        shutil.copy(path, path.with_name(path.name + suffix))

    return do


def _to_left_over(suffix: str) -> Do:
    def do(log_dir: Path) -> None:
        path = logs(log_dir / GHOST)[1]
        path.rename(path.with_name(path.name + suffix))

    return do


def _write(text: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(text)


MARKS: Final = _file(names.FileName.HIGH_WATERMARKS)
POINTS: Final = _file(names.FileName.RECOVERY_POINTS)
STARTS: Final = _file(names.FileName.LOG_STARTS)
CLEANED: Final = _file(names.FileName.CLEANER_OFFSETS)
CLEAN_MARK: Final = _file(names.FileName.CLEAN_SHUTDOWN)


def _unlink(path: Path) -> None:
    path.unlink(missing_ok=True)


def _remove(path: Path) -> None:
    shutil.rmtree(path)


def _remove_state(log_dir: Path) -> None:
    for folder in log_dir.glob(f"{STATE}-*"):
        _remove(folder)


def _empty_all(folder: Path) -> None:
    for path in logs(folder):
        files.cut(path, 0)


RECIPES: Final[dict[str, Do]] = {
    "untouched": _do_all(),
    # Bits of batches.
    "producer-id-of-the-open-batch": _in(GHOST, files.flip_in_batch, is_data, 50, -1),
    "producer-id-of-a-first-batch": _in(SPREAD, files.flip_in_batch, is_data, 50, 0),
    "producer-id-of-a-marker": _in(QUIET, files.flip_in_batch, is_marker, 50, -1),
    "producer-id-with-right-crc": _in(
        QUIET, files.change_batch, is_marker, 43, pack(">q", 77), number=-1, mends_crc=True
    ),
    "transactional-bit": _in(ALONE, files.flip_in_batch, is_data, 22, 0),
    "control-bit": _in(QUIET, files.change_batch, is_marker, 22, b"\x10", number=-1),
    "crc-field": _in(ALONE, files.flip_in_batch, is_data, 17, 0),
    "record-byte": _in(GHOST, files.flip_in_batch, is_data, 70, -1),
    "record-byte-of-another": _in(GHOST, files.flip_in_batch, is_data, 70, 0),
    "base-offset": _in(SPREAD, files.flip_in_batch, is_data, 7, -1),
    "length": _in(SPREAD, files.flip_in_batch, is_data, 9, -1),
    "length-negative": _in(ALONE, files.change_batch, is_data, 8, pack(">i", -1)),
    "magic": _in(SPREAD, files.change_batch, is_data, 16, b"\x05", number=-1),
    "leader-epoch": _in(SPREAD, files.flip_in_batch, is_data, 15, -1),
    "control-type-unknown": _in(QUIET, _unknown_control, -1),
    "control-type-unknown-early": _in(QUIET, _unknown_control, 0),
    "control-version": _in(QUIET, _control_version, -1),
    # Segments.
    "last-segment-missing": _on(_segment(SPREAD, -1), files.remove_segment),
    "last-segment-missing-quiet": _on(_segment(QUIET, -1), files.remove_segment),
    "middle-segment-missing": _on(_segment(SPREAD, 2), files.remove_segment),
    "middle-segment-missing-quiet": _on(_segment(QUIET, 1), files.remove_segment),
    "middle-segment-missing-alive": _on(_segment(ALIVE, 1), files.remove_segment),
    "first-segment-missing": _on(_segment(SPREAD, 0), files.remove_segment),
    "last-segment-emptied": _on(_segment(SPREAD, -1), files.cut, 0),
    "middle-segment-emptied": _on(_segment(QUIET, 1), files.cut, 0),
    "middle-segment-emptied-spread": _on(_segment(SPREAD, 2), files.cut, 0),
    "all-segments-emptied": _in(SPREAD, _empty_all),
    "last-segment-half": _on(_segment(SPREAD, -1), _halve_file),
    "middle-segment-half": _on(_segment(SPREAD, 2), _halve_file),
    "middle-segment-half-quiet": _on(_segment(QUIET, 1), _halve_file),
    "cut-in-header": _on(_segment(ALIVE, -1), files.cut, -20),
    "whole-batches-missing": _in(SPREAD, _drop_batches, 2),
    "last-marker-missing": _in(QUIET, _last_marker_gone),
    "batch-taken-out": _in(QUIET, _without_a_batch),
    "batch-twice": _in(SPREAD, _twice),
    "segments-swapped": _in(SPREAD, _swap_segments),
    "zeros-behind": _on(_segment(SPREAD, -1), files.add, bytes(4_096)),
    "junk-behind": _on(_segment(SPREAD, -1), files.add, JUNK),
    "segment-is-junk": _on(_segment(SPREAD, -1), Path.write_bytes, JUNK),
    "old-messages-0": _in(GHOST, files.old_messages, 0),
    "old-messages-1": _in(GHOST, files.old_messages, 1),
    "old-end-before-gap-0": _on(_segment(SPREAD, 2), files.old_end, 0),
    "old-end-before-gap-1": _on(_segment(SPREAD, 2), files.old_end, 1),
    # Snapshots of producer state.
    "snapshots-missing": _in(SPREAD, _no_snapshots),
    "snapshot-missing": _on(_snapshot(SPREAD), _unlink),
    "snapshot-flipped": _on(_snapshot(SPREAD), files.flip, 20),
    "snapshot-cut": _on(_snapshot(SPREAD), files.cut, -7),
    "snapshot-empty": _on(_snapshot(SPREAD), files.cut, 0),
    "snapshot-of-another": _foreign_snapshot,
    "snapshot-of-another-hides": _hiding_snapshot,
    "snapshot-producer-id": _on(_snapshot(ALONE), files.change_snapshot, 0, pack(">q", 5_555)),
    "snapshot-start-offset": _on(_snapshot(ALIVE), files.change_snapshot, 38, pack(">q", 1)),
    "snapshot-start-behind-end": _on(_snapshot(ALONE), files.change_snapshot, 38, pack(">q", 900)),
    "snapshot-behind-end": lambda log_dir: shutil.copy(
        snapshots(log_dir / SPREAD)[-1],
        log_dir / SPREAD / names.Suffix.SNAPSHOT.file_name(9_000),
    ),
    "snapshot-time-in-future": _in(ALONE, _future_snapshot),
    # Files beside the segments.
    "index-missing": _on(_neighbour_file(names.Suffix.INDEX, 1), _unlink),
    "indexes-missing": _in(SPREAD, _no_indexes),
    "index-junk": _on(_neighbour_file(names.Suffix.INDEX, 1), Path.write_bytes, JUNK[:99]),
    "time-index-junk": _on(
        _neighbour_file(names.Suffix.TIME_INDEX, 1), Path.write_bytes, JUNK[:99]
    ),
    "txn-index-junk": _on(_neighbour_file(names.Suffix.TXN_INDEX, 1), Path.write_bytes, JUNK[:99]),
    "leader-epochs-missing": _on(_file(GHOST, names.FileName.LEADER_EPOCHS), _unlink),
    "leader-epochs-junk": _on(_file(GHOST, names.FileName.LEADER_EPOCHS), _write("what?\n")),
    "partition-metadata-missing": _on(_file(GHOST, names.FileName.PARTITION_METADATA), _unlink),
    "left-over-deleted": _leave_file(".deleted"),
    "left-over-cleaned": _leave_file(".cleaned"),
    "left-over-swap": _to_left_over(".swap"),
    # Notes of the log directory.
    "recovery-points-missing": _on(POINTS, _unlink),
    "recovery-points-junk": _on(POINTS, _write("0\nmany\n")),
    "recovery-points-empty": _on(POINTS, files.cut, 0),
    "recovery-point-too-high": _on(POINTS, files.set_offset, SPREAD, 5_000),
    "recovery-point-zero": _on(POINTS, files.set_offset, SPREAD, 0),
    "high-watermarks-missing": _on(MARKS, _unlink),
    "high-watermarks-junk": _on(MARKS, _write("1\n2\n3\n")),
    "high-watermark-too-high": _on(MARKS, files.set_offset, GHOST, 5_000),
    "high-watermark-zero": _on(MARKS, files.set_offset, GHOST, 0),
    "high-watermarks-huge": _on(MARKS, _huge),
    "log-starts-junk": _on(STARTS, _write("0\n1\norders zero 3\n")),
    "log-start-above": _on(STARTS, files.set_offset, SPREAD, 4),
    "log-start-behind-end": _on(STARTS, files.set_offset, SPREAD, 5_000),
    "cleaner-offsets-junk": _on(CLEANED, _write("0\n1\nx\n")),
    "clean-mark-missing": _on(CLEAN_MARK, _unlink),
    "clean-mark-added": _on(CLEAN_MARK, _write('{"version":0,"brokerEpoch":1}')),
    # The coordinators' logs.
    "state-missing": _remove_state,
    "state-partition-missing": lambda log_dir: _remove(_state_of(log_dir, 0)),
    "state-last-partition-missing": lambda log_dir: _remove(max(log_dir.glob(f"{STATE}-*"))),
    "state-emptied": lambda log_dir: files.cut(logs(_state_of(log_dir, 0))[-1], 0),
    "state-cut": _on(_state_segment(0), files.cut, -9),
    "state-half": _on(_state_segment(0), _halve_file),
    "state-flipped": lambda log_dir: files.flip(
        logs(_state_of(log_dir, 0))[-1], logs(_state_of(log_dir, 0))[-1].stat().st_size // 2
    ),
    "state-junk-behind": _on(_state_segment(0), files.add, JUNK),
    "state-zeros-behind": _on(_state_segment(1), files.add, bytes(512)),
    # What can't be read.
    "segment-is-folder": _on(_segment(SPREAD, -1), files.to_folder),
    "segment-is-link-to-itself": _on(_segment(SPREAD, -1), files.to_itself),
    "segment-is-fifo": _on(_segment(SPREAD, -1), _fifo),
    "state-segment-is-link-to-itself": _on(_state_segment(0), files.to_itself),
    "index-is-folder": _on(_neighbour_file(names.Suffix.INDEX, 1), files.to_folder),
    "snapshot-is-folder": _on(_snapshot(SPREAD), files.to_folder),
    "folder-is-link-to-itself": _on(_file(QUIET), files.to_itself),
    "folder-is-file": _do_all(_on(_file(QUIET), _remove), _on(_file(QUIET), _write("what?"))),
    "linked-folder": _linked_folder,
    "high-watermarks-is-folder": _on(MARKS, files.to_folder),
    # Folders.
    "replica-missing": _on(_file(SPREAD), _remove),
    "replica-under-another-name": _do_all(_on(_file(QUIET), _remove), _rename(SPREAD, QUIET)),
    "replica-going": _rename(SPREAD, f"{SPREAD}.{'0' * 32}-delete"),
    "replica-stray": _copy_file(SPREAD, f"{SPREAD}.{'0' * 32}-stray"),
    "metadata-properties-missing": _on(_file(names.FileName.META_PROPERTIES), _unlink),
    "record-time-in-future": _in(ALONE, _stamp_last_batch, FUTURE_MS),
    "record-time-missing": _in(ALONE, _stamp_last_batch, -1),
    "record-time-negative": _in(ALONE, _stamp_last_batch, -5),
    "file-time-in-future": _future_file,
}
"""Name -> what is done."""
_ONLY_CLEAN: Final = (
    *("clean-mark-missing", "cleaner-offsets-junk", "file-time-in-future", "folder-is-file"),
    *("folder-is-link-to-itself", "high-watermarks-is-folder", "index-is-folder", "index-junk"),
    *("index-missing", "leader-epochs-junk", "linked-folder", "log-start-behind-end"),
    *("log-starts-junk", "metadata-properties-missing", "partition-metadata-missing"),
    *("record-time-missing", "replica-going", "replica-missing", "replica-stray"),
    *("replica-under-another-name", "segment-is-fifo", "snapshot-behind-end", "snapshot-empty"),
    *("snapshot-is-folder", "snapshot-producer-id", "snapshot-start-behind-end"),
    *("snapshot-start-offset", "snapshot-time-in-future", "state-last-partition-missing"),
    *("state-segment-is-link-to-itself", "txn-index-junk"),
)
_ONLY_KILLED: Final = (
    *("batch-twice", "clean-mark-added", "control-bit", "control-version", "crc-field"),
    *("first-segment-missing", "high-watermarks-missing", "leader-epoch"),
    *("leader-epochs-missing", "left-over-cleaned", "left-over-deleted", "left-over-swap"),
    *("length-negative", "middle-segment-missing-alive", "record-time-negative"),
    *("recovery-point-too-high", "recovery-point-zero", "recovery-points-empty"),
    *("segments-swapped", "snapshot-cut", "state-zeros-behind", "time-index-junk"),
)
ONLY: Final = dict.fromkeys(_ONLY_CLEAN, "clean") | dict.fromkeys(_ONLY_KILLED, "killed")

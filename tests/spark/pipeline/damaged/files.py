"""Changes files of a copied log directory: the tools of ``recipes``."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from struct import pack_into
from typing import Final

import crc32c

from tests.support.old_messages import old_message
from txnsim.storage import names
from txnsim.wire.batch import BatchHeader, iter_batches

PRODUCER_ID: Final = 43
"""Positions of fields in the header of a batch."""
ATTRIBUTES: Final = 21
BASE_TIMESTAMP: Final = 27
MAX_TIMESTAMP: Final = 35
SNAPSHOT_FRONT_BYTES: Final = 10
SNAPSHOT_ENTRY_BYTES: Final = 46
BatchFilter = Callable[[BatchHeader], bool]


def logs(folder: Path) -> list[Path]:
    """The segments of a replica, in order."""
    return [path for _, path in names.Suffix.LOG.files_in(folder)]


def snapshots(folder: Path) -> list[Path]:
    """The snapshots of a replica, in order."""
    return [path for _, path in names.Suffix.SNAPSHOT.files_in(folder)]


def is_data(header: BatchHeader) -> bool:
    """Whether the header is that of a transactional data batch."""
    return header.is_transactional and not header.is_control


def is_marker(header: BatchHeader) -> bool:
    return header.is_control


def find_batch(
    folder: Path, is_wanted: BatchFilter, number: int = 0
) -> tuple[Path, int, BatchHeader]:
    """The batch with this number among the wanted ones: (segment, position, header)."""
    rows = [
        (path, position, header)
        for path in logs(folder)
        for position, header in iter_batches(path.read_bytes())
        if is_wanted(header)
    ]
    return rows[number]


def change(
    path: Path, position: int, data: bytes, *, crc_at: int | None = None, size: int = 0
) -> None:
    """Overwrite bytes; ``crc_at`` is the position of a batch whose CRC is corrected."""
    file_data = bytearray(path.read_bytes())
    file_data[position : position + len(data)] = data
    if crc_at is not None:
        crc = crc32c.crc32c(bytes(file_data[crc_at + BatchHeader.CRC_START : crc_at + size]))
        pack_into(">I", file_data, crc_at + BatchHeader.CRC_START - 4, crc)
    path.write_bytes(file_data)


def change_batch(
    folder: Path,
    is_wanted: BatchFilter,
    index: int,
    data: bytes,
    *,
    number: int = 0,
    mends_crc: bool = False,
) -> None:
    """Overwrite bytes of a batch, at an offset from its beginning."""
    path, position, header = find_batch(folder, is_wanted, number)
    change(path, position + index, data, crc_at=position if mends_crc else None, size=header.size)


def flip(path: Path, position: int) -> None:
    """Flip a bit; a negative position counts from the end."""
    file_bytes = bytearray(path.read_bytes())
    file_bytes[position] ^= 0x10
    path.write_bytes(file_bytes)


def flip_in_batch(folder: Path, is_wanted: BatchFilter, index: int, number: int = 0) -> None:
    """Flip a bit of a batch."""
    path, position, _ = find_batch(folder, is_wanted, number)
    flip(path, position + index)


def cut(path: Path, size: int) -> None:
    """Set the size of a file, with a hole if it grows; a negative size removes that many bytes."""
    with path.open("r+b") as file:
        file.truncate(size if size >= 0 else path.stat().st_size + size)


def add(path: Path, data: bytes) -> None:
    """Append bytes to a file."""
    with path.open("ab") as file:
        file.write(data)


def remove_segment(path: Path) -> None:
    """Remove a segment with its other files."""
    for suffix in (
        names.Suffix.LOG,
        names.Suffix.INDEX,
        names.Suffix.TIME_INDEX,
        names.Suffix.TXN_INDEX,
    ):
        path.with_suffix(suffix).unlink(missing_ok=True)


def to_itself(path: Path) -> None:
    """Replace a file or folder by a link to itself."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    path.symlink_to(path.name)


def to_folder(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()


def drop_lines(path: Path, is_wanted: Callable[[str], bool]) -> None:
    """Remove entries from a checkpoint, and correct its count."""
    version, _, *entries = path.read_text().splitlines()
    lines_left = [line for line in entries if not is_wanted(line)]
    path.write_text("\n".join([version, str(len(lines_left)), *lines_left]) + "\n")


def set_offset(path: Path, partition_name: str, offset: int) -> None:
    """Change one partition's offset in a checkpoint; adds the entry if it is missing."""
    topic, _, partition = partition_name.rpartition("-")
    head_text = f"{topic} {partition} "
    drop_lines(path, lambda line: line.startswith(head_text))
    version, _, *entries = path.read_text().splitlines()
    entries.append(f"{head_text}{offset}")
    path.write_text("\n".join([version, str(len(entries)), *entries]) + "\n")


def change_snapshot(path: Path, position: int, data: bytes, entry: int = 0) -> None:
    """Change an entry of a producer snapshot, 46 bytes each, and correct the CRC."""
    snapshot_data = bytearray(path.read_bytes())
    begin = SNAPSHOT_FRONT_BYTES + SNAPSHOT_ENTRY_BYTES * entry + position
    snapshot_data[begin : begin + len(data)] = data
    pack_into(">I", snapshot_data, 2, crc32c.crc32c(bytes(snapshot_data[6:])))
    path.write_bytes(snapshot_data)


def old_messages(folder: Path, magic: int) -> None:
    """Replace the first batches, which have no producer, by messages of format 0 or 1."""
    path = logs(folder)[0]
    batch_data, new_content, bytes_left = path.read_bytes(), b"", b""
    for position, header in iter_batches(batch_data):
        if header.has_producer_id or bytes_left:
            bytes_left += batch_data[position : position + header.size]
            continue
        new_content += old_message(magic, header.base_offset, stamp_ms=header.max_timestamp_ms)
    assert new_content
    path.write_bytes(new_content + bytes_left)
    for suffix in (names.Suffix.INDEX, names.Suffix.TIME_INDEX):
        path.with_suffix(suffix).write_bytes(b"")


def old_end(path: Path, magic: int) -> None:
    """Replace a segment by one message of format 0 or 1 per batch, without the last batch.

    A topic looks so after its ``message.format.version`` was lowered; the last offsets are missing
    then.
    """
    headers = [header for _, header in iter_batches(path.read_bytes())]
    assert len(headers) > 1
    path.write_bytes(
        b"".join(
            old_message(magic, header.last_offset, stamp_ms=header.max_timestamp_ms)
            for header in headers[:-1]
        )
    )
    for suffix in (names.Suffix.INDEX, names.Suffix.TIME_INDEX):
        path.with_suffix(suffix).write_bytes(b"")

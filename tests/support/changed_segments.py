"""Changes markers in segments of log directories, with sound checksums: what a defect would have
left there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from txnsim.storage import names
from txnsim.storage.log_file import TornTail, read_log_file
from txnsim.wire.batch import assign, control_batch, read_batch_header, read_control_record
from txnsim.wire.control import COMMIT


class StoredMarker(NamedTuple):
    """A marker in a segment."""

    offset: int
    producer_id: int
    producer_epoch: int
    is_commit: bool
    coordinator_epoch: int
    timestamp_ms: int
    leader_epoch: int

    def bytes(self, *, is_commit: bool, offset: int | None = None) -> bytes:
        """The marker's batch, with another outcome or at another offset."""
        return control_batch(
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            is_commit=is_commit,
            coordinator_epoch=self.coordinator_epoch,
            base_offset=self.offset if offset is None else offset,
            leader_epoch=self.leader_epoch,
            timestamp_ms=self.timestamp_ms,
        )


def markers_in(replica: Path) -> list[StoredMarker]:
    """The markers of a replica's only segment, in order."""
    return [marker for batch in _batches_in(replica) for marker in _marker_of(batch)]


def remove_marker(replica: Path, offset: int) -> None:
    """Take a marker out of a replica's segment: its offset is missing then."""
    _rewrite(replica, lambda marker: [] if marker.offset == offset else None)


def turn_marker(replica: Path, offset: int) -> None:
    """Give a marker the other outcome."""

    def turned(marker: StoredMarker) -> list[bytes] | None:
        return [marker.bytes(is_commit=not marker.is_commit)] if marker.offset == offset else None

    _rewrite(replica, turned)


def repeat_marker(replica: Path, offset: int) -> None:
    """Write a marker a second time, right behind itself; everything behind moves by one."""
    path = _segment_of(replica)
    batches: list[bytes] = []
    shift = 0
    for batch in _batches_in(replica):
        header = read_batch_header(batch, 0)
        moved_marker = assign(
            batch, base_offset=header.base_offset + shift, leader_epoch=header.leader_epoch
        )
        batches.append(moved_marker)
        if header.base_offset == offset:
            shift = 1
            (marker,) = _marker_of(batch)
            batches.append(marker.bytes(is_commit=marker.is_commit, offset=offset + 1))
    path.write_bytes(b"".join(batches))


def _rewrite(replica: Path, change: Callable[[StoredMarker], Iterable[bytes] | None]) -> None:
    """Rewrite a segment. ``change`` returns what stands for a marker, or None to leave it."""
    batches: list[bytes] = []
    for batch in _batches_in(replica):
        replacement = [change(marker) for marker in _marker_of(batch)]
        if replacement and replacement[0] is not None:
            batches += replacement[0]
        else:
            batches.append(batch)
    _segment_of(replica).write_bytes(b"".join(batches))


def _segment_of(replica: Path) -> Path:
    ((_, path),) = names.Suffix.LOG.files_in(replica)
    return path


def _batches_in(replica: Path) -> list[bytes]:
    path = _segment_of(replica)
    return [
        bytes(stored_batch.batch_bytes)
        for stored_batch in read_log_file(path, on_torn=_refuse_torn)
    ]


def _refuse_torn(tail: TornTail) -> None:
    raise AssertionError(tail)


def _marker_of(batch: bytes) -> Iterator[StoredMarker]:
    header = read_batch_header(batch, 0)
    control = read_control_record(batch) if header.is_control else None
    if control is not None and control.is_marker:
        yield StoredMarker(
            offset=header.base_offset,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            is_commit=control.type == COMMIT,
            coordinator_epoch=control.coordinator_epoch,
            timestamp_ms=header.max_timestamp_ms,
            leader_epoch=header.leader_epoch,
        )

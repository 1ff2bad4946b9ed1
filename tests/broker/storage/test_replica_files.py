"""Which files of a replica's folder count."""

from __future__ import annotations

from pathlib import Path

import pytest

from txnsim.storage.replica_files import ReplicaFiles, replica_files
from txnsim.wire.batch import Record, build_batch


def file(folder: Path, file_name: str, *, offsets: range | None = None) -> None:
    """Write a file; a log gets a batch of one record at each of the offsets."""
    data = b"".join(
        build_batch([Record(value=b"v")], timestamp_ms=0, base_offset=offset)
        for offset in offsets or ()
    )
    (folder / file_name).write_bytes(data)


def name(offset: int, suffix: str) -> str:
    return f"{offset:020d}{suffix}"


def bases(replica: ReplicaFiles) -> list[int]:
    return [segment.base_offset for segment in replica.segments]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Segments of 0, 10, 20 and 30, the second one with aborted transactions."""
    for offset in (0, 10, 20, 30):
        file(tmp_path, name(offset, ".log"), offsets=range(offset, offset + 10))
        file(tmp_path, name(offset, ".snapshot"))
    for offset in (0, 10, 20):
        file(tmp_path, name(offset, ".index"))
    file(tmp_path, name(10, ".txnindex"))
    file(tmp_path, "partition.metadata")
    file(tmp_path, "leader-epoch-checkpoint")
    return tmp_path


def test_segments_and_snapshots_come_by_offset_with_what_lies_beside_them(folder: Path) -> None:
    files = replica_files(folder)
    assert bases(files) == [0, 10, 20, 30]
    assert [segment.has_index for segment in files.segments] == [True, True, True, False]
    assert [segment.txn_index and segment.txn_index.name for segment in files.segments] == [
        *(None, name(10, ".txnindex"), None, None)
    ]
    assert [offset for offset, _ in files.snapshots] == [0, 10, 20, 30]


def test_deleted_and_half_cleaned_files_do_not_count(folder: Path) -> None:
    file(folder, name(40, ".log.deleted"))
    file(folder, name(0, ".log.cleaned"), offsets=range(1))
    assert bases(replica_files(folder)) == [0, 10, 20, 30]


def test_a_compacted_segment_takes_the_place_of_all_that_it_covers(folder: Path) -> None:
    file(folder, name(0, ".log.swap"), offsets=range(0, 20, 19))
    file(folder, name(0, ".index.swap"))
    files = replica_files(folder)
    assert bases(files) == [0, 20, 30]
    assert files.segments[0].log.name == name(0, ".log.swap")
    assert files.segments[0].has_index
    # Kafka goes by the number in a file's name alone.
    assert [offset for offset, _ in files.snapshots] == [20, 30]


def test_an_empty_compacted_segment_covers_nothing(folder: Path) -> None:
    file(folder, name(10, ".log.swap"))
    files = replica_files(folder)
    assert files.segments[1].log.name == name(10, ".log.swap")
    assert bases(files) == [0, 10, 20, 30]


def test_what_was_swapped_behind_a_half_cleaned_one_does_not_count(folder: Path) -> None:
    """The swap file belongs to a segment that was being split (KAFKA-6264)."""
    file(folder, name(20, ".log.swap"), offsets=range(20, 40))
    file(folder, name(20, ".log.cleaned"))
    files = replica_files(folder)
    assert [segment.log.name for segment in files.segments][2] == name(20, ".log")


def test_an_empty_folder_has_no_segments(tmp_path: Path) -> None:
    assert replica_files(tmp_path) == ReplicaFiles(segments=(), snapshots=())

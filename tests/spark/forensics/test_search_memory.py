"""A search that goes on from what the one before has read gives the answer of one that reads
everything, however the directory has changed.
"""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import msgspec
import pytest

pytest.importorskip("numba", reason="the extra spark is not installed")

from tests.support.growing_dirs import GrowingDir
from txnsim.errors import BadInputError
from txnsim.storage import names
from txnsim_spark.forensics.find_hanging import Search, find_hanging
from txnsim_spark.forensics.findings import Report
from txnsim_spark.scan.log_seek import last_batch_position
from txnsim_spark.scan.segments import SegmentFile, replicas_in, segments_of


class Job:
    """A scheduled search, and beside it one that reads everything."""

    def __init__(self, growing_dir: GrowingDir, state_file: Path) -> None:
        self._growing = growing_dir
        self._state = state_file

    def run(self) -> tuple[int, int]:
        """Search with and without memory; return the bytes that were read, and all bytes."""
        report_of_everything = report_since(self._growing.path)
        report_with_memory = report_since(self._growing.path, since=self._state)
        sizes = report_with_memory.source.scanned_bytes, report_of_everything.source.scanned_bytes
        assert encode_report(report_with_memory) == encode_report(report_of_everything)
        return sizes


def report_since(path: Path, since: Path | None = None) -> Report:
    """The report of a search without the brokers' snapshots."""
    search = Search(paths=(path,), uses_snapshots=False, memory_file=since)
    return find_hanging(search, new_session=no_spark, progress=lambda _: None)


def encode_report(report: Report) -> bytes:
    """A report as JSON, without the number of bytes that were read."""
    source = msgspec.structs.replace(report.source, scanned_bytes=0)
    return msgspec.json.encode(msgspec.structs.replace(report, source=source))


def no_spark() -> NoReturn:
    raise AssertionError("no Spark is started")


@pytest.fixture
def growing_dir(tmp_path: Path) -> GrowingDir:
    """A directory of several segments."""
    growing_dir = GrowingDir(tmp_path / "broker-1")
    growing_dir.grow(30)
    return growing_dir


@pytest.fixture
def job(growing_dir: GrowingDir, tmp_path: Path) -> Job:
    job = Job(growing_dir, tmp_path / "state")
    assert report_since(growing_dir.path).findings
    read, size = job.run()
    assert read == size > 0
    return job


def segments(growing_dir: GrowingDir) -> list[Path]:
    """Return the segments of the log in order."""
    return [
        segment_path for _, segment_path in names.Suffix.LOG.files_in(growing_dir.path / "orders-0")
    ]


def segment_of(file: Path) -> SegmentFile:
    (replica,) = replicas_in([file.parent])
    return next(segment for segment in segments_of(replica) if segment.path == str(file))


def size_of(*files: Path) -> int:
    return sum(file.stat().st_size for file in files)


def test_what_is_new_is_read(growing_dir: GrowingDir, job: Job) -> None:
    for _ in range(3):
        bytes_before = report_since(growing_dir.path).source.scanned_bytes
        growing_dir.grow(11)
        read, size = job.run()
        assert read == size - bytes_before > 0
    assert job.run()[0] == 0


def test_a_torn_end_is_read_again_until_it_is_whole(growing_dir: GrowingDir, job: Job) -> None:
    growing_dir.grow()
    last_segment_file = segments(growing_dir)[-1]
    whole_segment = last_segment_file.read_bytes()
    last_segment_file.write_bytes(whole_segment[:-9])
    read, size = job.run()
    assert 0 < read <= size
    last_segment_file.write_bytes(whole_segment)
    job.run()
    assert job.run()[0] == 0


def test_deleted_segments_are_forgotten(growing_dir: GrowingDir, job: Job) -> None:
    first_segment_file, second_segment_file, *other_segments = segments(growing_dir)
    assert other_segments
    for deleted_segment_file in (first_segment_file, second_segment_file):
        deleted_segment_file.unlink()
    assert job.run()[0] == 0
    for deleted_segment_file in other_segments[:-1]:
        deleted_segment_file.unlink()
    assert job.run()[0] == 0


def test_a_log_that_was_cut_back_is_read_again(growing_dir: GrowingDir, job: Job) -> None:
    *other_segments, last_segment_file = segments(growing_dir)
    last_segment_file.unlink()
    assert job.run()[0] == size_of(*other_segments), "the last batch that was read is gone"
    file_bytes = other_segments[-1].read_bytes()
    other_segments[-1].write_bytes(file_bytes[: len(file_bytes) // 2])
    assert job.run()[0] > 0


def test_a_new_leader_s_batches_are_read(growing_dir: GrowingDir, job: Job) -> None:
    last_segment_file = segments(growing_dir)[-1]
    file_bytes = bytearray(last_segment_file.read_bytes())
    position, _ = last_batch_position(segment_of(last_segment_file))
    file_bytes[position + 12 : position + 16] = (5).to_bytes(4)  # its leader's epoch, in no CRC
    last_segment_file.write_bytes(file_bytes)
    assert job.run()[0] == size_of(*segments(growing_dir))
    assert job.run()[0] == 0


def test_another_topic_of_the_same_name_is_read(growing_dir: GrowingDir, job: Job) -> None:
    file = growing_dir.path / "orders-0" / names.FileName.PARTITION_METADATA
    file_text = file.read_text()
    file.write_text(file_text.replace(file_text.split("topic_id: ")[1][:4], "BBBB"))
    assert job.run()[0] == size_of(*segments(growing_dir))


def test_damage_is_told_each_time(growing_dir: GrowingDir, job: Job) -> None:
    last_segment_file = segments(growing_dir)[-1]
    last_segment_file.write_bytes(last_segment_file.read_bytes() + bytes(100))
    for _ in range(2):
        assert job.run()[0] > 0


def test_another_file_is_refused(growing_dir: GrowingDir, tmp_path: Path) -> None:
    file = tmp_path / "other"
    nested, no_text = b"\x91" * 100_000, b"\x81\xa1\xff\x00"
    for data in (b"{}", msgspec.msgpack.encode({"version": 9}), nested, no_text):
        file.write_bytes(data)
        with pytest.raises(BadInputError, match=str(file)):
            report_since(growing_dir.path, since=file)

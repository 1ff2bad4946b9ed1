"""Places in a log, found through indexes that may be wrong."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from tests.support.fragment_model import Act, segment_of
from tests.support.log_dirs import write_partition
from tests.support.logs import LogDriver
from txnsim.log.config import LogConfig
from txnsim.releases.rules import LATEST_RULES
from txnsim.storage.log_file import read_log_file
from txnsim_spark.scan import log_seek
from txnsim_spark.scan.log_seek import batches_at, end_offset_of, markers_in, read_markers
from txnsim_spark.scan.segments import Replica, SegmentFile, segments_of


@pytest.fixture(autouse=True, params=["batch by batch", "compiled"])
def walk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Treats each segment as a small one or as a large one."""
    if request.param == "compiled":
        monkeypatch.setattr(log_seek, "INTERPRETED_BYTES_MAX", -1)


@pytest.fixture
def segment(tmp_path: Path) -> SegmentFile:
    """A long one, with an entry of the index about every third batch; 40 markers of producer 8."""
    driver = LogDriver(LogConfig(rules=LATEST_RULES, index_interval_bytes=200))
    for sequence in range(0, 120, 3):
        driver.txn(sequence, count=3)
        driver.txn(sequence, count=3, producer_id=8)
        driver.end(committed=True, producer_id=8)
    write_partition(tmp_path / "orders-0", driver.log, topic_id=uuid.UUID(int=1))
    return segment_in(tmp_path / "orders-0")


def segment_in(folder: Path) -> SegmentFile:
    (segment,) = segments_of(
        Replica(log_dir=str(folder.parent), broker=1, topic="orders", partition=0, path=str(folder))
    )
    return segment


def offsets_of(segment: SegmentFile) -> list[tuple[int, int]]:
    return [
        (batch.header.base_offset, batch.header.last_offset)
        for batch in read_log_file(Path(segment.path), on_torn=print)
    ]


def index_of(segment: SegmentFile) -> Path:
    return Path(segment.path).with_suffix(".index")


def check(segment: SegmentFile) -> None:
    """Check that every lookup finds the same as a walk over the whole segment."""
    batches = offsets_of(segment)
    assert end_offset_of(segment) == batches[-1][1] + 1
    end = batches[-1][1] + 1
    expected = {offset: batch for batch in batches for offset in range(batch[0], batch[1] + 1)}
    for offset in expected:
        assert batches_at(segment, [offset]).keys() == {offset}
    together = batches_at(segment, [*expected, end])
    assert all(batch.is_sound for batch in together.values())
    headers = {offset: batch.header for offset, batch in together.items()}
    assert {
        offset: (header.base_offset, header.last_offset) for offset, header in headers.items()
    } == expected


def test_every_batch_is_found_through_the_index(segment: SegmentFile) -> None:
    assert index_of(segment).stat().st_size > 8 * 20
    check(segment)


@pytest.mark.costly
@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data + bytes(10 * 1024),
        lambda data: data[:-3],
        lambda data: data + bytes.fromhex("0000 00f0 7fff fff0"),
        lambda data: data + bytes.fromhex("0000 00f0 0000 0005"),
        lambda data: bytes.fromhex("0000 0001 ffff fff0"),
    ],
    ids=["empty", "zeros behind", "cut off", "beyond the file", "no batch there", "negative"],
)
def test_an_index_that_is_wrong_misleads_nobody(segment: SegmentFile, damage: object) -> None:
    assert callable(damage)
    path = index_of(segment)
    path.write_bytes(damage(path.read_bytes()))
    check(segment)


def test_without_an_index_the_segment_is_walked_over(segment: SegmentFile) -> None:
    index_of(segment).unlink()
    check(segment)


def test_a_torn_tail_is_no_part_of_the_log(segment: SegmentFile) -> None:
    batches = offsets_of(segment)
    path = Path(segment.path)
    whole_data = path.read_bytes()
    path.write_bytes(whole_data[:-1])
    assert end_offset_of(segment_in(path.parent)) == batches[-2][1] + 1
    path.write_bytes(whole_data[:-1] + bytes([whole_data[-1] ^ 1]))
    assert end_offset_of(segment_in(path.parent)) == batches[-2][1] + 1
    path.write_bytes(whole_data + bytes(200))
    assert end_offset_of(segment_in(path.parent)) == batches[-1][1] + 1


@pytest.mark.parametrize("is_torn", [True, False])
def test_a_damaged_batch_that_the_index_names_ends_the_log_there(
    tmp_path: Path, is_torn: bool
) -> None:
    driver = LogDriver(LogConfig(rules=LATEST_RULES, index_interval_bytes=1))
    for sequence in range(5):
        driver.txn(sequence)
    write_partition(tmp_path / "orders-0", driver.log, topic_id=uuid.UUID(int=1))
    segment = segment_in(tmp_path / "orders-0")
    file_bytes = bytearray(Path(segment.path).read_bytes())
    file_bytes[-1] ^= 1
    Path(segment.path).write_bytes(file_bytes[:-5] if is_torn else file_bytes)
    assert segment_in(tmp_path / "orders-0").is_recovered
    assert end_offset_of(segment_in(tmp_path / "orders-0")) == 4


def test_markers_behind_an_offset_are_told_with_their_producers(segment: SegmentFile) -> None:
    end = end_offset_of(segment)
    assert [producer_id for producer_id, _ in markers_in(segment, 0)] == [8] * 40
    assert list(markers_in(segment, end - 1)) == [(8, end - 1)]
    assert list(markers_in(segment, end)) == []


def test_every_marker_is_read_with_what_it_says(segment: SegmentFile) -> None:
    read = list(read_markers(segment, lambda: pytest.fail("nothing is missing")))
    assert [(header.producer_id, is_commit) for header, is_commit in read] == [(8, True)] * 40
    assert [header.base_offset for header, _ in read] == [
        offset for _, offset in markers_in(segment, 0)
    ]


def segment_of_acts(folder: Path, *kinds: str, second_base: int | None = None) -> SegmentFile:
    """A segment with a batch of each kind; the last kind's at an offset of its own, if given."""
    folder.mkdir()
    acts = [
        Act(kind=kind, producer=7, epoch=0, sequence=0, records=1, value_bytes=1, timestamp_ms=1)
        for kind in kinds
    ]
    segment_bytes = segment_of(acts)
    if second_base is not None:
        segment_bytes = segment_of(acts[:-1]) + segment_of(acts[-1:], base_offset=second_base)
    (folder / "00000000000000000000.log").write_bytes(segment_bytes)
    return segment_in(folder)


@pytest.mark.parametrize(
    ("kinds", "second_base", "has_gaps", "commits"),
    [
        (("data", "commit", "data", "abort"), None, False, [True, False]),
        # The cleaner takes a marker's record, and later its batch.
        (("data", "emptied", "data"), None, True, []),
        (("data", "abort"), 5, True, [False]),
        (("data", "other", "abort"), None, False, [False]),
    ],
)
def test_what_the_cleaner_may_have_taken_is_told(
    tmp_path: Path,
    kinds: tuple[str, ...],
    second_base: int | None,
    *,
    has_gaps: bool,
    commits: list[bool],
) -> None:
    notices: list[None] = []
    segment = segment_of_acts(tmp_path / "orders-0", *kinds, second_base=second_base)
    read = list(read_markers(segment, lambda: notices.append(None)))
    assert [is_commit for _, is_commit in read] == commits
    assert bool(notices) is has_gaps


def test_what_is_no_marker_is_passed_over(tmp_path: Path) -> None:
    folder = tmp_path / "orders-0"
    folder.mkdir()
    acts = [
        Act(kind=kind, producer=7, epoch=0, sequence=0, records=1, value_bytes=1, timestamp_ms=1)
        for kind in ("data", "other", "emptied", "abort")
    ]
    (folder / "00000000000000000000.log").write_bytes(segment_of(acts))
    assert [batch for batch, _ in markers_in(segment_in(folder), 0)] == [7]


def test_a_record_that_was_cleaned_away_has_no_batch(tmp_path: Path) -> None:
    folder = tmp_path / "orders-0"
    folder.mkdir()
    batch = Act(
        kind="data", producer=7, epoch=0, sequence=0, records=1, value_bytes=1, timestamp_ms=1
    )
    segment_bytes = segment_of([batch]) + segment_of([batch], base_offset=5)
    (folder / "00000000000000000000.log").write_bytes(segment_bytes)
    assert batches_at(segment_in(folder), [3, 5]).keys() == {5}

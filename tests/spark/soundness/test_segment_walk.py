"""One segment from its first batch to its last."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.spark.soundness.walked import facts
from tests.support.logs import LogDriver, plain
from tests.support.soundness import batches_of
from txnsim.wire.batch import assign, read_batch_header
from txnsim.wire.batch_rewrite import empty_batch
from txnsim_spark.scan import kernel
from txnsim_spark.scan.segments import SegmentFile
from txnsim_spark.soundness._parts import SegmentPart
from txnsim_spark.soundness._segment_walk import (
    epoch_at,
    examine,
)
from txnsim_spark.soundness.violations import SAME_FINDINGS_MAX, Invariant


def segment(directory: Path, data: bytes) -> SegmentFile:
    path = directory / "00000000000000000000.log"
    path.write_bytes(data)
    for suffix in (".index", ".timeindex"):
        path.with_suffix(suffix).touch()
    return SegmentFile(
        replica=facts(directory).replica,
        path=str(path),
        base_offset=0,
        next_base_offset=None,
        size=len(data),
    )


@pytest.fixture
def batches(tmp_path: Path) -> list[bytes]:
    """A transaction of two batches and its marker."""
    driver = LogDriver()
    driver.txn(0)
    driver.txn(1)
    driver.end(committed=True)
    return list(driver.log.batches())


def kept(part: SegmentPart) -> list[int]:
    """Offsets of the batches whose rows are kept."""
    return [int(offset) for table in part.rows for offset in table[kernel.BASE_OFFSET]]


def test_of_batches_that_go_on_the_last_before_a_snapshot_is_kept(tmp_path: Path) -> None:
    driver = LogDriver()
    for number in range(9):
        driver.txn(number)
    found = segment(tmp_path, b"".join(driver.log.batches()))
    part = examine(facts(tmp_path), found)
    assert (kept(part), part.first_offset, part.end_offset) == ([0, 8], 0, 9)
    assert kept(examine(facts(tmp_path), found, (5,))) == [0, 4, 8]


def test_of_an_empty_segment_nothing_is_kept(tmp_path: Path) -> None:
    part = examine(facts(tmp_path), segment(tmp_path, b""), (0,))
    assert (part.first_offset, part.end_offset, part.first_epoch, part.rows) == (None, 0, -1, ())


def test_a_marker_that_cannot_be_read_is_told(tmp_path: Path, batches: list[bytes]) -> None:
    marker = bytearray(batches[2])
    marker[66:70] = b"\xff\xff\xff\xff"  # the key's version
    part = examine(facts(tmp_path), segment(tmp_path, b"".join(batches[:2]) + marker))
    assert {one.rule for one in part.broken} == {Invariant.CRC, Invariant.UNREADABLE_MARKER}


def test_an_emptied_marker_ends_nothing_and_shows_the_cleaner(
    tmp_path: Path, batches: list[bytes]
) -> None:
    batches[2] = empty_batch(read_batch_header(batches[2]))
    part = examine(facts(tmp_path), segment(tmp_path, b"".join(batches)))
    assert part.shows_cleaning
    assert kept(part) == [0, 1]


def test_many_findings_of_one_kind_are_counted(tmp_path: Path) -> None:
    driver = LogDriver()
    for _ in range(SAME_FINDINGS_MAX + 7):
        driver.append(plain())
    broken = [batch[:-1] + b"\xff" for batch in driver.log.batches()]
    found = examine(facts(tmp_path), segment(tmp_path, b"".join(broken))).broken
    assert len(found) == SAME_FINDINGS_MAX + 1
    assert found[-1].found == "7 more of these"


def test_offsets_in_the_range_of_comparison_are_summed_up(
    tmp_path: Path, batches: list[bytes]
) -> None:
    one = segment(tmp_path, b"".join(batches))
    assert examine(facts(tmp_path), one).digests == {}
    compared = msgspec.structs.replace(facts(tmp_path), compare_until=2)
    digests = examine(compared, one).digests
    assert [(bucket, count) for bucket, (count, _) in digests.items()] == [(0, 2)]
    changed = assign(batches[0], base_offset=0, leader_epoch=9)
    other = segment(tmp_path, b"".join([changed, *batches[1:]]))
    assert examine(compared, other).digests != digests


def test_files_beside_the_log_may_be_made_anew(tmp_path: Path, batches: list[bytes]) -> None:
    one = segment(tmp_path, b"".join(batches))
    for suffix in (".index", ".timeindex"):
        Path(one.path).with_suffix(suffix).unlink()
    found = examine(facts(tmp_path), one).broken
    assert {(broken.rule, broken.is_notice) for broken in found} == {
        (Invariant.OFFSET_INDEX, True),
        (Invariant.TIME_INDEX, True),
    }
    assert batches_of(Path(one.path)) == batches


def test_a_checkpoint_tells_who_wrote_an_offset() -> None:
    epochs = ((0, 5), (3, 9))
    assert epoch_at(epochs, 4)[0] == -1
    assert epoch_at(epochs, 5) == (0, 9)
    assert epoch_at(epochs, 9)[0] == 3

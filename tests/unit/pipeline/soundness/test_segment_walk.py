"""One segment from its first batch to its last."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.logs import LogDriver, plain
from tests.support.soundness import batches_of
from txnsim.pipeline.scan.segments import Replica, SegmentFile
from txnsim.pipeline.soundness.facts import ReplicaFacts
from txnsim.pipeline.soundness.segment_walk import (
    SAME_FINDINGS_MAX,
    digest_of,
    epoch_at,
    examine,
)
from txnsim.pipeline.soundness.violations import Invariant
from txnsim.wire.batch import assign, read_batch_header
from txnsim.wire.batch_rewrite import empty_batch

REPLICA = Replica(log_dir="d", broker=1, topic="t", partition=0, path="d/t-0")


def facts(*, compare_until: int = 0) -> ReplicaFacts:
    return ReplicaFacts(
        replica=REPLICA,
        is_clean=True,
        high_watermark=None,
        recovery_point=None,
        log_start=None,
        cleaned_until=0,
        compare_until=compare_until,
    )


def segment(directory: Path, data: bytes) -> SegmentFile:
    path = directory / "00000000000000000000.log"
    path.write_bytes(data)
    for suffix in (".index", ".timeindex"):
        path.with_suffix(suffix).touch()
    return SegmentFile(
        replica=REPLICA, path=str(path), base_offset=0, next_base_offset=None, size=len(data)
    )


@pytest.fixture
def batches(tmp_path: Path) -> list[bytes]:
    """A transaction of two batches and its marker."""
    driver = LogDriver()
    driver.txn(0)
    driver.txn(1)
    driver.end(committed=True)
    return list(driver.log.batches())


def test_a_segment_is_cut_at_snapshots(tmp_path: Path, batches: list[bytes]) -> None:
    part = examine(facts(), segment(tmp_path, b"".join(batches)), (2, 3, 9))
    assert [(one.start, one.end) for one in part.stretches] == [(0, 2), (2, 3)]
    assert (part.first_offset, part.end_offset, part.broken) == (0, 3, ())


def test_an_empty_segment_has_one_empty_stretch(tmp_path: Path) -> None:
    part = examine(facts(), segment(tmp_path, b""), (0,))
    assert (part.first_offset, part.end_offset, part.first_epoch) == (None, 0, -1)
    assert [(one.start, one.end, one.producers) for one in part.stretches] == [(0, 0, ())]


def test_a_marker_that_cannot_be_read_is_told(tmp_path: Path, batches: list[bytes]) -> None:
    marker = bytearray(batches[2])
    marker[66:70] = b"\xff\xff\xff\xff"  # the key's version
    part = examine(facts(), segment(tmp_path, b"".join(batches[:2]) + marker))
    assert {one.rule for one in part.broken} == {Invariant.CRC, Invariant.UNREADABLE_MARKER}


def test_an_emptied_marker_ends_nothing_and_shows_the_cleaner(
    tmp_path: Path, batches: list[bytes]
) -> None:
    batches[2] = empty_batch(read_batch_header(batches[2]))
    part = examine(facts(), segment(tmp_path, b"".join(batches)))
    assert part.shows_cleaning
    ((producer,),) = [one.producers for one in part.stretches]
    assert producer.left.txn_first_offset == 0


def test_many_findings_of_one_kind_are_counted(tmp_path: Path) -> None:
    driver = LogDriver()
    for _ in range(SAME_FINDINGS_MAX + 7):
        driver.append(plain())
    broken = [batch[:-1] + b"\xff" for batch in driver.log.batches()]
    found = examine(facts(), segment(tmp_path, b"".join(broken))).broken
    assert len(found) == SAME_FINDINGS_MAX + 1
    assert found[-1].found == "7 more of these"


def test_offsets_in_the_range_of_comparison_are_summed_up(
    tmp_path: Path, batches: list[bytes]
) -> None:
    one = segment(tmp_path, b"".join(batches))
    assert examine(facts(), one).digests == ()
    (digest,) = examine(facts(compare_until=2), one).digests
    assert (digest.bucket, digest.batches) == (0, 2)
    other = assign(batches[0], base_offset=0, leader_epoch=9)
    assert digest_of(read_batch_header(other)) != digest_of(read_batch_header(batches[0]))


def test_files_beside_the_log_may_be_made_anew(tmp_path: Path, batches: list[bytes]) -> None:
    one = segment(tmp_path, b"".join(batches))
    for suffix in (".index", ".timeindex"):
        Path(one.path).with_suffix(suffix).unlink()
    found = examine(facts(), one).broken
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

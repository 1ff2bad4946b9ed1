"""The directories that the pipeline is measured on hold what they are said to hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import log_data
from benchmarks.log_data import Scale, Stray
from tests.support.no_spark import no_session
from txnsim.storage.log_file import TornTail, read_log_file
from txnsim_spark.forensics import find_hanging as searching

SCALE = Scale(
    partitions=2,
    segment_bytes=40_000,
    transactions=200,
    batches=5,
    producers=128,
    hanging=3,
    alive=2,
)


def whole(torn: TornTail) -> None:
    raise AssertionError(torn)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(log_data, "CACHE", tmp_path)
    return tmp_path


def test_every_batch_is_sound_and_counted(cache: Path) -> None:
    made = log_data.small_batches(SCALE)
    paths = sorted(Path(made.directory).glob("orders-*/*.log"))
    assert len(paths) == 2 * SCALE.partitions
    found = [one for path in paths for one in read_log_file(path, on_torn=whole)]
    assert len(found) == made.batches
    assert sum(path.stat().st_size for path in paths) == made.bytes
    assert sum(one.header.is_control for one in found) == made.transactions == SCALE.transactions


@pytest.mark.costly
@pytest.mark.slow
def test_a_search_finds_exactly_what_was_left_open(cache: Path) -> None:
    made = log_data.small_batches(SCALE)

    report = searching.find_hanging(
        searching.Search(paths=(Path(made.directory),)),
        new_session=no_session,
        progress=lambda _: None,
    )
    found = {
        Stray(
            partition=one.partition,
            producer_id=one.producer_id,
            start_offset=one.start_offset,
            is_hanging=one.verdict.value == "hanging",
        )
        for one in report.findings
    }
    assert found == set(made.strays)
    assert sum(one.is_hanging for one in made.strays) == SCALE.hanging
    assert len(made.strays) == SCALE.hanging + SCALE.alive


def test_what_is_made_is_made_once(cache: Path) -> None:
    first = log_data.small_batches(SCALE)
    segment = min(Path(first.directory).glob("orders-0/*.log"))
    written = segment.stat().st_mtime_ns
    assert log_data.small_batches(SCALE) == first
    assert segment.stat().st_mtime_ns == written


def test_large_batches_are_sound(cache: Path) -> None:
    made = log_data.large_batches(1_000_000)
    (path,) = Path(made.directory).glob("parcels-0/*.log")
    sizes = [one.header.size for one in read_log_file(path, on_torn=whole)]
    assert len(sizes) == made.batches == 15
    assert all(60_000 < size <= log_data.LARGE_BATCH_BYTES for size in sizes)

"""The directories that the pipeline is measured on hold what they are said to hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import log_data
from benchmarks.log_data import Scale, UnendedTransaction
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


def fail_on_torn(torn_tail: TornTail) -> None:
    raise AssertionError(torn_tail)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(log_data, "CACHE", tmp_path)
    return tmp_path


def test_every_batch_is_sound_and_counted(cache: Path) -> None:
    log = log_data.make_small_batches_log(SCALE)
    paths = sorted(Path(log.directory).glob("orders-*/*.log"))
    assert len(paths) == 2 * SCALE.partitions
    batches = [batch for path in paths for batch in read_log_file(path, on_torn=fail_on_torn)]
    assert len(batches) == log.batches
    assert sum(path.stat().st_size for path in paths) == log.bytes
    assert (
        sum(batch.header.is_control for batch in batches) == log.transactions == SCALE.transactions
    )


@pytest.mark.costly
@pytest.mark.slow
def test_a_search_finds_exactly_what_was_left_open(cache: Path) -> None:
    log = log_data.make_small_batches_log(SCALE)

    report = searching.find_hanging(
        searching.Search(paths=(Path(log.directory),)),
        new_session=no_session,
        progress=lambda _: None,
    )
    hanging_transactions = {
        UnendedTransaction(
            partition=finding.partition,
            producer_id=finding.producer_id,
            start_offset=finding.start_offset,
            is_hanging=finding.verdict.value == "hanging",
        )
        for finding in report.findings
    }
    assert hanging_transactions == set(log.strays)
    assert sum(stray.is_hanging for stray in log.strays) == SCALE.hanging
    assert len(log.strays) == SCALE.hanging + SCALE.alive


def test_what_is_made_is_made_once(cache: Path) -> None:
    first_log = log_data.make_small_batches_log(SCALE)
    segment = min(Path(first_log.directory).glob("orders-0/*.log"))
    modified_at_ns = segment.stat().st_mtime_ns
    assert log_data.make_small_batches_log(SCALE) == first_log
    assert segment.stat().st_mtime_ns == modified_at_ns


def test_large_batches_are_sound(cache: Path) -> None:
    log = log_data.make_large_batches_log(1_000_000)
    (path,) = Path(log.directory).glob("parcels-0/*.log")
    sizes = [batch.header.size for batch in read_log_file(path, on_torn=fail_on_torn)]
    assert len(sizes) == log.batches == 15
    assert all(60_000 < size <= log_data.LARGE_BATCH_BYTES for size in sizes)

"""Segments put together: what only shows between them, and what a log may lack."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.logs import LogDriver
from tests.support.soundness import (
    batches_of,
    busy_log,
    found_in,
    note_offset,
    patch,
    write_log_dir,
)
from txnsim.storage import names
from txnsim.types import TopicPartition
from txnsim.wire.batch import read_batch_header
from txnsim.wire.batch_rewrite import empty_batch
from txnsim_spark.soundness.violations import Invariant, Severity

ORDERS = TopicPartition("orders", 0)
BEGIN, SECOND = "00000000000000000000", "00000000000000000025"


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    write_log_dir(tmp_path, 1, {"orders-0": busy_log()})
    return tmp_path


def rules(log_dir: Path) -> set[str]:
    return {f"{one.severity} {one.rule}" for one in found_in(log_dir)}


def _delete_oldest(replica: Path) -> None:
    for path in replica.glob(f"{BEGIN}.*"):
        path.unlink()


def test_what_began_in_deleted_segments_is_known_from_their_snapshot(log_dir: Path) -> None:
    _delete_oldest(log_dir / "orders-0")
    assert rules(log_dir) == set()


def test_without_that_snapshot_nothing_is_made_up(log_dir: Path) -> None:
    _delete_oldest(log_dir / "orders-0")
    (log_dir / "orders-0" / f"{SECOND}.snapshot").unlink()
    assert rules(log_dir) == set()


def test_checkpoints_lie_within_the_log(log_dir: Path) -> None:
    note_offset(log_dir, names.HIGH_WATERMARKS_NAME, ORDERS, 109)
    (found,) = found_in(log_dir)
    assert (found.rule, found.file) == (Invariant.CHECKPOINT, names.HIGH_WATERMARKS_NAME)
    note_offset(log_dir, names.HIGH_WATERMARKS_NAME, ORDERS, 108)
    _delete_oldest(log_dir / "orders-0")
    note_offset(log_dir, names.LOG_STARTS_NAME, ORDERS, 24)
    assert rules(log_dir) == {"error checkpoint"}


def test_a_marker_for_a_partition_that_was_not_written_is_a_notice(tmp_path: Path) -> None:
    driver = LogDriver()
    driver.end(committed=False, pid=3)
    driver.txn(0)
    driver.end(committed=True)
    driver.end(committed=True)
    write_log_dir(tmp_path, 1, {"orders-0": driver})
    found = found_in(tmp_path)
    assert [(one.rule, one.severity, one.offset) for one in found] == [
        (Invariant.IDLE_MARKER, Severity.NOTICE, 0),
        (Invariant.IDLE_MARKER, Severity.NOTICE, 3),
    ]


def _clean(replica: Path) -> None:
    """What the cleaner leaves of the first segment: every second batch of data, no aborted ones."""
    log = replica / f"{BEGIN}.log"
    kept = [batch for number, batch in enumerate(batches_of(log)) if number not in (0, 4, 6)]
    log.write_bytes(b"".join(kept))
    for suffix in (".index", ".timeindex", ".txnindex"):
        log.with_suffix(suffix).write_bytes(b"")


def test_what_a_compacted_log_lacks_is_no_finding(log_dir: Path) -> None:
    _clean(log_dir / "orders-0")
    assert "error offset-gap" in rules(log_dir)
    note_offset(log_dir, names.CLEANER_OFFSETS_NAME, ORDERS, 25)
    assert rules(log_dir) == set()


def test_a_cleaner_shows_without_its_checkpoint(log_dir: Path) -> None:
    _clean(log_dir / "orders-0")
    log = log_dir / "orders-0" / f"{BEGIN}.log"
    kept = batches_of(log)
    kept[-1] = empty_batch(read_batch_header(kept[-1]))
    log.write_bytes(b"".join(kept))
    assert "error offset-gap" not in rules(log_dir)


def test_behind_what_was_cleaned_a_gap_is_one(log_dir: Path) -> None:
    note_offset(log_dir, names.CLEANER_OFFSETS_NAME, ORDERS, 25)
    patch(log_dir / "orders-0" / f"{SECOND}.log", 5, base_sequence=11)
    assert rules(log_dir) == {"error sequence"}

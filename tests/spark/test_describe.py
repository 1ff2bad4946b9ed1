"""What a replica's log and the notes about it come to."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.logs import LogDriver
from tests.support.soundness import note_offset, write_log_dir
from txnsim.storage import names
from txnsim.types import TopicPartition
from txnsim_spark.describe import Described, described

ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    driver = LogDriver()
    driver.txn(0, count=5)
    driver.end(committed=True)
    driver.txn(5)
    driver.txn(0, pid=8)
    write_log_dir(tmp_path, 2, {"orders-0": driver})
    return tmp_path


def one(log_dir: Path) -> Described:
    told: list[str] = []
    (found,) = described([log_dir], progress=told.append)
    assert told == [f"reading {log_dir / 'orders-0'}"]
    return found


def test_read_committed_comes_to_the_first_open_transaction(log_dir: Path) -> None:
    found = one(log_dir)
    assert (found.broker, found.is_clean, found.log_dir) == (2, True, str(log_dir))
    assert (found.log_start_offset, found.high_watermark, found.end_offset) == (0, 8, 8)
    assert (found.last_stable_offset, found.withheld) == (6, 2)


def test_a_high_watermark_may_be_lower(log_dir: Path) -> None:
    note_offset(log_dir, names.HIGH_WATERMARKS_NAME, ORDERS, 4)
    found = one(log_dir)
    assert (found.high_watermark, found.last_stable_offset, found.withheld) == (4, 4, 0)


def test_a_high_watermark_that_nobody_noted_is_the_end(log_dir: Path) -> None:
    (log_dir / names.HIGH_WATERMARKS_NAME).unlink()
    note_offset(log_dir, names.LOG_STARTS_NAME, ORDERS, 3)
    found = one(log_dir)
    assert (found.high_watermark, found.last_stable_offset, found.withheld) == (None, 6, 2)
    assert found.log_start_offset == 3


def test_a_note_behind_the_end_counts_as_the_end(log_dir: Path) -> None:
    note_offset(log_dir, names.HIGH_WATERMARKS_NAME, ORDERS, 99)
    assert one(log_dir).high_watermark == 8

"""What aborted and open transactions wrote."""

from __future__ import annotations

from pathlib import Path

import pyarrow.dataset as ds
import pytest

from tests.support.broker_dirs import BrokerDir, move
from tests.support.logs import NOW, LogDriver
from tests.support.no_spark import no_session
from txnsim.errors import BadInputError
from txnsim_spark.forensics.find_hanging import Search
from txnsim_spark.questions.lost import Losses, LostLot, lost

HOUR = 3_600_000


def log(*, is_whole: bool) -> LogDriver:
    """A commit, an abort, one that hangs; another producer's open one."""
    driver = LogDriver()
    driver.txn(0, count=2)
    driver.end(committed=True)
    driver.txn(2)
    if is_whole:
        driver.end(committed=False)
        driver.txn(3, count=3)
        driver.txn(0, pid=99)
    return driver


@pytest.fixture
def disks(tmp_path: Path) -> Path:
    """Two brokers; the first one has not come as far."""
    for broker in (1, 2):
        made = BrokerDir(tmp_path / f"broker-{broker}", broker)
        made.coordinator(move("Empty"))
        made.replica(log(is_whole=broker == 2))
        made.stop()
    return tmp_path


def looked(disks: Path, target: Path | None = None) -> Losses:
    search = Search(paths=(disks,), as_of_ms=NOW + HOUR)
    return lost(search, target, new_session=no_session, progress=lambda _: None)


def test_each_transaction_is_counted_once(disks: Path) -> None:
    found = looked(disks)
    told = [
        (lot.transactional_id, lot.outcome, lot.verdict, lot.first_offset, lot.last_offset)
        for lot in found.transactions
    ]
    assert told == [
        ("app", "aborted", None, 3, 3),
        ("app", "open", "hanging", 5, 7),
        (None, "open", "hanging", 8, 8),
    ]
    assert (found.records, found.bytes, found.files, found.directory) == (5, 10, 0, None)
    assert found.transactions[1] == LostLot(
        topic="orders",
        partition=0,
        transactional_id="app",
        producer_id=7,
        outcome="open",
        verdict="hanging",
        first_offset=5,
        last_offset=7,
        records=3,
        bytes=6,
        keys=1,
    )


def test_their_records_are_written_once(disks: Path) -> None:
    found = looked(disks, disks / "out")
    assert found.files == 1
    read = ds.dataset(disks / "out", partitioning="hive").to_table().to_pylist()
    assert [(row["broker"], row["offset"], row["outcome"]) for row in read] == [
        (2, 3, "aborted"),
        (2, 5, "open"),
        (2, 6, "open"),
        (2, 7, "open"),
        (2, 8, "open"),
    ]
    with pytest.raises(BadInputError, match="is there already"):
        looked(disks, disks / "out")


def test_nothing_is_lost_where_everything_was_committed(tmp_path: Path) -> None:
    driver = LogDriver()
    driver.txn(0)
    driver.end(committed=True)
    made = BrokerDir(tmp_path / "broker-1")
    made.replica(driver)
    assert looked(made.stop()).transactions == ()

"""Every record of one transactional id, once, with what became of it."""

from __future__ import annotations

from pathlib import Path

import pyarrow.dataset as ds
import pytest

from tests.support.broker_dirs import BrokerDir, move
from tests.support.logs import PID, LogDriver
from txnsim.errors import BadInputError
from txnsim_spark.extract import Extract, Lot, extract


def log(*, is_whole: bool) -> LogDriver:
    """A commit, an abort, an open transaction; between them another producer's."""
    driver = LogDriver()
    driver.txn(0, count=2)
    driver.txn(0, pid=99)
    driver.end(committed=True)
    driver.txn(2)
    if is_whole:
        driver.end(committed=False)
        driver.txn(3, count=3)
    return driver


@pytest.fixture
def disks(tmp_path: Path) -> Path:
    """Two brokers; the first one has not come as far."""
    for broker in (1, 2):
        made = BrokerDir(tmp_path / f"broker-{broker}", broker)
        made.coordinator(move("Empty"), move("Empty", name="other", pid=99))
        made.replica(log(is_whole=broker == 2))
        made.stop()
    return tmp_path


def wanted(disks: Path, name: str = "app") -> Extract:
    return Extract(paths=(disks,), transactional_id=name, target=disks / "out")


def test_each_record_is_written_once_with_its_outcome(disks: Path) -> None:
    found = extract(wanted(disks))
    assert (found.producer_ids, found.records, found.files) == ((PID,), 6, 1)
    read = ds.dataset(found.directory, partitioning="hive").to_table()
    columns = ("broker", "topic", "offset", "outcome", "transaction_offset", "value")
    assert [tuple(row[name] for name in columns) for row in read.to_pylist()] == [
        (2, "orders", 0, "committed", 0, b"v"),
        (2, "orders", 1, "committed", 0, b"v"),
        (2, "orders", 4, "aborted", 4, b"v"),
        (2, "orders", 6, "open", 6, b"v"),
        (2, "orders", 7, "open", 6, b"v"),
        (2, "orders", 8, "open", 6, b"v"),
    ]


def test_what_was_lost_is_counted(disks: Path) -> None:
    found = extract(wanted(disks)).transactions
    assert found[0] == Lot(
        topic="orders",
        partition=0,
        producer_id=PID,
        outcome="committed",
        first_offset=0,
        last_offset=1,
        records=2,
        bytes=4,
        keys=1,
    )
    told = [(lot.outcome, lot.first_offset, lot.last_offset, lot.records) for lot in found]
    assert told[1:] == [("aborted", 4, 4, 1), ("open", 6, 8, 3)]


@pytest.mark.costly
def test_a_record_without_a_transaction_has_none(tmp_path: Path) -> None:
    driver = LogDriver()
    driver.data(0)
    made = BrokerDir(tmp_path / "broker-1", 1)
    made.coordinator(move("Empty"))
    made.replica(driver)
    made.stop()
    (lot,) = extract(wanted(tmp_path)).transactions
    assert (lot.outcome, lot.records) == ("none", 1)


def test_only_some_topics(disks: Path) -> None:
    import msgspec

    found = extract(msgspec.structs.replace(wanted(disks), topics=frozenset({"nothing"})))
    assert (found.records, found.files, found.transactions) == (0, 0, ())


def test_an_id_that_nobody_knows_and_a_folder_that_is_there_are_refused(disks: Path) -> None:
    with pytest.raises(BadInputError, match="no coordinator's log in these directories has it"):
        extract(wanted(disks, "nobody"))
    assert not (disks / "out").exists()
    extract(wanted(disks))
    with pytest.raises(BadInputError, match="is there already; name another folder"):
        extract(wanted(disks))

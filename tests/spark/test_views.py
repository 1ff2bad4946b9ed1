"""Views over the tables of log directories, in DuckDB; Spark's answer is in
tests/spark/pipeline/test_views.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.broker_dirs import BrokerDir, move
from tests.support.logs import PID, LogDriver
from txnsim_spark.log_database import LogDatabase
from txnsim_spark.options import tables_with
from txnsim_spark.schemas import TABLES

pytest.importorskip("duckdb", reason="the extra spark is not installed")


@pytest.fixture
def disks(tmp_path: Path) -> Path:
    """The log directories of two brokers; the second broker's replicas are behind."""
    for broker, is_whole in ((1, True), (2, False)):
        driver = LogDriver()
        driver.txn(0, count=2)
        driver.end(committed=True)
        driver.txn(2)
        if is_whole:
            driver.end(committed=False)
            driver.txn(3, count=3)
            driver.txn(0, producer_id=99)
        broker_dir = BrokerDir(tmp_path / f"broker-{broker}", broker)
        broker_dir.coordinator(move("Empty"))
        broker_dir.replica(driver)
        broker_dir.stop()
    return tmp_path


def test_the_longest_replica_of_the_newest_epoch_leads(disks: Path) -> None:
    database = LogDatabase([disks], {"topics": "orders"})
    (leader,) = database.rows("SELECT topic, partition, broker FROM kafka_leaders")
    assert leader == {"topic": "orders", "partition": 0, "broker": 1}
    records = database.rows("SELECT broker, `offset` FROM leader ORDER BY `offset`")
    assert [(row["broker"], row["offset"]) for row in records] == [
        (1, offset) for offset in range(9)
    ]


def test_each_record_has_the_outcome_of_its_transaction(disks: Path) -> None:
    query = "SELECT `offset`, outcome, transaction_offset AS at FROM kafka_outcomes ORDER BY 1"
    rows = LogDatabase([disks], {"producerIds": str(PID)}).rows(query)
    assert [(row["offset"], row["outcome"], row["at"]) for row in rows] == [
        *((0, "committed", 0), (1, "committed", 0), (3, "aborted", 3)),
        *((5, "open", 5), (6, "open", 5), (7, "open", 5)),
    ]


def test_a_record_without_a_transaction_has_none(tmp_path: Path) -> None:
    driver = LogDriver()
    driver.data(0)
    broker_dir = BrokerDir(tmp_path / "broker-1")
    broker_dir.replica(driver)
    (row,) = LogDatabase([broker_dir.stop()]).rows("SELECT outcome FROM kafka_outcomes")
    assert row == {"outcome": "none"}


def test_an_option_holds_for_the_tables_that_have_what_it_goes_by() -> None:
    assert set(tables_with("topics")) == set(TABLES)
    assert set(tables_with("as_of")) == {"findings"}
    assert "producer_state" not in tables_with("startTimestamp")

"""Log directories as a database; Spark's answer is in tests/spark/pipeline/test_views.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark.test_views import disks
from txnsim.errors import BadInputError
from txnsim_spark.log_database import LogDatabase
from txnsim_spark.schemas import TABLES

__all__ = ["disks"]
pytest.importorskip("duckdb", reason="the extra spark is not installed")


@pytest.mark.parametrize("table", TABLES)
def test_every_table_is_there(disks: Path, table: str) -> None:
    (row,) = LogDatabase([disks]).rows(f"SELECT count(*) AS rows FROM kafka_{table}")
    assert (row["rows"] > 0) is (table not in {"errors", "offsets", "share_states"})


def test_a_table_is_read_once_and_names_are_in_any_case(disks: Path) -> None:
    database = LogDatabase([disks])
    twice = "SELECT count(*) AS rows FROM KAFKA_RECORDS AS one JOIN kafka_records AS other ON true"
    (row,) = database.rows(twice)
    (once,) = database.rows("SELECT count(*) AS rows FROM kafka_records")
    for log in disks.rglob("*.log"):
        log.unlink()
    assert once["rows"] ** 2 == row["rows"] > 100
    assert database.rows(twice) == [row]


def test_times_that_are_asked_for_bound_the_rows(disks: Path) -> None:
    query = "SELECT max(timestamp_ms) AS last FROM kafka_records"
    (last,) = LogDatabase([disks]).rows(query)
    until = {"endTimestamp": str(last["last"])}
    (earlier,) = LogDatabase([disks], until).rows(query)
    assert earlier["last"] is None or earlier["last"] < last["last"]


@pytest.mark.parametrize(
    ("options", "query", "told"),
    [
        ({}, "SELECT nothing", "Binder Error.*nothing"),
        ({}, "SELECT * FROM kafka_nothing", "Catalog Error.*kafka_nothing"),
        ({"topic": "orders"}, "FROM kafka_batches", "no option 'topic'; did you mean topics"),
        ({"topics": "order"}, "FROM kafka_batches", "did you mean orders"),
    ],
)
def test_a_misuse_is_refused(disks: Path, options: dict[str, str], query: str, told: str) -> None:
    with pytest.raises(BadInputError, match=told):
        LogDatabase([disks], options).rows(query)

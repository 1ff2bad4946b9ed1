"""Log directories as a database; Spark's answer is in tests/spark/pipeline/test_views.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.spark.test_views import disks
from txnsim.errors import BadInputError
from txnsim_spark import log_database
from txnsim_spark.log_database import _TABLE_OF_RELATION, LogDatabase, _whole_table_use
from txnsim_spark.planning import Share
from txnsim_spark.schemas import TABLES
from txnsim_spark.tables.row_sources import batches_of
from txnsim_spark.tables.rows import TableJob

__all__ = ["disks"]
pytest.importorskip("duckdb", reason="the extra spark is not installed")


@pytest.mark.parametrize("table_name", TABLES)
def test_every_table_is_there(disks: Path, table_name: str) -> None:
    (row,) = LogDatabase([disks]).rows(f"SELECT count(*) AS rows FROM kafka_{table_name}")
    assert (row["rows"] > 0) is (table_name not in {"errors", "offsets", "share_states"})


def test_a_table_is_read_once_and_names_are_in_any_case(disks: Path) -> None:
    database = LogDatabase([disks])
    self_join = (
        "SELECT count(*) AS rows FROM KAFKA_RECORDS AS one JOIN kafka_records AS other ON true"
    )
    (row,) = database.rows(self_join)
    (first_count,) = database.rows("SELECT count(*) AS rows FROM kafka_records")
    for log in disks.rglob("*.log"):
        log.unlink()
    assert first_count["rows"] ** 2 == row["rows"] > 100
    assert database.rows(self_join) == [row]


def test_times_that_are_asked_for_bound_the_rows(disks: Path) -> None:
    query = "SELECT max(timestamp_ms) AS last FROM kafka_records"
    (row,) = LogDatabase([disks]).rows(query)
    until = {"endTimestamp": str(row["last"])}
    (earlier_row,) = LogDatabase([disks], until).rows(query)
    assert earlier_row["last"] is None or earlier_row["last"] < row["last"]


@pytest.mark.parametrize(
    ("options", "query", "message"),
    [
        ({}, "SELECT nothing", "Binder Error.*nothing"),
        ({}, "SELECT * FROM kafka_nothing", "Catalog Error.*kafka_nothing"),
        ({"topic": "orders"}, "FROM kafka_batches", "no option 'topic'; did you mean topics"),
        ({"topics": "order"}, "FROM kafka_batches", "did you mean orders"),
    ],
)
def test_a_misuse_is_refused(
    disks: Path, options: dict[str, str], query: str, message: str
) -> None:
    with pytest.raises(BadInputError, match=message):
        LogDatabase([disks], options).rows(query)


class Reads:
    """Columns and replicas that were read, by table."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.columns: dict[str, tuple[str, ...]] = {}
        self.places: set[str] = set()

        def counted_batches(share: Share, job: TableJob, schema: Any) -> Any:
            self.columns[job.options.table] = job.columns
            self.places |= {f"{segment.topic}-{segment.partition}" for segment in share.segments}
            return batches_of(share, job, schema)

        monkeypatch.setattr(log_database, "batches_of", counted_batches)


@pytest.mark.parametrize(
    ("query", "columns"),
    [
        ("SELECT count(*) FROM kafka_records", ["log_dir"]),
        ("SELECT topic, max(`offset`) FROM kafka_records GROUP BY topic", ["topic", "offset"]),
        ("SELECT count(*) FROM leader", ["log_dir", "topic", "partition"]),
        ("SELECT * EXCLUDE (value) FROM (SELECT topic, value FROM kafka_records)", ["topic"]),
    ],
)
def test_only_the_columns_that_a_query_needs_are_read(
    disks: Path, query: str, columns: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = Reads(monkeypatch)
    assert LogDatabase([disks]).rows(query)
    assert sorted(reads.columns["records"]) == sorted(columns)


def test_only_the_replicas_that_a_query_names_are_read(
    disks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = Reads(monkeypatch)
    query = "SELECT count(*) AS rows FROM kafka_batches WHERE topic = '{}' AND partition = 0"
    (all_of_it,) = LogDatabase([disks]).rows("SELECT count(*) AS rows FROM kafka_batches")
    assert {"orders-0", "__transaction_state-0"} <= reads.places
    reads.places.clear()
    (row,) = LogDatabase([disks]).rows(query.format("orders"))
    assert reads.places == {"orders-0"}
    assert 0 < row["rows"] < all_of_it["rows"]
    assert LogDatabase([disks]).rows(query.format("nowhere")) == [{"rows": 0}]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT topic, count(*) AS n FROM {} GROUP BY ALL ORDER BY ALL",
        "SELECT count(*) AS n FROM {0} AS a JOIN {0} AS b USING (log_dir, topic, partition)",
        "SELECT DISTINCT topic FROM {} WHERE partition = 0 ORDER BY ALL",
        "WITH a AS (SELECT * FROM {}) SELECT (SELECT count(*) FROM a) + count(*) AS n FROM a",
        "SELECT count(*) AS n FROM {0} AS a LEFT JOIN kafka_leaders USING (topic, partition)"
        " WHERE EXISTS (SELECT 1 FROM {0} AS b WHERE a.topic = b.topic AND b.topic = 'orders')",
    ],
)
@pytest.mark.parametrize(
    "table_name", ["kafka_batches", "kafka_records", "leader", "kafka_outcomes"]
)
def test_what_is_streamed_or_kept_answers_as_whole_tables_do(
    disks: Path, query: str, table_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql = query.format(table_name)
    rows = LogDatabase([disks]).rows(sql)
    database = LogDatabase([disks])

    def raise_unplanned(*_: object) -> Any:
        return {
            relation_name: _whole_table_use(relation_name)
            for relation_name in database._named_relations
            if relation_name in _TABLE_OF_RELATION
        }

    monkeypatch.setattr(log_database, "table_uses", raise_unplanned)
    assert database.rows(sql) == rows
    assert rows


def test_a_mistake_has_its_line_and_a_caret(disks: Path) -> None:
    query = "-- whose\nSELECT topic,\n  nothing\nFROM kafka_batches"
    with pytest.raises(BadInputError) as error_info:
        LogDatabase([disks]).rows(query)
    *_, line, caret = str(error_info.value).splitlines()
    assert line == "LINE 3:   nothing"
    assert caret.strip("^") == " " * line.index("nothing")


@pytest.mark.parametrize(
    "query", ["SELECT offset FROM leader", "SELECT 1 FROM leader ORDER BY offset"]
)
def test_an_unquoted_offset_is_told_with_the_fix(disks: Path, query: str) -> None:
    with pytest.raises(BadInputError, match="Parser Error") as error_info:
        LogDatabase([disks]).rows(query)
    assert 'offset is a reserved word of SQL: write "offset"' in str(error_info.value)


def test_other_mistakes_have_no_such_hint(disks: Path) -> None:
    for query in ('SELECT "offset" FRM leader', "SELEC 1 FROM leader LIMIT 1 OFFSET 2 -- offset"):
        with pytest.raises(BadInputError) as error_info:
            LogDatabase([disks]).rows(query)
        assert "reserved" not in str(error_info.value)

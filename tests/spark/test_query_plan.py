"""What DuckDB's plan says a query reads."""

from __future__ import annotations

from typing import Any

import pytest

duckdb: Any = pytest.importorskip("duckdb", reason="the extra spark is not installed")

from txnsim_spark.query_plan import prepare_planning, scans_of_streams, table_uses  # noqa: E402 - only with DuckDB


@pytest.fixture
def connection() -> Any:
    database = duckdb.connect()
    prepare_planning(database)
    for name in ("log", "other"):
        database.execute(
            f'CREATE TABLE {name} (topic TEXT, partition INT, "offset" BIGINT, value BLOB)'
        )
    return database


@pytest.mark.parametrize(
    ("query", "columns", "scan_count", "keys"),
    [
        ("SELECT count(*) FROM log", set(), 1, {}),
        ('SELECT max("offset") FROM log', {"offset"}, 1, {}),
        (
            "SELECT value FROM log WHERE topic = 'it''s' AND partition = 3",
            {"topic", "partition", "value"},
            1,
            {"topic": {"it's"}, "partition": {"3"}},
        ),
        ('SELECT value FROM log WHERE "offset" > 5', {"offset", "value"}, 1, {}),
        ("SELECT 1 FROM log WHERE topic = 'a' OR partition = 3", {"topic", "partition"}, 1, {}),
        (
            "SELECT 1 FROM log WHERE topic = 'a' UNION ALL SELECT 2 FROM log WHERE topic = 'b'",
            {"topic"},
            2,
            {"topic": {"a", "b"}},
        ),
        (
            "SELECT 1 FROM log WHERE topic = 'a' UNION ALL SELECT partition FROM log",
            {"topic", "partition"},
            2,
            {},
        ),
        ("WITH l AS (SELECT * FROM log) SELECT topic FROM l", {"topic"}, 1, {}),
    ],
)
def test_columns_places_and_keys_of_a_table(
    connection: Any, query: str, columns: set[str], scan_count: int, keys: dict[str, set[str]]
) -> None:
    (use,) = table_uses(connection, query).values()
    names = {"topic", "partition", "offset", "value"}
    assert use.columns & names == frozenset(columns)
    assert use.scan_count == scan_count
    assert {key: set(values) for key, values in use.values_by_key.items()} == keys


def test_streams_are_counted_by_their_places(connection: Any) -> None:
    pa = pytest.importorskip("pyarrow")
    schema = pa.schema([("topic", pa.string())])
    connection.register("stream", pa.RecordBatchReader.from_batches(schema, iter([])))
    assert scans_of_streams(connection, "SELECT topic FROM stream") == 1
    assert scans_of_streams(connection, "SELECT topic FROM log") == 0
    self_join = "SELECT * FROM stream AS a JOIN stream AS b USING (topic)"
    assert scans_of_streams(connection, self_join) == 2

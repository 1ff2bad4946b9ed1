"""A query that reads only what it needs has the answer of one that reads everything."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from txnsim_lab.scenario.incidents import write_incident
from txnsim_spark.narrowing import query_logs
from txnsim_spark.views import register_log_views

QUERIES = {
    "a count": ("SELECT count(*) AS n FROM kafka_records", ["kafka_records: reads counts"]),
    "places and offsets": (
        "SELECT sum(length(value)) AS bytes FROM kafka_records WHERE topic = 'orders'"
        " AND partition = 0 AND `offset` BETWEEN 5 AND 20",
        [
            "kafka_records: reads offset, partition, topic, value; topics=orders; partitions=0;"
            ' startingOffsets={"orders": {"0": 5}}; endingOffsets={"orders": {"0": 21}}'
        ],
    ),
    "times": (
        "SELECT count(*) AS n FROM kafka_batches WHERE max_timestamp_ms >= 1795197567000"
        " AND 1795197567500 > max_timestamp_ms",
        [
            "kafka_batches: reads max_timestamp_ms; startTimestamp=1795197567000;"
            " endTimestamp=1795197567501"
        ],
    ),
    "a union of two scans": (
        "SELECT count(*) AS n FROM kafka_endings WHERE topic = 'orders' AND marker_offset < 9"
        " UNION ALL SELECT count(*) FROM kafka_endings WHERE topic = 'payments'",
        ["kafka_endings: reads marker_offset, topic; topics=orders,payments"],
    ),
    "a scan without a filter beside one": (
        "SELECT count(*) AS n FROM kafka_endings WHERE partition = 0"
        " UNION ALL SELECT sum(producer_id) FROM kafka_endings",
        ["kafka_endings: reads partition, producer_id"],
    ),
    "a topic that is not there": (
        "SELECT count(*) AS n FROM kafka_batches WHERE topic IN ('nope', 'neither')",
        ["kafka_batches: reads topic"],
    ),
    "any of two conditions": (
        "SELECT count(*) AS n FROM kafka_batches WHERE partition = 0 OR base_offset > 3",
        ["kafka_batches: reads base_offset, partition"],
    ),
    "a view": (
        "SELECT outcome, count(*) AS n FROM kafka_outcomes WHERE topic = 'orders'"
        " GROUP BY outcome ORDER BY outcome",
        None,
    ),
}


@pytest.fixture(scope="module")
def disks(tmp_path_factory: pytest.TempPathFactory) -> str:
    path: Path = tmp_path_factory.mktemp("disks")
    write_incident("lost-commit").write(path)
    return str(path)


@pytest.mark.parametrize("name", QUERIES)
def test_the_answer_is_that_of_whole_tables(spark: SparkSession, disks: str, name: str) -> None:
    query, expected_lines = QUERIES[name]
    lines: list[str] = []
    rows = query_logs(spark, query, disks, on_narrowing=lines.append)
    narrowed_answer = rows.collect()
    assert narrowed_answer == spark.sql(query).collect(), "the tables are whole again"
    if expected_lines is None:
        assert len(lines) == 2, "records, and batches for the transactions"
    else:
        assert lines == expected_lines
    assert rows.collect() == narrowed_answer


def test_options_of_the_caller_stay(spark: SparkSession, disks: str) -> None:
    lines: list[str] = []
    query = "SELECT count(*) AS n FROM kafka_records WHERE topic = 'orders'"
    (row,) = query_logs(spark, query, disks, on_narrowing=lines.append, topics="payments").collect()
    assert row.n == 0
    assert lines == ["kafka_records: reads topic"]
    register_log_views(spark, disks, topics="payments")
    assert spark.sql(query).collect() == [row]

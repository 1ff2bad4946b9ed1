"""Rows between offsets and times: the same as somebody would choose by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import StructType

from tests.support.log_tables import broker_dir, busy_log, replica
from tests.support.logs import NOW, LogDriver
from txnsim.log.config import LogConfig
from txnsim.releases.rules import LATEST
from txnsim.types import TopicPartition
from txnsim_spark.schemas import OFFSET_COLUMNS, TABLES, TIME_COLUMNS
from txnsim_spark.source import KafkaLogDataSource, schema_of

Row = dict[str, Any]


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two partitions; in one of them a transaction of two records each second."""
    log_dir = broker_dir(tmp_path_factory.mktemp("bounds"))
    replica(log_dir, busy_log())
    driver = LogDriver(LogConfig(rules=LATEST, roll_bytes=1_000, index_interval_bytes=300))
    for number in range(40):
        driver.now = NOW + 1_000 * number
        assert driver.txn(2 * number, count=2, pid=5, timestamp=driver.now) == 0
        assert driver.end(committed=True, pid=5) == 0
    replica(log_dir, driver, TopicPartition("payments", 1))
    return log_dir


def rows(logs: Path, table: str, *columns: str, **options: str) -> list[Row]:
    source = KafkaLogDataSource(CaseInsensitiveDict({"path": str(logs), "table": table, **options}))
    schema = schema_of(table)
    asked = StructType([schema[one] for one in columns]) if columns else schema
    reader: Any = source.reader(asked)
    found = [row for task in reader.partitions() for batch in reader.read(task)
             for row in batch.to_pylist()]  # fmt: skip
    assert all(list(row) == asked.names for row in found)
    return found


def of(topic: str) -> Callable[[Row], bool]:
    return lambda row: bool(row["topic"] == topic)


@pytest.mark.parametrize(
    "table", [one for one in OFFSET_COLUMNS if one not in ("transactions", "offsets")]
)
def test_offsets_bound_the_partitions_that_they_name(logs: Path, table: str) -> None:
    first, last = OFFSET_COLUMNS[table]
    everything = rows(logs, table)
    found = rows(
        logs,
        table,
        startingOffsets=json.dumps({"orders": {"0": 31}, "payments": {"1": -2}}),
        endingOffsets=json.dumps({"orders": {"0": 90}, "payments": {"1": 12}}),
    )
    expected = [
        row
        for row in everything
        if (row["topic"] == "orders" and row[last] >= 31 and row[first] < 90)
        or (row["topic"] == "payments" and row[first] < 12)
    ]
    assert found == expected
    assert any(map(of("orders"), found))
    assert len(found) < len(everything)


@pytest.mark.parametrize(
    "table", [one for one in TIME_COLUMNS if one not in ("transactions", "offsets")]
)
def test_times_bound_all_partitions(logs: Path, table: str) -> None:
    column = TIME_COLUMNS[table]
    everything = rows(logs, table)
    times = sorted(row[column] for row in everything)
    low, end = times[len(times) // 3], times[2 * len(times) // 3] + 1
    found = rows(logs, table, startTimestamp=str(low), endTimestamp=str(end))
    assert found == [row for row in everything if low <= row[column] < end]
    assert found


def test_a_bound_goes_by_columns_that_nobody_asks_for(logs: Path) -> None:
    ending = json.dumps({"payments": {"1": 3}})
    found = rows(logs, "records", "value", topics="payments", endingOffsets=ending)
    assert len(found) == 3


def test_segments_out_of_bounds_are_not_read(logs: Path) -> None:
    def segments(**options: str) -> int:
        source = KafkaLogDataSource(
            CaseInsensitiveDict({"path": str(logs), "topics": "payments", **options})
        )
        tasks: Any = source.reader(schema_of("batches")).partitions()
        return sum(len(task.told[0].segments) for task in tasks)

    everything = segments()
    late = segments(startTimestamp=str(NOW + 39_000))
    assert late == segments(startingOffsets=json.dumps({"payments": {"1": 119}})) == 1 < everything
    assert segments(endingOffsets=json.dumps({"payments": {"1": 1}})) == 1


def test_producers_and_partitions_are_chosen(logs: Path) -> None:
    assert {row["producer_id"] for row in rows(logs, "batches", producerIds="7, 9")} == {7, 9}
    assert {row["partition"] for row in rows(logs, "records", partitions="1")} == {1}
    assert all(name in TABLES for name in {*OFFSET_COLUMNS, *TIME_COLUMNS})

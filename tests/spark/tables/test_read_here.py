"""Tables without Spark: the same columns as Spark is given, rows as they lie there."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from tests.support.broker_dirs import BrokerDir, move
from tests.support.log_tables import broker_dir, logs_of, replica, write_dense_index
from tests.support.logs import PID, LogDriver
from txnsim.log.config import LogConfig
from txnsim.releases.rules import LATEST
from txnsim_spark.engine import Engine, Way, alone
from txnsim_spark.log_query import Wanted
from txnsim_spark.options import KafkaLogOptions
from txnsim_spark.planning import READS, shares_of
from txnsim_spark.schemas import TABLES
from txnsim_spark.source import schema_of
from txnsim_spark.tables.read_here import Asked, read_by_replica, read_here


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    driver = LogDriver()
    driver.txn(0, count=2)
    driver.txn(0, pid=99)
    driver.end(committed=True)
    made = BrokerDir(tmp_path / "broker-1", 1)
    made.coordinator(move("Empty"), move("Ongoing"))
    made.replica(driver)
    made.stop()
    return tmp_path


@pytest.mark.parametrize("table", TABLES)
def test_columns_are_those_of_spark(table: str) -> None:
    def plain(schema: pa.Schema) -> list[tuple[str, str]]:
        return [(field.name, str(field.type)) for field in schema]

    assert plain(TABLES[table].arrow()) == plain(to_arrow_schema(schema_of(table), timezone="UTC"))


@pytest.mark.costly
@pytest.mark.parametrize("table", TABLES)
def test_every_table_is_read(log_dir: Path, table: str) -> None:
    found = list(read_here(table, [log_dir]))
    assert all(batch.schema == TABLES[table].arrow() for batch in found)
    assert bool(found) is (table not in ("aborted", "offsets", "share_states", "errors"))


def test_columns_topics_and_producers_are_chosen(log_dir: Path) -> None:
    (batch,) = read_here(
        "batches",
        [log_dir],
        columns=("base_offset", "producer_id"),
        topics=frozenset({"orders"}),
        wanted=Wanted(producer_ids=frozenset({PID})),
    )
    assert batch.to_pydict() == {"base_offset": [0, 3], "producer_id": [PID, PID]}


def rows_of(_replica: str, batches: Sequence[pa.RecordBatch]) -> list[dict[str, Any]]:
    return sorted((row for one in batches for row in one.to_pylist()), key=repr)


def all_of(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


@pytest.mark.parametrize("table", ["batches", "transactions"])
def test_a_job_has_the_rows_of_each_replica(
    log_dir: Path, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Asked.of(table, [log_dir])
    here = read_by_replica(alone(), asked, all_of, rows_of)
    assert {row["topic"] for rows in here.values() for row in rows} == (
        {"orders", "__transaction_state"} if table == "batches" else {"__transaction_state"}
    )
    rows = [row for batch in read_here(table, [log_dir]) for row in batch.to_pylist()]
    assert sorted(chain.from_iterable(here.values()), key=repr) == sorted(rows, key=repr)
    monkeypatch.setattr(Engine, "way", lambda _self, _cost: Way.PROCESSES)
    assert read_by_replica(alone(), asked, all_of, rows_of) == here


def test_a_segment_that_several_tasks_decode_counts_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 16)
    driver = LogDriver(LogConfig(rules=LATEST))
    for number in range(40):
        driver.txn(number, value=bytes(100_000))
    (path,) = logs_of(replica(broker_dir(tmp_path), driver))
    write_dense_index(path)
    shares = shares_of(
        KafkaLogOptions(paths=(tmp_path,), table="records"), Wanted(), READS["records"]
    )
    assert sum(len(share.segments) for share in shares) > 1
    (share,) = Asked.of("records", [tmp_path]).shares()
    assert [one.size for one in share.segments] == [path.stat().st_size]

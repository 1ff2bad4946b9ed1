"""Tables without Spark: the same columns as Spark is given, rows as they lie there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from tests.support.broker_dirs import BrokerDir, move
from tests.support.log_tables import broker_dir, cut, logs_of, replica, write_dense_index
from tests.support.logs import PID, LogDriver
from txnsim.log.config import LogConfig
from txnsim.releases.rules import LATEST_RULES
from txnsim_spark.engine import Engine, EngineKind, lone_engine
from txnsim_spark.file_faults import CorruptLogFileError
from txnsim_spark.log_query import RowScope
from txnsim_spark.options import KafkaLogOptions
from txnsim_spark.planning import FILES_OF_TABLE, shares_of
from txnsim_spark.schemas import TABLES
from txnsim_spark.source import schema_of
from txnsim_spark.tables.replica_jobs import kept_rows


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    driver = LogDriver()
    driver.txn(0, count=2)
    driver.txn(0, producer_id=99)
    driver.end(committed=True)
    broker_dir = BrokerDir(tmp_path / "broker-1", 1)
    broker_dir.coordinator(move("Empty"), move("Ongoing"))
    broker_dir.replica(driver)
    broker_dir.stop()
    return tmp_path


@pytest.mark.parametrize("table_name", TABLES)
def test_columns_are_those_of_spark(table_name: str) -> None:
    def plain(schema: pa.Schema) -> list[tuple[str, str]]:
        return [(field.name, str(field.type)) for field in schema]

    assert plain(TABLES[table_name].arrow()) == plain(
        to_arrow_schema(schema_of(table_name), timezone="UTC")
    )


def keep_rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


def test_topics_and_producers_are_chosen_and_rows_are_kept(log_dir: Path) -> None:
    rows_kept = kept_rows(
        lone_engine(),
        "batches",
        [log_dir],
        lambda batch: batch.filter(pc.equal(batch["base_offset"], 3)),
        topics=frozenset({"orders"}),
        scope=RowScope(producer_ids=frozenset({PID})),
    )
    (row,) = [row for batch in rows_kept for row in batch.to_pylist()]
    assert (row["topic"], row["base_offset"], row["producer_id"]) == ("orders", 3, PID)


@pytest.mark.parametrize("table_name", ["batches", "transactions"])
def test_processes_have_the_rows_of_each_replica(
    log_dir: Path, table_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rows() -> list[dict[str, Any]]:
        rows_kept = kept_rows(lone_engine(), table_name, [log_dir], keep_rows)
        return sorted((row for batch in rows_kept for row in batch.to_pylist()), key=repr)

    own_rows = rows()
    assert {row["topic"] for row in own_rows} == (
        {"orders", "__transaction_state"} if table_name == "batches" else {"__transaction_state"}
    )
    monkeypatch.setattr(Engine, "kind_for", lambda _self, _cost: EngineKind.PROCESSES)
    assert rows() == own_rows


def test_a_segment_that_several_tasks_decode_counts_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 16)
    driver = LogDriver(LogConfig(rules=LATEST_RULES))
    for number in range(40):
        driver.txn(number, record_value=bytes(100_000))
    (path,) = logs_of(replica(broker_dir(tmp_path), driver))
    write_dense_index(path)
    shares = shares_of(
        KafkaLogOptions(paths=(tmp_path,), table="records"), RowScope(), FILES_OF_TABLE["records"]
    )
    assert sum(len(share.segments) for share in shares) > 1
    rows_kept = kept_rows(lone_engine(), "records", [tmp_path], keep_rows)
    assert sum(batch.num_rows for batch in rows_kept) == 40


def test_what_can_t_be_read_is_refused_or_told_once(log_dir: Path) -> None:
    (path,) = logs_of(log_dir / "broker-1" / "orders-0")
    cut(path, path.stat().st_size - 1)
    row_count = len(list(kept_rows(lone_engine(), "transactions", [log_dir], keep_rows)))
    assert row_count
    with pytest.raises(CorruptLogFileError, match=f"{path}, byte"):
        list(kept_rows(lone_engine(), "batches", [log_dir], keep_rows))
    problems: list[str] = []
    rows_kept = kept_rows(
        lone_engine(), "batches", [log_dir], keep_rows, on_problem=problems.append
    )
    assert sum(batch.num_rows for batch in rows_kept if batch["topic"][0].as_py() == "orders") == 2
    (problem_text,) = problems
    assert problem_text.startswith(f"{path}, byte ")

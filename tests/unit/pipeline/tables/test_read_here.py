"""Tables without Spark: the same columns as Spark is given, rows as they lie there."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from tests.support.broker_dirs import BrokerDir, move
from tests.support.log_tables import broker_dir, logs_of, replica, write_dense_index
from tests.support.logs import PID, LogDriver
from txnsim.log.config import LogConfig
from txnsim.pipeline.log_query import Wanted
from txnsim.pipeline.options import KafkaLogOptions
from txnsim.pipeline.planning import READS, shares_of
from txnsim.pipeline.schemas import TABLES
from txnsim.pipeline.source import schema_of
from txnsim.pipeline.tables import read_here as module
from txnsim.pipeline.tables.read_here import bytes_in, is_little, read_here
from txnsim.releases.rules import LATEST


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


@pytest.mark.parametrize("table", TABLES)
def test_every_table_is_read(log_dir: Path, table: str) -> None:
    found = list(read_here(table, [log_dir]))
    assert all(batch.schema == TABLES[table].arrow() for batch in found)
    assert bool(found) is (table not in ("aborted", "offsets", "errors"))


def test_columns_topics_and_producers_are_chosen(log_dir: Path) -> None:
    (batch,) = read_here(
        "batches",
        [log_dir],
        columns=("base_offset", "producer_id"),
        topics=frozenset({"orders"}),
        wanted=Wanted(producer_ids=frozenset({PID})),
    )
    assert batch.to_pydict() == {"base_offset": [0, 3], "producer_id": [PID, PID]}


def test_how_much_is_little(log_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    orders = frozenset({"orders"})
    size = bytes_in("batches", [log_dir], orders)
    assert 0 < size < bytes_in("batches", [log_dir])
    assert bytes_in("producer_state", [log_dir]) == 0
    monkeypatch.setattr(module, "HERE_BYTES_MAX", size)
    monkeypatch.setattr(module, "HERE_DECODED_BYTES_MAX", size - 1)
    assert is_little(["batches"], [log_dir], orders)
    assert not is_little(["batches"], [log_dir], frozenset())
    assert not is_little(["batches", "records"], [log_dir], orders)


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
    assert bytes_in("records", [tmp_path]) == path.stat().st_size

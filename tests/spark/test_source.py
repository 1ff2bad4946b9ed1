"""The data source as Spark calls it, without Spark running."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import (
    CaseInsensitiveDict,
    DataSourceReader,
    EqualTo,
    GreaterThan,
)
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from tests.support.log_tables import broker_dir, busy_log, replica
from txnsim.errors import BadInputError
from txnsim_spark.options import Division
from txnsim_spark.schemas import TABLES
from txnsim_spark.source import (
    FilteredReader,
    KafkaLogDataSource,
    KafkaLogReader,
    Task,
    columns_of,
    of_session,
    schema_of,
)


def source(path: Path, **options: str) -> KafkaLogDataSource:
    return KafkaLogDataSource(CaseInsensitiveDict({"path": str(path), **options}))


def reader(path: Path, table: str, **options: str) -> KafkaLogReader:
    found = source(path, table=table, **options).reader(schema_of(table))
    assert isinstance(found, KafkaLogReader)
    return found


def takes_filters(path: Path, **options: str) -> KafkaLogDataSource:
    registered = of_session(None, Division(), takes_filters=True)
    return registered(CaseInsensitiveDict({"path": str(path), **options}))


def test_the_schema_is_the_table_s() -> None:
    assert KafkaLogDataSource.name() == "kafka_log"
    for name in TABLES:
        schema = source(Path("/logs"), table=name).schema()
        assert schema.names == list(TABLES[name].names)
        told = ", ".join(f"{one.name} {one.dataType.simpleString()}" for one in schema)
        assert (
            told.replace(":", ": ")
            .replace(",value", ", value")
            .replace(",partition", ", partition")
            == TABLES[name].ddl
        )


def test_all_rows_are_those_of_all_tasks(tmp_path: Path) -> None:
    replica(broker_dir(tmp_path), busy_log())
    found = reader(tmp_path, "batches", taskBytes="1000")
    tasks = found.partitions()
    assert len(tasks) > 1
    assert isinstance(tasks, list), "Spark insists"
    assert sum(batch.num_rows for task in tasks for batch in found.read(task)) == 90


def test_a_task_and_a_reader_travel_to_workers(tmp_path: Path) -> None:
    replica(broker_dir(tmp_path), busy_log())
    found = pickle.loads(pickle.dumps(reader(tmp_path, "batches")))
    tasks = pickle.loads(pickle.dumps(found.partitions()))
    assert sum(batch.num_rows for task in tasks for batch in found.read(task)) == 90


def test_a_job_without_work_has_a_task_without_work(tmp_path: Path) -> None:
    broker_dir(tmp_path)
    (task,) = reader(tmp_path, "batches").partitions()
    assert isinstance(task, Task)
    assert list(reader(tmp_path, "batches").read(task)) == []


def test_conditions_that_are_taken_over_are_obeyed(tmp_path: Path) -> None:
    replica(broker_dir(tmp_path), busy_log())
    schema = schema_of("batches")
    found: Any = takes_filters(tmp_path).reader(schema)
    kept = GreaterThan(("records",), 0)
    assert list(found.pushFilters([EqualTo(("producer_id",), 7), kept])) == [kept]
    rows = [row for task in found.partitions() for batch in found.read(task) for row in
            batch.to_pylist()]  # fmt: skip
    assert {row["producer_id"] for row in rows} == {7}
    nowhere: Any = takes_filters(tmp_path, producerIds="8").reader(schema)
    nowhere.pushFilters([EqualTo(("producer_id",), 7)])
    assert not sum(batch.num_rows for task in nowhere.partitions() for batch in nowhere.read(task))


def test_a_reader_takes_filters_only_where_it_is_told_to(tmp_path: Path) -> None:
    """PySpark refuses one with ``pushFilters`` where its setting is off."""
    replica(broker_dir(tmp_path), busy_log())
    assert not isinstance(reader(tmp_path, "batches"), FilteredReader)
    plain_reader = type(reader(tmp_path, "batches"))
    assert plain_reader.pushFilters is DataSourceReader.pushFilters
    assert isinstance(takes_filters(tmp_path).reader(schema_of("batches")), FilteredReader)


def test_a_schema_of_some_columns_is_what_is_read(tmp_path: Path) -> None:
    replica(broker_dir(tmp_path), busy_log())
    schema = StructType(
        [StructField("last_offset", LongType()), StructField("topic", StringType())]
    )
    found = source(tmp_path, table="batches").reader(schema)
    batches = [batch for task in found.partitions() for batch in found.read(task)]
    assert batches
    for batch in batches:
        assert isinstance(batch, pa.RecordBatch)
        assert batch.schema.names == ["last_offset", "topic"]


@pytest.mark.parametrize(
    ("field", "words"),
    [
        (StructField("offset", LongType()), "table batches has no column offset; it has log_dir"),
        (StructField("crc", IntegerType()), "column crc of table batches is bigint, not int"),
    ],
)
def test_a_schema_that_the_table_has_not_is_refused(field: StructField, words: str) -> None:
    with pytest.raises(BadInputError, match=words):
        columns_of("batches", StructType([field]))


def test_a_wrong_option_is_refused_before_anything_is_read() -> None:
    with pytest.raises(BadInputError, match="there is no option 'topic'; did you mean topics"):
        source(Path("/logs"), topic="orders").schema()

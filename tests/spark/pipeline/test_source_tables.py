"""The tables of ``kafka_log`` in Spark, whose rows are made by workers in more than one task."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.broker_dirs import move
from tests.support.log_tables import (
    PASSING_OVER,
    broker_dir,
    busy_log,
    overwrite,
    replica,
    segment,
    share_states,
    table,
)
from tests.support.logs import NOW, batch, plain
from txnsim.group.log_format import encode_batch as encode_group_batch
from txnsim.group.records import ClassicGroupStored, OffsetCommitted
from txnsim.releases.rules import LATEST_RULES
from txnsim.storage import names
from txnsim.txn.log_format import encode_batch
from txnsim.types import TopicPartition, TransactionVersion
from txnsim.wire.batch import GZIP, LZ4, SNAPPY, ZSTD
from txnsim_spark.schemas import TABLES
from txnsim_spark.session import register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

SMALL_TASKS = "1500"
SMALL = {
    "producer_state",
    "aborted",
    "leader_epochs",
    "replicas",
    "transactions",
    "offsets",
    "share_states",
}
"""Tables with small files of few replicas, or a single segment."""
IN_ONE_TASK = SMALL | {"findings"}
"""Tables made in one task: a finding needs all brokers' directories at once."""


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directories of two brokers: one sound and clean, one killed, torn and damaged."""
    root = tmp_path_factory.mktemp("logs")
    for broker, is_clean in ((1, True), (2, False)):
        log_dir = broker_dir(root / f"broker-{broker}", broker=broker, is_clean=is_clean)
        replica(log_dir, busy_log())
        segment(
            log_dir / "all-0",
            [
                *(batch(0, compression=codec, count=3) for codec in (GZIP, SNAPPY, LZ4, ZSTD)),
                plain(record_value=b"v" * 64_000),
            ],
        )
        segment(log_dir / "__transaction_state-0", [transactions()])
        segment(log_dir / "__consumer_offsets-0", [offsets()])
        segment(log_dir / "__share_group_state-0", [share_states()])
    damage(root / "broker-2")
    return root


def transactions() -> bytes:
    transitions = [
        move(state, TopicPartition("orders", 0)) for state in ("Ongoing", "PrepareCommit")
    ]
    return encode_batch(
        transitions,
        finalized_version=TransactionVersion.TV_2,
        now_ms=NOW,
        release_rules=LATEST_RULES,
    )


def offsets() -> bytes:
    committed_offset = OffsetCommitted(
        group_id="g",
        topic_partition=TopicPartition("orders", 0),
        position=4,
        commit_timestamp_ms=NOW,
        topic_id=uuid.UUID(int=1),
    )
    return encode_group_batch([committed_offset, ClassicGroupStored(group_id="g")], now_ms=NOW)


def damage(log_dir: Path) -> None:
    """Damage files of every kind."""
    torn_log_file = log_dir / "all-0" / names.Suffix.LOG.file_name(0)
    torn_log_file.write_bytes(torn_log_file.read_bytes()[:-10])
    orders_folder = log_dir / "orders-0"
    for suffix in (names.Suffix.TXN_INDEX, names.Suffix.SNAPSHOT):
        overwrite(suffix.files_in(orders_folder)[0][1], 0, b"\x7f\x7f")
    (orders_folder / names.FileName.LEADER_EPOCHS).write_text("?")
    (log_dir / names.FileName.HIGH_WATERMARKS).write_text("?")


def read(spark: SparkSession, path: Path, name: str, **options: str) -> DataFrame:
    return spark.read.format("kafka_log").options(table=name, **options).load(str(path))


def comparable(rows: Iterable[dict[str, Any]]) -> list[str]:
    return sorted(repr(sorted(row.items())) for row in rows)


def plain_row(value: Any) -> Any:
    """A row with Python's types instead of Spark's."""
    match value:
        case bytearray():
            return bytes(value)
        case datetime():
            return value.astimezone(UTC)  # Spark's is in this machine's time, without saying so
        case list():
            return [row.asDict() if hasattr(row, "asDict") else row for row in value]
    return value


@pytest.mark.parametrize("name", TABLES)
def test_spark_has_the_rows_that_workers_make(spark: SparkSession, logs: Path, name: str) -> None:
    options = {**PASSING_OVER, "taskBytes": SMALL_TASKS}
    frame = read(spark, logs, name, **options)
    assert frame.columns == list(TABLES[name].names)
    rows, expected = (
        [{key: plain_row(value) for key, value in row.items()} for row in rows]
        for rows in (
            (row.asDict() for row in frame.collect()),
            table(logs, name, options=options),
        )
    )
    for row in (*rows, *expected):
        if row.get("headers"):
            row["headers"] = [
                {**header, "value": plain_row(header["value"])} for header in row["headers"]
            ]
    assert expected
    assert comparable(rows) == comparable(expected)
    assert name in IN_ONE_TASK or frame.rdd.getNumPartitions() > 1


def test_damage_is_rows_and_no_job_dies_of_it(spark: SparkSession, logs: Path) -> None:
    rows = {
        (row.kind, row.is_cut)
        for row in read(spark, logs, "errors", checkCrc="true", checkRecords="true").collect()
    }
    assert rows == {
        ("torn", True),
        ("txn_index", False),
        ("snapshot", False),
        ("checkpoint", False),
    }


def test_what_a_query_does_not_want_is_not_read(spark: SparkSession, logs: Path) -> None:
    batches = read(spark, logs, "batches", taskBytes="1")
    partition_count = batches.rdd.getNumPartitions()
    chosen_options = {"taskBytes": "1", "topics": "orders", "partitions": "0", "producerIds": "7,8"}
    first_rows_frame = read(spark, logs / "broker-1", "batches", **chosen_options)
    segments = tuple(busy_log().log.local.segments)
    assert first_rows_frame.rdd.getNumPartitions() == len(segments) < partition_count
    assert first_rows_frame.count() == 60
    offsets_json = json.dumps({"orders": {"0": segments[-1].base_offset}})
    late_rows_frame = read(
        spark, logs / "broker-1", "batches", **chosen_options, startingOffsets=offsets_json
    )
    assert late_rows_frame.rdd.getNumPartitions() == 1
    assert 0 < late_rows_frame.count() < 60
    assert batches.where("topic = 'nowhere'").count() == 0


def test_a_schema_of_some_columns_makes_only_these(spark: SparkSession, logs: Path) -> None:
    reader = spark.read.format("kafka_log").schema("value binary, offset bigint")
    frame = reader.option("table", "records").load(str(logs / "broker-1" / "all-0"))
    assert frame.columns == ["value", "offset"]
    assert frame.selectExpr("max(length(value)) as size").first()[0] == 64_000  # type: ignore[index]


def test_a_table_can_be_named_in_sql(spark: SparkSession, logs: Path) -> None:
    spark.sql(
        "create or replace temporary view endings using kafka_log "
        f"options (path '{logs / 'broker-1'}', table 'endings')"
    )
    (row,) = spark.sql(
        "select count(*) as all, count_if(is_commit) as commits from endings"
    ).collect()
    assert (row["all"], row.commits) == (30, 15)


def test_a_table_of_the_catalog_has_its_options_and_comments(
    spark: SparkSession, logs: Path
) -> None:
    path = os.path.relpath(logs / "broker-1")  # it counts from where the session began
    options = f"options (path '{path}', table 'records', topics 'orders')"
    spark.sql(f"create table kept using kafka_log {options}")
    try:
        comments = {row.col_name: row.comment for row in spark.sql("describe kept").collect()}
        assert comments["offset"] == "Of the record."
        whole_table_frame = spark.table("kept")
        count = len(table(logs / "broker-1", "records", options={"topics": "orders"}))
        assert whole_table_frame.count() == count
        offsets_option = 'startingOffsets \'{"orders": {"0": 145}}\''
        (row,) = spark.sql(
            f"select min(offset), min(timestamp) from kept with ({offsets_option})"
        ).collect()
        assert row[0] == 145
        stream = spark.readStream.table("kept").writeStream.format("memory")
        query = stream.queryName("kept_stream").trigger(availableNow=True).start()
        query.awaitTermination()
        assert spark.table("kept_stream").count() == count
    finally:
        spark.sql("drop table kept")


def test_what_is_refused_is_one_class_and_little_around_it(spark: SparkSession) -> None:
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException) as error_info:
        spark.read.format("kafka_log").load("/nowhere").count()
    *frames, offsets_json = str(error_info.value).partition("SQLSTATE")[0].strip().splitlines()
    assert offsets_json == (
        "txnsim_spark.options.KafkaLogError: [KAFKA_LOG_INVALID_READ] /nowhere is no directory"
    )
    assert len(frames) < 12


def test_a_file_that_goes_ends_a_dataframe_unless_option_or_session_pass_over_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    from pyspark.errors import PySparkException

    log_dir = broker_dir(tmp_path)
    deleted_log_file = segment(log_dir / "orders-0", [plain()])
    segment(log_dir / "orders-1", [plain(), plain()])
    setting_text = "spark.sql.files.ignoreMissingFiles"
    plan_reader = spark.read.format("kafka_log").option("table", "records")
    planned_frame, passing_reader = (
        plan_reader.load(str(log_dir)),
        plan_reader.option("ignoreMissingFiles", "true"),
    )
    passing_frame = passing_reader.load(str(log_dir))
    assert (planned_frame.count(), passing_frame.count()) == (3, 3)
    try:
        spark.conf.set(setting_text, "true")
        register(spark)
        session_frame = spark.read.format("kafka_log").option("table", "records").load(str(log_dir))
        strict_reader = spark.read.format("kafka_log").options(
            table="records", ignoreMissingFiles="false"
        )
        strict_frame = strict_reader.load(str(log_dir))
        assert (session_frame.count(), strict_frame.count()) == (3, 3)
    finally:
        spark.conf.unset(setting_text)
        register(spark)
    deleted_log_file.unlink()
    for frame in (planned_frame, strict_frame):
        with pytest.raises(PySparkException) as error_info:
            frame.count()
        *frames, offsets_json = str(error_info.value).partition("SQLSTATE")[0].strip().splitlines()
        assert offsets_json.startswith(
            "txnsim_spark.file_faults.MissingLogFileError:"
            " [KAFKA_LOG_MISSING_FILE] format kafka_log: "
        )
        assert f"{deleted_log_file} is gone" in offsets_json
        assert len(frames) < 20
    assert (passing_frame.count(), session_frame.count()) == (2, 2)


@pytest.mark.parametrize(
    ("options", "expected_words"),
    [
        ({"tabel": "batches"}, "there is no option 'tabel'; did you mean table?"),
        ({"table": "batch"}, "option table: 'batch', expected one of"),
        ({}, "is no directory"),
    ],
)
def test_what_is_wrong_is_said_where_it_is_read(
    spark: SparkSession, options: dict[str, str], expected_words: str
) -> None:
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException) as error_info:
        spark.read.format("kafka_log").options(**options).load("/nowhere").count()
    assert expected_words in str(error_info.value)

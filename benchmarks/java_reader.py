"""What a read of log directories costs beside one Java thread with Kafka's own ``FileRecords``.

``python -m benchmarks.java_reader [--records N] [--rounds N] [--profile]``

It makes a log of batches of eight kilobytes, each of 90-byte records, in four partitions, with a
transaction that hangs on each (once, below ``.cache/benchmarks``). Then it asks in alternation: a
thread of Java, Spark on two cores (``query_logs``), and ``txnsim logs`` without Spark. All must
give the same answer. A first round warms up and is not counted. ``--profile`` says instead what
reading and decoding takes in one process, before rows go into the JVM: of all columns, and of those
that a query uses.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from benchmarks.log_data import BEGAN_MS, CACHE, make_replica_folder, write_meta_properties
from tests.support.apache_kafka import java_classes, java_command, kafka_libs
from txnsim.storage import names
from txnsim.wire.batch import Record, build_batch, control_batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDS: Final = 12_400_000
ROUNDS: Final = 3
PARTITIONS: Final = 4
SEGMENTS_PER_PARTITION: Final = 5
RECORDS_PER_BATCH: Final = 90
VALUE_BYTES: Final = 82
"""With its framing a record has 90 bytes, and a batch about eight kilobytes."""
BATCHES_PER_TRANSACTION: Final = 50
PRODUCERS: Final = 20
QUESTION_NAMES: Final = ("count", "sums", "find_hanging")
QUERY_BY_QUESTION: Final = {
    "count": "SELECT count(*) AS n FROM kafka_records",
    "sums": "SELECT sum(octet_length(value)) AS bytes, sum(`offset`) AS offsets FROM kafka_records"
    " WHERE NOT is_control",
}
TimedAnswer = tuple[float, str]
"""Seconds, and the answer."""
_OFFSET: Final = slice(0, 8)
"""Of a batch: its base offset, which its CRC does not cover."""


def main() -> int:
    """Measure each reader, and print the figures; return 1 if the answers differ."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.java_reader")
    parser.add_argument("--records", type=int, default=RECORDS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--profile", action="store_true", help="where a task's time goes")
    options = parser.parse_args()
    directory = make_log(options.records)
    if options.profile:
        print_read_profile(directory)
        return 0
    from txnsim_spark.session import spark_session

    spark = spark_session("local[2]")
    times_by_reader: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    answers_by_question: defaultdict[str, set[str]] = defaultdict(set)
    for round_number in range(1 + options.rounds):
        for question_name in QUESTION_NAMES:
            for reader_name, ask_reader in _ask_by_reader(spark, directory, question_name).items():
                seconds, answer_text = ask_reader()
                answers_by_question[question_name].add(answer_text)
                if round_number:
                    times_by_reader[question_name, reader_name].append(seconds)
    spark.stop()
    size_bytes = sum(path.stat().st_size for path in directory.rglob("*.log"))
    sys.stdout.write(
        f"{size_bytes / 1e6:,.0f} MB, {options.records:,} records, {os.cpu_count()} cores\n"
    )
    for (question_name, reader_name), times_s in times_by_reader.items():
        median_s = statistics.median(times_s)
        sys.stdout.write(
            f"{question_name:12}  {reader_name:16}  {median_s:6.2f} s "
            f" {size_bytes / median_s / 1e6:,.0f} MB/s\n"
        )
    for question_name, answers in answers_by_question.items():
        if len(answers) > 1:
            sys.stdout.write(f"{question_name}: the answers differ: {sorted(answers)}\n")
    return int(any(len(answers) > 1 for answers in answers_by_question.values()))


def _ask_by_reader(
    spark: SparkSession, directory: Path, question_name: str
) -> dict[str, Callable[[], TimedAnswer]]:
    """Make a function for each reader that asks it; return them by the reader's name."""
    ask_by_reader = {
        "Java, one thread": lambda: ask_java(directory, question_name),
        "without Spark": lambda: ask_process(directory, question_name),
    }
    if question_name in QUERY_BY_QUESTION:
        ask_by_reader["Spark, two cores"] = lambda: ask_spark(spark, directory, question_name)
    return ask_by_reader


def ask_java(directory: Path, question_name: str) -> TimedAnswer:
    """Ask Kafka's classes, in a JVM of their own whose start does not count."""
    libs_directory = kafka_libs()
    source_files = [Path(__file__).parent / "java" / "LogReader.java"]
    class_directory = java_classes(source_files, name="log-reader", libs_directory=libs_directory)
    java_program, *_ = java_command(libs_directory)
    command = [
        java_program,
        "-Xmx1g",
        "-cp",
        f"{class_directory}{os.pathsep}{libs_directory}/*",
        "LogReader",
    ]
    program_output = subprocess.run(
        [*command, question_name, "1", str(directory)], check=True, capture_output=True, text=True
    ).stdout
    seconds_text, _, answer_text = program_output.strip().partition(" ")
    return float(seconds_text), answer_text


def ask_spark(spark: SparkSession, directory: Path, question_name: str) -> TimedAnswer:
    """Ask Spark, which plans the query twice."""
    from txnsim_spark.narrowing import query_logs

    began_s = time.perf_counter()
    (row,) = query_logs(
        spark, QUERY_BY_QUESTION[question_name], str(directory), topics="orders"
    ).collect()
    return time.perf_counter() - began_s, " ".join(map(str, row))


def ask_process(directory: Path, question_name: str) -> TimedAnswer:
    """Ask as ``txnsim logs`` does without Spark: by DuckDB or by worker processes."""
    from txnsim_spark.forensics.find_hanging import Search, find_hanging
    from txnsim_spark.log_database import LogDatabase

    began_s = time.perf_counter()
    if question_name in QUERY_BY_QUESTION:
        database = LogDatabase([directory], {"topics": "orders"}, lambda _: None)
        (row,) = database.rows(QUERY_BY_QUESTION[question_name])
        answer_text = " ".join(str(int(column_value)) for column_value in row.values())
    else:
        search = Search(paths=(directory,), uses_snapshots=False, never_spark=True)
        answer_text = str(len(find_hanging(search).findings))
    return time.perf_counter() - began_s, answer_text


def print_read_profile(directory: Path) -> None:
    """Say where the time of a read goes: of all columns, and of those that a query uses."""
    from txnsim_spark.log_query import RowScope
    from txnsim_spark.options import KafkaLogOptions
    from txnsim_spark.planning import FILES_OF_TABLE, shares_of
    from txnsim_spark.schemas import TABLES
    from txnsim_spark.tables.row_sources import batches_of
    from txnsim_spark.tables.rows import TableJob

    options = KafkaLogOptions.of({"path": str(directory), "table": "records", "topics": "orders"})
    whole_schema = TABLES["records"].arrow()
    for profile_title, column_names in {
        "all columns": tuple(whole_schema.names),
        "sums": ("offset", "value", "is_control"),
        "count": ("partition",),
    }.items():
        column_schema = _schema_of_columns(whole_schema, column_names)
        task_shares = shares_of(options, RowScope.of(options), FILES_OF_TABLE["records"])
        began_s, row_count, byte_count = time.perf_counter(), 0, 0
        for task_share in task_shares:
            for batch in batches_of(
                task_share, TableJob(options=options, columns=column_names), column_schema
            ):
                row_count += batch.num_rows
                byte_count += batch.nbytes
        seconds = time.perf_counter() - began_s
        sys.stdout.write(
            f"{profile_title:12}  {row_count:,} rows in {seconds:.2f} s of one process,"
            f" {byte_count / 1e6:,.0f} MB of Arrow\n"
        )


def make_log(record_count: int) -> Path:
    """Make the log directory, once; returns its path."""
    directory = CACHE / f"java-reader-{record_count}"
    if directory.is_dir():
        return directory
    partial_directory = directory.with_suffix(".partial")
    partial_directory.mkdir(parents=True, exist_ok=True)
    write_meta_properties(partial_directory, node_id=1)
    batch_count = record_count // RECORDS_PER_BATCH // PARTITIONS
    for partition in range(PARTITIONS):
        _write_partition(make_replica_folder(partial_directory, "orders", partition), batch_count)
    partial_directory.rename(directory)
    return directory


def _write_partition(replica_folder: Path, batch_count: int) -> None:
    """Write transactions of some producers in turn; the last one has no marker."""
    templates_by_producer = [_ProducerTemplates.of(producer_id) for producer_id in range(PRODUCERS)]
    batches_per_segment = -(-batch_count // SEGMENTS_PER_PARTITION)
    next_offset = 0
    segment_file = None
    for batch_number in range(batch_count):
        if batch_number % batches_per_segment == 0:
            if segment_file is not None:
                segment_file.close()
            segment_file = (replica_folder / names.Suffix.LOG.file_name(next_offset)).open("wb")
        assert segment_file is not None
        producer_templates = templates_by_producer[
            batch_number // BATCHES_PER_TRANSACTION % PRODUCERS
        ]
        producer_templates.data[_OFFSET] = next_offset.to_bytes(8, "big")
        segment_file.write(producer_templates.data)
        next_offset += RECORDS_PER_BATCH
        if (
            batch_number % BATCHES_PER_TRANSACTION == BATCHES_PER_TRANSACTION - 1
            and batch_number + 1 < batch_count
        ):
            producer_templates.marker[_OFFSET] = next_offset.to_bytes(8, "big")
            segment_file.write(producer_templates.marker)
            next_offset += 1
    if segment_file is not None:
        segment_file.close()


class _ProducerTemplates(msgspec.Struct):
    """The batches of a producer, without offsets."""

    data: bytearray
    marker: bytearray

    @classmethod
    def of(cls, producer_id: int) -> _ProducerTemplates:
        record = Record(value=bytes(VALUE_BYTES))
        data = build_batch(
            [record] * RECORDS_PER_BATCH, timestamp_ms=BEGAN_MS, producer_id=producer_id,
            producer_epoch=0, base_sequence=0, is_transactional=True, leader_epoch=0,
        )  # fmt: skip
        marker = control_batch(
            producer_id=producer_id, producer_epoch=0, is_commit=True, coordinator_epoch=0,
            base_offset=0, leader_epoch=0, timestamp_ms=BEGAN_MS,
        )  # fmt: skip
        return cls(bytearray(data), bytearray(marker))


def _schema_of_columns(schema: object, columns: tuple[str, ...]) -> object:
    import pyarrow as pa

    assert isinstance(schema, pa.Schema)
    return pa.schema([schema.field(column) for column in columns])


if __name__ == "__main__":
    sys.exit(main())

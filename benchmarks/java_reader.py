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

from benchmarks.log_data import BEGAN_MS, CACHE, make_replica, write_meta
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
QUESTIONS: Final = ("count", "sums", "find_hanging")
QUERIES: Final = {
    "count": "SELECT count(*) AS n FROM kafka_records",
    "sums": "SELECT sum(octet_length(value)) AS bytes, sum(`offset`) AS offsets FROM kafka_records"
    " WHERE NOT is_control",
}
Answer = tuple[float, str]
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
        profile(directory)
        return 0
    from txnsim_spark.session import spark_session

    spark = spark_session("local[2]")
    times_by_reader: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    answers_by_question: defaultdict[str, set[str]] = defaultdict(set)
    for round_number in range(1 + options.rounds):
        for question in QUESTIONS:
            for reader, ask in _readers(spark, directory, question).items():
                seconds, answer = ask()
                answers_by_question[question].add(answer)
                if round_number:
                    times_by_reader[question, reader].append(seconds)
    spark.stop()
    size_bytes = sum(path.stat().st_size for path in directory.rglob("*.log"))
    sys.stdout.write(
        f"{size_bytes / 1e6:,.0f} MB, {options.records:,} records, {os.cpu_count()} cores\n"
    )
    for (question, reader), times_s in times_by_reader.items():
        median_s = statistics.median(times_s)
        sys.stdout.write(
            f"{question:12}  {reader:16}  {median_s:6.2f} s "
            f" {size_bytes / median_s / 1e6:,.0f} MB/s\n"
        )
    for question, different_answers in answers_by_question.items():
        if len(different_answers) > 1:
            sys.stdout.write(f"{question}: the answers differ: {sorted(different_answers)}\n")
    return int(
        any(len(answers_of_question) > 1 for answers_of_question in answers_by_question.values())
    )


def _readers(
    spark: SparkSession, directory: Path, question: str
) -> dict[str, Callable[[], Answer]]:
    """The function that asks each reader, by the reader's name."""
    ask_by_reader = {
        "Java, one thread": lambda: ask_java(directory, question),
        "without Spark": lambda: ask_process(directory, question),
    }
    if question in QUERIES:
        ask_by_reader["Spark, two cores"] = lambda: ask_spark(spark, directory, question)
    return ask_by_reader


def ask_java(directory: Path, question: str) -> Answer:
    """Ask Kafka's classes, in a JVM of their own whose start does not count."""
    libs = kafka_libs()
    sources = [Path(__file__).parent / "java" / "LogReader.java"]
    class_directory = java_classes(sources, name="log-reader", libs=libs)
    java, *_ = java_command(libs)
    command = [java, "-Xmx1g", "-cp", f"{class_directory}{os.pathsep}{libs}/*", "LogReader"]
    output = subprocess.run(
        [*command, question, "1", str(directory)], check=True, capture_output=True, text=True
    ).stdout
    seconds_text, _, answer = output.strip().partition(" ")
    return float(seconds_text), answer


def ask_spark(spark: SparkSession, directory: Path, question: str) -> Answer:
    """Ask Spark, which plans the query twice."""
    from txnsim_spark.narrowing import query_logs

    began_s = time.perf_counter()
    (row,) = query_logs(spark, QUERIES[question], str(directory), topics="orders").collect()
    return time.perf_counter() - began_s, " ".join(map(str, row))


def ask_process(directory: Path, question: str) -> Answer:
    """Ask as ``txnsim logs`` does without Spark: by DuckDB or by worker processes."""
    from txnsim_spark.forensics.find_hanging import Search, find_hanging
    from txnsim_spark.log_database import LogDatabase

    began_s = time.perf_counter()
    if question in QUERIES:
        database = LogDatabase([directory], {"topics": "orders"}, lambda _: None)
        (row,) = database.rows(QUERIES[question])
        answer = " ".join(str(int(value)) for value in row.values())
    else:
        search = Search(paths=(directory,), uses_snapshots=False, never_spark=True)
        answer = str(len(find_hanging(search).findings))
    return time.perf_counter() - began_s, answer


def profile(directory: Path) -> None:
    """Say where the time of a read goes: of all columns, and of those that a query uses."""
    from txnsim_spark.log_query import RowScope
    from txnsim_spark.options import KafkaLogOptions
    from txnsim_spark.planning import FILES_OF_TABLE, shares_of
    from txnsim_spark.schemas import TABLES
    from txnsim_spark.tables.row_sources import batches_of
    from txnsim_spark.tables.rows import TableJob

    options = KafkaLogOptions.of({"path": str(directory), "table": "records", "topics": "orders"})
    whole_schema = TABLES["records"].arrow()
    for title, columns in {
        "all columns": tuple(whole_schema.names),
        "sums": ("offset", "value", "is_control"),
        "count": ("partition",),
    }.items():
        schema = _pick(whole_schema, columns)
        shares = shares_of(options, RowScope.of(options), FILES_OF_TABLE["records"])
        began_s, row_count, byte_count = time.perf_counter(), 0, 0
        for share in shares:
            for batch in batches_of(share, TableJob(options=options, columns=columns), schema):
                row_count += batch.num_rows
                byte_count += batch.nbytes
        seconds = time.perf_counter() - began_s
        sys.stdout.write(
            f"{title:12}  {row_count:,} rows in {seconds:.2f} s of one process,"
            f" {byte_count / 1e6:,.0f} MB of Arrow\n"
        )


def make_log(record_count: int) -> Path:
    """Make the log directory, once; returns its path."""
    directory = CACHE / f"java-reader-{record_count}"
    if directory.is_dir():
        return directory
    partial_directory = directory.with_suffix(".partial")
    partial_directory.mkdir(parents=True, exist_ok=True)
    write_meta(partial_directory, node_id=1)
    batch_count = record_count // RECORDS_PER_BATCH // PARTITIONS
    for partition in range(PARTITIONS):
        _write_partition(make_replica(partial_directory, "orders", partition), batch_count)
    partial_directory.rename(directory)
    return directory


def _write_partition(folder: Path, batch_count: int) -> None:
    """Write transactions of some producers in turn; the last one has no marker."""
    templates_by_producer = [_Templates.of(producer_id) for producer_id in range(PRODUCERS)]
    batches_per_segment = -(-batch_count // SEGMENTS_PER_PARTITION)
    offset = 0
    file = None
    for batch_number in range(batch_count):
        if batch_number % batches_per_segment == 0:
            if file is not None:
                file.close()
            file = (folder / names.Suffix.LOG.file_name(offset)).open("wb")
        assert file is not None
        templates_of_producer = templates_by_producer[
            batch_number // BATCHES_PER_TRANSACTION % PRODUCERS
        ]
        templates_of_producer.data[_OFFSET] = offset.to_bytes(8, "big")
        file.write(templates_of_producer.data)
        offset += RECORDS_PER_BATCH
        if (
            batch_number % BATCHES_PER_TRANSACTION == BATCHES_PER_TRANSACTION - 1
            and batch_number + 1 < batch_count
        ):
            templates_of_producer.marker[_OFFSET] = offset.to_bytes(8, "big")
            file.write(templates_of_producer.marker)
            offset += 1
    if file is not None:
        file.close()


class _Templates(msgspec.Struct):
    """The batches of a producer, without offsets."""

    data: bytearray
    marker: bytearray

    @classmethod
    def of(cls, producer_id: int) -> _Templates:
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


def _pick(schema: object, columns: tuple[str, ...]) -> object:
    import pyarrow as pa

    assert isinstance(schema, pa.Schema)
    return pa.schema([schema.field(column) for column in columns])


if __name__ == "__main__":
    sys.exit(main())

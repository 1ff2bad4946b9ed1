"""``python -m benchmarks.pipeline``: what reading logs with Spark costs, beside Kafka's own tool.

In one run, in turn: ``kafka-dump-log`` over a segment, the tables ``fragments`` and ``batches``
over two gigabytes of small batches, the compiled walk alone, batches of 64 kB against plain
reading, and a search for hanging transactions whose answer is known. Then the same search over logs
of 100 MB to 4 GB, with the memory of the workers (benchmarks/README.md).
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from benchmarks import pipeline_figures as figures
from benchmarks import pipeline_plot
from benchmarks.log_data import (
    CACHE,
    TOPIC,
    GeneratedLog,
    Scale,
    make_large_batches_log,
    make_small_batches_log,
)
from benchmarks.pipeline_figures import MeasuredFigure, SearchCost
from benchmarks.pipeline_search import CORES, JudgedTransaction, search_in_process
from tests.support.apache_kafka import java_command, kafka_libs
from txnsim.storage import names
from txnsim.storage.checkpoints import encode_offsets
from txnsim.types import TopicPartition
from txnsim_spark.scan import kernel
from txnsim_spark.scan import kernel_fragments as fk
from txnsim_spark.scan.pieces import PIECE_BYTES
from txnsim_spark.scan.segments import SegmentDamage
from txnsim_spark.scan.walk import fragment_rows
from txnsim_spark.schemas import TABLES
from txnsim_spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


DUMP_TOOL: Final = "org.apache.kafka.tools.DumpLogSegments"
DUMP_BYTES: Final = 49_000_000
LARGE_BYTES: Final = 1_000_000_000
KERNEL_BYTES: Final = 256 << 20
DUMPED_COLUMNS: Final = (
    *("base_offset", "last_offset", "records", "base_sequence", "producer_id", "producer_epoch"),
    *("leader_epoch", "is_transactional", "is_control", "has_delete_horizon", "position"),
    *("max_timestamp_ms", "size_bytes", "codec", "crc"),
)
"""The columns with what kafka-dump-log prints of a batch."""
SIZES_MB: Final = (100, 200, 500, 1_000, 2_000, 4_000)
QUICK_SCALE: Final = Scale(transactions=20_000, segment_bytes=10_000_000)
QUICK_SIZES_MB: Final = (50, 100, 200, 400)
PAGE_FILE: Final = Path(__file__).resolve().parent / "README.md"
PLOT_FILE: Final = PAGE_FILE.parent.parent / "docs" / "plots" / "pipeline-cost.svg"
_LIMIT_S: Final = 300.0


class WrongAnswerError(Exception):
    """A search did not find exactly the generated open transactions."""


class PipelineResult(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a run; ``--json`` prints it."""

    load_average: float
    """Before the run."""
    log_bytes: int
    batches: int
    transactions: int
    rows: tuple[MeasuredFigure, ...]
    costs: tuple[SearchCost, ...]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure; 1 when an answer was wrong. A missed target is a result."""
    options = _make_parser().parse_args(arguments)
    load_average = os.getloadavg()[0]
    _say("making log directories (once; two gigabytes take half a minute)")
    small_log = make_small_batches_log(QUICK_SCALE if options.quick else Scale())
    large_log = make_large_batches_log(LARGE_BYTES // 4 if options.quick else LARGE_BYTES)
    round_count = options.rounds or (1 if options.quick else 3)
    pipeline_run = _PipelineRun(small_log, large_log)
    try:
        pipeline_run.measure_searches_and_start_spark(round_count)
        for round_number in range(1, round_count + 1):
            pipeline_run.measure_round(round_number)
        search_costs = pipeline_run.measure_costs(QUICK_SIZES_MB if options.quick else SIZES_MB)
    except WrongAnswerError as wrong_answer:
        print(wrong_answer, file=sys.stderr)
        return 1
    finally:
        pipeline_run.stop()
    pipeline_result = PipelineResult(
        load_average=round(load_average, 1),
        log_bytes=small_log.bytes,
        batches=small_log.batches,
        transactions=small_log.transactions,
        rows=tuple(figures.judge_figures(pipeline_run.samples)),
        costs=tuple(search_costs),
    )
    if options.write:
        PLOT_FILE.parent.mkdir(parents=True, exist_ok=True)
        PLOT_FILE.write_bytes(pipeline_plot.draw_costs_svg(search_costs))
        PAGE_FILE.write_text(
            figures.replace_section(
                PAGE_FILE.read_text("utf-8"), _make_page_section(pipeline_result)
            ),
            "utf-8",
        )
    print(
        msgspec.json.encode(pipeline_result).decode()
        if options.json
        else _to_text(pipeline_result),
        end="",
    )
    return 0


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.pipeline",
        description="Time the pipeline on log directories (see benchmarks/README.md).",
    )
    parser.add_argument("--quick", action="store_true", help="a fifth of the data, one round")
    parser.add_argument("--rounds", type=int, help="3, with --quick 1")
    parser.add_argument("--json", action="store_true", help="each sample included")
    parser.add_argument(
        "--write", action="store_true", help="put figures and plot into the documentation"
    )
    return parser


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class _PipelineRun:
    """One run: a Spark session, and the samples measured in it."""

    def __init__(self, small_log: GeneratedLog, large_log: GeneratedLog) -> None:
        self._small_log = small_log
        self._large_log = large_log
        self._spark: SparkSession | None = None
        self.samples: dict[str, list[float]] = defaultdict(list)

    def measure_searches_and_start_spark(self, repeat_count: int) -> None:
        """Measure the search in a process of its own: first with nothing warmed up, then again.
        After that the session of all else.
        """
        _say("searching for hanging transactions")
        search_run = search_in_process(
            [Path(self._small_log.directory)], repeat_count=1 + repeat_count
        )
        (search_result,) = search_run.directories
        self._check_answer(search_result.transactions)
        self._record_sample(figures.SESSION_KEY, search_run.session_seconds)
        self._record_sample(figures.FIRST_SEARCH_KEY, search_result.seconds[0])
        for seconds in search_result.seconds[1:]:
            self._record_sample(figures.SEARCH_KEY, seconds)
        self._record_sample(figures.WORKER_KEY, search_result.worker_mb)
        _say("starting Spark")
        self._spark = spark_session(f"local[{CORES}]", config={"spark.driver.memory": "1g"})
        for table, columns in (("fragments", None), ("batches", DUMPED_COLUMNS), ("batches", None)):
            self._read_all(
                self._small_log, table, columns
            )  # workers are there, the JVM has compiled

    def stop(self) -> None:
        """Stop the Spark session."""
        if self._spark is not None:
            self._spark.stop()

    def measure_round(self, round_number: int) -> None:
        """Measure every part once; each round begins with another part."""
        measurements = [
            self._measure_dump,
            self._measure_tables,
            self._measure_kernel,
            self._measure_large_batches,
        ]
        first_index = round_number % len(measurements)
        for measure in measurements[first_index:] + measurements[:first_index]:
            part_name = measure.__name__.removeprefix("_measure_").replace("_", " ")
            _say(f"round {round_number}: {part_name}")
            measure()

    def measure_costs(self, sizes_mb: Sequence[int]) -> list[SearchCost]:
        """Measure searches over logs of these sizes."""
        _say(f"searching logs of {', '.join(map(str, sizes_mb))} MB")
        directories_and_sizes = [
            link_log_part(self._small_log, size_mb * 1_000_000) for size_mb in sizes_mb
        ]
        search_run = search_in_process(
            [directory for directory, _ in directories_and_sizes], repeat_count=2
        )
        for directory, _ in directories_and_sizes:
            shutil.rmtree(directory)
        return [
            SearchCost(
                bytes=size_bytes,
                seconds=min(directory_search.seconds),
                worker_mb=directory_search.worker_mb,
            )
            for (_, size_bytes), directory_search in zip(
                directories_and_sizes, search_run.directories, strict=True
            )
        ]

    def _record_sample(self, key: str, value: float) -> None:
        self.samples[key].append(value)
        _say(f"  {key}: {value:,.2f}")

    # The parts of a round

    def _measure_dump(self) -> None:
        segment_paths = _segment_paths(self._small_log, TOPIC)
        path_count = -(-DUMP_BYTES // segment_paths[0].stat().st_size)
        tiny_segment = CACHE / names.Suffix.LOG.file_name(0)
        with segment_paths[0].open("rb") as file:
            tiny_segment.write_bytes(file.read(_WHOLE_BATCHES_BYTES))
        start_only_s = _time_work(partial(_dump_log, [tiny_segment]))
        dump_s = _time_work(partial(_dump_log, segment_paths[:path_count]))
        dump_only_s = figures.subtract_start(dump_s, start_only_s)
        size_bytes = sum(segment_path.stat().st_size for segment_path in segment_paths[:path_count])
        self._record_sample(figures.DUMP_KEY, figures.mb_per_s(size_bytes, dump_only_s))

    def _measure_tables(self) -> None:
        for key, table, columns in (
            (figures.FRAGMENTS_KEY, "fragments", None),
            (figures.BATCHES_KEY, "batches", DUMPED_COLUMNS),
            (figures.WHOLE_BATCHES_KEY, "batches", None),
        ):
            seconds = _time_work(partial(self._read_all, self._small_log, table, columns))
            self._record_sample(
                key, figures.mb_per_s(self._small_log.bytes, seconds, core_count=CORES)
            )

    def _measure_kernel(self) -> None:
        log_bytes = _read_into_memory(self._small_log)
        for key, scan_bytes in (
            (figures.KERNEL_KEY, _scan_fragments),
            (figures.KERNEL_BATCHES_KEY, _scan_batches),
        ):
            scan_bytes(log_bytes[: 1 << 20])  # compiled now, if it was not
            self._record_sample(
                key, figures.mb_per_s(len(log_bytes), _time_work(partial(scan_bytes, log_bytes)))
            )
        segment_paths = _segment_paths(self._small_log, TOPIC)
        seconds = sum(
            _time_work(partial(_walk_segment, segment_path)) for segment_path in segment_paths
        )
        self._record_sample(figures.WALK_KEY, figures.mb_per_s(self._small_log.bytes, seconds))

    def _measure_large_batches(self) -> None:
        (segment_path,) = _segment_paths(self._large_log, "")
        _read_file(segment_path)  # into the page cache
        self._record_sample(
            figures.LARGE_READ_KEY,
            figures.mb_per_s(self._large_log.bytes, _time_work(lambda: _read_file(segment_path))),
        )
        seconds = _time_work(lambda: _walk_segment(segment_path))
        self._record_sample(
            figures.LARGE_WALK_KEY, figures.mb_per_s(self._large_log.bytes, seconds)
        )
        seconds = _time_work(lambda: self._read_all(self._large_log, "fragments"))
        self._record_sample(
            figures.LARGE_SPARK_KEY, figures.mb_per_s(self._large_log.bytes, seconds)
        )

    # What is timed

    def _read_all(
        self,
        generated_log: GeneratedLog,
        table_name: str,
        column_names: Sequence[str] | None = None,
    ) -> None:
        assert self._spark is not None
        reader = self._spark.read.format("kafka_log").options(table=table_name, checkCrc="false")
        if column_names is not None:
            type_by_column = {column.name: column.type for column in TABLES[table_name].columns}
            reader = reader.schema(
                ", ".join(f"{name} {type_by_column[name]}" for name in column_names)
            )
        log_frame = reader.option("topics", _topic_of_log(generated_log)).load(
            generated_log.directory
        )
        log_frame.write.format("noop").mode("overwrite").save()

    def _check_answer(self, judged_transactions: Sequence[JudgedTransaction]) -> None:
        expected_transactions = {
            JudgedTransaction(
                unended_transaction.partition,
                unended_transaction.producer_id,
                unended_transaction.start_offset,
                "hanging" if unended_transaction.is_hanging else "alive",
            )
            for unended_transaction in self._small_log.strays
        }
        if {*judged_transactions} != expected_transactions:
            missed_transactions, invented_transactions = (
                sorted(expected_transactions - {*judged_transactions}),
                sorted({*judged_transactions} - expected_transactions),
            )
            raise WrongAnswerError(
                f"not found: {missed_transactions}; not there: {invented_transactions}"
            )


_WHOLE_BATCHES_BYTES: Final = 90 * 10
"""Bytes of the first batches of a segment."""


def _time_work(do_work: Callable[[], object]) -> float:
    began_s = time.perf_counter()
    do_work()
    return time.perf_counter() - began_s


def _topic_of_log(generated_log: GeneratedLog) -> str:
    return (
        _segment_paths(generated_log, "")[0].parent.name.rpartition("-")[0]
        if not generated_log.strays
        else TOPIC
    )


def _segment_paths(generated_log: GeneratedLog, topic: str) -> list[Path]:
    return sorted(Path(generated_log.directory).glob(f"{topic}*-*/*{names.Suffix.LOG}"))


def _dump_log(segment_paths: Sequence[Path]) -> None:
    """Run Kafka's DumpLogSegments as kafka-run-class.sh does, without its output."""
    java_options = ("-Xmx256m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off")
    command = [
        *java_command(kafka_libs(), options=java_options),
        DUMP_TOOL,
        "--files",
        ",".join(map(str, segment_paths)),
    ]
    subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
        timeout=_LIMIT_S,
    )


# Without Spark


def _read_into_memory(generated_log: GeneratedLog) -> np.ndarray:
    segment_contents, byte_count = [], 0
    for segment_path in _segment_paths(generated_log, TOPIC):
        segment_contents.append(np.fromfile(segment_path, dtype=np.uint8))
        byte_count += len(segment_contents[-1])
        if byte_count >= KERNEL_BYTES:
            break
    return np.concatenate(segment_contents)


def _scan_batches(log_bytes: np.ndarray) -> None:
    batch_table = np.empty((kernel.BATCH_COLUMNS, 1 << 16), dtype=np.int64)
    position, stop_reason = 0, kernel.TABLE_FULL
    while stop_reason == kernel.TABLE_FULL:
        _, position, stop_reason = kernel.scan_batches(
            log_bytes, position, len(log_bytes), len(log_bytes), 0, batch_table, 0
        )


def _scan_fragments(log_bytes: np.ndarray) -> None:
    producer_slots = np.full(1 << 17, -1, dtype=np.int64)
    fragment_table = np.empty((1 << 16, fk.FRAGMENT_COLUMNS), dtype=np.int64)
    ending_table = np.empty((fk.ENDING_COLUMNS, 1 << 16), dtype=np.int64)
    file_state = np.array([0, -1], dtype=np.int64)
    position, fragment_count, stop_reason = 0, 0, kernel.TABLE_FULL
    while stop_reason == kernel.TABLE_FULL:
        fragment_count, _, position, stop_reason = fk.scan_fragments(
            log_bytes,
            position,
            len(log_bytes),
            len(log_bytes),
            producer_slots,
            fragment_table,
            fragment_count,
            ending_table,
            file_state,
        )


def _walk_segment(segment_path: Path) -> None:
    for _ in fragment_rows(segment_path, on_damage=_fail_on_damage):
        pass


def _fail_on_damage(damage: SegmentDamage) -> None:
    raise WrongAnswerError(f"sound data is damaged: {damage}")


def _read_file(path: Path) -> None:
    """Read a file as fast as Python does: into memory that is used again."""
    buffer = bytearray(PIECE_BYTES)
    with path.open("rb", buffering=0) as input_file:
        while input_file.readinto(buffer):
            pass


# Logs of other sizes


def link_log_part(generated_log: GeneratedLog, size_bytes: int) -> tuple[Path, int]:
    """Make a directory with about ``size`` bytes of the topic, repeated if it is too small.

    Files are linked, not copied: the first segments of all partitions first.
    """
    part_directory = CACHE / f"part-{size_bytes}"
    shutil.rmtree(part_directory, ignore_errors=True)
    part_directory.mkdir()
    recovery_points: dict[TopicPartition, int] = {}
    linked_byte_count = 0
    for copy_number, segment_path in _iterate_segment_paths(generated_log):
        if linked_byte_count >= size_bytes:
            break
        replica_folder = part_directory / segment_path.parent.name.replace(
            TOPIC, f"{TOPIC}{copy_number or ''}"
        )
        replica_folder.mkdir(exist_ok=True)
        for file_path in (segment_path, segment_path.with_suffix(names.Suffix.INDEX)):
            os.link(file_path, replica_folder / file_path.name)
        topic_partition = names.topic_partition_of(replica_folder.name)
        assert topic_partition is not None
        recovery_points[topic_partition] = int(segment_path.stem)
        linked_byte_count += segment_path.stat().st_size
    (part_directory / names.FileName.RECOVERY_POINTS).write_text(encode_offsets(recovery_points))
    return part_directory, linked_byte_count


def _iterate_segment_paths(generated_log: GeneratedLog) -> Iterator[tuple[int, Path]]:
    paths_by_replica: dict[Path, list[Path]] = defaultdict(list)
    for segment_path in _segment_paths(generated_log, TOPIC):
        paths_by_replica[segment_path.parent].append(segment_path)
    copy_number = 0
    while True:
        for segment_number in range(max(map(len, paths_by_replica.values()))):
            for segment_paths in paths_by_replica.values():
                yield from (
                    (copy_number, segment_path)
                    for segment_path in segment_paths[segment_number : segment_number + 1]
                )
        copy_number += 1


def _make_page_section(pipeline_result: PipelineResult) -> str:
    """Write the figures with their circumstances, for the page."""
    date_text = time.strftime("%-d %B %Y")
    plot_link = "![Seconds and memory over the size of the log](../docs/plots/pipeline-cost.svg)"
    return f"{date_text}, {os.cpu_count()} cores. {_to_text(pipeline_result)}\n{plot_link}"


def _to_text(pipeline_result: PipelineResult) -> str:
    return (
        f"{pipeline_result.log_bytes / 1e9:.1f} GB of log, {pipeline_result.batches:,} batches,"
        f" {pipeline_result.transactions:,} transactions;"
        f" load average before: {pipeline_result.load_average}\n\n"
        f"{figures.format_table(pipeline_result.rows)}\n"
        f"{figures.format_cost_table(pipeline_result.costs)}"
    )


if __name__ == "__main__":
    sys.exit(main())

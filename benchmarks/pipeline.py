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
from benchmarks.log_data import CACHE, TOPIC, GeneratedLog, Scale, large_batches, small_batches
from benchmarks.pipeline_figures import Cost, MeasuredFigure
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
DUMPED: Final = (
    *("base_offset", "last_offset", "records", "base_sequence", "producer_id", "producer_epoch"),
    *("leader_epoch", "is_transactional", "is_control", "has_delete_horizon", "position"),
    *("max_timestamp_ms", "size_bytes", "codec", "crc"),
)
"""The columns with what kafka-dump-log prints of a batch."""
SIZES_MB: Final = (100, 200, 500, 1_000, 2_000, 4_000)
QUICK: Final = Scale(transactions=20_000, segment_bytes=10_000_000)
QUICK_SIZES_MB: Final = (50, 100, 200, 400)
PAGE: Final = Path(__file__).resolve().parent / "README.md"
PLOT: Final = PAGE.parent.parent / "docs" / "plots" / "pipeline-cost.svg"
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
    costs: tuple[Cost, ...]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure; 1 when an answer was wrong. A missed target is a result."""
    options = _parser().parse_args(arguments)
    load_average = os.getloadavg()[0]
    _say("making log directories (once; two gigabytes take half a minute)")
    small_logs = small_batches(QUICK if options.quick else Scale())
    large_logs = large_batches(LARGE_BYTES // 4 if options.quick else LARGE_BYTES)
    rounds = options.rounds or (1 if options.quick else 3)
    run = _Run(small_logs, large_logs)
    try:
        run.start(rounds)
        for number in range(1, rounds + 1):
            run.round(number)
        costs = run.costs(QUICK_SIZES_MB if options.quick else SIZES_MB)
    except WrongAnswerError as failure:
        print(failure, file=sys.stderr)
        return 1
    finally:
        run.stop()
    result = PipelineResult(
        load_average=round(load_average, 1),
        log_bytes=small_logs.bytes,
        batches=small_logs.batches,
        transactions=small_logs.transactions,
        rows=tuple(figures.rows(run.samples)),
        costs=tuple(costs),
    )
    if options.write:
        PLOT.parent.mkdir(parents=True, exist_ok=True)
        PLOT.write_bytes(pipeline_plot.svg(costs))
        PAGE.write_text(
            figures.replace_section(PAGE.read_text("utf-8"), _page_section(result)), "utf-8"
        )
    print(msgspec.json.encode(result).decode() if options.json else _text(result), end="")
    return 0


def _parser() -> argparse.ArgumentParser:
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


class _Run:
    """One run: a Spark session, and the samples measured in it."""

    def __init__(self, small_log: GeneratedLog, large_log: GeneratedLog) -> None:
        self._small = small_log
        self._large = large_log
        self._spark: SparkSession | None = None
        self.samples: dict[str, list[float]] = defaultdict(list)

    def start(self, repeat_count: int) -> None:
        """The search, in a process of its own: first with nothing warmed up, then again. After that
        the session of all else.
        """
        _say("searching for hanging transactions")
        searches = search_in_process([Path(self._small.directory)], repeat_count=1 + repeat_count)
        (search,) = searches.directories
        self._check(search.transactions)
        self._note(figures.SESSION_KEY, searches.session_seconds)
        self._note(figures.FIRST_SEARCH_KEY, search.seconds[0])
        for seconds in search.seconds[1:]:
            self._note(figures.SEARCH_KEY, seconds)
        self._note(figures.WORKER_KEY, search.worker_mb)
        _say("starting Spark")
        self._spark = spark_session(f"local[{CORES}]", config={"spark.driver.memory": "1g"})
        for table, columns in (("fragments", None), ("batches", DUMPED), ("batches", None)):
            self._read_all(self._small, table, columns)  # workers are there, the JVM has compiled

    def stop(self) -> None:
        """Stop the Spark session."""
        if self._spark is not None:
            self._spark.stop()

    def round(self, number: int) -> None:
        """Measure every part once; each round begins with another part."""
        parts = [self._dump, self._tables, self._kernel, self._large_batches]
        first_part = number % len(parts)
        for part in parts[first_part:] + parts[:first_part]:
            _say(f"round {number}: {part.__name__.strip('_').replace('_', ' ')}")
            part()

    def costs(self, sizes_mb: Sequence[int]) -> list[Cost]:
        """The costs of searches over logs of these sizes."""
        _say(f"searching logs of {', '.join(map(str, sizes_mb))} MB")
        parts = [link_part(self._small, size_mb * 1_000_000) for size_mb in sizes_mb]
        searches = search_in_process([directory for directory, _ in parts], repeat_count=2)
        for directory, _ in parts:
            shutil.rmtree(directory)
        return [
            Cost(bytes=size, seconds=min(search.seconds), worker_mb=search.worker_mb)
            for (_, size), search in zip(parts, searches.directories, strict=True)
        ]

    def _note(self, key: str, value: float) -> None:
        self.samples[key].append(value)
        _say(f"  {key}: {value:,.2f}")

    # The parts of a round

    def _dump(self) -> None:
        paths = _segments(self._small, TOPIC)
        count = -(-DUMP_BYTES // paths[0].stat().st_size)
        tiny = CACHE / names.Suffix.LOG.file_name(0)
        with paths[0].open("rb") as file:
            tiny.write_bytes(file.read(_WHOLE_BATCHES))
        start_s = _time_work(partial(_dump_log, [tiny]))
        dump_s = _time_work(partial(_dump_log, paths[:count]))
        seconds = figures.without_start(dump_s, start_s)
        size_bytes = sum(path.stat().st_size for path in paths[:count])
        self._note(figures.DUMP_KEY, figures.rate(size_bytes, seconds))

    def _tables(self) -> None:
        for key, table, columns in (
            (figures.FRAGMENTS_KEY, "fragments", None),
            (figures.BATCHES_KEY, "batches", DUMPED),
            (figures.WHOLE_BATCHES_KEY, "batches", None),
        ):
            seconds = _time_work(partial(self._read_all, self._small, table, columns))
            self._note(key, figures.rate(self._small.bytes, seconds, cores=CORES))

    def _kernel(self) -> None:
        data = _in_memory(self._small)
        for key, scan in (
            (figures.KERNEL_KEY, _scan_fragments),
            (figures.KERNEL_BATCHES_KEY, _scan_batches),
        ):
            scan(data[: 1 << 20])  # compiled now, if it was not
            self._note(key, figures.rate(len(data), _time_work(partial(scan, data))))
        paths = _segments(self._small, TOPIC)
        seconds = sum(_time_work(partial(_walk_segment, path)) for path in paths)
        self._note(figures.WALK_KEY, figures.rate(self._small.bytes, seconds))

    def _large_batches(self) -> None:
        (path,) = _segments(self._large, "")
        _read_file(path)  # into the page cache
        self._note(
            figures.LARGE_READ_KEY,
            figures.rate(self._large.bytes, _time_work(lambda: _read_file(path))),
        )
        seconds = _time_work(lambda: _walk_segment(path))
        self._note(figures.LARGE_WALK_KEY, figures.rate(self._large.bytes, seconds))
        seconds = _time_work(lambda: self._read_all(self._large, "fragments"))
        self._note(figures.LARGE_SPARK_KEY, figures.rate(self._large.bytes, seconds))

    # What is timed

    def _read_all(
        self, log: GeneratedLog, table_name: str, columns: Sequence[str] | None = None
    ) -> None:
        assert self._spark is not None
        reader = self._spark.read.format("kafka_log").options(table=table_name, checkCrc="false")
        if columns is not None:
            types = {column.name: column.type for column in TABLES[table_name].columns}
            reader = reader.schema(", ".join(f"{name} {types[name]}" for name in columns))
        frame = reader.option("topics", _topic(log)).load(log.directory)
        frame.write.format("noop").mode("overwrite").save()

    def _check(self, transactions: Sequence[JudgedTransaction]) -> None:
        expected = {
            JudgedTransaction(
                stray.partition,
                stray.producer_id,
                stray.start_offset,
                "hanging" if stray.is_hanging else "alive",
            )
            for stray in self._small.strays
        }
        if {*transactions} != expected:
            missed_ids, invented = (
                sorted(expected - {*transactions}),
                sorted({*transactions} - expected),
            )
            raise WrongAnswerError(f"not found: {missed_ids}; not there: {invented}")


_WHOLE_BATCHES: Final = 90 * 10
"""Bytes of the first batches of a segment."""


def _time_work(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _topic(log: GeneratedLog) -> str:
    return _segments(log, "")[0].parent.name.rpartition("-")[0] if not log.strays else TOPIC


def _segments(log: GeneratedLog, topic: str) -> list[Path]:
    return sorted(Path(log.directory).glob(f"{topic}*-*/*{names.Suffix.LOG}"))


def _dump_log(paths: Sequence[Path]) -> None:
    """Run Kafka's DumpLogSegments as kafka-run-class.sh does, without its output."""
    java_options = ("-Xmx256m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off")
    command = [
        *java_command(kafka_libs(), options=java_options),
        DUMP_TOOL,
        "--files",
        ",".join(map(str, paths)),
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


def _in_memory(log: GeneratedLog) -> np.ndarray:
    parts, size = [], 0
    for path in _segments(log, TOPIC):
        parts.append(np.fromfile(path, dtype=np.uint8))
        size += len(parts[-1])
        if size >= KERNEL_BYTES:
            break
    return np.concatenate(parts)


def _scan_batches(data: np.ndarray) -> None:
    rows = np.empty((kernel.BATCH_COLUMNS, 1 << 16), dtype=np.int64)
    position, reason = 0, kernel.TABLE_FULL
    while reason == kernel.TABLE_FULL:
        _, position, reason = kernel.scan_batches(data, position, len(data), len(data), 0, rows, 0)


def _scan_fragments(data: np.ndarray) -> None:
    slots = np.full(1 << 17, -1, dtype=np.int64)
    fragments = np.empty((1 << 16, fk.FRAGMENT_COLUMNS), dtype=np.int64)
    endings = np.empty((fk.ENDING_COLUMNS, 1 << 16), dtype=np.int64)
    origin = np.array([0, -1], dtype=np.int64)
    position, count, reason = 0, 0, kernel.TABLE_FULL
    while reason == kernel.TABLE_FULL:
        count, _, position, reason = fk.scan_fragments(
            data, position, len(data), len(data), slots, fragments, count, endings, origin
        )


def _walk_segment(path: Path) -> None:
    for _ in fragment_rows(path, on_damage=_fail_on_damage):
        pass


def _fail_on_damage(damage: SegmentDamage) -> None:
    raise WrongAnswerError(f"sound data is damaged: {damage}")


def _read_file(path: Path) -> None:
    """As fast as Python reads a file: into memory that is used again."""
    buffer = bytearray(PIECE_BYTES)
    with path.open("rb", buffering=0) as file:
        while file.readinto(buffer):
            pass


# Logs of other sizes


def link_part(log: GeneratedLog, size: int) -> tuple[Path, int]:
    """Make a directory with about ``size`` bytes of the topic, repeated if it is too small.

    Files are linked, not copied: the first segments of all partitions first.
    """
    directory = CACHE / f"part-{size}"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    recovery_points: dict[TopicPartition, int] = {}
    linked_bytes = 0
    for copy, path in _paths_by_segment(log):
        if linked_bytes >= size:
            break
        folder = directory / path.parent.name.replace(TOPIC, f"{TOPIC}{copy or ''}")
        folder.mkdir(exist_ok=True)
        for file in (path, path.with_suffix(names.Suffix.INDEX)):
            os.link(file, folder / file.name)
        partition = names.topic_partition_of(folder.name)
        assert partition is not None
        recovery_points[partition] = int(path.stem)
        linked_bytes += path.stat().st_size
    (directory / names.FileName.RECOVERY_POINTS).write_text(encode_offsets(recovery_points))
    return directory, linked_bytes


def _paths_by_segment(log: GeneratedLog) -> Iterator[tuple[int, Path]]:
    by_replica: dict[Path, list[Path]] = defaultdict(list)
    for path in _segments(log, TOPIC):
        by_replica[path.parent].append(path)
    copy = 0
    while True:
        for number in range(max(map(len, by_replica.values()))):
            for paths in by_replica.values():
                yield from ((copy, path) for path in paths[number : number + 1])
        copy += 1


def _page_section(result: PipelineResult) -> str:
    """The figures with their circumstances, for the page."""
    today = time.strftime("%-d %B %Y")
    plot = "![Seconds and memory over the size of the log](../docs/plots/pipeline-cost.svg)"
    return f"{today}, {os.cpu_count()} cores. {_text(result)}\n{plot}"


def _text(result: PipelineResult) -> str:
    return (
        f"{result.log_bytes / 1e9:.1f} GB of log, {result.batches:,} batches,"
        f" {result.transactions:,} transactions; load average before: {result.load_average}\n\n"
        f"{figures.table(result.rows)}\n{figures.cost_table(result.costs)}"
    )


if __name__ == "__main__":
    sys.exit(main())

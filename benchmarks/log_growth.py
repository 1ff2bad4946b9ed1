"""``python -m benchmarks.log_growth``: how ``txnsim logs find-hanging`` grows with partitions,
segments and brokers, and what it takes for 1 GB in one segment and 2 GB in 2,000 partitions.

Each search is the whole command as a process of its own, start included, on directories of a broker
that was killed and left no snapshots, so that all is read. The answer is checked: exactly the
transactions that have no end. The figures are kept below ``.cache``, so that a long run can be made
in parts. ``--write`` puts all of them into the documentation, as a table and a plot.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from benchmarks import log_growth_plot
from benchmarks.log_data import CACHE, TOPIC, GeneratedLog, Scale, make_small_batches_log
from benchmarks.log_growth_plot import SearchPoint
from benchmarks.whole_command import time_command
from txnsim.storage import names
from txnsim.storage.checkpoints import decode_offsets, encode_offsets
from txnsim.storage.metadata_files import MetaProperties, encode_meta_properties
from txnsim.types import TopicPartition

ROOT: Final = Path(__file__).resolve().parent.parent
RESULTS_PAGE: Final = ROOT / "benchmarks" / "RESULTS.md"
POINTS_FILE: Final = CACHE / "log-growth.json"
PLOT_FILE: Final = ROOT / "docs" / "plots" / "find-hanging-growth.svg"
BEGIN_MARK: Final = "<!-- measured: python -m benchmarks.log_growth --write -->\n"
END_MARK: Final = "<!-- end of what was measured -->\n"

_TRANSACTION_BYTES: Final = 20_000
_PRODUCERS_MIN: Final = 64
"""Of a partition (``log_data``)."""


class WrongAnswerError(Exception):
    """A search did not find exactly the generated open transactions."""


class UnendedTransaction(msgspec.Struct, frozen=True, order=True):
    """A transaction without an end that the search must name."""

    topic: str
    partition: int
    producer_id: int
    start_offset: int


class _GrowthReportSource(msgspec.Struct, frozen=True):
    with_spark: bool


class _GrowthReport(msgspec.Struct, frozen=True):
    """The parts of a report's JSON that this benchmark reads."""

    findings: tuple[UnendedTransaction, ...]
    source: _GrowthReportSource


class GrowthCase(msgspec.Struct, frozen=True, kw_only=True):
    """A log to search: one point of a curve."""

    series: str
    count: int
    """Number of the things that grow along the curve."""
    title: str
    scale: Scale
    brokers: int = 1
    has_indexes: bool = True


def _make_scale(*, partition_count: int, bytes_per_partition: int, segment_bytes: int) -> Scale:
    transactions_per_partition = max(1, bytes_per_partition // _TRANSACTION_BYTES)
    return Scale(
        partitions=partition_count,
        segment_bytes=segment_bytes,
        transactions=transactions_per_partition * partition_count,
        producers=max(1_000, _PRODUCERS_MIN * partition_count),
    )


def _count_text(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _make_partitions_case(count: int) -> GrowthCase:
    scale = _make_scale(
        partition_count=count, bytes_per_partition=100_000, segment_bytes=50_000_000
    )
    return GrowthCase(series="partitions", count=count, title=f"{count:,} partitions", scale=scale)


def _make_segments_case(count: int) -> GrowthCase:
    scale = _make_scale(
        partition_count=1, bytes_per_partition=10_000_000 * count, segment_bytes=10_000_000
    )
    return GrowthCase(
        series="segments", count=count, title=_count_text(count, "segment"), scale=scale
    )


def _make_brokers_case(count: int) -> GrowthCase:
    scale = _make_scale(partition_count=100, bytes_per_partition=100_000, segment_bytes=50_000_000)
    return GrowthCase(
        series="brokers",
        count=count,
        title=_count_text(count, "broker"),
        scale=scale,
        brokers=count,
    )


GROWING_CASES: Final = (
    *map(_make_partitions_case, (100, 500, 1_000, 2_000, 4_000)),
    *map(_make_segments_case, (1, 10, 25, 50, 100)),
    *map(_make_brokers_case, (1, 5, 10, 25, 50)),
)
LARGE_CASES: Final = (
    GrowthCase(
        series="large",
        count=1,
        title="1 GB in one segment",
        scale=_make_scale(
            partition_count=1, bytes_per_partition=1_000_000_000, segment_bytes=1_100_000_000
        ),
    ),
    GrowthCase(
        series="large",
        count=2_000,
        title="2 GB in 2,000 partitions",
        scale=_make_scale(
            partition_count=2_000, bytes_per_partition=1_000_000, segment_bytes=50_000_000
        ),
    ),
)
OPEN_SCALE: Final = Scale(segment_bytes=64_000_000, transactions=25_000, hanging=200, alive=200)
INDEX_CASES: Final = (
    GrowthCase(
        series="indexes", count=1, title="500 MB, 50 open in each of 8 partitions", scale=OPEN_SCALE
    ),
    GrowthCase(
        series="indexes",
        count=0,
        title="the same without indexes",
        scale=OPEN_SCALE,
        has_indexes=False,
    ),
)
ALL_CASES: Final = (*GROWING_CASES, *LARGE_CASES, *INDEX_CASES)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the searches; return 1 if one of them gave a wrong answer."""
    options = _make_parser().parse_args(arguments)
    growth_cases = [
        growth_case
        for growth_case in ALL_CASES
        if (not options.only or growth_case.series in options.only)
        and options.least <= growth_case.count <= options.most
    ]
    points = []
    for growth_case in growth_cases:
        try:
            point = _measure_case(growth_case, options.rounds)
        except WrongAnswerError as wrong_answer:
            print(f"{growth_case.title}: {wrong_answer}", file=sys.stderr)
            return 1
        points.append(point)
        _save_point(point)
        print(log_growth_plot.table_row(point), file=sys.stderr, flush=True)
    print(log_growth_plot.points_table(points), end="")
    if options.write:
        kept_points = _load_points()
        PLOT_FILE.write_bytes(log_growth_plot.draw_growth_svg(kept_points))
        new_page = replace_section(
            RESULTS_PAGE.read_text("utf-8"), log_growth_plot.points_table(kept_points)
        )
        RESULTS_PAGE.write_text(new_page, "utf-8")
    return 0


def _load_points() -> list[SearchPoint]:
    """Read the last measurement of each case, in the order of cases."""
    if not POINTS_FILE.exists():
        return []
    points = msgspec.json.decode(POINTS_FILE.read_bytes(), type=list[SearchPoint])
    position_by_case = {
        (case.series, case.count): position for position, case in enumerate(ALL_CASES)
    }
    return sorted(points, key=lambda point: position_by_case[point.series, point.count])


def _save_point(point: SearchPoint) -> None:
    other_points = [
        stored_point
        for stored_point in _load_points()
        if (stored_point.series, stored_point.count) != (point.series, point.count)
    ]
    POINTS_FILE.write_bytes(msgspec.json.encode([*other_points, point]))


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.log_growth",
        description="Time find-hanging on growing log directories (see benchmarks/README.md).",
    )
    series_names = ("partitions", "segments", "brokers", "large", "indexes")
    parser.add_argument("--only", action="append", choices=series_names)
    parser.add_argument("--least", type=int, default=0, help="partitions, segments or brokers")
    parser.add_argument("--most", type=int, default=1 << 30, help="the same")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="put tables and plot into the docs")
    return parser


def replace_section(
    page_text: str, section_text: str, begin_mark: str = BEGIN_MARK, end_mark: str = END_MARK
) -> str:
    """Return the page with another text between two marks."""
    text_before, found_begin_mark, text_from_section = page_text.partition(begin_mark)
    _, found_end_mark, text_after = text_from_section.partition(end_mark)
    if not found_begin_mark or not found_end_mark:
        raise ValueError(f"{RESULTS_PAGE} has no place for what was measured")
    return f"{text_before}{found_begin_mark}\n{section_text}\n{found_end_mark}{text_after}"


def _measure_case(growth_case: GrowthCase, round_count: int) -> SearchPoint:
    generated_log = make_small_batches_log(growth_case.scale)
    with tempfile.TemporaryDirectory(
        prefix="txnsim-growth-", dir=Path(generated_log.directory).parent
    ) as scratch:
        log_directories = _make_broker_directories(
            generated_log, Path(scratch), growth_case.brokers
        )
        if not growth_case.has_indexes:
            log_directories = [_link_without_indexes(log_directories[0], Path(scratch) / "bare")]
        expected_transactions = set(_unended_transactions(generated_log, growth_case.brokers))
        load_averages, times_s, cpu_times_s = [], [], []
        with_spark = False
        for _ in range(round_count):
            load_averages.append(os.getloadavg()[0])
            timed_search = time_command(
                ["logs", "find-hanging", "--all", "--json", *map(str, log_directories)]
            )
            search_report = msgspec.json.decode(timed_search.stdout, type=_GrowthReport)
            if {*search_report.findings} != expected_transactions:
                missed_transactions = sorted(expected_transactions - {*search_report.findings})
                invented_transactions = sorted({*search_report.findings} - expected_transactions)
                raise WrongAnswerError(
                    f"not found: {missed_transactions}; not there: {invented_transactions}"
                )
            with_spark = search_report.source.with_spark
            times_s.append(timed_search.seconds)
            cpu_times_s.append(timed_search.cpu_s)
    return SearchPoint(
        series=growth_case.series,
        count=growth_case.count,
        title=growth_case.title,
        bytes=generated_log.bytes * growth_case.brokers,
        seconds=round(statistics.median(times_s), 2),
        least_s=round(min(times_s), 2),
        most_s=round(max(times_s), 2),
        cpu_s=round(statistics.median(cpu_times_s), 2),
        load=round(statistics.median(load_averages), 1),
        with_spark=with_spark,
    )


def _unended_transactions(
    generated_log: GeneratedLog, broker_count: int
) -> Iterator[UnendedTransaction]:
    for broker_id in range(1, broker_count + 1):
        for stray in generated_log.strays:
            yield UnendedTransaction(
                _topic_of_broker(broker_id), stray.partition, stray.producer_id, stray.start_offset
            )


def _topic_of_broker(broker_id: int) -> str:
    """Return the topic of a broker; each broker has a topic of its own."""
    return TOPIC if broker_id == 1 else f"{TOPIC}{broker_id}"


def _link_without_indexes(directory: Path, new_directory: Path) -> Path:
    """Make a copy of a log directory that links to all files except the indexes."""
    ignore_indexes = shutil.ignore_patterns(f"*{names.Suffix.INDEX}")
    return shutil.copytree(directory, new_directory, copy_function=os.link, ignore=ignore_indexes)


def _make_broker_directories(
    generated_log: GeneratedLog, scratch_directory: Path, broker_count: int
) -> list[Path]:
    """Make a directory per broker: the first one as it was made, others with links to its files
    under other topics. The coordinators' log is the first one's.
    """
    first_directory = Path(generated_log.directory)
    recovery_point_file = first_directory / names.FileName.RECOVERY_POINTS
    recovery_points = decode_offsets(
        recovery_point_file.read_text(), error_prefix=recovery_point_file.name
    )
    log_directories = [first_directory]
    for broker_id in range(2, broker_count + 1):
        log_directory = scratch_directory / f"broker-{broker_id}"
        log_directory.mkdir()
        meta_properties = MetaProperties(cluster_id="benchmarks", node_id=broker_id)
        (log_directory / names.FileName.META_PROPERTIES).write_text(
            encode_meta_properties(meta_properties)
        )
        for replica_folder in first_directory.glob(f"{TOPIC}-*"):
            new_replica_folder = log_directory / replica_folder.name.replace(
                TOPIC, _topic_of_broker(broker_id)
            )
            shutil.copytree(replica_folder, new_replica_folder, copy_function=os.link)
        own_recovery_points = {
            _rename_for_broker(topic_partition, broker_id): offset
            for topic_partition, offset in recovery_points.items()
        }
        (log_directory / names.FileName.RECOVERY_POINTS).write_text(
            encode_offsets(own_recovery_points)
        )
        log_directories.append(log_directory)
    return log_directories


def _rename_for_broker(partition: TopicPartition, broker_id: int) -> TopicPartition:
    return TopicPartition(
        partition.topic.replace(TOPIC, _topic_of_broker(broker_id)), partition.partition
    )


if __name__ == "__main__":
    sys.exit(main())

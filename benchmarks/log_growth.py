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
from benchmarks.log_data import CACHE, TOPIC, Made, Scale, small_batches
from benchmarks.log_growth_plot import Point
from benchmarks.whole_command import timed
from txnsim.storage import names
from txnsim.storage.checkpoints import decode_offsets, encode_offsets
from txnsim.storage.metadata_files import MetaProperties, encode_meta_properties
from txnsim.types import TopicPartition

ROOT: Final = Path(__file__).resolve().parent.parent
PAGE: Final = ROOT / "benchmarks" / "RESULTS.md"
KEPT: Final = CACHE / "log-growth.json"
PLOT: Final = ROOT / "docs" / "plots" / "find-hanging-growth.svg"
BEGIN: Final = "<!-- measured: python -m benchmarks.log_growth --write -->\n"
END: Final = "<!-- end of what was measured -->\n"

_TRANSACTION_BYTES: Final = 20_000
_PRODUCERS_MIN: Final = 64
"""Of a partition (``log_data``)."""


class WrongAnswerError(Exception):
    """A search did not find exactly what is there."""


class Found(msgspec.Struct, frozen=True, order=True):
    """A finding, as far as it is known beforehand."""

    topic: str
    partition: int
    producer_id: int
    start_offset: int


class _Source(msgspec.Struct, frozen=True):
    with_spark: bool


class _Report(msgspec.Struct, frozen=True):
    """What of ``--json`` is looked at."""

    findings: tuple[Found, ...]
    source: _Source


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One search."""

    series: str
    count: int
    """Of what grows."""
    title: str
    scale: Scale
    brokers: int = 1
    has_indexes: bool = True


def _scale(*, partitions: int, bytes_each: int, segment_bytes: int) -> Scale:
    each = max(1, bytes_each // _TRANSACTION_BYTES)
    return Scale(
        partitions=partitions,
        segment_bytes=segment_bytes,
        transactions=each * partitions,
        producers=max(1_000, _PRODUCERS_MIN * partitions),
    )


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def _of_partitions(count: int) -> Case:
    scale = _scale(partitions=count, bytes_each=100_000, segment_bytes=50_000_000)
    return Case(series="partitions", count=count, title=f"{count:,} partitions", scale=scale)


def _of_segments(count: int) -> Case:
    scale = _scale(partitions=1, bytes_each=10_000_000 * count, segment_bytes=10_000_000)
    return Case(series="segments", count=count, title=_counted(count, "segment"), scale=scale)


def _of_brokers(count: int) -> Case:
    scale = _scale(partitions=100, bytes_each=100_000, segment_bytes=50_000_000)
    return Case(
        series="brokers", count=count, title=_counted(count, "broker"), scale=scale, brokers=count
    )


GROWING: Final = (
    *map(_of_partitions, (100, 500, 1_000, 2_000, 4_000)),
    *map(_of_segments, (1, 10, 25, 50, 100)),
    *map(_of_brokers, (1, 5, 10, 25, 50)),
)
LARGE: Final = (
    Case(
        series="large",
        count=1,
        title="1 GB in one segment",
        scale=_scale(partitions=1, bytes_each=1_000_000_000, segment_bytes=1_100_000_000),
    ),
    Case(
        series="large",
        count=2_000,
        title="2 GB in 2,000 partitions",
        scale=_scale(partitions=2_000, bytes_each=1_000_000, segment_bytes=50_000_000),
    ),
)
OPEN: Final = Scale(segment_bytes=64_000_000, transactions=25_000, hanging=200, alive=200)
INDEXES: Final = (
    Case(series="indexes", count=1, title="500 MB, 50 open in each of 8 partitions", scale=OPEN),
    Case(
        series="indexes", count=0, title="the same without indexes", scale=OPEN, has_indexes=False
    ),
)
ALL: Final = (*GROWING, *LARGE, *INDEXES)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure; 1 when an answer was wrong."""
    options = _parser().parse_args(arguments)
    chosen = [
        one
        for one in ALL
        if (not options.only or one.series in options.only)
        and options.least <= one.count <= options.most
    ]
    points = []
    for case in chosen:
        try:
            point = _measured(case, options.rounds)
        except WrongAnswerError as failure:
            print(f"{case.title}: {failure}", file=sys.stderr)
            return 1
        points.append(point)
        _keep(point)
        print(log_growth_plot.line(point), file=sys.stderr, flush=True)
    print(log_growth_plot.table(points), end="")
    if options.write:
        kept = _kept()
        PLOT.write_bytes(log_growth_plot.svg(kept))
        page = on_page(PAGE.read_text("utf-8"), log_growth_plot.table(kept))
        PAGE.write_text(page, "utf-8")
    return 0


def _kept() -> list[Point]:
    """What was measured last of each case, in the order of cases."""
    if not KEPT.exists():
        return []
    found = msgspec.json.decode(KEPT.read_bytes(), type=list[Point])
    order = {(one.series, one.count): at for at, one in enumerate(ALL)}
    return sorted(found, key=lambda one: order[one.series, one.count])


def _keep(point: Point) -> None:
    others = [one for one in _kept() if (one.series, one.count) != (point.series, point.count)]
    KEPT.write_bytes(msgspec.json.encode([*others, point]))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.log_growth",
        description="Time find-hanging on growing log directories (see benchmarks/README.md).",
    )
    series = ("partitions", "segments", "brokers", "large", "indexes")
    parser.add_argument("--only", action="append", choices=series)
    parser.add_argument("--least", type=int, default=0, help="partitions, segments or brokers")
    parser.add_argument("--most", type=int, default=1 << 30, help="the same")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="put tables and plot into the docs")
    return parser


def on_page(page: str, text: str, begins: str = BEGIN, ends: str = END) -> str:
    """The page with another text between two marks."""
    before, begin, rest = page.partition(begins)
    _, end, after = rest.partition(ends)
    if not begin or not end:
        raise ValueError(f"{PAGE} has no place for what was measured")
    return f"{before}{begin}\n{text}\n{end}{after}"


def _measured(case: Case, rounds: int) -> Point:
    made = small_batches(case.scale)
    with tempfile.TemporaryDirectory(
        prefix="txnsim-growth-", dir=Path(made.directory).parent
    ) as at:
        directories = _brokers(made, Path(at), case.brokers)
        if not case.has_indexes:
            directories = [_without_indexes(directories[0], Path(at) / "bare")]
        expected = set(_expected(made, case.brokers))
        loads, seconds, cpu_s = [], [], []
        with_spark = False
        for _ in range(rounds):
            loads.append(os.getloadavg()[0])
            done = timed(["logs", "find-hanging", "--all", "--json", *map(str, directories)])
            report = msgspec.json.decode(done.stdout, type=_Report)
            if {*report.findings} != expected:
                missed = sorted(expected - {*report.findings})
                invented = sorted({*report.findings} - expected)
                raise WrongAnswerError(f"not found: {missed}; not there: {invented}")
            with_spark = report.source.with_spark
            seconds.append(done.seconds)
            cpu_s.append(done.cpu_s)
    return Point(
        series=case.series,
        count=case.count,
        title=case.title,
        bytes=made.bytes * case.brokers,
        seconds=round(statistics.median(seconds), 2),
        least_s=round(min(seconds), 2),
        most_s=round(max(seconds), 2),
        cpu_s=round(statistics.median(cpu_s), 2),
        load=round(statistics.median(loads), 1),
        with_spark=with_spark,
    )


def _expected(made: Made, brokers: int) -> Iterator[Found]:
    for broker in range(1, brokers + 1):
        for one in made.strays:
            yield Found(_topic(broker), one.partition, one.producer_id, one.start_offset)


def _topic(broker: int) -> str:
    """Each broker has partitions of its own."""
    return TOPIC if broker == 1 else f"{TOPIC}{broker}"


def _without_indexes(directory: Path, copy: Path) -> Path:
    """Links to all of its other files."""
    left_out = shutil.ignore_patterns(f"*{names.Suffix.INDEX}")
    return shutil.copytree(directory, copy, copy_function=os.link, ignore=left_out)


def _brokers(made: Made, scratch: Path, count: int) -> list[Path]:
    """A directory per broker: the first one as it was made, others with links to its files under
    other topics. The coordinators' log is the first one's.
    """
    first = Path(made.directory)
    points = first / names.FileName.RECOVERY_POINTS
    noted = decode_offsets(points.read_text(), place=points.name)
    directories = [first]
    for broker in range(2, count + 1):
        directory = scratch / f"broker-{broker}"
        directory.mkdir()
        meta = MetaProperties(cluster_id="benchmarks", node_id=broker)
        (directory / names.FileName.META_PROPERTIES).write_text(encode_meta_properties(meta))
        for folder in first.glob(f"{TOPIC}-*"):
            target = directory / folder.name.replace(TOPIC, _topic(broker))
            shutil.copytree(folder, target, copy_function=os.link)
        moved = {_moved(whose, broker): offset for whose, offset in noted.items()}
        (directory / names.FileName.RECOVERY_POINTS).write_text(encode_offsets(moved))
        directories.append(directory)
    return directories


def _moved(whose: TopicPartition, broker: int) -> TopicPartition:
    return TopicPartition(whose.topic.replace(TOPIC, _topic(broker)), whose.partition)


if __name__ == "__main__":
    sys.exit(main())

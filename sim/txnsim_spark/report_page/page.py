"""``logs report``: what it reads, and the HTML file that it writes, which has no scripts and opens
from disk without a network.

No key and no value of a record is in it: none is read for it. How it looks: templates/report.html.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from txnsim.files import write_whole
from txnsim.txn.open_txn_verdict import OpenTxnStatus
from txnsim.txn.past_decision import Decided
from txnsim.types import TopicPartition
from txnsim_spark.engine import NewSession, Progress
from txnsim_spark.figures import COLORS, figure
from txnsim_spark.forensics.find_hanging import (
    NOT_JUDGED,
    Reading,
    Search,
    find_hanging,
)
from txnsim_spark.forensics.findings import Finding, PartitionFigures, Report
from txnsim_spark.forensics.identity import stale_words
from txnsim_spark.questions.positions import positions_in
from txnsim_spark.questions.waiting_groups import Waiting, waiting_by
from txnsim_spark.report_page._lives import Ended, Life, Lives
from txnsim_spark.report_page._time_line import Bar, time_line
from txnsim_spark.report_page.rendering import NOTHING, producer_text, rendered, time_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

REMARK: Final = "This file holds no keys and no values of records."
TIME_LINES_MAX: Final = 60
"""Partitions whose time line is drawn: those with an open transaction first."""


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """What was written."""

    file: str
    size_bytes: int
    partitions: int
    transactions: int
    """Those that ended, on each partition."""
    report: Report
    """As ``logs find-hanging`` has it."""


def write_report(
    search: Search, file: Path, *, new_session: NewSession, progress: Progress
) -> Written:
    """Look, and write the page.

    Args:
        search: What to look at.
        file: Where to.
        new_session: Called where there is much to search for open transactions.
        progress: Told what is done now.

    Raises:
        MissingExtraError: A library is missing, or Spark is needed and missing.
        ConfigError: The file can't be written.
    """
    reading = Reading(search, new_session, progress)
    report = find_hanging(search, new_session=new_session, progress=progress, reading=reading)
    progress("reading __consumer_offsets")
    unread: dict[str, None] = {}
    waiting = waiting_by(report, positions_in(search.paths, unread.setdefault), unread)
    progress("reading the transactions that ended")
    lives = Lives([one for one in reading.living_states() if one.replica.topic not in NOT_JUDGED])
    lives.read()
    progress("drawing")
    text = page(report, waiting, lives)
    write_whole(file, text)
    return Written(
        file=str(file),
        size_bytes=len(text.encode()),
        partitions=len(lives.of),
        transactions=sum(one.commits + one.aborts for one in lives.of.values()),
        report=report,
    )


def page(report: Report, waiting: Waiting, known: Lives) -> str:
    """The page."""
    lives = known.of
    opened: dict[TopicPartition, list[Finding]] = {}
    for finding in report.findings:
        opened.setdefault(finding.topic_partition, []).append(finding)
    figures = {TopicPartition(one.topic, one.partition): one for one in report.partitions}
    busy = [place for place, life in lives.items() if place in opened or life.newest]
    busy.sort(key=lambda place: (place not in opened, -_last_ms(lives[place]), place))
    hanging = len(report.of(OpenTxnStatus.HANGING))
    return rendered(
        "report.html",
        title=f"Transactions in log directories: {hanging} hanging",
        remark=REMARK,
        report=report,
        waiting=waiting,
        numbers=(
            ("Partitions", len(lives)),
            ("Replicas", report.source.replicas),
            ("Committed", sum(one.commits for one in lives.values())),
            ("Aborted", sum(one.aborts for one in lives.values())),
            ("Open", len(report.findings)),
            ("Hanging", hanging),
            ("Evidence not sound", sum(not one.evidence.is_sound for one in report.findings)),
            ("Groups that wait", len({one.group for one in waiting.waiters})),
        ),
        findings=[
            (one, _kind(one), _flat(msgspec.to_builtins(one.evidence)))
            for one in sorted(report.findings, key=lambda one: _kind(one) == "open")
        ],
        with_guess=Decided.with_guess,
        places=[
            (place, lives[place], figures.get(place))
            for place in sorted(lives, key=lambda place: (place not in figures, place))
        ],
        busy=busy,
        drawn={
            place: time_line(
                str(place),
                [
                    *map(_ended_bar, lives[place].newest),
                    *(_open_bar(one, report.as_of_ms) for one in opened.get(place, ())),
                ],
            )
            for place in busy[:TIME_LINES_MAX]
        },
        lives=lives,
        plots=plots(known, report.partitions),
        stale=stale_words(report.source.stale),
    )


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """What is nested, as names with dots."""
    if isinstance(value, dict) and value:
        for name, part in value.items():
            yield from _flat(part, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list | tuple):
        yield path, ", ".join(map(str, value)) or NOTHING
    else:
        yield path, NOTHING if value is None or value == {} else str(value)


def _ended_bar(one: Ended) -> Bar:
    start = one.first_timestamp_ms
    began = "it began in an older segment, or ended nothing" if start is None else time_text(start)
    return Bar(
        kind=one.kind,
        from_ms=one.timestamp_ms if start is None else start,
        to_ms=one.timestamp_ms,
        label=f"producer {producer_text(one)}, {one.kind}, marker at offset {one.marker_offset};"
        f" {began} to {time_text(one.timestamp_ms)}",
    )


def _open_bar(one: Finding, as_of_ms: int) -> Bar:
    start = one.last_timestamp_ms if one.start_timestamp_ms is None else one.start_timestamp_ms
    return Bar(
        kind=_kind(one),
        from_ms=start,
        to_ms=max(as_of_ms, start),
        label=f"{one.transactional_id or 'unknown id'}, producer {producer_text(one)},"
        f" {one.verdict.value}, open from offset {one.start_offset}",
    )


def _last_ms(life: Life) -> int:
    return life.newest[-1].timestamp_ms if life.newest else -1


def _kind(one: Finding) -> str:
    return "hanging" if one.verdict is OpenTxnStatus.HANGING else "open"


# Figures: how long transactions took, when they ended, what is withheld

BUCKETS: Final = 100
PARTITIONS_MAX: Final = 12
"""Maximum number of partitions in the figure, those with most withheld."""
_OUTCOMES: Final = {True: ("committed", COLORS[2]), False: ("aborted", COLORS[1])}
POINTS_MAX: Final = 500
"""Of a curve."""


def plots(lives: Lives, figures: Sequence[PartitionFigures]) -> Iterator[tuple[str, bytes]]:
    """Title and SVG of each figure that has data.

    Args:
        lives: What ended.
        figures: Of partitions with an open transaction.
    """
    if any(lives.took_ms.values()):
        title = "From a transaction's first record on a partition to its marker"
        yield title, figure(title, lambda axes: _durations(axes, lives))
    if any(lives.ended_ms.values()):
        title = "Transactions that ended, by the times of their markers"
        yield title, figure(title, lambda axes: _over_time(axes, lives))
    withheld = [one for one in figures if one.lag > 0]
    if withheld:
        title = "High watermark − last stable offset"
        yield title, figure(title, lambda axes: _withheld(axes, withheld))


def _durations(axes: Axes, lives: Lives) -> None:
    for is_commit, (name, color) in _OUTCOMES.items():
        took_ms = np.sort(np.asarray(lives.took_ms[is_commit], dtype=np.int64))
        if len(took_ms):
            at = np.unique(np.linspace(0, len(took_ms) - 1, POINTS_MAX).astype(np.int64))
            axes.plot(took_ms[at], (at + 1) / len(took_ms), color=color, label=name)
    axes.set_xscale("symlog", linthresh=1)
    axes.set_xlabel("milliseconds")
    axes.set_ylabel("share that takes no longer")


def _over_time(axes: Axes, lives: Lives) -> None:
    ended_ms = {one: np.asarray(lives.ended_ms[one], dtype=np.int64) for one in _OUTCOMES}
    together = np.concatenate(list(ended_ms.values()))
    edges = np.linspace(together.min(), together.max() + 1, BUCKETS + 1)
    below = np.zeros(BUCKETS)
    for is_commit, (name, color) in _OUTCOMES.items():
        counts, _ = np.histogram(ended_ms[is_commit], bins=edges)
        width = (edges[1] - edges[0]) / 1_000
        left = (edges[:-1] - edges[0]) / 1_000
        axes.bar(left, counts, width, bottom=below, align="edge", color=color, label=name)
        below += counts
    first = datetime.fromtimestamp(float(edges[0]) / 1_000, UTC)
    axes.set_xlabel(f"seconds since {first:%Y-%m-%dT%H:%M:%SZ}")
    axes.set_ylabel("transactions")


def _withheld(axes: Axes, figures: Sequence[PartitionFigures]) -> None:
    most = sorted(figures, key=lambda one: -one.lag)[:PARTITIONS_MAX]
    names = [f"{one.topic}-{one.partition}" for one in most]
    # A bar stands at its number, not at its label: equal labels would share one bar.
    bars = axes.barh(range(len(most)), [one.lag for one in most], color=COLORS[3])
    axes.set_yticks(range(len(most)), names, parse_math=False)
    axes.invert_yaxis()
    axes.bar_label(bars, fmt="%g")
    axes.set_xlabel("offsets that read_committed consumers do not get")

"""The report as one HTML file without scripts, which opens from disk without a network.

No key and no value of a record is in it: none is read for it. How it looks: templates/report.html.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from txnsim.pipeline.forensics.findings import Finding, Report
from txnsim.pipeline.forensics.identity import stale_words
from txnsim.pipeline.questions.waiting import Waiting
from txnsim.pipeline.report_page.lives import Ended, Life, Lives
from txnsim.pipeline.report_page.plots import plots
from txnsim.pipeline.report_page.rendering import NOTHING, producer_text, rendered, time_text
from txnsim.pipeline.report_page.time_line import Bar, time_line
from txnsim.txn.open_txn_verdict import OpenTxnStatus, with_guess
from txnsim.types import TopicPartition

REMARK: Final = "This file holds no keys and no values of records."
TIME_LINES_MAX: Final = 60
"""Partitions whose time line is drawn: those with an open transaction first."""


class Contents(msgspec.Struct, frozen=True, kw_only=True):
    """All that is shown."""

    report: Report
    waiting: Waiting
    lives: Lives


def page(contents: Contents) -> str:
    """The page."""
    report, lives = contents.report, contents.lives.of
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
        waiting=contents.waiting,
        numbers=(
            ("Partitions", len(lives)),
            ("Replicas", report.source.replicas),
            ("Committed", sum(one.commits for one in lives.values())),
            ("Aborted", sum(one.aborts for one in lives.values())),
            ("Open", len(report.findings)),
            ("Hanging", hanging),
            ("Evidence not sound", sum(not one.evidence.is_sound for one in report.findings)),
            ("Groups that wait", len({one.group for one in contents.waiting.waiters})),
        ),
        findings=[
            (one, _kind(one), _flat(msgspec.to_builtins(one.evidence)))
            for one in sorted(report.findings, key=lambda one: _kind(one) == "open")
        ],
        with_guess=with_guess,
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
        plots=plots(contents.lives, report.partitions),
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

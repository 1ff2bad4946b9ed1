"""The report as one HTML file without scripts, which opens from disk without a network.

No key and no value of a record is in it: none is read for it.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from xml.etree.ElementTree import Element

import msgspec

from txnsim.pipeline.forensics.findings import Finding, PartitionFigures, Report
from txnsim.pipeline.forensics.identity import stale_words
from txnsim.pipeline.questions.waiting import Waiting
from txnsim.pipeline.report_page.elements import Child, document, element, table
from txnsim.pipeline.report_page.lives import Ended, Life, Lives
from txnsim.pipeline.report_page.plots import plots
from txnsim.pipeline.report_page.time_line import Bar, time_line, time_text
from txnsim.txn.open_txn_verdict import OpenTxnStatus, with_guess
from txnsim.types import TopicPartition

REMARK: Final = "This file holds no keys and no values of records."
STYLE: Final = Path(__file__).with_name("report.css")
TIME_LINES_MAX: Final = 60
"""Partitions whose time line is drawn: those with an open transaction first."""
ROWS_MAX: Final = 2_000
"""Of a table."""
POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none';"
    " form-action 'none'"
)
_NOTHING: Final = "–"


class Contents(msgspec.Struct, frozen=True, kw_only=True):
    """All that is shown."""

    report: Report
    waiting: Waiting
    lives: Lives


def page(contents: Contents) -> str:
    """The page."""
    report = contents.report
    opened = _opened(report)
    busy = _busy(contents.lives.of, opened)
    hanging = len(report.of(OpenTxnStatus.HANGING))
    title = f"Transactions in log directories: {hanging} hanging"
    return document(
        title=title,
        remark=REMARK,
        style=STYLE.read_text("utf-8"),
        policy=POLICY,
        body=(
            element("h1", title),
            element("p", f"As of {time_text(report.as_of_ms)}. {REMARK}"),
            _summary(contents),
            *_findings(report),
            *_waiters(contents.waiting),
            *_places(contents, frozenset(busy[:TIME_LINES_MAX])),
            *_time_lines(contents, busy, opened),
            *_plots(contents),
            *_source(report),
        ),
    )


def _summary(contents: Contents) -> Element:
    report, lives = contents.report, contents.lives
    unsound = sum(not one.evidence.is_sound for one in report.findings)
    numbers = (
        ("Partitions", len(lives.of)),
        ("Replicas", report.source.replicas),
        ("Committed", sum(one.commits for one in lives.of.values())),
        ("Aborted", sum(one.aborts for one in lives.of.values())),
        ("Open", len(report.findings)),
        ("Hanging", len(report.of(OpenTxnStatus.HANGING))),
        ("Evidence not sound", unsound),
        ("Groups that wait", len({one.group for one in contents.waiting.waiters})),
    )
    return element(
        "dl",
        *(
            element("div", element("dt", name), element("dd", f"{number:,}"))
            for name, number in numbers
        ),
        class_="numbers",
    )


# Findings


def _findings(report: Report) -> Iterator[Element]:
    yield element("h2", "Open transactions")
    if not report.findings:
        yield element("p", "No transaction is open.")
    for finding in sorted(report.findings, key=lambda one: _kind(one) == "open"):
        yield _finding(finding)
    if report.owed:
        yield table(
            "Decided, and not complete in the coordinator's log",
            ("Transactional id", "Producer", "State", "Decided at", "Waits for the marker"),
            (
                (
                    one.transactional_id,
                    f"{one.producer_id}:{one.producer_epoch}",
                    one.state,
                    time_text(one.decided_at_ms),
                    ", ".join(one.open_on) or _NOTHING,
                )
                for one in report.owed[:ROWS_MAX]
            ),
        )
        yield from _left_out(len(report.owed) - ROWS_MAX, "transactions")


def _finding(one: Finding) -> Element:
    evidence = one.evidence
    return element(
        "article",
        element(
            "h3",
            f"{one.topic_partition} from offset {one.start_offset}: ",
            element("span", one.verdict.value, class_=f"status {_kind(one)}"),
        ),
        element("p", one.reason),
        _pairs(
            (
                ("Transactional id", one.transactional_id or "not known"),
                ("Producer id and epoch", f"{one.producer_id}:{one.producer_epoch}"),
                ("Began", _time(one.start_timestamp_ms)),
                ("Last written", time_text(one.last_timestamp_ms)),
                ("Coordinator's state", one.state or "not known"),
                ("Its marker should have been", one.outcome or _NOTHING),
                ("Replicas", evidence.replicas.summary),
            )
        ),
        element("p", f"Evidence: {evidence.status.value}."),
        element("ul", *(element("li", reason) for reason in evidence.reasons))
        if evidence.reasons
        else None,
        _command(one),
        element(
            "details",
            element("summary", "All of the evidence"),
            _pairs(_flat(msgspec.to_builtins(evidence))),
        ),
        id=_anchor(one.topic_partition, one.start_offset),
    )


def _command(one: Finding) -> Element | None:
    if one.command is not None:
        return element("pre", with_guess(one.command, one.decided))
    if one.verdict is not OpenTxnStatus.HANGING:
        return None
    return element("p", "No command follows from this evidence.")


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """What is nested, as names with dots."""
    if isinstance(value, dict) and value:
        for name, part in value.items():
            yield from _flat(part, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list | tuple):
        yield path, ", ".join(map(str, value)) or _NOTHING
    else:
        yield path, _NOTHING if value is None or value == {} else str(value)


def _pairs(pairs: Iterable[tuple[str, str]]) -> Element:
    return element(
        "dl", *(element("div", element("dt", name), element("dd", text)) for name, text in pairs)
    )


# Groups that wait, and the offsets of each partition


def _waiters(waiting: Waiting) -> Iterator[Element]:
    if waiting.waiters:
        yield element("h2", "Groups that wait")
        yield table(
            "Groups whose read_committed consumers can't pass an open transaction",
            ("Group", "Partition", "Committed", "Still gets", "Withheld", "Behind", "Since"),
            (
                (
                    one.group,
                    str(TopicPartition(one.topic, one.partition)),
                    str(one.committed_offset),
                    str(one.to_read),
                    str(one.withheld),
                    one.transactional_id or f"producer {one.producer_id}",
                    _time(one.since_ms),
                )
                for one in waiting.waiters[:ROWS_MAX]
            ),
        )
        yield from _left_out(len(waiting.waiters) - ROWS_MAX, "groups and partitions")


def _places(contents: Contents, drawn: frozenset[TopicPartition]) -> Iterator[Element]:
    yield element("h2", "What stands where")
    figures = {TopicPartition(one.topic, one.partition): one for one in contents.report.partitions}
    lives = contents.lives.of
    order = sorted(lives, key=lambda place: (place not in figures, place))
    yield table(
        "Each partition, by the replica whose word counts; those with open transactions first",
        (
            *("Partition", "Seen on", "Log start", "Last stable", "High watermark", "Log end"),
            *("Withheld", "Stands since", "Open", "Committed", "Aborted"),
        ),
        (
            (
                element("a", str(place), href=f"#{_anchor(place)}")
                if place in drawn
                else str(place),
                *_place_row(lives[place], figures.get(place)),
            )
            for place in order[:ROWS_MAX]
        ),
    )
    yield from _left_out(len(order) - ROWS_MAX, "partitions")


def _place_row(life: Life, figures: PartitionFigures | None) -> Sequence[Child]:
    ends = life.ends
    offsets = (
        (str(ends.log_start_offset), _NOTHING, _or_nothing(ends.high_watermark))
        if figures is None
        else (
            *(str(figures.log_start_offset), str(figures.last_stable_offset)),
            str(figures.high_watermark),
        )
    )
    return (
        ", ".join(map(str, life.brokers)),
        *offsets,
        str(ends.end_offset),
        "0" if figures is None else str(figures.lag),
        _NOTHING if figures is None else _time(figures.stands_since_ms),
        "0" if figures is None else str(figures.open_transactions),
        f"{life.commits:,}",
        f"{life.aborts:,}",
    )


# Time lines


def _time_lines(
    contents: Contents,
    busy: Sequence[TopicPartition],
    opened: Mapping[TopicPartition, Sequence[Finding]],
) -> Iterator[Element]:
    report, lives = contents.report, contents.lives.of
    yield element("h2", "Time lines")
    yield element(
        "p",
        "A bar is a transaction on a partition, from its first record to its marker: ",
        *(
            element("span", kind, class_=f"status {kind}")
            for kind in ("committed", "aborted", "open", "hanging")
        ),
        " Times are those of records and markers, by the clocks of those that wrote them.",
    )
    for place in busy[:TIME_LINES_MAX]:
        yield _time_line(place, lives[place], opened.get(place, ()), report.as_of_ms)
    yield from _left_out(len(busy) - TIME_LINES_MAX, "partitions with transactions")


def _opened(report: Report) -> dict[TopicPartition, list[Finding]]:
    opened: dict[TopicPartition, list[Finding]] = {}
    for finding in report.findings:
        opened.setdefault(finding.topic_partition, []).append(finding)
    return opened


def _busy(
    lives: Mapping[TopicPartition, Life], opened: Mapping[TopicPartition, Sequence[Finding]]
) -> list[TopicPartition]:
    """Partitions with transactions, in the order of their time lines."""
    busy = [place for place, life in lives.items() if place in opened or life.newest]
    return sorted(busy, key=lambda place: (place not in opened, -_last_ms(lives[place]), place))


def _time_line(
    place: TopicPartition, life: Life, opened: Sequence[Finding], as_of_ms: int
) -> Element:
    ended = life.newest
    bars = [*map(_ended_bar, ended), *(_open_bar(one, as_of_ms) for one in opened)]
    count = life.commits + life.aborts
    shown = f"the newest {len(ended)} of {count:,} that ended" if len(ended) < count else "all"
    return element(
        "section",
        element("h3", str(place)),
        time_line(str(place), bars),
        element(
            "details",
            element("summary", f"{shown}, as a table"),
            table(
                f"Transactions on {place}",
                ("Producer", "First offset", "Marker", "Outcome", "Records", "Began", "Ended"),
                map(_ended_row, reversed(ended)),
            ),
        ),
        id=_anchor(place),
    )


def _ended_bar(one: Ended) -> Bar:
    kind = "committed" if one.is_commit else "aborted"
    start = one.first_timestamp_ms
    began = "it began in an older segment, or ended nothing" if start is None else time_text(start)
    return Bar(
        kind=kind,
        from_ms=one.timestamp_ms if start is None else start,
        to_ms=one.timestamp_ms,
        label=f"producer {one.producer_id}:{one.producer_epoch}, {kind}, marker at offset"
        f" {one.marker_offset}; {began} to {time_text(one.timestamp_ms)}",
    )


def _open_bar(one: Finding, as_of_ms: int) -> Bar:
    start = one.last_timestamp_ms if one.start_timestamp_ms is None else one.start_timestamp_ms
    return Bar(
        kind=_kind(one),
        from_ms=start,
        to_ms=max(as_of_ms, start),
        label=f"{one.transactional_id or 'unknown id'}, producer {one.producer_id}:"
        f"{one.producer_epoch}, {one.verdict.value}, open from offset {one.start_offset}",
    )


def _ended_row(one: Ended) -> Sequence[Child]:
    return (
        f"{one.producer_id}:{one.producer_epoch}",
        _or_nothing(one.first_offset),
        str(one.marker_offset),
        "committed" if one.is_commit else "aborted",
        _or_nothing(one.records),
        _time(one.first_timestamp_ms),
        time_text(one.timestamp_ms),
    )


def _last_ms(life: Life) -> int:
    return life.newest[-1].timestamp_ms if life.newest else -1


# Figures, and what was read


def _plots(contents: Contents) -> Iterator[Element]:
    drawn = list(plots(contents.lives, contents.report.partitions))
    if drawn:
        yield element("h2", "Figures")
    for title, svg in drawn:
        data = base64.b64encode(svg).decode()
        yield element("img", src=f"data:image/svg+xml;base64,{data}", alt=title)


def _source(report: Report) -> Iterator[Element]:
    source = report.source
    yield element("h2", "What was read")
    yield _pairs(
        (
            ("Directories", ", ".join(source.directories)),
            ("Replicas", f"{source.replicas:,}"),
            ("Judged by their last snapshot", f"{source.from_snapshots:,}"),
            ("Read for open transactions", f"{source.scanned:,}"),
            ("Bytes of those", f"{source.scanned_bytes:,}"),
            ("Missing of __transaction_state", source.transaction_log_gap or "nothing"),
        )
    )
    for caption, lines in (
        ("Torn tails, which a starting broker cuts off", source.cut_off),
        ("What could not be read, or makes no sense", source.problems),
        ("Replicas of topics that were deleted, which are not judged", stale_words(source.stale)),
    ):
        if lines:
            yield element("h3", caption)
            yield element("ul", *(element("li", line) for line in lines[:ROWS_MAX]))
            yield from _left_out(len(lines) - ROWS_MAX, "lines")


def _left_out(count: int, what: str) -> Iterator[Element]:
    if count > 0:
        yield element("p", f"{count:,} more {what} are left out.")


def _kind(one: Finding) -> str:
    return "hanging" if one.verdict is OpenTxnStatus.HANGING else "open"


def _anchor(place: TopicPartition, offset: int | None = None) -> str:
    return f"{place}" if offset is None else f"{place}@{offset}"


def _time(time_ms: int | None) -> str:
    return _NOTHING if time_ms is None else time_text(time_ms)


def _or_nothing(number: int | None) -> str:
    return _NOTHING if number is None else str(number)

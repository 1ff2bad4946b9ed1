"""What ``logs decisions`` and ``txns decisions`` print, and their exit status."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from txnsim.cli.output import TERMINAL

if TYPE_CHECKING:
    from txnsim.txn.decision_report import DecisionFinding, DecisionReport

FINDING_STATUS: Final = 3
INCOMPLETE_STATUS: Final = 4
DECISION_STATUSES: Final = (
    "Exit status 0: everything was judged, and agrees; 3: there are findings; 4: none was found,"
    " but something could not be judged; 2: a misuse."
)


def status_of(report: DecisionReport) -> int:
    """The exit status for a report."""
    if report.findings:
        return FINDING_STATUS
    return INCOMPLETE_STATUS if report.unknown or report.problems or not report.decisions else 0


def print_report(report: DecisionReport) -> None:
    """Print a report for people: a summary, and each finding with what can be done."""
    for line in summary_lines(report):
        TERMINAL.warn(line)
    for line in finding_lines(report):
        TERMINAL.line(line)


def summary_lines(report: DecisionReport) -> Iterator[str]:
    """The summary, what is unknown and why, and what could not be read."""
    yield _summary(report)
    for reason in report.unknown_because:
        yield f"unknown: {reason.decisions}: {reason.why}"
    yield from report.problems


def finding_lines(report: DecisionReport) -> Iterator[str]:
    for finding in report.findings:
        first_line, *further_lines = _lines_of(finding)
        yield first_line
        for line in further_lines:
            yield f"  {line}"


def _summary(report: DecisionReport) -> str:
    from txnsim.text import time_text

    count_texts = [
        f"decisions: {report.decisions}",
        f"agree: {report.agrees}",
        f"owed: {report.owed}",
        f"unknown: {report.unknown}",
        f"findings: {len(report.findings)}",
    ]
    if report.known_percent is not None:
        since_text = (
            "" if report.known_since_ms is None else f", since {time_text(report.known_since_ms)}"
        )
        # What could not be read may hold more than is counted: open transactions of a partition.
        scope_text = " of what could be read" if report.problems else ""
        count_texts.append(f"could be judged: {report.known_percent:g} %{scope_text}{since_text}")
    return "; ".join(count_texts) + "."


def _lines_of(finding: DecisionFinding) -> Iterator[str]:
    from txnsim.text import printable, time_text
    from txnsim.txn.decision_report import STATE_WORDS

    producer_text = (
        f"producer {finding.producer_id} epoch {finding.producer_epoch}"
        if finding.transactional_id is None
        else f"{printable(finding.transactional_id)} (producer {finding.producer_id} epoch"
        f" {finding.producer_epoch})"
    )
    yield f"{finding.topic}-{finding.partition}: {STATE_WORDS[finding.state]}: {producer_text}"
    yield f"id {finding.id}"
    if finding.decision is not None:
        yield (
            f"decided to {finding.decision.outcome} at {time_text(finding.decision.at_ms)},"
            f" __transaction_state-{finding.decision.partition} offset {finding.decision.offset}"
        )
    for marker in finding.markers:
        yield (
            f"marker {marker.outcome.upper()} at offset {marker.offset}, {time_text(marker.at_ms)},"
            f" coordinator epoch {marker.coordinator_epoch}"
        )
    if finding.first_offset is not None:
        yield (
            f"records: {finding.records}, offsets {finding.first_offset} to {finding.last_offset}:"
            f" {finding.reads_as}"
        )
    else:
        yield finding.reads_as
    yield f"{finding.explained_by or 'no known defect'}: {finding.explanation}"
    yield finding.advice

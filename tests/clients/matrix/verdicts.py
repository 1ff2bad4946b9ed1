"""What a program's output says about each check that it was asked.

A judge who acquits nobody by mistake: a check that was not reported has failed, and so has a
program whose own count or exit status disagrees with what it printed. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from tests.clients.matrix.questions import Question

PROGRAM: Final = "program"
"""Stands in the place of a check where the program as a whole is at fault."""

_CHECK_RE: Final = re.compile(r"(PASS|FAIL) ([a-z0-9][a-z0-9-]*)(?:: (.*))?")
_COUNT_RE: Final = re.compile(r"(\d+) passed, (\d+) failed")


class CheckVerdict(StrEnum):
    """How a check ended for one client at one level."""

    PASSED = "passed"
    FAILED = "failed"
    LIMIT = "own limit"
    """The library can't, on no cluster; the roster says why."""
    MISSING = "missing"
    """Its toolchain is not on this machine. Nobody may take it for a pass."""


class Line(NamedTuple):
    """A line that a program printed, and when."""

    second: float
    """Since the program was started."""
    text: str


class Output(NamedTuple):
    """All lines that a program has printed, each with its time."""

    lines: Sequence[Line]
    code: int
    stopped: bool = False


class Result(NamedTuple):
    """The verdict on one check of one client at one level."""

    client: str
    version: str
    language: str
    level: int
    check: str
    verdict: CheckVerdict
    reason: str = ""
    seconds: float = 0.0

    @property
    def is_failure(self) -> bool:
        """Whether the result makes the whole run fail."""
        return self.verdict in (CheckVerdict.FAILED, CheckVerdict.MISSING)


class Report(NamedTuple):
    """A line ``PASS check`` or ``FAIL check: reason``."""

    check: str
    passed: bool
    reason: str


def report_in(text: str) -> Report | None:
    """The report that a line of output is, if it is one."""
    match = _CHECK_RE.fullmatch(text.rstrip())
    if match is None:
        return None
    return Report(match[2], match[1] == "PASS", match[3] or "")


def judge(question: Question, output: Output) -> list[Result]:
    """A result for every check that was asked, and one more if the program itself is at fault."""
    result_by_check: dict[str, Result] = {}
    unknown_checks: list[str] = []
    before_s = 0.0
    for printed_line in output.lines:
        report = report_in(printed_line.text)
        if report is None:
            continue
        if report.check not in question.checks or report.check in result_by_check:
            unknown_checks.append(report.check)
            continue
        verdict = CheckVerdict.PASSED if report.passed else CheckVerdict.FAILED
        result_by_check[report.check] = result(
            question, report.check, verdict, report.reason, printed_line.second - before_s
        )
        before_s = printed_line.second
    reason = "stopped: its time was over" if output.stopped else "not reported"
    results = [
        result_by_check.get(check_name) or result(question, check_name, CheckVerdict.FAILED, reason)
        for check_name in question.checks
    ]
    output_fault = _fault(results, unknown_checks, output)
    if output_fault:
        results.append(result(question, PROGRAM, CheckVerdict.FAILED, output_fault))
    return results


def result(
    question: Question,
    check_name: str,
    verdict: CheckVerdict,
    reason: str = "",
    seconds: float = 0.0,
) -> Result:
    """The cell of this question's client and level."""
    client = question.client
    return Result(
        client=client.name,
        version=client.version,
        language=client.language,
        level=question.level,
        check=check_name,
        verdict=verdict,
        reason=reason,
        seconds=round(seconds, 1),
    )


def _fault(results: Sequence[Result], unknown_checks: Sequence[str], output: Output) -> str:
    """The reason why a program's output can't be trusted; empty if it can."""
    if output.stopped:
        return ""  # the checks that it owes say so
    if unknown_checks:
        return f"reported twice or unasked: {', '.join(unknown_checks)}"
    counts = [_COUNT_RE.fullmatch(printed_line.text.rstrip()) for printed_line in output.lines]
    totals = [(int(count[1]), int(count[2])) for count in counts if count is not None]
    failed_count = sum(check_result.is_failure for check_result in results)
    if not totals:
        return f"exit status {output.code} and no count"
    if totals[-1] != (len(results) - failed_count, failed_count):
        return f"counts {totals[-1][0]} passed, {totals[-1][1]} failed, but printed otherwise"
    if output.code != (1 if failed_count else 0):
        return f"exit status {output.code} with {failed_count} failed"
    return ""

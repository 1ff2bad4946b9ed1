"""Badges that say what a run of the exam or of the conformance cases came to.

A badge is made from the results that ``txnsim exam run --json`` and ``txnsim conformance --json``
print. It has two forms: a picture (SVG), and the JSON of shields.io, which draws the picture itself
(https://shields.io/badges/endpoint-badge). Either is for the README of a library or a broker.
"""

from __future__ import annotations

from typing import Final

import msgspec

from txnsim.on_demand_imports import require_libraries
from txnsim_lab.conformance.results import CaseOutcome, ConformanceResults
from txnsim_lab.exam.results import ExamRun, SituationOutcome, escape_unprintable

GREEN: Final = "1a7f37"
ORANGE: Final = "9a6700"
RED: Final = "b42318"
GREY: Final = "57606a"
"""Colours on which white text has a contrast of at least 4.5 : 1 (WCAG 2)."""

FEW_PERCENT: Final = 10
"""At most so many per cent of failures are orange, more are red."""
TEXT_CHARS_MAX: Final = 80


class ResultsError(ValueError):
    """A text holds no results, or results of nothing."""


class Badge(msgspec.Struct, frozen=True, kw_only=True):
    """A label with a message on a colour."""

    label: str
    message: str
    color: str
    """Six hexadecimal digits, without ``#``."""

    def shields_json(self) -> bytes:
        """The badge for shields.io, as its endpoint badges read it."""
        endpoint = {"schemaVersion": 1, **msgspec.to_builtins(self)}
        return msgspec.json.format(msgspec.json.encode(endpoint), indent=2) + b"\n"

    def svg(self) -> str:
        """The badge as a picture.

        Raises:
            MissingExtraError: The extra ``badge`` is not installed.
        """
        require_libraries("badge", "anybadge")
        import anybadge

        badge_picture = anybadge.Badge(self.label, self.message, default_color=f"#{self.color}")
        svg_text: str = badge_picture.badge_svg_text
        return svg_text.strip() + "\n"


def read_results(text: bytes) -> ExamRun | ConformanceResults:
    """Read what ``--json`` of the exam or of the conformance cases has printed.

    Raises:
        ResultsError: The text is neither; the error says where it is wrong.
    """
    try:
        result_fields = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:  # nested too deeply
        raise ResultsError(f"no JSON: {error}") from None
    if not isinstance(result_fields, dict):
        raise ResultsError("an object is expected, as --json of exam run or conformance prints it")
    is_conformance = "answered_by" in result_fields
    try:
        if is_conformance:
            return msgspec.convert(result_fields, ConformanceResults)
        return msgspec.convert(result_fields, ExamRun)
    except msgspec.ValidationError as error:
        command = "conformance" if is_conformance else "exam run"
        raise ResultsError(f"no results of txnsim {command} --json: {error}") from None


def badge_of(results: ExamRun | ConformanceResults) -> Badge:
    """The badge of a run.

    What does not apply counts nowhere. A run that was stopped says so, and is never green: nobody
    knows what the rest would have come to.

    Raises:
        ResultsError: Nothing was asked that applies.
    """
    if isinstance(results, ExamRun):
        label = "txnsim exam"
        passed_count = results.count(SituationOutcome.PASSED)
        failed_count = results.count(SituationOutcome.MISSED)
        failure_word = "missed"
    else:
        label = escape_unprintable(f"answers as Kafka {results.release}")[:TEXT_CHARS_MAX]
        passed_count = results.outcome_count(CaseOutcome.PASSED)
        failed_count = results.outcome_count(CaseOutcome.DIFFERS)
        failure_word = "differ"
    asked_count = passed_count + failed_count
    if not asked_count:
        raise ResultsError("nothing was asked that applies, so a badge could only mislead")
    message = f"{passed_count} of {asked_count}"
    if failed_count:
        message += f", {failed_count} {failure_word}"
    if results.is_stopped:
        message += ", stopped early"
    return Badge(
        label=label,
        message=message,
        color=_color(asked_count, failed_count, is_stopped=results.is_stopped),
    )


def _color(asked_count: int, failed_count: int, *, is_stopped: bool) -> str:
    if failed_count * 100 > asked_count * FEW_PERCENT:
        return RED
    if failed_count:
        return ORANGE
    return GREY if is_stopped else GREEN

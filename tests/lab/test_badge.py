"""Badges: what they say of a run, in both forms, and what makes none."""

from __future__ import annotations

from typing import Final

import msgspec
import pytest

from tests.support.small_results import conformance_run, exam_run
from txnsim_lab.badge import GREEN, GREY, ORANGE, RED, ResultsError, badge_of, read_results
from txnsim_lab.conformance.results import CaseOutcome, ConformanceResults
from txnsim_lab.exam.results import ExamRun, SituationOutcome

P: Final = SituationOutcome.PASSED
M: Final = SituationOutcome.MISSED


@pytest.mark.parametrize(
    ("run", "message", "color"),
    [
        (exam_run(P, P), "2 of 2", GREEN),
        (exam_run(*[P] * 9, M), "9 of 10, 1 missed", ORANGE),
        (exam_run(*[P] * 8, M), "8 of 9, 1 missed", RED),
        (exam_run(P, SituationOutcome.DOES_NOT_APPLY, SituationOutcome.PROTOCOL), "1 of 1", GREEN),
        (exam_run(P, is_stopped=True), "1 of 1, stopped early", GREY),
        (exam_run(M, is_stopped=True), "0 of 1, 1 missed, stopped early", RED),
        (conformance_run(CaseOutcome.PASSED, CaseOutcome.NOT_APPLICABLE), "1 of 1", GREEN),
        (conformance_run(CaseOutcome.PASSED, CaseOutcome.DIFFERS), "1 of 2, 1 differ", RED),
    ],
)
def test_a_badge_counts_what_was_asked_and_applies(
    run: ExamRun | ConformanceResults, message: str, color: str
) -> None:
    badge = badge_of(read_results(msgspec.json.encode(run)))
    assert (badge.message, badge.color) == (message, color)


@pytest.mark.parametrize(
    "run", [exam_run(), exam_run(SituationOutcome.DOES_NOT_APPLY), conformance_run()]
)
def test_a_run_of_nothing_has_no_badge(run: ExamRun | ConformanceResults) -> None:
    with pytest.raises(ResultsError, match="nothing was asked that applies"):
        badge_of(run)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (b"", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b"[]", "an object is expected"),
        (b"{}", r"exam run --json: .*library"),
        (b'{"answered_by": 4}', r"conformance --json: "),
        (
            msgspec.json.encode(exam_run(P)).replace(b'"passed"', b'"splendid"'),
            r"splendid.*results\[0\]\.outcome|results\[0\]\.outcome",
        ),
    ],
)
def test_what_is_no_result_is_refused_with_its_place(text: bytes, complaint: str) -> None:
    with pytest.raises(ResultsError, match=complaint):
        read_results(text)


def _luminance(color: str) -> float:
    """Relative luminance by WCAG 2."""
    channels = (int(color[index : index + 2], 16) / 255 for index in (0, 2, 4))
    red, green, blue = (
        channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4
        for channel in channels
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("color", [GREEN, ORANGE, RED, GREY])
def test_white_text_can_be_read_on_each_color(color: str) -> None:
    assert 1.05 / (_luminance(color) + 0.05) >= 4.5

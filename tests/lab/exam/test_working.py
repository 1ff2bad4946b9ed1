"""Workers of drivers that know no library."""

from __future__ import annotations

from typing import Final

from tests.lab.exam.test_exam import KNOWS_ITS_NAME, YES, sit_exam
from txnsim_lab.exam.results import SituationOutcome

READS: Final = YES.replace(
    '"ok": True', '"ok": True, "records": [[0, n, f"in-{n + 1}"] for n in range(3)]'
)
"""Says that it has read the inputs, and that all is done."""


def test_a_worker_that_gets_nothing_is_a_miss() -> None:
    [result] = sit_exam(YES, "worker-works").results
    assert result.outcome is SituationOutcome.MISSED
    assert "nothing more comes" in result.because[0]


def test_an_input_that_is_told_as_done_and_is_not_is_a_miss() -> None:
    [result] = sit_exam(READS, "worker-works").results
    assert result.outcome is SituationOutcome.MISSED
    assert "{'in-1': 0, 'in-2': 0, 'in-3': 0}" in result.because[0]


def test_a_driver_without_workers_and_members_is_not_asked() -> None:
    [result] = sit_exam(KNOWS_ITS_NAME, "worker-works").results
    assert result.outcome is SituationOutcome.DOES_NOT_APPLY

"""Results of an exam and of conformance cases, as small as a test wants them."""

from __future__ import annotations

from txnsim_lab.conformance.results import CaseOutcome, CaseResult, ConformanceResults
from txnsim_lab.exam.results import ExamRun, Result, SituationOutcome


def exam_run(*outcomes: SituationOutcome, is_stopped: bool = False) -> ExamRun:
    results = tuple(
        Result(situation=f"s{number}", kind="middle", level=2, asks="", outcome=outcome)
        for number, outcome in enumerate(outcomes)
    )
    return ExamRun(
        library="mine",
        version="1",
        language="Python",
        contract=1,
        kafka="txnsim",
        speaks=2,
        results=results,
        is_stopped=is_stopped,
    )


def conformance_run(*outcomes: CaseOutcome, release: str = "4.4") -> ConformanceResults:
    return ConformanceResults(
        bootstrap="localhost:9092",
        release=release,
        answered_by="4.4.0",
        transaction_version=2,
        lacks=(),
        results=tuple(CaseResult(case=f"a/{n}", outcome=o) for n, o in enumerate(outcomes)),
    )

"""CI must not pass by mistake: what counts as a failure, and what happens when the time is over."""

from __future__ import annotations

import sys

import pytest

from tests.ci.process import (
    Deadline,
    PartOutcome,
    ProgramResult,
    judge_checks,
    judge_pytest,
    judge_step,
    run,
)


def test_a_program_with_checks_is_judged_by_its_count() -> None:
    output = "PASS a\nFAIL b: reason\n1 passed, 1 failed\n"
    assert judge_checks("java", 1, output) == PartOutcome(1, 1, "java: FAIL b: reason")


def test_a_program_that_dies_before_its_count_fails() -> None:
    assert judge_checks("java", 0, "PASS a\n").failed == 1


def test_a_program_that_counts_no_failure_but_exits_with_one_fails() -> None:
    assert judge_checks("java", 1, "2 passed, 0 failed\n").failed == 1


def test_a_program_that_checked_nothing_fails() -> None:
    assert judge_checks("java", 0, "0 passed, 0 failed\n").failed == 1


def test_pytest_that_collected_nothing_fails() -> None:
    assert judge_pytest("real", ProgramResult(5, "no tests ran in 0.01s")).failed == 1


def test_pytest_failures_and_errors_are_counted() -> None:
    verdict = judge_pytest("real", ProgramResult(1, "2 failed, 7 passed, 1 error in 3.10s"))
    assert (verdict.passed, verdict.failed) == (7, 3)


def test_only_the_closing_lines_of_pytest_count_and_each_of_them_once() -> None:
    noise = "%3|1795171599.523|FAIL| 2202442 errors so far"
    closing = "1 failed, 10848 passed in 983.62s (0:16:23)"
    verdict = judge_pytest(
        "make test", ProgramResult(1, f"{closing}\n{noise}\n=== {closing} ===\n")
    )
    assert (verdict.passed, verdict.failed) == (10848, 1)


def test_a_step_is_judged_by_its_exit_status() -> None:
    assert judge_step("build", ProgramResult(0, "")) == PartOutcome(1, 0)
    assert judge_step("build", ProgramResult(2, "reason")).report == "build: exit status 2\nreason"


@pytest.mark.parametrize(
    ("report_text", "reason"),
    [
        (
            "real: exit status 1\n  E  assert\nFAILED a::b - assert\n1 failed",
            "FAILED a::b - assert",
        ),
        ("java: FAIL b: reason\njava: FAIL c: reason", "FAIL b: reason"),
        ("build: exit status 2\nwhy", "build: exit status 2"),
        ("", ""),
    ],
)
def test_the_first_failure_is_told_in_one_line(report_text: str, reason: str) -> None:
    assert PartOutcome(0, 1, report_text).reason == reason


def test_verdicts_add_up_with_their_reports() -> None:
    assert PartOutcome(1, 1, "a") + PartOutcome(2, 0) + PartOutcome(0, 1, "b") == PartOutcome(
        3, 2, "a\nb"
    )


@pytest.mark.slow
def test_a_program_that_overruns_the_deadline_is_stopped_and_fails() -> None:
    endless = "import signal, sys; print('here', flush=True); signal.pause()"
    program_result = run([sys.executable, "-c", endless], deadline=Deadline(0))
    assert program_result.code != 0
    assert "here" in program_result.output
    assert "CI's time is over" in program_result.output


@pytest.mark.slow
def test_what_a_part_has_used_is_counted_with_what_its_programs_waited_for() -> None:
    burn = "import time\nwhile time.process_time() < 0.2: pass"
    starts = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn!r}], check=True)"
    deadline_of_ci = Deadline(1)
    watched_deadline, deadline_of_other_part = deadline_of_ci.of_part(), deadline_of_ci.of_part()
    assert run([sys.executable, "-c", starts], deadline=watched_deadline).code == 0
    assert 0.2 <= watched_deadline.cpu_s < 10
    assert deadline_of_other_part.cpu_s == 0

"""Running a program for CI: bounded in time, with its whole output, judged by what it counted."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time  # noqa: TID251 - a process on the real machine
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

REPOSITORY: Final = Path(__file__).resolve().parents[2]

_CHECKS_RE: Final = re.compile(r"^(\d+) passed, (\d+) failed$", re.MULTILINE)
_PYTEST_PASSED_RE: Final = re.compile(r"\b(\d+) passed\b")
_PYTEST_FAILED_RE: Final = re.compile(r"\b(\d+) (?:failed|errors?)\b")
_PYTEST_CLOSING_RE: Final = re.compile(
    r"^.*\b(?:passed|failed|errors?)\b.* in \d+\.\d+s\b.*$", re.MULTILINE
)
_REASON_RE: Final = re.compile(r"\b(?:FAIL|FAILED|ERROR) .+")
_TAIL_LINES: Final = 60
_REASON_LENGTH: Final = 300


class Deadline:
    """The moment by which all of CI must be over, and a count of the CPU time used."""

    def __init__(self, minutes: float) -> None:
        self._end_s = time.monotonic() + minutes * 60
        self._used_s: list[float] = []

    def of_part(self) -> Deadline:
        """Return this deadline for one part, which counts CPU time of its own."""
        return Deadline(self.remaining_s() / 60)

    def add_cpu(self, cpu_s: float) -> None:
        """Count the CPU seconds of a program that has ended, including its awaited children."""
        self._used_s.append(cpu_s)

    @property
    def cpu_s(self) -> float:
        """CPU seconds of all programs that have ended."""
        return sum(self._used_s)

    def remaining_s(self) -> float:
        """Seconds left, at least one so that a program can still report why it fails."""
        return max(1.0, self._end_s - time.monotonic())


class PartOutcome(NamedTuple):
    """The result of one part."""

    passed: int
    failed: int
    report: str = ""
    """What a person needs to see when something failed."""

    @property
    def reason(self) -> str:
        """The first failure in one line, for readers who see no more of the output."""
        match = _REASON_RE.search(self.report)
        line = match.group() if match else self.report.partition("\n")[0]
        return line[:_REASON_LENGTH]

    def __add__(self, other: object) -> PartOutcome:
        """The sum of both outcomes."""
        assert isinstance(other, PartOutcome)
        report_text = "\n".join(filter(None, (self.report, other.report)))
        return PartOutcome(self.passed + other.passed, self.failed + other.failed, report_text)


class ProgramResult(NamedTuple):
    """The result of a program that ended, or was stopped because its time was over."""

    code: int
    output: str


def run(
    command: Sequence[str],
    *,
    deadline: Deadline,
    environment: Mapping[str, str] | None = None,
    directory: Path = REPOSITORY,
) -> ProgramResult:
    """Run a program to its end, without stdin and with both outputs in one.

    A program that overruns the deadline is stopped together with everything it started: it runs
    in a session of its own.
    """
    process = subprocess.Popen(
        command,
        cwd=directory,
        env={**_with_bytecode(), **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    overrun_event = threading.Event()

    def stop() -> None:
        overrun_event.set()
        os.killpg(process.pid, signal.SIGKILL)

    timer = threading.Timer(deadline.remaining_s(), stop)
    timer.start()
    assert process.stdout is not None
    with process.stdout as stream:
        output = stream.read()
    _, status, usage = os.wait4(process.pid, 0)  # `Popen.wait` does not tell what it has used
    timer.cancel()
    process.returncode = os.waitstatus_to_exitcode(status)
    deadline.add_cpu(usage.ru_utime + usage.ru_stime)
    if overrun_event.is_set():
        return ProgramResult(-signal.SIGKILL, f"{output}\nstopped: CI's time is over")
    return ProgramResult(process.returncode, output)


def _with_bytecode() -> dict[str, str]:
    """The environment in which Python keeps compiled modules for the hundreds of later
    processes.
    """
    return {
        name: variable_value
        for name, variable_value in os.environ.items()
        if name != "PYTHONDONTWRITEBYTECODE"
    }


def judge_step(name: str, program_result: ProgramResult) -> PartOutcome:
    """The outcome of a program that only passes or fails."""
    if program_result.code == 0:
        return PartOutcome(1, 0)
    return PartOutcome(
        0, 1, f"{name}: exit status {program_result.code}\n{tail(program_result.output)}"
    )


def judge_checks(name: str, code: int, output: str) -> PartOutcome:
    """A program with lines ``PASS …``, ``FAIL …`` and a last line ``N passed, M failed``."""
    counts = _CHECKS_RE.findall(output)
    if not counts:
        return PartOutcome(0, 1, f"{name}: exit status {code} and no count\n{tail(output)}")
    passed_count, failed_count = map(int, counts[-1])
    if failed_count == 0 and (code != 0 or passed_count == 0):
        return PartOutcome(
            passed_count,
            1,
            f"{name}: {passed_count} passed, yet exit status {code}\n{tail(output)}",
        )
    failures = [
        f"{name}: {printed_line}"
        for printed_line in output.splitlines()
        if printed_line.startswith("FAIL ")
    ]
    return PartOutcome(passed_count, failed_count, "\n".join(failures))


def judge_pytest(name: str, program_result: ProgramResult) -> PartOutcome:
    """A program whose output has the closing lines of one or more runs of pytest.

    Nothing collected (exit status 5) is a failure: a judge who saw nothing acquits nobody.
    """
    # Only there: a client may log "2202442 errors" about something else.
    closing = "\n".join(
        dict.fromkeys(map(_bare, _PYTEST_CLOSING_RE.findall(program_result.output)))
    )
    passed_count = sum(int(count) for count in _PYTEST_PASSED_RE.findall(closing))
    failed_count = sum(int(count) for count in _PYTEST_FAILED_RE.findall(closing))
    if program_result.code == 0:
        return PartOutcome(max(passed_count, 1), 0)
    report_text = f"{name}: exit status {program_result.code}\n{tail(program_result.output)}"
    return PartOutcome(passed_count, max(failed_count, 1), report_text)


def _bare(line: str) -> str:
    """A summary line of pytest without its frame of ``=``, as ``tests.check`` repeats it."""
    return line.strip("= ")


def tail(output: str) -> str:
    """The last lines of an output, which contain the reason of a failure."""
    return "\n".join(output.splitlines()[-_TAIL_LINES:])

"""The one command that says yes or no: ``python -m tests.check``.

Each step is a program that answers by its exit status; one line per step tells the verdict and the
seconds. A failing step does not stop the others: one run shows everything that is wrong, each with
its output. Exit status 1 if any step failed.

Coverage is measured where it is asked for: in the tests of the pure cores, which are a step of
their own, as it makes a test slower. The static steps run beside the tests.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import msgspec

ROOT: Final = Path(__file__).resolve().parent.parent

QUICK_MARKERS: Final = "not slow and not clients and not spark and not real"
FULL_MARKERS: Final = "not spark and not real"
"""A JVM, Spark and a real Kafka are asked for by name only."""

SEEDS_QUICK: Final = 2
SEEDS_FULL: Final = 10

WORKERS: Final = 3
"""Processes that run tests side by side. One that has nothing left takes tests from another, so
that no long file comes last. There is one more than cores, as some tests wait for real clients.
"""

OF_THE_CORES: Final = (
    "tests/unit",
    "tests/checkers",
    "tests/kip_text",
    "tests/property",
    "tests/releases",
    "tests/wire",
)
"""Tests that coverage is measured in. Unit tests of shells are among them: they take a few branches
of the cores that no other test takes.
"""

NO_BYTECODE: Final = "PYTHONDONTWRITEBYTECODE"
"""A variable that would make each of some hundred processes compile all modules anew."""

SUMMARY_RE: Final = re.compile(
    r"^=*\s*(.*\b\d+ (?:passed|failed|error).* in [\d.]+s.*?)\s*=*$", re.MULTILINE
)


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One question to the repository."""

    name: str
    asks: str
    """What a "yes" means, for ``--help``."""
    command: tuple[str, ...]


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to it."""

    step: Step
    status: int
    output: str
    seconds: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the steps, print a line for each and the output of those that failed."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.check", description="Does this repository do what it says?"
    )
    parser.add_argument("--quick", action="store_true", help="without slow tests and clients")
    parser.add_argument("--list", action="store_true", help="say what the steps are")
    parser.add_argument(
        "--only", action="append", metavar="STEP", help="this step; may be repeated"
    )
    options = parser.parse_args(arguments)
    steps = all_steps(quick=options.quick)
    if options.list:
        for step in steps:
            print(f"{step.name:<9} {step.asks}")
        return 0
    if options.only:
        unknown = sorted(set(options.only) - {step.name for step in steps})
        if unknown:
            parser.error(
                f"no step {', '.join(unknown)}; there are: {', '.join(s.name for s in steps)}"
            )
        steps = [step for step in steps if step.name in options.only]
    return _report(_run_all(steps))


def all_steps(*, quick: bool) -> list[Step]:
    """The steps in the order in which they are reported."""
    python = sys.executable
    pytest = (python, "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider")
    side_by_side = ("-n", str(WORKERS), "--dist", "worksteal")
    markers = QUICK_MARKERS if quick else FULL_MARKERS
    cores = OF_THE_CORES
    return [
        Step(
            name="format",
            asks="ruff would change no file",
            command=(python, "-m", "ruff", "format", "--check", "--quiet", "."),
        ),
        Step(
            name="lint",
            asks="ruff finds nothing",
            command=(python, "-m", "ruff", "check", "--output-format", "concise", "."),
        ),
        Step(
            name="layers",
            asks="every import points downwards",
            command=(str(Path(python).with_name("lint-imports")), "--no-cache"),
        ),
        Step(
            name="types",
            asks="mypy --strict agrees",
            command=(python, "-m", "mypy", "--no-error-summary", *_typed_paths()),
        ),
        Step(
            name="cores",
            asks="the pure cores behave as their tests state",
            command=(
                *(*pytest, *side_by_side, "-m", markers),
                *("--cov", "--cov-report="),
                "--cov-fail-under=0",  # asked by the step "coverage"
                *cores,
            ),
        ),
        Step(
            name="tests",
            asks="so does the rest, a few seeds of the simulation among it",
            command=(
                *(*pytest, *side_by_side, "-m", markers),
                *("--seeds", str(SEEDS_QUICK if quick else SEEDS_FULL)),
                *(f"--ignore={path}" for path in cores),
                "tests",
            ),
        ),
        Step(
            name="coverage",
            asks="the tests took every branch of the pure cores",
            command=(python, "-m", "coverage", "report"),
        ),
    ]


def _typed_paths() -> list[str]:
    paths = [
        "sim",
        "tests/check.py",
        "tests/conftest.py",
        "tests/docs.py",
        "tests/support",
        "tests/attacks",
        "tests/clients",
        "tests/conformance",
        "benchmarks",
    ]
    return [path for path in paths if (ROOT / path).is_file() or any((ROOT / path).rglob("*.py"))]


def _run_all(steps: list[Step]) -> list[Outcome]:
    """Two lanes: what runs the product, and what only reads it.

    Coverage is asked after the tests that collect it.
    """
    dynamic = [step for step in steps if step.name in {"cores", "tests", "coverage"}]
    static = [step for step in steps if step not in dynamic]
    with ThreadPoolExecutor(max_workers=2) as lanes:
        outcomes = [
            outcome
            for lane in [lanes.submit(_run_lane, static), lanes.submit(_run_lane, dynamic)]
            for outcome in lane.result()
        ]
    return outcomes


def _run_lane(steps: list[Step]) -> list[Outcome]:
    return [_run(step) for step in steps]


def _run(step: Step) -> Outcome:
    started = time.monotonic()
    done = subprocess.run(
        step.command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        env={**with_bytecode(os.environ), "PYTHONWARNDEFAULTENCODING": "", "NO_COLOR": "1"},
    )
    seconds = time.monotonic() - started
    outcome = Outcome(step=step, status=done.returncode, output=done.stdout, seconds=seconds)
    verdict = "ok    " if outcome.status == 0 else "FAILED"
    print(f"{verdict} {step.name:<9} {seconds:6.1f} s", flush=True)
    return outcome


def with_bytecode(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment, with compiled modules kept for the next process."""
    return {name: value for name, value in environment.items() if name != NO_BYTECODE}


def _report(outcomes: list[Outcome]) -> int:
    failed = [outcome for outcome in outcomes if outcome.status != 0]
    for outcome in failed:
        print(f"\n--- {outcome.step.name}: {' '.join(outcome.step.command)}")
        print(outcome.output.rstrip())
    print()
    for outcome in outcomes:
        if outcome.step.name in {"cores", "tests"} and (
            found := SUMMARY_RE.findall(outcome.output)
        ):
            print(f"=== {found[-1]} ===")
    print(
        f"{len(outcomes) - len(failed)} of {len(outcomes)} steps ok"
        + (f"; failed: {', '.join(outcome.step.name for outcome in failed)}" if failed else "")
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

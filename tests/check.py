"""The one command that says yes or no: ``python -m tests.check``.

Each step is a program that answers by its exit status; one line per step tells the verdict and the
seconds. A failing step does not stop the others: one run shows everything that is wrong, each with
its output. Exit status 1 if any step failed.

Each run is the same: the order of tests, what Hypothesis draws, the hashes of strings. With
``--drawn``, as in ``make nightly``, chance decides. What is costly by nature is left to the gate:
``--costly`` asks that alone, ``--all`` asks it as well. With ``--coverage``, as in ``make
nightly``, those tests of the pure cores are measured that together take every branch. That makes a
test two or three times slower, so it is asked for by name. The static steps run beside the tests.

The steps of one product have its name in front, and all that lies below its folder of tests:
``--only broker`` asks ``tests/broker``. The broker's run with nothing of the two others on the
path.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Final

import msgspec

from tests.support.alone import broker_alone
from tests.support.chance import CERTAIN, DRAWN
from tests.support.shared_folder import FOLDER

ROOT: Final = Path(__file__).resolve().parent.parent

ALL_MARKERS: Final = (
    "not spark and not real and not image and not browser and not thorough and not nightly"
)
"""A JVM, Spark, a real Kafka, a browser and what repeats other tests are asked for by name only."""
FULL_MARKERS: Final = f"{ALL_MARKERS} and not costly"
QUICK_MARKERS: Final = f"{FULL_MARKERS} and not slow and not clients"
COSTLY_MARKERS: Final = f"{ALL_MARKERS} and costly"

COSTLY: Final = "costly"

PROGRESS_S: Final = 15.0
"""Between two lines that say how far the steps are."""

SEEDS_QUICK: Final = 1
SEEDS_FULL: Final = 2
"""``make nightly`` plays three more."""

LANES: Final = 3
"""Steps that run side by side: one more than cores, as some tests wait for real clients. Four take
no less time: 10.1 minutes instead of 9.9.
"""

CORES: Final = (
    *("config", "controller", "faults", "group", "log", "metadata"),
    *("releases", "replica", "security", "share", "share_state", "txn", "verdict", "wire"),
)
"""Packages of the broker that are covered in full, each by its own tests and those of rules."""

OF_CORES: Final = ("codec", "kip_text", "older_releases", "property")
"""Folders that ask several of these."""

ALONE: Final = "broker-"
"""How steps begin that run with the broker and nothing else of ours on the path."""
COVERING: Final = ("broker-cores", "lab-judges")
"""The steps that coverage is measured in, where it is asked for."""
SPARK: Final = "spark"
LEFT_OUT: Final = {
    SPARK: "what needs a JVM is asked by `.ci/run --only Spark`, a part of the gate",
    "lab-rest": "what needs a browser is asked by `.ci/run --only page`, a part of the gate",
}

TESTS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "clients": ("client libraries are served", ("tests/clients", "tests/real")),
    "broker-shells": (
        "alone, what surrounds the cores of the broker behaves as its tests state",
        ("tests/broker",),
    ),
    "broker-commands": (
        "alone, commands, control port and pytest plugin behave as their tests state",
        ("tests/broker/cli", "tests/broker/http", "tests/broker/testing"),
    ),
    "lab-rest": ("so does what the lab has besides", ("tests/lab",)),
    "rest": ("so does all the rest", ("tests",)),
    "broker-cores": (
        "alone, the pure cores of the broker behave as their tests state",
        (
            *(f"tests/broker/{folder}" for folder in (*CORES, *OF_CORES)),
            *sorted(
                str(path.relative_to(ROOT)) for path in (ROOT / "tests/broker").glob("test_*.py")
            ),
        ),
    ),
    SPARK: ("the pipeline behaves as its tests state", ("tests/spark",)),
    "lab-plugin": ("tests of others run with it", ("tests/lab/plugin",)),
    "kafka": ("the simulator answers as Kafka did", ("tests/conformance",)),
    "lab-stories": (
        "stories with clients, and what is said of them, are right",
        ("tests/lab/catalogue",),
    ),
    "lab-told": (
        "every story of the catalogue, told in virtual time, is what its file declares",
        ("tests/lab/catalogue/test_causes.py", "tests/lab/catalogue/test_matrix.py"),
    ),
    "broker-clusters": (
        "alone, whole clusters in virtual time lose nothing",
        ("tests/broker/simulation",),
    ),
    "lab-judges": (
        "judges convict what they must, and nothing else",
        ("tests/lab/check", "tests/lab/checkers"),
    ),
}
"""Steps that run tests, those that take longest first: what each asks, and its paths. A test
belongs to the step whose path is the longest that it lies below.

Each is one process, so that nothing is imported, collected or made twice.
"""

NO_BYTECODE: Final = "PYTHONDONTWRITEBYTECODE"
"""A variable that would make each of some hundred processes compile all modules anew."""

PROGRESS_RE: Final = re.compile(r"\[ *(\d+)/(\d+)\]$")
"""What pytest prints behind a line of dots."""

SUMMARY_RE: Final = re.compile(
    r"^=*\s*(.*\b\d+ (?:passed|failed|error).* in [\d.]+s.*?)\s*=*$", re.MULTILINE
)


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A check of the repository: a command that must end with status 0."""

    name: str
    asks: str
    """What a "yes" means, for ``--help``."""
    command: tuple[str, ...]
    variables: Mapping[str, str] = {}
    """Of the environment, besides those of all."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a step."""

    step: Step
    status: int
    output: str
    seconds: float
    cpu_seconds: float
    """Processor time, that of child processes included."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the steps, print a line for each and the output of those that failed."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.check", description="Does this repository do what it says?"
    )
    parser.add_argument("--quick", action="store_true", help="without slow tests and clients")
    parser.add_argument(
        "--coverage", action="store_true", help="ask as well whether tests take every branch"
    )
    parser.add_argument(
        "--drawn", action="store_true", help="another order and other examples each time"
    )
    choice_group = parser.add_mutually_exclusive_group()
    choice_group.add_argument("--all", action="store_true", help="what is costly as well")
    choice_group.add_argument("--costly", action="store_true", help="what is costly alone")
    parser.add_argument("--list", action="store_true", help="say what the steps are")
    parser.add_argument(
        "--only",
        action="append",
        metavar="STEP",
        help="this step, or all of a product (broker, lab, spark); may be repeated",
    )
    options = parser.parse_args(arguments)
    steps = (
        [costly_step()]
        if options.costly
        else all_steps(
            is_quick=options.quick,
            with_coverage=options.coverage,
            with_drawn_tests=options.drawn,
            with_costly=options.all,
        )
    )
    if options.list:
        for step in steps:
            left_out = f"; {LEFT_OUT[step.name]}" if step.name in LEFT_OUT else ""
            print(f"{step.name:<{_WIDTH}} {step.asks}{left_out}")
        return 0
    if options.only:
        unknown_names = [
            step_name
            for step_name in options.only
            if not any(_matches(s, step_name) for s in steps)
        ]
        if unknown_names:
            parser.error(
                f"no step {', '.join(unknown_names)}; there are: {', '.join(s.name for s in steps)}"
            )
        steps = [
            step for step in steps if any(_matches(step, step_name) for step_name in options.only)
        ]
    status = _report(_run_all(steps, {} if options.drawn else CERTAIN))
    for step in steps:
        if options.only and step.name in LEFT_OUT:
            print(LEFT_OUT[step.name])
    return status


def _matches(step: Step, step_name: str) -> bool:
    """Return whether the step has this name or belongs to this product."""
    return step.name == step_name or step.name.startswith(f"{step_name}-")


def costly_step() -> Step:
    """A step that runs all costly tests, in two processes."""
    return Step(
        name=COSTLY,
        asks="what is costly by nature is right as well",
        command=(
            *pytest_command(COSTLY_MARKERS, SEEDS_FULL),
            *("-n", "2", "tests"),
        ),
    )


def all_steps(
    *,
    is_quick: bool,
    with_coverage: bool = False,
    with_drawn_tests: bool = False,
    with_costly: bool = False,
) -> list[Step]:
    """The steps in the order in which they are begun."""
    python_program = sys.executable
    return [
        *(
            _tests_step(
                name,
                markers=QUICK_MARKERS if is_quick else ALL_MARKERS if with_costly else FULL_MARKERS,
                seeds=SEEDS_QUICK if is_quick else SEEDS_FULL,
                with_coverage=with_coverage and name in COVERING,
                with_drawn_tests=with_drawn_tests,
            )
            for name in TESTS
        ),
        Step(
            name="types",
            asks="mypy --strict agrees",
            command=(python_program, "-m", "mypy", "--no-error-summary", *_typed_paths()),
        ),
        Step(
            name="format",
            asks="ruff would change no file",
            command=(python_program, "-m", "ruff", "format", "--check", "--quiet", "."),
        ),
        Step(
            name="lint",
            asks="ruff finds nothing",
            command=(python_program, "-m", "ruff", "check", "--output-format", "concise", "."),
        ),
        Step(
            name="layers",
            asks="every import points downwards",
            command=(str(Path(python_program).with_name("lint-imports")), "--no-cache"),
        ),
        *(AFTERWARDS if with_coverage else ()),
    ]


AFTERWARDS: Final = (
    Step(
        name="measured",
        asks="what each step has measured is there",
        command=(sys.executable, "-m", "coverage", "combine", "--quiet"),
    ),
    Step(
        name="coverage",
        asks="the tests took every branch of the pure cores",
        command=(sys.executable, "-m", "coverage", "report"),
    ),
)
"""Steps that ask what was measured."""

_WIDTH: Final = max(map(len, TESTS))


def pytest_command(markers: str, seeds: int) -> tuple[str, ...]:
    """Begin a command that runs the tests with these markers, and counts them as it goes."""
    return (
        *(sys.executable, "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider"),
        *("-o", "console_output_style=count", "-m", markers, "--seeds", str(seeds)),
    )


def _tests_step(
    name: str, *, markers: str, seeds: int, with_coverage: bool, with_drawn_tests: bool
) -> Step:
    """A step that runs the tests of its path in ``TESTS``, without the paths of other steps below
    it.
    """
    asks, paths = TESTS[name]
    ignored_paths = [
        ignored
        for other_name, (_, other_paths) in TESTS.items()
        for ignored in other_paths
        if other_name != name and any(ignored.startswith(f"{path}/") for path in paths)
    ]
    return Step(
        name=name,
        asks=asks,
        command=(
            *pytest_command(markers, seeds),
            # Otherwise pytest puts the folder with all three products on the path.
            *(("-o", "pythonpath=.") if name.startswith(ALONE) else ()),
            *(DRAWN if with_drawn_tests else ()),
            # How much must be covered is asked by the step "coverage".
            *(("--cov", "--cov-report=", "--cov-fail-under=0") if with_coverage else ()),
            *(f"--ignore={ignored}" for ignored in ignored_paths),
            *paths,
        ),
        variables={"COVERAGE_FILE": f".coverage.{name}"} if with_coverage else {},
    )


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


def _run_all(steps: list[Step], variables: Mapping[str, str] = CERTAIN) -> list[Outcome]:
    """Run the steps, some of them in parallel; the coverage step runs after all tests."""
    final_steps = [step for step in steps if step in AFTERWARDS]
    with (
        TemporaryDirectory(prefix="txnsim-told-once-") as folder_path,
        broker_alone() as broker_variables,
        ThreadPoolExecutor(max_workers=LANES) as lane_pool,
    ):
        shared_variables = {FOLDER: folder_path, **variables}
        broker_alone_variables = {**shared_variables, **broker_variables}
        progress = Progress()
        futures = [
            lane_pool.submit(
                _run,
                step,
                broker_alone_variables if step.name.startswith(ALONE) else shared_variables,
                progress,
            )
            for step in steps
            if step not in final_steps
        ]
        progress.tell_until(futures)
        outcomes = [future.result() for future in futures]
    return outcomes + [_run(step) for step in final_steps]


class Progress:
    """Prints from time to time a line about the running steps."""

    def __init__(self) -> None:
        self.test_counts: dict[str, str] = {}
        """Step that runs -> tests that it has run, of how many."""

    def tell_until(self, running_steps: Sequence[Future[Outcome]]) -> None:
        began_s = time.monotonic()
        while wait(running_steps, timeout=PROGRESS_S).not_done:
            text = ", ".join(" ".join(entry) for entry in list(self.test_counts.items()))
            print(f"{time.monotonic() - began_s:6.0f} s: {text}", flush=True)


def _run(
    step: Step,
    variables: Mapping[str, str] = MappingProxyType({}),
    progress: Progress | None = None,
) -> Outcome:
    began_s = time.monotonic()
    test_counts = {} if progress is None else progress.test_counts
    lines: list[str] = []
    with subprocess.Popen(
        step.command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={
            **with_bytecode(os.environ),
            "PYTHONWARNDEFAULTENCODING": "",
            "NO_COLOR": "1",
            **variables,
            **step.variables,
        },
    ) as process:
        assert process.stdout is not None
        test_counts[step.name] = ""
        for printed_line in process.stdout:
            lines.append(printed_line)
            if match := PROGRESS_RE.search(printed_line.rstrip()):
                test_counts[step.name] = f"{match[1]} of {match[2]}"
        _, wait_status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(wait_status)
    test_counts.pop(step.name)
    outcome = Outcome(
        step=step,
        status=process.returncode,
        output="".join(lines),
        seconds=time.monotonic() - began_s,
        cpu_seconds=usage.ru_utime + usage.ru_stime,
    )
    verdict_text = "ok    " if outcome.status == 0 else "FAILED"
    duration = f"{outcome.seconds:6.1f} s, {outcome.cpu_seconds:5.1f} s of processor time"
    print(f"{verdict_text} {step.name:<{_WIDTH}} {duration}", flush=True)
    return outcome


def with_bytecode(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment, with compiled modules kept for the next process."""
    return {
        name: variable_value for name, variable_value in environment.items() if name != NO_BYTECODE
    }


def _report(outcomes: list[Outcome]) -> int:
    failed_outcomes = [outcome for outcome in outcomes if outcome.status != 0]
    for outcome in failed_outcomes:
        print(f"\n--- {outcome.step.name}: {' '.join(outcome.step.command)}")
        print(outcome.output.rstrip())
    print()
    for outcome in outcomes:
        if outcome.step.name in {*TESTS, COSTLY} and (
            summaries := SUMMARY_RE.findall(outcome.output)
        ):
            print(f"=== {summaries[-1]} ===")
    minutes = sum(outcome.cpu_seconds for outcome in outcomes) / 60
    passed_count = len(outcomes) - len(failed_outcomes)
    print(
        f"{passed_count} of {len(outcomes)} steps ok, {minutes:.1f} min of processor time"
        + (
            f"; failed: {', '.join(outcome.step.name for outcome in failed_outcomes)}"
            if failed_outcomes
            else ""
        )
    )
    return 1 if failed_outcomes else 0


if __name__ == "__main__":
    sys.exit(main())

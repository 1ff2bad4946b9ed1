"""Tests in forked processes: modules are imported and tests are collected once, then each mutant
gets a process of its own, which breaks its function, runs its tests until one fails, and ends.

A process that hangs is killed: by its own timer where it uses the processor for far longer than
the test does without a mutant, by its parent where it stands still.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import pkgutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

import coverage
import hypothesis
import msgspec
import pytest
from _pytest.runner import runtestprotocol

import txnsim
from tests.mutants.forked_processes import ForkedProcesses
from tests.mutants.mutation import MutableModule, Mutation, NotMutableError

KILLED_BY_TIMEOUT: Final = "a process that did not end"
"""Stands for the test that noticed a mutant whose process had to be killed."""
ITEM_CPU_FACTOR: Final = 10
ITEM_CPU_MIN_S: Final = 5.0
"""Processor seconds that a test may take with a mutant, as it imports what it is the first to use.
"""
PROCESS_IDLE_S: Final = 120.0
"""Seconds that a process may take by the clock, beyond ``PROCESS_FACTOR`` times what its tests
have taken without a mutant: other work may keep the machine busy.
"""
PROCESS_FACTOR: Final = 20
PROFILE: Final = "mutants"
"""Of Hypothesis: it draws the same examples for each mutant."""
SHARING: Final = ("tests/conformance/test_replay.py", "tests/conformance/test_security.py")
"""Tests whose module plays something once for all of them."""
BASELINE_CHUNK: Final = 40
"""Tests whose baseline one process records."""


class Baseline(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a test without a mutant."""

    passed: bool
    seconds: float
    lines: MappingProxyType[str, frozenset[int]] | dict[str, frozenset[int]]
    """Lines that it executes, by file."""
    failure: str = ""

    def reaches(self, path: Path, lines: range) -> bool:
        """Whether the test executes one of the lines."""
        return not self.lines.get(str(path), frozenset()).isdisjoint(lines)


class MutantRun(msgspec.Struct, frozen=True, kw_only=True):
    """A mutant and the tests that shall notice it, in this order."""

    module: MutableModule
    mutation: Mutation
    test_ids: tuple[str, ...]


class MutantOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a mutant's tests."""

    killed_by: str | None
    """The first test that failed; None if the mutant survived."""
    not_mutable: str = ""
    """Why there was no mutant."""


class ForkedTests:
    """The tests that one session of pytest has collected, run in forked processes.

    Args:
        session: Has been collected.
        workers: How many processes run at the same time.
    """

    def __init__(self, session: pytest.Session, *, worker_count: int) -> None:
        self._item_by_id = {item.nodeid: item for item in session.items}
        self._baselines: dict[str, Baseline] = {}
        # Made before there are processes: each would make its own, and remove another's.
        folder = session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        self._processes = ForkedProcesses(folder, worker_count=worker_count)

    @property
    def test_ids(self) -> tuple[str, ...]:
        return tuple(self._item_by_id)

    def baseline(self, test_id: str) -> Baseline:
        return self._baselines[test_id]

    def record_baselines(self, test_ids: Sequence[str], source_folder: Path) -> Iterator[int]:
        """Run tests without a mutant, and yield how many have been run.

        Args:
            source_folder: The folder whose lines are looked at.
        """
        _import_all()
        chunks = list(_chunks(test_ids))
        jobs = [
            (lambda result, chunk=chunk: self._record(chunk, source_folder, result), 3_600.0)
            for chunk in chunks
        ]
        recorded_count = 0
        imported_modules: set[str] = set()
        for index, result, _ in self._processes.run(jobs):
            if result is None:
                raise RuntimeError(f"tests end their process: {', '.join(chunks[index])}")
            for test_id, (has_passed, seconds, lines, failure) in result["tests"].items():
                self._baselines[test_id] = Baseline(
                    passed=has_passed,
                    seconds=seconds,
                    lines={path: frozenset(of_file) for path, of_file in lines.items()},
                    failure=failure,
                )
            imported_modules.update(result["modules"])
            recorded_count += len(chunks[index])
            yield recorded_count
        # Mutants' processes shall not import what each of them needs again.
        for module_name in sorted(imported_modules - set(sys.modules)):
            with contextlib.suppress(ImportError):
                importlib.import_module(module_name)
        gc.collect()
        gc.freeze()

    def run(
        self, runs: Sequence[MutantRun], *, until_s: float
    ) -> Iterator[tuple[int, MutantOutcome]]:
        """Run mutants, and yield the index and the outcome of each, in the order of their ends.

        Args:
            until_s: Monotonic time after which no further one begins.
        """
        jobs = [
            (
                lambda result, mutant=mutant: self._run_mutant(mutant, result),
                PROCESS_IDLE_S
                + PROCESS_FACTOR * sum(self._baselines[name].seconds for name in mutant.test_ids),
            )
            for mutant in runs
        ]
        for index, result, was_signalled in self._processes.run(jobs, until_s=until_s):
            if result is None:
                by = KILLED_BY_TIMEOUT if was_signalled else "a process that broke down"
                yield index, MutantOutcome(killed_by=by)
            else:
                yield index, MutantOutcome(**result)

    # In a forked process

    def _record(self, test_ids: Sequence[str], source_folder: Path, result_file: Path) -> None:
        recorder = coverage.Coverage(data_file=None, source=[str(source_folder)], config_file=False)
        recorder.start()
        tests: dict[str, tuple[bool, float, dict[str, list[int]], str]] = {}
        for test_id, next_id in zip(test_ids, [*test_ids[1:], None], strict=True):
            recorder.switch_context(test_id)
            begun_s = time.process_time()
            failure = self._run_item(test_id, next_id)
            tests[test_id] = (failure is None, time.process_time() - begun_s, {}, failure or "")
        recorder.stop()
        data = recorder.get_data()
        for path in data.measured_files():
            for line, contexts in data.contexts_by_lineno(path).items():
                for context in contexts:
                    if context in tests:
                        tests[context][2].setdefault(path, []).append(line)
        if test_ids[0].startswith(SHARING):
            # What the first one has executed, the others would have.
            first_test = tests[test_ids[0]]
            for test_id in test_ids[1:]:
                has_passed, _, _, failure = tests[test_id]
                tests[test_id] = (has_passed, first_test[1], first_test[2], failure)
        modules = [name for name in sys.modules if name.startswith(("txnsim", "kio"))]
        result_file.write_text(json.dumps({"tests": tests, "modules": modules}), "utf-8")

    def _run_mutant(self, mutant: MutantRun, result_file: Path) -> None:
        killed_by, not_mutable = None, ""
        try:
            mutant.module.install(mutant.mutation)
        except NotMutableError as error:
            not_mutable = str(error)
        else:
            for test_id, next_id in zip(mutant.test_ids, [*mutant.test_ids[1:], None], strict=True):
                _limit_processor(self._baselines[test_id].seconds)
                if self._run_item(test_id, next_id) is not None:
                    killed_by = test_id
                    break
        signal.setitimer(signal.ITIMER_PROF, 0)
        outcome = {"killed_by": killed_by, "not_mutable": not_mutable}
        result_file.write_text(json.dumps(outcome), "utf-8")

    def _run_item(self, test_id: str, next_id: str | None) -> str | None:
        """Run a test, and return how it fails; None if it passes."""
        next_item = None if next_id is None else self._item_by_id[next_id]
        reports = runtestprotocol(self._item_by_id[test_id], log=False, nextitem=next_item)
        for report in reports:
            if report.failed:
                return report.longreprtext[-2_000:]
            if report.skipped and report.when != "teardown":
                return f"is skipped: {report.longrepr}"
        return None


def _limit_processor(baseline_s: float) -> None:
    """End this process when the next test takes far more of the processor than it did before."""
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, ITEM_CPU_MIN_S + ITEM_CPU_FACTOR * baseline_s)


def _import_all() -> None:
    """Import the broker, so that no forked process has to: it imports handlers on demand."""
    for module in pkgutil.walk_packages(txnsim.__path__, "txnsim."):
        if not module.name.endswith("__main__") and ".cli" not in module.name:
            with contextlib.suppress(ImportError):
                importlib.import_module(module.name)


def _chunks(test_ids: Sequence[str]) -> Iterator[list[str]]:
    """Divide tests into those that one process runs; those that share what their module makes once
    stay together.
    """
    lone_tests = [test_id for test_id in test_ids if not test_id.startswith(SHARING)]
    for path in SHARING:
        together = [test_id for test_id in test_ids if test_id.startswith(path)]
        yield from [together] if together else ()
    for start in range(0, len(lone_tests), BASELINE_CHUNK):
        yield lone_tests[start : start + BASELINE_CHUNK]


class CollectedTests:
    """A plugin of pytest that hands the collected session to a function, and runs no test itself.

    Args:
        is_wanted: Which tests are collected, by their id.
        use: Gets the session; what it returns becomes pytest's exit status.
    """

    def __init__(
        self, is_wanted: Callable[[str], bool], use: Callable[[pytest.Session], int]
    ) -> None:
        self._is_wanted = is_wanted
        self._use = use
        self.status = 2
        """2 until the tests have been used: they could not be collected."""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if self._is_wanted(item.nodeid)]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            raise session.Interrupted("tests can't be collected")
        self.status = self._use(session)
        return True


def with_collected_tests(
    paths: Sequence[str],
    use: Callable[[pytest.Session], int],
    *,
    markers: str,
    is_wanted: Callable[[str], bool] = lambda test_id: True,
) -> int:
    """Collect tests in this process and hand their session to a function.

    Returns:
        What the function returned; 2 where the tests can't be collected.
    """
    # No example is kept in the repository, and a failure is enough: it need not be made small.
    hypothesis.settings.register_profile(
        PROFILE,
        hypothesis.settings.get_profile("default"),
        database=None,
        derandomize=True,
        max_examples=50,
        deadline=None,
        phases=(hypothesis.Phase.explicit, hypothesis.Phase.generate),
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    collected_tests = CollectedTests(is_wanted, use)
    sys.dont_write_bytecode = True
    with tempfile.TemporaryDirectory(prefix="txnsim-mutants-") as folder_path:
        options = ("-q", "--no-header", "--no-summary", "-p", "no:cacheprovider")
        # What draws mutants has imported the product and its tests before.
        warnings = ("pytest.PytestAssertRewriteWarning", "hypothesis.errors.HypothesisWarning")
        imported_before = [option for name in warnings for option in ("-W", f"ignore::{name}")]
        pytest_options = ("--randomly-dont-reorganize", "-p", "no:xdist", "-p", "no:cov", "-s")
        base = (f"--basetemp={folder_path}/tests", f"--hypothesis-profile={PROFILE}", "-m", markers)
        pytest.main(
            [*options, *imported_before, *pytest_options, *base, *paths], plugins=[collected_tests]
        )
    return collected_tests.status

"""What the suites of peers said last, as the repository keeps it: a file per suite in ``results/``.

No times and no addresses, so that a file changes only when something has changed. ``run --write``
writes them, tests/peers/RESULTS.md shows them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from tests.peers.suite import PeerOutcome, PeerResult, PeerTarget, Suite

DIRECTORY: Final = Path(__file__).with_name("results")


class StoredTest(NamedTuple):
    """The recorded result of one test against us, and against a real Kafka if it was run there."""

    by_target: Mapping[PeerTarget, PeerResult]
    message: str = ""
    """The message of a failure against us."""


class StoredSuite(NamedTuple):
    """The recorded results of one suite."""

    version: str
    tests: Mapping[str, StoredTest]


def load(directory: Path = DIRECTORY) -> dict[str, StoredSuite]:
    """The stored results by the suite's name."""
    return {file.stem: _read_suite(file) for file in sorted(directory.glob("*.json"))}


def _read_suite(file: Path) -> StoredSuite:
    document = json.loads(file.read_text("utf-8"))
    return StoredSuite(
        document["version"], {test: _read_test(row) for test, row in document["tests"].items()}
    )


def _read_test(row: Mapping[str, str]) -> StoredTest:
    by_target = {target: PeerResult(row[target]) for target in PeerTarget if target in row}
    return StoredTest(by_target, row.get("told", ""))


def save(name: str, stored_suite: StoredSuite, directory: Path = DIRECTORY) -> None:
    """Write the results of a suite, one line for each test."""
    tests = ",\n".join(
        f"  {json.dumps(test, ensure_ascii=False)}: {json.dumps(_row(entry), ensure_ascii=False)}"
        for test, entry in sorted(stored_suite.tests.items())
    )
    directory.mkdir(exist_ok=True)
    (directory / f"{name}.json").write_text(
        f'{{\n "version": {json.dumps(stored_suite.version)},\n "tests": {{\n{tests}\n }}\n}}\n',
        "utf-8",
    )


def unexplained_failures(
    suite: Suite, stored_suite: StoredSuite | None, failed_tests: Iterable[str]
) -> list[str]:
    """Tests that fail against us without a reason, and pass on a real Kafka or were not run
    there.
    """
    stored_tests = (
        stored_suite.tests
        if stored_suite is not None and stored_suite.version == suite.version
        else {}
    )
    fails_there = {
        test
        for test, row in stored_tests.items()
        if row.by_target.get(PeerTarget.APACHE) is PeerResult.FAILED
    }
    return [test for test in failed_tests if not suite.why(test) and test not in fails_there]


def _row(entry: StoredTest) -> dict[str, str]:
    row = {
        str(target): str(entry.by_target[target])
        for target in PeerTarget
        if target in entry.by_target
    }
    return {**row, "told": entry.message} if entry.message else row


def merge_outcomes(
    stored_suites: Mapping[str, StoredSuite],
    suite: Suite,
    target: PeerTarget,
    outcomes: Iterable[PeerOutcome],
    *,
    is_whole: bool,
) -> StoredSuite:
    """Merge these outcomes into the stored suite.

    Args:
        is_whole: Every test of the suite was asked. Stored tests that did not answer are dropped.
    """
    stored_suite = stored_suites.get(suite.name)
    known_tests = (
        dict(stored_suite.tests) if stored_suite and stored_suite.version == suite.version else {}
    )
    tests: dict[str, StoredTest] = (
        {} if is_whole and target is PeerTarget.TXNSIM else dict(known_tests)
    )
    for outcome in outcomes:
        old_test = known_tests.get(outcome.test, StoredTest({}))
        by_target = {**old_test.by_target, target: outcome.result}
        message = old_test.message
        if target is PeerTarget.TXNSIM:  # of a test that skips itself the reason says enough
            message = outcome.message if outcome.result is PeerResult.FAILED else ""
        tests[outcome.test] = StoredTest(by_target, message)
    return StoredSuite(suite.version, tests)

"""What the suites of peers said last, as the repository keeps it: a file per suite in ``results/``.

No times and no addresses, so that a file changes only when something has changed. ``run --write``
writes them, tests/peers/RESULTS.md shows them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from tests.peers.suite import Outcome, Result, Suite, Target

DIRECTORY: Final = Path(__file__).with_name("results")


class Found(NamedTuple):
    """One test as it was found: against us, and against a real Kafka if it was asked."""

    by_target: Mapping[Target, Result]
    told: str = ""
    """What it said where it failed against us."""


class Stored(NamedTuple):
    """One suite as it was found."""

    version: str
    tests: Mapping[str, Found]


def load(directory: Path = DIRECTORY) -> dict[str, Stored]:
    """By the suite's name."""
    return {file.stem: _stored(file) for file in sorted(directory.glob("*.json"))}


def _stored(file: Path) -> Stored:
    kept = json.loads(file.read_text("utf-8"))
    return Stored(kept["version"], {test: _found(row) for test, row in kept["tests"].items()})


def _found(row: Mapping[str, str]) -> Found:
    by_target = {target: Result(row[target]) for target in Target if target in row}
    return Found(by_target, row.get("told", ""))


def save(name: str, stored: Stored, directory: Path = DIRECTORY) -> None:
    """One suite, a line per test."""
    tests = ",\n".join(
        f"  {json.dumps(test, ensure_ascii=False)}: {json.dumps(_row(found), ensure_ascii=False)}"
        for test, found in sorted(stored.tests.items())
    )
    directory.mkdir(exist_ok=True)
    (directory / f"{name}.json").write_text(
        f'{{\n "version": {json.dumps(stored.version)},\n "tests": {{\n{tests}\n }}\n}}\n', "utf-8"
    )


def unexplained_failures(suite: Suite, stored: Stored | None, failed: Iterable[str]) -> list[str]:
    """Of the tests that failed here, those without a reason that pass on a real Kafka, or were not
    asked there.
    """
    kept = stored.tests if stored is not None and stored.version == suite.version else {}
    fails_there = {
        test for test, row in kept.items() if row.by_target.get(Target.APACHE) is Result.FAILED
    }
    return [test for test in failed if not suite.why(test) and test not in fails_there]


def _row(found: Found) -> dict[str, str]:
    row = {
        str(target): str(found.by_target[target]) for target in Target if target in found.by_target
    }
    return {**row, "told": found.told} if found.told else row


def merged(
    stored: Mapping[str, Stored],
    suite: Suite,
    target: Target,
    outcomes: Iterable[Outcome],
    *,
    whole: bool,
) -> Stored:
    """What is stored of a suite, with these outcomes.

    Args:
        whole: Every test of the suite was asked: those that are stored and did not answer are gone.
    """
    before = stored.get(suite.name)
    known = dict(before.tests) if before and before.version == suite.version else {}
    tests: dict[str, Found] = {} if whole and target is Target.TXNSIM else dict(known)
    for outcome in outcomes:
        old = known.get(outcome.test, Found({}))
        by_target = {**old.by_target, target: outcome.result}
        told = old.told
        if target is Target.TXNSIM:  # of a test that skips itself the reason says enough
            told = outcome.told if outcome.result is Result.FAILED else ""
        tests[outcome.test] = Found(by_target, told)
    return Stored(suite.version, tests)

"""Histories as files, and judges beside their definitions."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from tests.lab.checkers.brute_force import comparing
from tests.lab.checkers.brute_force.__main__ import main
from tests.lab.checkers.brute_force.comparing import DEFINITIONS, compare
from txnsim_lab.check.anomaly import Kind
from txnsim_lab.check.history import History
from txnsim_lab.check.judge import HEALTHY, judge

# Textbook histories, as files: each says what it must come to. Those with a dot in their name are
# neighbours of the ones before the dot, in which one thing is different; most of them are healthy.


HISTORIES: Final = sorted((Path(__file__).parent / "histories").glob("*.jsonl"))
DECLARED: Final = "# verdict: "


def declared_verdict(path: Path) -> str:
    for line in path.read_text("utf-8").splitlines():
        if line.startswith(DECLARED):
            return line.removeprefix(DECLARED)
    raise AssertionError(f"{path.name} declares no verdict")


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.stem)
def test_a_textbook_history_comes_to_its_verdict(path: Path) -> None:
    history = History.from_lines(path.read_bytes())
    verdict = judge(history)
    assert str(verdict) == declared_verdict(path)
    for anomaly in verdict.anomalies:
        assert anomaly.because
        assert anomaly.evidence
        assert all(0 <= index < len(history) for index in anomaly.evidence)


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.stem)
def test_no_beginning_of_a_healthy_history_is_convicted(path: Path) -> None:
    if declared_verdict(path) != HEALTHY:
        return
    history = History.from_lines(path.read_bytes())
    verdicts = {str(judge(history.until(length))) for length in range(len(history) + 1)}
    # Some tell of a trouble that was mended, and are unhealthy in the middle; in one of them what
    # was under way has not been told yet.
    mended_kinds = {
        "false-fencing.under-way": {"false-fencing"},
        "refused-producer.goes-on": {"refused-producer"},
        "starving-reader.goes-on": {"starving-reader"},
        "starving-reader.share-group-goes-on": {"starving-reader"},
        "stuck-last-stable-offset.repaired": {"stuck-last-stable-offset"},
        "stuck-last-stable-offset.topic-deleted": {"stuck-last-stable-offset"},
        "stuck-coordinator.finished": {"stuck-coordinator"},
        "stuck-coordinator.not-healed": {"stuck-coordinator"},
    }
    assert verdicts <= {HEALTHY} | mended_kinds.get(path.stem, set())


def test_every_kind_has_a_textbook_history_and_a_healthy_neighbour() -> None:
    convicted_kinds: set[str] = set()
    acquitted: set[str] = set()
    for path in HISTORIES:
        verdict_text = declared_verdict(path)
        if verdict_text == HEALTHY:
            acquitted.add(path.stem.partition(".")[0].replace("torn-commit", "torn-transaction"))
        convicted_kinds.update(verdict_text.split(", "))
    assert convicted_kinds - {HEALTHY} == set(Kind)
    assert acquitted == set(Kind)


# Every judge beside its definition, on random small histories: ``python -m
# tests.lab.checkers.brute_force --histories 100000`` in ``make nightly``, fewer here.


BRUTE_FORCE_HISTORIES = 1_000


def test_every_kind_of_anomaly_has_a_definition() -> None:
    assert set(DEFINITIONS) == set(Kind)


def test_judges_convict_what_their_definitions_do_and_nothing_else() -> None:
    comparison = compare(range(BRUTE_FORCE_HISTORIES))
    assert not comparison.differences, "\n".join(comparison.shown)
    assert not comparison.idle


def test_a_difference_is_found_and_shrunk(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lenient = {**DEFINITIONS, Kind.READER_WENT_BACK: lambda lines: False}
    monkeypatch.setattr(comparing, "DEFINITIONS", lenient)
    assert main(["--histories", "200"]) == 1
    output = capsys.readouterr().out
    _, difference = output.split("reader-went-back: only the judge convicts\n", 1)
    first_lines = difference.partition("\n\n")[0].splitlines()
    assert ['"seen":"read"' in first_line for first_line in first_lines] == [True, True]
    assert "FAILED reader-went-back" in output


def test_a_run_that_convicts_nobody_proves_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--histories", "1"]) == 1
    assert "FAILED skipped-input: never convicted" in capsys.readouterr().out


# docs/checkers.md tells each kind of anomaly and each field of a history, and shows a true one.


PAGE: Final = (Path(__file__).resolve().parents[3] / "docs/checkers.md").read_text("utf-8")


def test_each_kind_has_its_section() -> None:
    assert sorted(re.findall(r"^### (\S+)$", PAGE, re.MULTILINE)) == sorted(Kind)


def test_the_history_that_is_shown_comes_to_what_is_said() -> None:
    (example,) = re.findall(r'^```\n(\{"seen".*?)^```$', PAGE, re.MULTILINE | re.DOTALL)
    named_verdict = re.search(r"^The verdict is `([\w-]+)`: an aborted", PAGE, re.MULTILINE)
    assert named_verdict is not None
    assert str(judge(History.from_lines(example.encode()))) == named_verdict[1]

"""docs/writing-scenarios.md is enough to write one: its file runs, prints what the page shows, and
is refused with what the page shows when a word is wrong.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from txnsim.cli.main import main
from txnsim_lab.scenario.reading import read
from txnsim_lab.scenario.runner import ScenarioRun, run_in_virtual_time
from txnsim_lab.scenario.steps_model import (
    CALLS,
    CLUSTER,
    Call,
    ClusterAct,
    Condition,
    Expectation,
    Step,
)

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs/writing-scenarios.md").read_text("utf-8")
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", PAGE, re.DOTALL)
EXAMPLE, APPLICATION, _ = [text for language, text in BLOCKS if language == "yaml"]


def cells(text: str) -> list[list[str]]:
    """A table's words, however wide its columns are."""
    return [[cell.strip() for cell in line.split("\t")] for line in text.splitlines() if line]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where somebody has written the page's file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "early-commit.yaml").write_text(EXAMPLE, "utf-8")
    return tmp_path


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_the_example_prints_what_the_page_shows(capsys: pytest.CaptureFixture[str]) -> None:
    (shown,) = [text for _, text in BLOCKS if "scenario run early-commit.yaml" in text]
    command, _, table = shown.partition("\n")
    assert main(command.split()[2:]) == 0
    assert cells(capsys.readouterr().out) == cells(table)
    assert main(["scenario", "run", "early-commit.yaml", "--quiet"]) == 0


def test_a_wrong_word_is_refused_with_what_the_page_shows(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (shown,) = [text for _, text in BLOCKS if text.startswith("txnsim: typo.yaml")]
    (folder / "typo.yaml").write_text(EXAMPLE.replace("do: begin}", "do: beginn}"), "utf-8")
    assert main(["scenario", "run", "typo.yaml"]) == 2
    assert capsys.readouterr().err == shown


def test_the_page_names_everything_that_a_file_may_say() -> None:
    words = {
        *(act.rstrip("_") for act in Step.choices()),
        *(do for can in CALLS.values() for do in can),
        *CLUSTER,
        *Condition.choices(),
        *Call.model_fields,
        *ClusterAct.model_fields,
        *Expectation.model_fields,
    }
    missing = [
        word for word in sorted(words) if f"`{word.rstrip('_').replace('_', '-')}" not in PAGE
    ]
    assert missing == []


@pytest.mark.slow
def test_the_application_is_convicted_where_it_does_not_go_back() -> None:
    aborts = APPLICATION.replace("do: commit}", "do: abort}", 1).replace(
        "is: CompleteCommit", "is: [CompleteAbort, Empty]", 1
    )
    aborts = aborts.replace("committed: [bill 1, bill 2, bill 3]", "committed: [bill 3]")
    lossy = run_in_virtual_time(ScenarioRun(scenario=read("bills.yaml", aborts), run="TV2"))
    assert lossy.verdict.observed == ("skipped-input",), lossy.verdict
    assert "has processed 0, 1" in lossy.verdict.because[0]


def test_the_example_is_read() -> None:
    assert read("early-commit.yaml", EXAMPLE).name == "early-commit"

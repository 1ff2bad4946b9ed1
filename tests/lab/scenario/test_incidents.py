"""``practise incident``: the disks of each incident, and what ``logs decisions`` says of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from txnsim.cli.main import main
from txnsim_lab.scenario.incidents import INCIDENTS


@pytest.mark.parametrize("name", INCIDENTS)
def test_each_incident_is_found_and_nothing_else(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("duckdb", reason="the extra spark is not installed")
    incident = INCIDENTS[name]
    assert main(["practise", "incident", name, str(tmp_path / "after"), "--json"]) == 0
    directories = json.loads(capsys.readouterr().out)["directories"]
    assert main(["logs", "decisions", *directories, "--json"]) == incident.status
    report = json.loads(capsys.readouterr().out)
    assert tuple(finding["state"] for finding in report["findings"]) == incident.states
    assert {finding["transactional_id"] for finding in report["findings"]} <= {"shop"}


def test_incidents_are_listed_and_unknown_ones_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["practise", "incident"]) == 0
    assert "lost-commit-goes-on      The same, and" in capsys.readouterr().out
    assert main(["practise", "incident", "lost-comit", str(tmp_path / "after")]) == 2
    assert "did you mean lost-commit" in capsys.readouterr().err
    assert main(["practise", "incident", "lost-commit"]) == 2
    assert "txnsim practise incident lost-commit DIR" in capsys.readouterr().err
    assert main(["practise", "incident", "healthy", str(tmp_path)]) == 2
    assert "is there already" in capsys.readouterr().err

"""``logs decisions`` gives the same answer with Spark and without."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from txnsim.cli.main import main
from txnsim_lab.scenario.incidents import write_incident

pytest.importorskip("duckdb", reason="the extra spark is not installed")


@pytest.mark.parametrize(
    "incident", ["lost-commit-goes-on", "operators-marker", "epoch-back", "compacted"]
)
def test_both_engines_find_the_same(
    incident: str, way: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_incident(incident).write(tmp_path / "disks")
    reports = []
    for arguments in ([], way):
        status = main(["logs", "decisions", str(tmp_path / "disks"), "--json", *arguments])
        reports.append((status, json.loads(capsys.readouterr().out)))
    assert reports[0] == reports[1]
    assert reports[0][1]["decisions"] > 80

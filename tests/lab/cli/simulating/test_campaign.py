from __future__ import annotations

import json
from pathlib import Path

import pytest

from txnsim.cli.main import main


@pytest.mark.costly
def test_a_campaign_on_this_machine_is_played_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "rows"
    command = ["campaign", "run", "--seeds", "1..7", "--file-seeds", "4", "--out", str(out)]
    assert main([*command, "--jobs", "2", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["summary"]["seeds"] == 6
    assert told["summary"]["committed"] > 0
    files = {one.name: one.read_bytes() for one in out.iterdir()}
    assert sorted(files) == [
        "campaign.json",
        "seeds-0000000001-0000000004.parquet",
        "seeds-0000000004-0000000007.parquet",
    ]
    assert main(command) == 0
    assert "6 seeds in" in capsys.readouterr().out
    assert {one.name: one.read_bytes() for one in out.iterdir()} == files


def test_a_run_without_a_verdict_counts_as_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["campaign", "run", "--seeds", "0..1", "--out", str(tmp_path), "--jobs", "1"]
    assert main([*command, "--seed-limit", "1ms"]) == 2
    printed = capsys.readouterr()
    assert "0 with findings, 1 without a verdict" in printed.out
    assert "proves nothing: no transaction was committed" in printed.err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--seeds", "5"], "expected a range such as 0..200"),
        (["--as-version", "9.9"], "there is no release"),
        (["--file-seeds", "0"], "--file-seeds 0: expected 1 or more"),
        (["--seed-limit", "soon"], "--seed-limit"),
        (["--master", "local[1]"], "--master is of --engine spark"),
        (["--engine", "spark", "--jobs", "1"], "--jobs is of --engine local"),
    ],
)
def test_what_makes_no_sense_is_refused(
    arguments: list[str], complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["campaign", "run", "--seeds", "0..5", "--out", str(tmp_path / "out")]
    assert main([*command, *arguments]) == 2
    assert complaint in capsys.readouterr().err


@pytest.mark.costly
def test_a_report_is_one_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("jinja2", reason="the extra spark is not installed")
    rows, file = str(tmp_path / "rows"), tmp_path / "campaign.html"
    assert main(["campaign", "run", "--seeds", "1..2", "--out", rows, "--jobs", "1"]) in (0, 2)
    assert main(["campaign", "report", rows, "--out", str(file)]) == 0
    assert "Growth of coverage" in file.read_text()
    assert main(["campaign", "report", str(tmp_path), "--out", str(file)]) == 2
    assert "is no campaign" in capsys.readouterr().err

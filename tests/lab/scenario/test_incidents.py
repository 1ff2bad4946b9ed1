"""``practise incident``: the disks of each incident, and what ``logs decisions`` says of it."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.support.alone import ROOT
from tests.support.txnsim_server import TxnsimServer
from txnsim.cli.main import main
from txnsim_lab.scenario.incidents import INCIDENTS, write_incident


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


@pytest.mark.slow
@pytest.mark.parametrize("name", ["healthy", "lost-commit", "wrong-commit", "operators-marker"])
def test_running_brokers_say_the_same(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """``txns decisions`` gives the same result on a cluster that is started from these disks."""
    incident = INCIDENTS[name]
    directories = [str(path) for path in write_incident(name).write(tmp_path / "after")]
    arguments = ("--clock-at", "stopped", "--load", *directories)
    with TxnsimServer(brokers=len(directories), arguments=arguments) as server:
        command = ("txns", "--bootstrap-server", server.bootstrap, "decisions", "--json")
        assert main([*command]) == incident.status
    live_report = json.loads(capsys.readouterr().out)
    assert tuple(finding["state"] for finding in live_report["findings"]) == incident.states
    main(["logs", "decisions", *directories, "--json"])
    on_disk = json.loads(capsys.readouterr().out)
    for report in (live_report, on_disk):
        for finding in report["findings"]:
            del finding["advice"]  # it has the brokers' address
    assert live_report == on_disk


def test_the_page_shows_what_its_commands_print(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("duckdb", reason="the extra spark is not installed")
    monkeypatch.chdir(tmp_path)
    page_text = (ROOT / "docs" / "forensics.md").read_text("utf-8")
    (block,) = re.findall(r"```console\n(\$ txnsim practise incident .*?)```", page_text, re.DOTALL)
    printed_lines = []
    for command in re.findall(r"^\$ (.*)$", block, re.MULTILINE):
        main(shlex.split(command)[1:])
        captured = capsys.readouterr()
        summary = [line for line in captured.err.splitlines() if line.startswith("decisions: ")]
        printed_lines += [f"$ {command}", *summary, *captured.out.splitlines()]
    assert printed_lines == block.splitlines()


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

"""The command ``logs decisions``: what it prints, and its exit statuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from txnsim.cli.main import main
from txnsim_lab.scenario.incidents import write_incident

pytest.importorskip("duckdb", reason="the extra spark is not installed")


def test_a_finding_has_its_records_its_cause_and_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_incident("lost-commit").write(tmp_path)
    assert main(["logs", "decisions", str(tmp_path), "--bootstrap-server", "kafka:9092"]) == 3
    output = capsys.readouterr()
    assert "agree: 81; owed: 0; unknown: 0; findings: 1; could be judged: 100 %" in output.err
    first_line, *_, cause, advice = output.out.splitlines()
    assert first_line == "orders-0: no marker: shop (producer 1005 epoch 2)"
    assert "records: 3, offsets 42 to 44: unread" in output.out
    assert cause.strip().startswith("KAFKA-20734: ")
    assert "--bootstrap-server kafka:9092 repair --topic orders --partition 0" in advice


def test_json_has_the_numbers_and_the_findings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_incident("marker-twice").write(tmp_path)
    assert main(["logs", "decisions", str(tmp_path), "--json"]) == 3
    report = json.loads(capsys.readouterr().out)
    (finding,) = report["findings"]
    counts_by_name = {name: report[name] for name in ("decisions", "agrees", "owed", "unknown")}
    assert counts_by_name == {"decisions": 81, "agrees": 80, "owed": 0, "unknown": 0}
    assert report["markers_without_decision"] == 0
    assert (finding["state"], finding["decision"]["outcome"]) == ("twice", "commit")
    assert [marker["outcome"] for marker in finding["markers"]] == ["commit", "commit"]
    assert finding["explained_by"] == "coordinator-moved"


def test_what_can_not_be_judged_is_said_with_its_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_incident("compacted").write(tmp_path)
    assert main(["logs", "decisions", str(tmp_path)]) == 4
    assert "unknown: 81: the cleaner has been at __transaction_state-0" in capsys.readouterr().err
    assert main(["logs", "decisions", str(tmp_path / "nowhere")]) == 2

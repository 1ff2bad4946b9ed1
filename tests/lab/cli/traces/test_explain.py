from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.traces import hung_at, told, told_run
from txnsim.cli.main import main


@pytest.fixture
def trace(tmp_path: Path) -> str:
    path = tmp_path / "z01.jsonl"
    path.write_bytes(told())
    return str(path)


def test_why_the_last_stable_offset_is_here(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    at = str(hung_at(told_run()))
    assert main(["explain", "lso", "payments-0", trace, "--at", at]) == 0
    printed = capsys.readouterr().out
    assert "It hangs. It was not committed: end it with ABORT" in printed
    assert "To end it: txnsim txns repair" in printed
    assert "It follows from:\n  #" in printed
    assert main(["explain", "lso", "payments-0", trace, "--at", at, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cause"] == "hanging transaction"


def test_what_has_become_of_a_transaction(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "txn", "app", trace]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("app is ")
    assert "The last move and what caused it:\n  #" in printed
    assert main(["explain", "txn", "app", trace, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["transactional_id"] == "app"


def test_what_is_not_in_the_trace_is_a_misuse(
    trace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", "lso", "nowhere-0", trace]) == 2
    assert "tells nothing of nowhere-0" in capsys.readouterr().err

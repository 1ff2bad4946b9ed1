"""A run under load is told as it was."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ci import patience
from tests.ci.patience import Load, asked, main


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(patience, "KEPT", tmp_path)
    programs = {"well": "print('fine')", "badly": "print('because'); raise SystemExit(1)"}
    asks = {name: (sys.executable, "-c", text) for name, text in programs.items()}
    monkeypatch.setattr(patience, "QUESTIONS", asks)
    return tmp_path


def test_each_run_is_kept_and_the_first_that_fails_ends_them(
    kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["well", "badly", "--times", "2", "--load", "0"]) == 1
    runs = [json.loads(line) for line in (kept / "runs.jsonl").read_text().splitlines()]
    assert [(one["question"], one["ok"]) for one in runs] == [
        ("well", True),
        ("well", True),
        ("badly", False),
    ]
    assert runs[0]["commit"] == patience.commit()
    assert Path(runs[-1]["output"]).read_text() == "because\n"
    assert "badly: FAILED" in capsys.readouterr().out


def test_runs_side_by_side_are_all_kept(kept: Path) -> None:
    assert main(["well", "--times", "4", "--load", "0", "--at-once", "2"]) == 0
    assert len((kept / "runs.jsonl").read_text().splitlines()) == 4


def test_a_run_that_takes_an_hour_fails(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "MINUTES_MAX", 0)
    assert not asked("well", Load(0))["ok"]


@pytest.mark.slow
def test_the_load_that_is_lacking_is_made_and_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[subprocess.Popen[bytes]] = []

    class Noted(subprocess.Popen[bytes]):
        def __init__(self, command: list[str]) -> None:
            super().__init__(command)
            begun.append(self)

    monkeypatch.setattr(subprocess, "Popen", Noted)
    monkeypatch.setattr(patience, "_LOOKS_EVERY_S", 0.01)
    told = iter([0.0] * 4)
    monkeypatch.setattr(os, "getloadavg", lambda: (next(told, 9.0), 0.0, 0.0))
    with Load(2) as load:
        while len(load._seen) < 4:
            load._over.wait(0.01)
        assert len(begun) == 2
        while load._burning:
            load._over.wait(0.01)
    assert all(one.poll() is not None for one in begun)

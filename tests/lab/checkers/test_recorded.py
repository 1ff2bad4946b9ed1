"""What a scenario saw, written to a file, is judged from that file as it was judged in the run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from txnsim.cli.main import main


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "status"), [("V-", 1), ("TV2", 0)])
def test_a_recorded_story_is_judged_from_its_file(
    mode: str, status: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["late-commit-tears-next-transaction", "--mode", mode, "--armed", "--quiet"]
    assert main(["scenario", "run", *arguments, "--history", str(tmp_path)]) == 0
    capsys.readouterr()
    (path,) = tmp_path.glob("*.jsonl")
    assert main(["check", "--json", str(path)]) == status
    (report,) = json.loads(capsys.readouterr().out)
    expected = {"V-": ["aborted-read", "torn-transaction"], "TV2": []}
    assert report["verdict"] == expected[mode]

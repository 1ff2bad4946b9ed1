"""A program of one's own in place of the roster's: each check that it prints is told."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.clients.matrix import run

PROGRAM = """
import os, sys
assert os.environ["TXNSIM_BOOTSTRAP"].count(":") == 3
results = {"produce": "PASS produce", "fence": "FAIL fence: the second producer was not told"}
names = sys.argv[1:]
print("\\n".join(results[name] for name in names))
failed = "fence" in names
print(f"{len(names) - failed} passed, {int(failed)} failed")
sys.exit(failed)
"""


@pytest.mark.clients
def test_a_program_of_ones_own_is_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program_file = tmp_path / "mine.py"
    program_file.write_text(PROGRAM)
    arguments = ["--program", f"{sys.executable} {program_file}", "--level", "2"]
    assert run.main([*arguments, "--check", "produce", "fence"]) == 1
    output = capsys.readouterr().out
    assert "PASS yours@2 produce" in output
    assert "FAIL yours@2 fence: the second producer was not told" in output
    assert output.strip().splitlines()[-1] == "1 passed, 1 failed"

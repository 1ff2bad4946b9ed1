"""``txnsim exam readers``: what it writes, and how it holds a reader's answers against it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from txnsim.cli.main import main


@pytest.fixture
def answers(tmp_path: Path) -> tuple[Path, list[dict[str, object]]]:
    """What is expected, and a reader's true answers."""
    assert main(["exam", "readers", "write", str(tmp_path / "dirs")]) == 0
    path = tmp_path / "dirs" / "expected.json"
    told = [
        {"topic": one["topic"], "values": one["values"]} for one in json.loads(path.read_text())
    ]
    return path, told


def checked(path: Path, told: list[dict[str, object]]) -> int:
    """The exit status."""
    said = path.with_name("answers")
    said.write_text("\n".join(map(json.dumps, told)))
    return main(["exam", "readers", "check", str(path), str(said)])


def test_answers_are_checked(
    answers: tuple[Path, list[dict[str, object]]], capsys: pytest.CaptureFixture[str]
) -> None:
    path, told = answers
    assert (path.parent / "broker-1" / "open-0").is_dir()
    assert checked(path, told) == 0
    assert checked(path, told[1:]) == 1
    assert "position-on-marker: nothing is said of it" in capsys.readouterr().out
    assert checked(path, [*told, {"topc": "open"}]) == 2
    assert main(["exam", "readers", "write", str(path.parent)]) == 2
    assert "nothing is written over" in capsys.readouterr().err

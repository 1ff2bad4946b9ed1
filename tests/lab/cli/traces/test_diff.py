from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.traces import told
from txnsim.cli.main import main


@pytest.fixture
def traces(tmp_path: Path) -> tuple[str, str]:
    paths = tmp_path / "armed.jsonl", tmp_path / "disarmed.jsonl"
    for path, take in zip(paths, ("armed", "disarmed"), strict=True):
        path.write_bytes(told(take=take))
    return str(paths[0]), str(paths[1])


def test_two_runs_part_in_one_sentence_and_both_sides_are_shown(
    traces: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diff", *traces]) == 1
    printed = capsys.readouterr().out
    assert printed.startswith("They part at client late-producer: A tells ")
    assert "  take: A armed, B disarmed" in printed
    assert printed.count("  -> #") == 2


def test_a_run_and_itself_do_the_same(
    traces: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diff", traces[0], traces[0]]) == 0
    assert capsys.readouterr().out == "They do the same.\n"
    assert main(["diff", traces[0], traces[0], "--json"]) == 0
    assert json.loads(capsys.readouterr().out) is None


def test_a_side_that_ends_is_shown_as_such(
    traces: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    short = tmp_path / "short.jsonl"
    short.write_bytes(b"".join(told().splitlines(keepends=True)[:1]))
    assert main(["diff", traces[0], str(short)]) == 1
    assert "-> nothing more" in capsys.readouterr().out


def test_what_is_no_trace_is_a_misuse(tmp_path: Path) -> None:
    assert main(["diff", str(tmp_path / "a"), str(tmp_path / "b")]) == 2

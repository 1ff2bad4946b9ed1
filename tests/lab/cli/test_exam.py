"""``txnsim exam``: what it prints, and with which status it ends."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest

from tests.lab.exam.test_run import KNOWS_ITS_NAME, YES
from txnsim.cli.main import main


def sat(program: str, *more: str) -> int:
    """The status of a short exam."""
    command = shlex.join([sys.executable, "-c", program])
    only = ("--only", "commit-lost", "--transaction-version", "2")
    return main(["exam", "run", "--driver", command, *only, *more])


def test_a_miss_is_told_and_is_the_status(capsys: pytest.CaptureFixture[str]) -> None:
    assert sat(YES) == 1
    told = capsys.readouterr()
    assert "but readers do not get" in told.out
    assert "again: txnsim exam run --driver" in told.out
    assert "1/1 commit-lost@2: missed" in told.err


def test_a_known_miss_is_no_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known, report = tmp_path / "known.txt", tmp_path / "exam.html"
    known.write_text("commit-lost@2  # reported\n")
    assert sat(YES, "--known", str(known), "--report", str(report)) == 0
    assert "commit-lost@2 (known)" in capsys.readouterr().out
    assert "commit-lost" in report.read_text()


def test_a_known_miss_has_no_folder(tmp_path: Path) -> None:
    known, folders, report = (tmp_path / name for name in ("known.txt", "misses", "exam.html"))
    known.write_text("commit-lost@2\n")
    written = ("--known", str(known), "--misses", str(folders), "--report", str(report))
    assert sat(YES, *written, "--only", "reads-open") == 1
    assert [one.name for one in folders.iterdir()] == ["reads-open-2"]
    assert "misses/reads-open-2/" in report.read_text()
    assert "misses/commit-lost-2/" not in report.read_text()


def test_json_has_every_result(capsys: pytest.CaptureFixture[str]) -> None:
    assert sat(KNOWS_ITS_NAME, "--json") == 0
    (result,) = json.loads(capsys.readouterr().out)["results"]
    assert (result["situation"], result["outcome"]) == ("commit-lost", "does not apply")


def test_a_driver_that_is_none_is_misuse(capsys: pytest.CaptureFixture[str]) -> None:
    assert sat("pass") == 2
    assert "has ended" in capsys.readouterr().err


def test_a_file_of_known_misses_must_be_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert sat(YES, "--known", "nowhere.txt") == 2
    assert "nowhere.txt" in capsys.readouterr().err


def test_the_list_says_what_is_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["exam", "list", "--only", "lag"]) == 0
    assert "lag-is-zero" in capsys.readouterr().out
    assert main(["exam", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["name"] == "fenced-by-newer"

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from txnsim.cli.main import main
from txnsim_lab.check.history import History
from txnsim_lab.check.observations import Ended, Read, Record, Wrote

WROTE = Wrote(at_ms=1, who="p", transaction="T1", topic="t", partition=0, value="r1", offset=0)
ABORTED = Ended(at_ms=2, who="p", transaction="T1", commit=False)
READ = Read(
    at_ms=3,
    who="r",
    topic="t",
    partition=0,
    asked=0,
    next_offset=2,
    records=(Record(offset=0, value="r1"),),
)


@pytest.fixture
def healthy(tmp_path: Path) -> str:
    path = tmp_path / "healthy.jsonl"
    path.write_bytes(History([WROTE, ABORTED]).to_lines())
    return str(path)


@pytest.fixture
def wrong(tmp_path: Path) -> str:
    path = tmp_path / "wrong.jsonl"
    path.write_bytes(b"# a story\n" + History([WROTE, ABORTED, READ]).to_lines())
    return str(path)


def test_a_healthy_history_is_told_so(healthy: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", healthy]) == 0
    assert capsys.readouterr().out == f"{healthy}: healthy (2 observations)\n"


def test_anomalies_are_told_with_their_evidence(
    healthy: str, wrong: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", healthy, wrong]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == f"{wrong}: aborted-read (3 observations)"
    assert lines[2] == "  aborted-read: r read 'r1' at t-0@0, but T1 was not committed"
    assert [line.split()[0] for line in lines[3:]] == ["1", "2", "3"]
    assert json.loads(lines[5].split(maxsplit=1)[1])["seen"] == "read"


def test_programs_get_the_same_as_json(wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--json", wrong]) == 1
    (report,) = json.loads(capsys.readouterr().out)
    assert report["verdict"] == ["aborted-read"]
    assert report["observations"] == 3
    (anomaly,) = report["anomalies"]
    assert anomaly["kind"] == "aborted-read"
    assert [one["number"] for one in anomaly["evidence"]] == [1, 2, 3]
    assert anomaly["evidence"][1]["observation"]["commit"] is False


def test_a_history_may_come_through_a_pipe(
    wrong: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        "sys.stdin", io.TextIOWrapper(io.BytesIO(Path(wrong).read_bytes()), "utf-8")
    )
    assert main(["check", "-"]) == 1
    assert capsys.readouterr().out.startswith("-: aborted-read")


def test_what_is_no_history_is_told_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "notes.jsonl"
    path.write_text('{"seen":"healed","at_ms":1,"who":"h"}\nthen it broke\n', "utf-8")
    assert main(["check", str(path)]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"txnsim: {path}: line 2: ")


def test_a_value_of_two_records_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "twice.jsonl"
    again = Wrote(at_ms=4, who="p", topic="t", partition=0, value="r1", offset=3)
    path.write_bytes(History([WROTE, ABORTED, again]).to_lines())
    assert main(["check", str(path)]) == 2
    told = capsys.readouterr().err
    assert told.startswith(
        f"txnsim: {path}: observations 1 and 3: the value 'r1' names two records"
    )


def test_a_file_that_is_not_there_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "nowhere.jsonl"
    assert main(["check", str(path)]) == 2
    assert capsys.readouterr().err == f"txnsim: {path}: No such file or directory\n"

"""``txnsim logs export``: its arguments and what it prints; that it writes is in tests/pipeline."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.soundness import write_log_dir
from txnsim.cli.logs import export as logs_export
from txnsim.cli.main import main
from txnsim.pipeline.export import Export, Written


@pytest.fixture
def log_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    def export(wanted: Export, table: str) -> Written:
        directory = str(wanted.target / table)
        return Written(table=table, directory=directory, rows=3, files=2, bytes=10)

    monkeypatch.setattr("txnsim.pipeline.export.export_here", export)
    write_log_dir(tmp_path / "broker-1", 1, {})
    return tmp_path


def test_each_table_is_told(log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = log_dir / "out"
    assert (
        main(
            ["logs", "export", str(log_dir), "--to", str(out), "--table", "errors, batches,errors"]
        )
        == 0
    )
    assert capsys.readouterr().out.splitlines() == [
        f"{out / 'errors'}: 3 rows, 2 files",
        f"{out / 'batches'}: 3 rows, 2 files",
    ]


def test_as_json(log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["logs", "export", str(log_dir), "--to", str(log_dir / "out"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [one["table"] for one in told] == logs_export.TABLES.split(",")
    assert list(told[0]) == ["table", "directory", "rows", "files", "bytes"]


def test_much_is_spark_s(log_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str | None] = []

    @contextmanager
    def session(master: str | None) -> Iterator[str]:
        asked.append(master)
        yield "a session"

    def export(spark: str, wanted: Export, table: str) -> Written:
        assert spark == "a session"
        return Written(table=table, directory=str(wanted.target), rows=0, files=0, bytes=0)

    monkeypatch.setattr(logs_export, "session", session)
    monkeypatch.setattr("txnsim.pipeline.export.export", export)
    words = ["logs", "export", str(log_dir), "--to", str(log_dir / "out"), "--table", "errors"]
    assert main([*words, "--master", "local[3]"]) == 0
    monkeypatch.setattr("txnsim.pipeline.tables.read_here.HERE_COST_MAX", -1)
    assert main(words) == 0
    assert asked == ["local[3]", None]


def test_a_misuse_has_its_status(log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (log_dir / "out" / "errors").mkdir(parents=True)
    export = ["logs", "export", str(log_dir), "--to", str(log_dir / "out"), "--table"]
    assert main([*export, "errors"]) == 2
    assert "name another folder, or --overwrite" in capsys.readouterr().err
    assert main([*export, "nothing"]) == 2
    assert "there is no table 'nothing'" in capsys.readouterr().err

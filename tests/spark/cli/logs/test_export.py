"""``txnsim logs export``: its arguments and what it prints; that it writes is in
tests/spark/pipeline.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.soundness import write_log_dir
from txnsim.cli.main import main
from txnsim_spark.cli.logs import _export as logs_export
from txnsim_spark.engine import Engine, Way
from txnsim_spark.export import Export, Written


@pytest.fixture
def log_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    def export(_engine: Engine, wanted: Export, table: str) -> Written:
        directory = str(wanted.target / table)
        return Written(table=table, directory=directory, rows=3, files=2, bytes=10)

    monkeypatch.setattr("txnsim_spark.export.export", export)
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


def test_a_master_is_spark_s(log_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Way] = []

    def export(engine: Engine, wanted: Export, table: str) -> Written:
        asked.append(engine.way(1))
        return Written(table=table, directory=str(wanted.target), rows=0, files=0, bytes=0)

    monkeypatch.setattr("txnsim_spark.export.export", export)
    words = ["logs", "export", str(log_dir), "--to", str(log_dir / "out"), "--table", "errors"]
    assert main([*words, "--master", "local[3]"]) == 0
    assert main(words) == 0
    assert asked == [Way.SPARK, Way.HERE]


def test_a_misuse_has_its_status(log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (log_dir / "out" / "errors").mkdir(parents=True)
    export = ["logs", "export", str(log_dir), "--to", str(log_dir / "out"), "--table"]
    assert main([*export, "errors"]) == 2
    assert "name another folder, or --overwrite" in capsys.readouterr().err
    assert main([*export, "nothing"]) == 2
    assert "there is no table 'nothing'" in capsys.readouterr().err

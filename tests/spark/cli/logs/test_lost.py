"""``txnsim logs lost``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.broker_dirs import BrokerDir, move
from tests.support.logs import NOW, LogDriver
from txnsim.cli.main import main
from txnsim_spark.cli.logs._lost import COLUMNS
from txnsim_spark.questions.lost import Losses, LostLot

pytest.importorskip("duckdb", reason="the extra spark is not installed")


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    driver = LogDriver()
    driver.txn(0, count=2)
    made = BrokerDir(tmp_path / "broker-1")
    made.coordinator(move("Empty"))
    made.replica(driver)
    return ["logs", "lost", str(made.stop()), "--as-of", str(NOW + 3_600_000)]


def test_a_line_per_transaction(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--to", str(tmp_path / "out")]) == 0
    headers, row, total = capsys.readouterr().out.splitlines()
    assert tuple(headers.split()) == tuple(COLUMNS)
    assert row.split() == [
        *("orders", "0", "app", "7", "open", "hanging", "0-1", "2", "4", "1"),
    ]
    assert total == f"2 records, 4 bytes; {tmp_path}/out: 1 files"


def test_json_has_the_documented_fields(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert tuple(found) == Losses.__struct_fields__
    assert tuple(found["transactions"][0]) == LostLot.__struct_fields__
    documented = Path("docs/logs-reference.md").read_text()
    assert all(f"`{name}`" in documented for name in (*found, *found["transactions"][0]))


def test_a_folder_that_is_there_is_a_misuse(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--to", str(tmp_path)]) == 2
    assert "is there already; name another folder" in capsys.readouterr().err

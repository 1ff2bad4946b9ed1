"""``txnsim logs extract``: what it prints; what it writes is judged in tests/spark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.broker_dirs import BrokerDir, move
from tests.support.logs import LogDriver
from txnsim.cli.main import main
from txnsim_spark.extract import Extracted, Lot

pytest.importorskip("duckdb", reason="the extra spark is not installed")


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    driver = LogDriver()
    driver.txn(0, count=2)
    made = BrokerDir(tmp_path / "broker-1", 1)
    made.coordinator(move("Empty"))
    made.replica(driver)
    made.stop()
    return [
        "logs",
        "extract",
        "--transactional-id",
        "app",
        str(tmp_path),
        "--to",
        f"{tmp_path}/out",
    ]


def test_a_line_per_transaction(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 0
    headers, row, written = capsys.readouterr().out.splitlines()
    assert headers.split() == [
        *("Topic", "Partition", "ProducerId", "Outcome", "Offsets", "Records", "Bytes", "Keys")
    ]
    assert row.split() == ["orders", "0", "7", "open", "0-1", "2", "4", "1"]
    assert written.endswith("/out: 2 records, 1 files")


def test_json_has_the_documented_fields(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert tuple(found) == Extracted.__struct_fields__
    assert tuple(found["transactions"][0]) == Lot.__struct_fields__
    documented = Path("docs/logs-reference.md").read_text()
    assert all(f"`{name}`" in documented for name in (*found, *found["transactions"][0]))


def test_a_misuse_has_its_status(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    words[3] = "nobody"
    assert main(words) == 2
    assert "no coordinator's log in these directories has it" in capsys.readouterr().err

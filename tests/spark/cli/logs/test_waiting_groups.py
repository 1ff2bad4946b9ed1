"""``txnsim logs waiting``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.broker_dirs import BrokerDir, move
from tests.support.logs import NOW, LogDriver
from tests.support.position_logs import HERE, at, offsets_log, sent
from txnsim.cli.main import main
from txnsim_spark.cli.logs._waiting_groups import COLUMNS
from txnsim_spark.questions.waiting_groups import Waiter, Waiting

AS_OF = str(NOW + 60_000)


def words(tmp_path: Path, *, is_open: bool = True, has_positions: bool = True) -> list[str]:
    driver = LogDriver()
    driver.txn(0)
    if not is_open:
        driver.end(committed=True)
    made = BrokerDir(tmp_path / "broker-1")
    made.replica(driver)
    made.coordinator(move("Ongoing", HERE))
    if has_positions:
        offsets_log(made.path, sent(at(0, "readers")))
    return ["logs", "waiting", str(made.stop()), "--as-of", AS_OF]


def test_a_line_per_group(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words(tmp_path)) == 3
    headers, row = capsys.readouterr().out.splitlines()
    assert tuple(headers.split()) == tuple(COLUMNS)
    assert row.split() == [
        *("readers", "orders", "0", "0", "0", "1", "0", "1", "7", "app"),
        *("2023-11-14T22:13:20Z", "alive"),
    ]


def test_json_has_the_documented_fields(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words(tmp_path), "--json"]) == 3
    found = json.loads(capsys.readouterr().out)
    assert tuple(found) == Waiting.__struct_fields__
    assert tuple(found["waiters"][0]) == Waiter.__struct_fields__
    documented = Path("docs/questions.md").read_text()
    assert all(f"`{name}`" in documented for name in (*found, *found["waiters"][0]))


def test_nobody_waits_and_nobody_is_seen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words(tmp_path / "a", is_open=False)) == 0
    assert main(words(tmp_path / "b", has_positions=False)) == 4
    shown = capsys.readouterr()
    assert "No partition of __consumer_offsets is among the directories" in shown.err
    assert "orders-0: records are withheld, and no group has a position there" in shown.out


def test_a_misuse_has_its_status(tmp_path: Path) -> None:
    assert main(["logs", "waiting", str(tmp_path / "nothing")]) == 2

"""``txnsim logs who``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.broker_dirs import BrokerDir, move
from tests.support.logs import LogDriver
from txnsim.cli.main import main
from txnsim.types import TopicPartition
from txnsim_spark.questions.application import Application, Bump, Neighbour, Written

pytest.importorskip("duckdb", reason="the extra spark is not installed")


@pytest.fixture
def log_dir(tmp_path: Path) -> str:
    driver = LogDriver()
    driver.txn(0)
    driver.txn(0, pid=99)
    made = BrokerDir(tmp_path / "broker-1")
    made.coordinator(
        move("Empty", epoch=1),
        move("Empty", epoch=2),
        move("Ongoing", TopicPartition("orders", 1), name="near", pid=8),
    )
    made.replica(driver)
    return str(made.stop())


def test_what_is_known_line_by_line(log_dir: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["logs", "who", "7", log_dir]) == 0
    when = "2023-11-14T22:13:20Z"
    assert capsys.readouterr().out.splitlines() == [
        "producer 7: transactional id app, now Empty; producer ids 7",
        f"last bump: {when}, from producer 7 epoch 1 to producer 7 epoch 2",
        "timeline: txnsim logs timeline app …",
        f"wrote to orders-0: offsets 0 to 0, {when} to {when}, 1 transactions, the last one open",
        "neighbour: producer 8, near: orders-1",
    ]


def test_unknown_has_a_status_of_its_own(log_dir: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["logs", "who", "99", log_dir]) == 1
    first, *_ = capsys.readouterr().out.splitlines()
    assert first.startswith("producer 99: transactional id unknown: none of the 1 partitions of")
    assert main(["logs", "who", "12", log_dir]) == 2


def test_json_has_the_documented_fields(log_dir: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["logs", "who", "7", log_dir, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    kinds = (Application, Bump, Written, Neighbour)
    told = (found, found["last_bump"], found["written"][0], found["neighbours"][0])
    assert [tuple(one) for one in told] == [kind.__struct_fields__ for kind in kinds]
    documented = Path("docs/logs-reference.md").read_text()
    assert all(f"`{name}`" in documented for one in told for name in one)

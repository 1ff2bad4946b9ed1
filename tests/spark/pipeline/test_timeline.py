"""The command ``logs timeline`` gives the same answers with Spark and without."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.broker_dirs import BrokerDir, move
from tests.support.logs import LogDriver
from txnsim.cli.main import main
from txnsim.types import TopicPartition

pytest.importorskip("duckdb", reason="the extra spark is not installed")

ORDERS, PAYMENTS = TopicPartition("orders", 0), TopicPartition("payments", 0)


def _replica(*, is_ended: bool) -> LogDriver:
    """A replica of ``orders``: a committed and an aborted transaction, between those of another
    producer.
    """
    driver = LogDriver()
    driver.txn(0, count=2)
    driver.txn(0, producer_id=99)
    driver.end(committed=True)
    driver.txn(2)
    driver.end(committed=True, producer_id=99)
    if is_ended:
        driver.end(committed=False, coordinator_epoch=1)
    return driver


@pytest.fixture
def disks(tmp_path: Path) -> Path:
    """Two brokers, the second one behind; a transaction hangs on ``payments``."""
    records = (
        move("Empty"),
        move("Ongoing", ORDERS),
        move("PrepareCommit", ORDERS),
        move("CompleteCommit"),
        move("Ongoing", ORDERS, PAYMENTS),
        move("PrepareAbort", ORDERS, PAYMENTS),
        move("CompleteAbort"),
        move("Empty", name="other", producer_id=99),
    )
    hanging_log_driver = LogDriver()
    hanging_log_driver.txn(0)
    for broker in (1, 2):
        broker_dir = BrokerDir(tmp_path / f"broker-{broker}", broker)
        broker_dir.coordinator(*records)
        broker_dir.replica(_replica(is_ended=broker == 1))
        broker_dir.replica(hanging_log_driver, "payments")
        broker_dir.replica(LogDriver(), "quiet")
        broker_dir.stop()
    return tmp_path


TellTimeline = Callable[..., tuple[int, Any]]


@pytest.fixture
def command_result(way: list[str], capsys: pytest.CaptureFixture[str]) -> TellTimeline:
    """Exit status and JSON of a command."""

    def ask(*arguments: str) -> tuple[int, Any]:
        status = main(["logs", *arguments, *way, "--json"])
        return status, json.loads(capsys.readouterr().out)

    return ask


def test_a_life_is_told_from_both_sides(disks: Path, command_result: TellTimeline) -> None:
    status, timeline = command_result("timeline", "app", str(disks))
    assert status == 1
    assert timeline["producer_ids"] == [7]
    states = [event for event in timeline["events"] if event["source"] == "coordinator"]
    assert [state["event"] for state in states] == [
        *("Empty", "Ongoing", "PrepareCommit", "CompleteCommit"),
        *("Ongoing", "PrepareAbort", "CompleteAbort"),
    ]
    assert [state["brokers"] for state in states] == [[1, 2]] * 7
    orders = [
        (event["event"], event["offset"], event["committed"], event["brokers"])
        for event in timeline["events"]
        if event["topic"] == "orders"
    ]
    assert orders == [
        ("first", 0, None, [1, 2]),
        ("last", 1, None, [1, 2]),
        ("marker", 3, True, [1, 2]),
        ("first", 4, None, [1]),
        ("last", 4, None, [1]),
        ("marker", 6, False, [1]),
    ]
    (open_transaction,) = timeline["open"]
    assert (
        open_transaction["topic"],
        open_transaction["first_offset"],
        open_transaction["state"],
    ) == (
        "payments",
        0,
        "CompleteAbort",
    )
    assert timeline["disagreements"] == [
        "orders-0: on broker 2 the transaction from offset 4 on is open (last record at 4); "
        "elsewhere it aborts at offset 6",
        "payments-0: open since offset 0; for the coordinator it is CompleteAbort",
        "payments-0: no marker of the transaction that the coordinator has as CompleteAbort "
        "(offset 6)",
    ]


def test_an_id_without_disagreement(disks: Path, command_result: TellTimeline) -> None:
    status, timeline = command_result(
        "timeline", "other", str(disks / "broker-1"), "--topic", "quiet"
    )
    assert (status, timeline["open"], timeline["disagreements"]) == (0, [], [])
    assert [event["event"] for event in timeline["events"]] == ["Empty"]

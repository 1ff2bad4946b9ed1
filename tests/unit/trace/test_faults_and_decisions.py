from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.support.traces import small
from txnsim.trace.faults_and_decisions import Remembered
from txnsim.txn.past_decision import Decision
from txnsim.types import TopicPartition

NODES = ("broker/2/txn/0", "fault")
T0 = TopicPartition("t", 0)
MOVE = {"pid": 7, "epoch": 0, "pending": None, "timeout_ms": 60_000, "started_ms": 5}


def moved(state: str, *partitions: str, **more: Any) -> tuple[Any, ...]:
    data = {**MOVE, "state": state, "partitions": partitions, **more}
    return (NODES[0], "txn.complete", (), "app/7:0", data)


def decision(
    *events: tuple[Any, ...], entry: Mapping[str, Any] | None = None, epoch: int = 0
) -> Decision:
    run = small(NODES, *events)
    told = Remembered.of(run.events).decided(
        T0, producer_id=7, producer_epoch=epoch, last_timestamp_ms=9, entry=entry
    )
    return told.decision


PREPARED = moved("PrepareCommit", "t-0", "u-0")
LATER = moved("PrepareAbort", "u-0", epoch=3)


@pytest.mark.parametrize(
    ("events", "epoch", "wanted"),
    [
        ((PREPARED, moved("CompleteCommit"), LATER), 0, Decision.COMMITTED),
        ((moved("PrepareAbort", "t-0"),), 0, Decision.ABORTED),
        ((moved("PrepareCommit", "t-0", epoch=1, version=2),), 0, Decision.COMMITTED),
        ((moved("PrepareCommit", "t-0", epoch=1, version=2),), 1, Decision.UNKNOWN),
        ((moved("PrepareCommit", "u-0"),), 0, Decision.UNKNOWN),
        ((moved("Ongoing", "t-0"),), 0, Decision.UNKNOWN),
    ],
)
def test_a_decision_is_remembered_when_the_coordinator_has_gone_on(
    events: tuple[tuple[Any, ...], ...], epoch: int, wanted: Decision
) -> None:
    assert decision(*events, epoch=epoch) is wanted


@pytest.mark.parametrize(
    ("state", "started_ms", "wanted"),
    [
        ("Empty", -1, Decision.ABORTED),
        ("CompleteCommit", 5, Decision.COMMITTED),
        ("CompleteCommit", 10, Decision.UNKNOWN),
    ],
)
def test_without_a_record_the_newest_state_may_do(
    state: str, started_ms: int, wanted: Decision
) -> None:
    assert decision(entry={**MOVE, "state": state, "started_ms": started_ms}) is wanted


def test_the_last_strike_of_each_rule_is_remembered() -> None:
    hit = ("fault", "fault.hit", (), "", {"rule": "late", "struck": 1})
    assert Remembered.of(small(NODES, hit, hit, ("fault", "note", (), "", "text")).events).hits == {
        "late": 1
    }

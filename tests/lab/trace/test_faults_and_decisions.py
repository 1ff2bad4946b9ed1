from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.support.small_trace import small
from txnsim.txn.past_decision import PastDecision
from txnsim.types import TopicPartition
from txnsim_lab.trace._faults_and_decisions import FaultsAndDecisions

NODES = ("broker/2/txn/0", "fault", "broker/1/log/t-0")
T0 = TopicPartition("t", 0)
MOVE = {"pid": 7, "epoch": 0, "pending": None, "timeout_ms": 60_000, "started_ms": 5}


def completed_move(state: str, *partitions: str, **event_fields: Any) -> tuple[Any, ...]:
    data = {**MOVE, "state": state, "partitions": partitions, **event_fields}
    return (NODES[0], "txn.complete", (), "app/7:0", data)


def decision(
    *events: tuple[Any, ...], entry: Mapping[str, Any] | None = None, epoch: int = 0
) -> PastDecision:
    recording = small(NODES, *events)
    evidence = FaultsAndDecisions.from_events(recording.events).decision_of(
        T0,
        producer_id=7,
        producer_epoch=epoch,
        first_offset=9,
        opening_position=-1,
        last_timestamp_ms=9,
        transaction=entry,
    )
    return evidence.decision


def marker_written(
    offset: int, *, partition_name: str = "t-0", producer_id: int = 7
) -> tuple[Any, ...]:
    data = {
        "tp": partition_name,
        "pid": producer_id,
        "epoch": 0,
        "committed": True,
        "offset": offset,
    }
    return (NODES[2], "marker.written", (), "app/7:0", {**data, "coordinator_epoch": 0})


PREPARED = completed_move("PrepareCommit", "t-0", "u-0")
LATER = completed_move("PrepareAbort", "u-0", epoch=3)


@pytest.mark.parametrize(
    ("events", "epoch", "expected_decision"),
    [
        ((PREPARED, completed_move("CompleteCommit"), LATER), 0, PastDecision.COMMITTED),
        # Its marker is there, so the records behind it were in no transaction.
        ((PREPARED, marker_written(8), LATER), 0, PastDecision.ABORTED),
        # A marker of the decision before, one somewhere else, another producer's.
        ((marker_written(8), PREPARED), 0, PastDecision.COMMITTED),
        ((PREPARED, marker_written(8, partition_name="u-0")), 0, PastDecision.COMMITTED),
        ((PREPARED, marker_written(8, producer_id=8)), 0, PastDecision.COMMITTED),
        ((completed_move("PrepareAbort", "t-0"),), 0, PastDecision.ABORTED),
        ((completed_move("PrepareCommit", "t-0", epoch=1, version=2),), 0, PastDecision.COMMITTED),
        ((completed_move("PrepareCommit", "t-0", epoch=1, version=2),), 1, PastDecision.UNKNOWN),
        ((completed_move("PrepareCommit", "u-0"),), 0, PastDecision.UNKNOWN),
        ((completed_move("Ongoing", "t-0"),), 0, PastDecision.UNKNOWN),
    ],
)
def test_a_decision_is_remembered_when_the_coordinator_has_gone_on(
    events: tuple[tuple[Any, ...], ...], epoch: int, expected_decision: PastDecision
) -> None:
    assert decision(*events, epoch=epoch) is expected_decision


@pytest.mark.parametrize(
    ("state", "started_ms", "expected_decision"),
    [
        ("Empty", -1, PastDecision.ABORTED),
        ("CompleteAbort", 5, PastDecision.ABORTED),
        ("CompleteCommit", 5, PastDecision.UNKNOWN),
        ("CompleteAbort", 10, PastDecision.UNKNOWN),
    ],
)
def test_without_a_record_the_newest_state_may_do(
    state: str, started_ms: int, expected_decision: PastDecision
) -> None:
    assert decision(entry={**MOVE, "state": state, "started_ms": started_ms}) is expected_decision


def struck(
    *subject: Mapping[str, Any], action_name: str = "hold", held_count: int = 1
) -> tuple[Any, ...]:
    data = {"rule": "late", "action": action_name, "held": held_count, "about": subject}
    return ("fault", "fault.hit", (), "", data)


MINE = struck({"id": "app", "pid": 7, "partitions": []})
MARKER = {"pid": 7, "partitions": ["t-0"]}
RELEASED = ("fault", "fault.release", (0, 5), "", {"rule": "late", "held": 0})


@pytest.mark.parametrize(
    ("events", "expected_indexes"),
    [
        ((MINE,), [0]),
        ((struck({"id": "app", "partitions": ["u-0"]}),), [0]),
        # Somebody else's, or nobody's.
        ((struck({"id": "other", "pid": 8, "partitions": []}),), []),
        ((struck({"id": "app/b", "pid": 8, "partitions": []}),), []),
        ((struck(),), []),
        ((("fault", "fault.hit", (), "", {"rule": "old", "action": "hold", "held": 1}),), []),
        # Of two that one rule holds, its own and not the last.
        ((MINE, struck({"id": "other", "pid": 8, "partitions": []})), [0]),
        # A marker is of its partitions.
        ((struck({"pid": 8, "partitions": ["t-0"]}, MARKER),), [0]),
        ((struck({"pid": 7, "partitions": ["u-0"]}),), []),
        # Nothing is held any more, or was.
        ((MINE, RELEASED), []),
        ((MINE, ("fault", "note", (), "", "text")), [0]),
        ((struck(MARKER, action_name="drop"),), []),
        ((struck(MARKER, action_name="reorder behind 1"),), [0]),
        ((struck(MARKER, action_name="pass", held_count=0),), []),
        # Of the transaction before.
        ((MINE, completed_move("PrepareAbort", "t-0")), [0]),
        ((MINE, completed_move("CompleteAbort")), []),
        ((completed_move("CompleteAbort"), MINE, completed_move("Ongoing", "t-0")), [1]),
    ],
)
def test_only_what_is_held_of_the_transaction_itself_holds_it_back(
    events: tuple[tuple[Any, ...], ...], expected_indexes: list[int]
) -> None:
    faults_and_decisions = FaultsAndDecisions.from_events(small(NODES, *events).events)
    assert [
        index for index, _ in faults_and_decisions.held_strikes("app", 7, "t-0")
    ] == expected_indexes


def test_what_a_ring_has_dropped_is_forgotten() -> None:
    faults_and_decisions = FaultsAndDecisions.from_events(
        small(NODES, MINE, completed_move("Dead"), MINE).events
    )
    faults_and_decisions.forget(1)
    assert [index for index, _ in faults_and_decisions.held_strikes("app", 7, "t-0")] == [2]

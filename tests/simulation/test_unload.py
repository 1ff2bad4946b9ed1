"""``coordinator.unload``: a broker that knows that it coordinates no more, and still remembers."""

from __future__ import annotations

from typing import Any

from tests.support.stories import call, told

HOLD = {"hold": {"id": "old", "point": "coordinator.unload", "topic": "__transaction_state"}}
BEGUN: list[dict[str, Any]] = [
    call("init-producer-id"),
    {"cluster": {"do": "move-leader", "coordinator-of": "app", "to": 1}},
    call("begin"),
    call("add-partitions", partitions="t-0"),
    call("produce", partition="t-0", value="r1"),
]
AWAY = {"cluster": {"do": "move-leader", "coordinator-of": "app", "to": 2}}
BACK = {"cluster": {"do": "move-leader", "coordinator-of": "app", "to": 1}}
ASKED_OLD = call("add-partitions", partitions="t-0", broker=1)
REFUSED = call("add-partitions", partitions="t-0", broker=1, error="NOT_COORDINATOR")


def test_it_answers_from_memory_until_it_has_dropped_its_entries() -> None:
    steps = [*BEGUN, HOLD, AWAY, ASKED_OLD, {"release": "old"}, REFUSED, call("commit")]
    result = told(steps, run="V+")
    assert result.as_declared, result.verdict


def test_it_can_append_nothing_meanwhile() -> None:
    moved = call("commit", broker=1, error="NOT_COORDINATOR", once=True)
    result = told([*BEGUN, HOLD, AWAY, moved, call("commit", broker=2), {"release": "old"}])
    assert result.as_declared, result.verdict


def test_what_it_has_loaded_since_is_not_dropped() -> None:
    steps = [*BEGUN, HOLD, AWAY, BACK, {"release": "old"}, ASKED_OLD, call("commit", broker=1)]
    result = told(steps, run="V+")
    assert result.as_declared, result.verdict

"""A coordinator that moves: how it forgets (``coordinator.unload``: a broker that knows that it
coordinates no more, and still remembers), and how it loads. One that waits until what it has read
is replicated answers from nothing that can be lost: the scenario of that loss can't be told.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.stories import call, told
from txnsim.errors import ConfigError
from txnsim_lab.scenario.catalog import find
from txnsim_lab.scenario.model import Run, Scenario
from txnsim_lab.scenario.runner import ScenarioRun, run_in_virtual_time

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
WAITING = {"loads_wait_for_replication": True}


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


def told_z34(run: Run) -> tuple[str, ...]:
    scenario: Scenario = find("z34")[1].model_copy(update={"runs": {"V+": run}})
    return run_in_virtual_time(ScenarioRun(scenario=scenario, run="V+")).verdict.observed


@pytest.mark.slow
def test_what_a_waiting_coordinator_answers_from_is_not_lost() -> None:
    run = find("z34")[1].runs["V+"]
    assert "stuck-last-stable-offset" in told_z34(run)
    # By the time it answers, the replica that has not fetched is out of sync, and can't lead.
    with pytest.raises(ConfigError, match="broker 3 is no replica that is in sync"):
        told_z34(run.model_copy(update={"rules": WAITING}))

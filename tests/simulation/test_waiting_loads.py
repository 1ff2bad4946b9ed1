"""A coordinator that waits until what it has read is replicated answers from nothing that can be
lost: the scenario of that loss can't be told any more.
"""

from __future__ import annotations

import pytest

from txnsim.errors import ConfigError
from txnsim_lab.scenario.catalog import find
from txnsim_lab.scenario.model import Run, Scenario
from txnsim_lab.scenario.runner import ScenarioRun, run_in_virtual_time

RULES = {"loads_wait_for_replication": True}


def told(run: Run) -> tuple[str, ...]:
    scenario: Scenario = find("z34")[1].model_copy(update={"runs": {"V+": run}})
    return run_in_virtual_time(ScenarioRun(scenario=scenario, run="V+")).verdict.observed


@pytest.mark.slow
def test_what_a_waiting_coordinator_answers_from_is_not_lost() -> None:
    run = find("z34")[1].runs["V+"]
    assert "stuck-last-stable-offset" in told(run)
    # By the time it answers, the replica that has not fetched is out of sync, and can't lead.
    with pytest.raises(ConfigError, match="broker 3 is no replica that is in sync"):
        told(run.model_copy(update={"rules": RULES}))

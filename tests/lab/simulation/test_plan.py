from __future__ import annotations

import pytest

from tests.support.plans import leaderless_plan
from txnsim.errors import ConfigError
from txnsim_lab.simulation._plan import RUN, Plan, scenario_of


def test_a_plan_comes_back_from_its_file() -> None:
    plan = leaderless_plan()
    assert Plan.from_json(plan.to_json()) == plan
    assert plan.size == 11


def test_what_is_no_plan_is_refused() -> None:
    with pytest.raises(ConfigError, match="no plan"):
        Plan.from_json(b'{"seed": 1}')


def test_its_cluster_and_cast_are_those_of_a_scenario() -> None:
    scenario = scenario_of(leaderless_plan(as_version="4.2"))
    assert scenario.runs[RUN].as_version == "4.2"
    assert scenario.cast["p"].plays == "wire"
    assert [*scenario.topics] == ["t", "u"]

from __future__ import annotations

from tests.support.stories import call, small, transaction
from txnsim_lab.scenario.catalog import find
from txnsim_lab.scenario.on_real.comparison import Cell, beforehand, simulated, why_not
from txnsim_lab.scenario.runner import ScenarioRun, run_in_virtual_time

INIT = call("init-producer-id")


def test_the_simulated_side_is_the_world_of_the_release() -> None:
    scenario_run = ScenarioRun(scenario=find("z12")[1], run="V-/before")
    assert why_not(scenario_run, "3.5.2") is None
    assert simulated(scenario_run, "3.5.2").scenario.runs["V-/before"].as_version == "3.6"
    (result,) = beforehand([scenario_run], "3.5.2").values()
    assert result.verdict.observed == ("stuck-coordinator",)


def test_where_the_fault_can_not_be_had_the_other_takes_are_left_out_too() -> None:
    story = small([{"hold": {"id": "h", "point": "log.append"}, "only": "armed"}, INIT])
    for take in ("armed", "disarmed"):
        why = why_not(ScenarioRun(scenario=story, run="V-", take=take), "4.3.1")
        assert why == "step 1: a fault at log.append, inside of a broker"
    assert beforehand([ScenarioRun(scenario=story, run="V-")], "4.3.1") == {}


def test_a_cell_agrees_where_both_verdicts_are_the_same() -> None:
    scenario_run = ScenarioRun(scenario=small([INIT, *transaction("r1")]), run="V-")
    healthy = run_in_virtual_time(scenario_run)
    hang = run_in_virtual_time(ScenarioRun(scenario=find("z01")[1], run="V-"))
    assert Cell(scenario_run=scenario_run, on="4.3.1", simulated=healthy, real=healthy).agrees
    assert not Cell(scenario_run=scenario_run, on="4.3.1", simulated=healthy, real=hang).agrees
    assert not Cell(
        scenario_run=scenario_run, on="4.3.1", simulated=healthy, why_not="refused"
    ).agrees
    assert Cell(scenario_run=scenario_run, on="4.3.1", why_not="left out").agrees

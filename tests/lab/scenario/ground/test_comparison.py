from __future__ import annotations

from tests.support.stories import call, small, transaction
from txnsim_lab.scenario.catalog import find
from txnsim_lab.scenario.ground.comparison import Cell, beforehand, simulated, why_not
from txnsim_lab.scenario.runner import Telling, tell_virtual

INIT = call("init-producer-id")


def test_the_simulated_side_is_the_world_of_the_release() -> None:
    telling = Telling(scenario=find("z12")[1], run="V-/before")
    assert why_not(telling, "3.5.2") is None
    assert simulated(telling, "3.5.2").scenario.runs["V-/before"].as_version == "3.6"
    (result,) = beforehand([telling], "3.5.2").values()
    assert result.verdict.observed == ("stuck-coordinator",)


def test_where_the_fault_can_not_be_had_the_other_takes_are_left_out_too() -> None:
    story = small([{"hold": {"id": "h", "point": "log.append"}, "only": "armed"}, INIT])
    for take in ("armed", "disarmed"):
        why = why_not(Telling(scenario=story, run="V-", take=take), "4.3.1")
        assert why == "step 1: a fault at log.append, inside of a broker"
    assert beforehand([Telling(scenario=story, run="V-")], "4.3.1") == {}


def test_a_cell_agrees_where_both_verdicts_are_the_same() -> None:
    telling = Telling(scenario=small([INIT, *transaction("r1")]), run="V-")
    healthy = tell_virtual(telling)
    hang = tell_virtual(Telling(scenario=find("z01")[1], run="V-"))
    assert Cell(telling=telling, on="4.3.1", simulated=healthy, real=healthy).agrees
    assert not Cell(telling=telling, on="4.3.1", simulated=healthy, real=hang).agrees
    assert not Cell(telling=telling, on="4.3.1", simulated=healthy, why_not="refused").agrees
    assert Cell(telling=telling, on="4.3.1", why_not="left out").agrees

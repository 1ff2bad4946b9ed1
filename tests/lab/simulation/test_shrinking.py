from __future__ import annotations

import pytest

from tests.support.plans import leaderless_plan, overwriting_plan
from txnsim.errors import ConfigError
from txnsim_lab.simulation._plan import Plan
from txnsim_lab.simulation._shrinking import shrink, with_own_keys, with_switch

SWITCH = ("leaderless_partitions_keep_markers", True)
KINDS = ("lost-write", "stuck-last-stable-offset", "torn-transaction")


def done_in(plan: Plan) -> list[str]:
    bodies = [one.step for track in plan.tracks for one in track.acts]
    return [next(iter(step.values()))["do"] for step in bodies]


@pytest.mark.costly
def test_what_a_finding_does_not_need_is_left_out() -> None:
    small = shrink(leaderless_plan(), KINDS, switch=SWITCH)
    assert set(small.played.kinds) <= set(KINDS)
    assert done_in(small.plan) == ["init-producer-id", "produce", "commit", "kill"]
    assert small.plan.world.settings == {}
    assert [*small.plan.world.topics] == ["t"]


def test_it_stops_after_so_many_tries() -> None:
    small = shrink(leaderless_plan(), KINDS, tries_max=1)
    assert small.tries == 1
    assert small.plan.size >= 9


def test_a_healthy_run_can_t_be_shrunk() -> None:
    with pytest.raises(ConfigError, match="nothing to shrink"):
        shrink(leaderless_plan(as_version="4.2"), KINDS)


def test_a_switch_is_one_more_of_the_plan() -> None:
    assert with_switch(leaderless_plan(), *SWITCH).world.rules == {SWITCH[0]: True}


def test_with_own_keys_a_circle_within_one_program_stays() -> None:
    apart = with_own_keys(overwriting_plan())
    keys = [one.step["call"]["key"] for one in apart.acts if "key" in one.step["call"]]
    assert keys == ["p.k1", "p.k2", "q.k2", "q.k1"]
    assert with_own_keys(leaderless_plan()) == leaderless_plan()

from __future__ import annotations

from txnsim.scenario.steps_model import Step
from txnsim.simulation.asking import ASK
from txnsim.simulation.drawing import Wanted, draw
from txnsim.simulation.plan import CLUSTER, scenario_of
from txnsim.simulation.play import play
from txnsim.simulation.variations import STEP, Guide, parent_of

SEEDS = range(40)


def test_a_variation_is_its_parent_at_other_times_or_in_other_troubles() -> None:
    others = 0
    for seed in SEEDS:
        plan, near = draw(seed), draw(seed + STEP)
        assert parent_of(near.seed) == seed
        assert near.world == plan.world
        ours = [one for one in plan.tracks if one.name != CLUSTER]
        assert [one.name for one in near.tracks if one.name != CLUSTER] == [
            one.name for one in ours
        ]
        others += [one.step for one in plan.acts] != [one.step for one in near.acts]
        assert near == draw(seed + STEP)
        assert near != draw(seed + 2 * STEP)
    assert 0 < others < len(SEEDS)


def test_a_variation_could_stand_in_a_scenario_file_and_is_played() -> None:
    for seed in SEEDS:
        plan = draw(seed + STEP, Wanted(as_version="4.2"))
        cast = scenario_of(plan).cast
        steps = [Step.model_validate(one.step) for one in plan.acts if ASK not in one.step]
        assert all(step.call is None or step.call.who in cast for step in steps)
    assert play(draw(STEP + 3)).done


def test_a_machine_of_a_variation_loses_its_power_only_where_its_parent_bears_that() -> None:
    for seed in range(0, 3 * STEP, 9_999_991):
        plan = draw(seed)
        if any(one.step.get("cluster", {}).get("lose-unflushed") for one in plan.acts):
            assert "power-failure" in plan.features


def test_who_reaches_something_new_is_varied_and_each_variation_comes_once() -> None:
    guide = Guide(range(3))
    played = []
    for seed in guide:
        played.append(seed)
        guide.learn(seed, {0: "ab", 1: "a", STEP: "c"}.get(seed, ""))
    first = [STEP * one for one in range(1, 7)]
    assert played == [0, *first, 1, 2]
    assert len(set(played)) == len(played)

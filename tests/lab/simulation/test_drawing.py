from __future__ import annotations

from collections import Counter

import pytest

from txnsim.errors import ConfigError
from txnsim_lab.scenario.steps_model import Step
from txnsim_lab.simulation import _defaults as defaults
from txnsim_lab.simulation._asking import ASK
from txnsim_lab.simulation._curiosity import CURIOUS
from txnsim_lab.simulation._further_features import (
    AMID_FAULTS,
    AMID_TRANSACTIONS,
    BOTH_WAYS,
    HELD,
    KEYED,
    LATE,
    LEAVING,
    MONITORED,
    REPLACED,
    TOGETHER,
    TROUBLED,
)
from txnsim_lab.simulation._plan import Plan, scenario_of
from txnsim_lab.simulation.drawing import Wanted, draw

SEEDS = range(120)


def steps_of(plan: Plan) -> list[Step]:
    """Its acts but questions of somebody curious, which no step can say."""
    acts = [one for track in plan.tracks for one in track.acts]
    return [Step.model_validate(one.step) for one in acts if ASK not in one.step]


@pytest.mark.costly
@pytest.mark.parametrize("as_version", [None, "4.1", "3.9", "2.8"])
def test_what_is_drawn_could_stand_in_a_scenario_file(as_version: str | None) -> None:
    for seed in SEEDS:
        plan = draw(seed, Wanted(as_version=as_version))
        cast = scenario_of(plan).cast
        for step in steps_of(plan):
            assert step.call is None or step.call.who in cast


def test_a_seed_has_one_plan_and_another_seed_another() -> None:
    assert draw(5) == draw(5)
    plans = {draw(seed).to_json() for seed in SEEDS}
    assert len(plans) == len(SEEDS)


def test_seeds_leave_features_out_and_have_one_replica_mostly() -> None:
    features, replicas = Counter[str](), Counter[int]()
    for seed in SEEDS:
        plan = draw(seed)
        features.update(plan.features)
        replicas.update(topic["replication-factor"] for topic in plan.world.topics.values())
    drawn = defaults.CLIENT_FEATURES, defaults.CLUSTER_FEATURES, defaults.FURTHER_FEATURES
    known = {
        HELD,
        KEYED,
        TOGETHER,
        MONITORED,
        REPLACED,
        CURIOUS,
        TROUBLED,
        BOTH_WAYS,
        LATE,
        AMID_FAULTS,
        AMID_TRANSACTIONS,
        LEAVING,
        *(name for features in drawn for name in features),
    }
    assert set(features) <= set(known)
    assert len(features) >= len(known) - 1  # a power failure is seldom allowed
    assert max(features.values()) < len(SEEDS) * 0.8
    assert replicas[1] > sum(replicas.values()) / 2


def test_records_have_names_of_their_own() -> None:
    for seed in SEEDS:
        calls = [step.call for step in steps_of(draw(seed)) if step.call is not None]
        values = Counter(one.value for one in calls if one.value is not None)
        assert not values or max(values.values()) == 1


@pytest.mark.costly
def test_a_machine_loses_its_power_only_where_nothing_may_be_lost_by_it() -> None:
    for seed in range(1_500):
        plan = draw(seed)
        if "power-failure" in plan.features:
            assert "kill" not in plan.features
            assert all(one["replication-factor"] == 3 for one in plan.world.topics.values())


def test_an_old_release_gets_the_protocol_that_it_has() -> None:
    modes = {draw(seed, Wanted(as_version="2.8")).world.mode for seed in SEEDS}
    assert modes == {"V-"}
    assert {draw(seed).world.mode for seed in SEEDS} == {"V+", "TV2+"}


def test_an_unknown_release_is_refused() -> None:
    with pytest.raises(ConfigError, match="there is no release"):
        draw(1, Wanted(as_version="5.0"))

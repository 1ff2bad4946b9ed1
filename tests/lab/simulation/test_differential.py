from __future__ import annotations

import pytest

from tests.support.plans import leaderless_plan
from txnsim.errors import ConfigError
from txnsim_lab.simulation.differential import difference, other_plan
from txnsim_lab.simulation.drawing import Wanted, draw

SWITCH = "leaderless_partitions_keep_markers"


def test_the_first_answer_that_differs_is_told() -> None:
    plan = leaderless_plan(as_version="4.2")
    found = difference(plan, other_plan(plan, ["transaction.max.timeout.ms=1000"]))
    first, _, rest = found.sentence.partition(" s, when p asks for an identity: A answers NONE ")
    assert first.startswith("They part at 0.")
    assert ", B answers INVALID_TRANSACTION_TIMEOUT after " in rest
    assert not found.is_none
    assert found.inside is not None


def test_a_bug_that_no_client_hears_of_is_told_by_the_judges() -> None:
    plan = leaderless_plan(as_version="4.3")
    for against in (["4.2"], [f"{SWITCH}=on"]):
        found = difference(plan, other_plan(plan, against))
        assert not found.is_none
        assert "stuck-last-stable-offset" in found.left.kinds
        assert found.right.kinds == ()
        assert found.inside is not None


def test_the_same_cluster_makes_no_difference() -> None:
    plan = leaderless_plan(as_version="4.2")
    found = difference(plan, other_plan(plan, [f"{SWITCH}=on"]))
    assert found.is_none
    assert found.sentence == "All clients are answered alike, and the judges say the same."


def test_only_the_cluster_is_another() -> None:
    plan = draw(3, Wanted(as_version="4.3", rules={SWITCH: False}))
    other = other_plan(plan, ["3.9", "log.segment.ms=9000", f"{SWITCH}=on"])
    assert other.tracks == plan.tracks
    assert other.seed == plan.seed
    assert other.world.as_version == "3.9"
    assert other.world.mode in ("V+", "V-")
    assert other.world.rules == {SWITCH: True}
    assert other.world.settings == {**plan.world.settings, "log.segment.ms": 9_000}


@pytest.mark.parametrize(
    ("against", "complaint"),
    [
        ("9.9", "there is no release"),
        (f"{SWITCH}=maybe", "=on or"),
        ("leaderless=on", "leaderless"),
    ],
)
def test_what_makes_no_sense_is_refused(against: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        other_plan(leaderless_plan(), [against])

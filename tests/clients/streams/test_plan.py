"""A plan repeats, leaves no point out, and kills a start only after a death in a transaction."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.clients.streams.plan import NEVER_LEFT_OUT, Kill, only, plan_of
from tests.clients.streams.points import POINTS, Then, Victim, points_at

LEVELS = (0, 1, 2)


def test_a_seed_gives_one_plan() -> None:
    assert plan_of(2, seed=5, kills=20) == plan_of(2, seed=5, kills=20)
    assert plan_of(2, seed=5, kills=20) != plan_of(2, seed=6, kills=20)


@pytest.mark.parametrize("finalized", LEVELS)
def test_each_point_comes_once_before_any_comes_again(finalized: int) -> None:
    points = points_at(finalized)
    names = [kill.point.name for kill in plan_of(finalized, seed=1, kills=len(points))]
    assert {*names} == {point.name for point in points}


@pytest.mark.parametrize("finalized", LEVELS)
@pytest.mark.parametrize("number", range(10))
def test_a_short_plan_has_the_indispensable_stages(finalized: int, number: int) -> None:
    plan = plan_of(finalized, seed=number, kills=20)
    assert len(plan) >= 20
    for stage in NEVER_LEFT_OUT:
        of_stage = [kill for kill in plan if kill.point.stage is stage]
        assert {kill.point.victim is Victim.APPLICATION for kill in of_stage} == {True, False}


@pytest.mark.parametrize("finalized", LEVELS)
@pytest.mark.parametrize("kills", [3, 20, 70])
@pytest.mark.parametrize("number", range(10))
def test_a_start_is_struck_after_a_death_in_a_transaction(
    finalized: int, kills: int, number: int
) -> None:
    expect_starts_after_deaths(plan_of(finalized, seed=number, kills=kills))


@pytest.mark.parametrize("words", ["InitProducerId", "coordinator", "after TxnOffsetCommit"])
@pytest.mark.parametrize("number", range(10))
def test_so_it_is_in_a_part_of_a_plan(words: str, number: int) -> None:
    plan = plan_of(2, seed=number, kills=70)
    part = only(plan, words)
    wanted = [kill.point for kill in plan if words in kill.point.name]
    assert [kill.point for kill in part if words in kill.point.name] == wanted
    expect_starts_after_deaths(part)


def test_of_a_plan_without_such_points_nothing_is_left() -> None:
    assert only(plan_of(2, seed=1, kills=20), "no such words") == ()


def expect_starts_after_deaths(plan: Sequence[Kill]) -> None:
    for before, kill in zip((None, *plan), plan, strict=False):
        if kill.point.at_start:
            assert before is not None
            assert before.stays_dead
            assert before.instance == kill.instance
            assert before.point.victim is Victim.APPLICATION
            assert before.point.then is Then.LOST
        else:
            assert before is None or not before.stays_dead
    assert not plan[-1].stays_dead


def test_names_of_points_are_their_own() -> None:
    assert len({point.name for point in POINTS}) == len(POINTS)

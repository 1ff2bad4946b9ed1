"""Kafka Streams under kills: plans, ledgers, what is kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.clients.streams.kept import KillRun, load, save
from tests.clients.streams.ledger import Ledger
from tests.clients.streams.plan import NEVER_LEFT_OUT, Kill, plan_of, select_kills
from tests.clients.streams.points import POINTS, RequestFate, Victim, points_at

# A plan repeats, leaves no point out, and kills a start only after a death in a transaction.


LEVELS = (0, 1, 2)


def test_a_seed_gives_one_plan() -> None:
    assert plan_of(2, seed=5, kill_count=20) == plan_of(2, seed=5, kill_count=20)
    assert plan_of(2, seed=5, kill_count=20) != plan_of(2, seed=6, kill_count=20)


@pytest.mark.parametrize("finalized", LEVELS)
def test_each_point_comes_once_before_any_comes_again(finalized: int) -> None:
    points = points_at(finalized)
    names = [kill.point.name for kill in plan_of(finalized, seed=1, kill_count=len(points))]
    assert {*names} == {point.name for point in points}


@pytest.mark.parametrize("finalized", LEVELS)
@pytest.mark.parametrize("plan_seed", range(10))
def test_a_short_plan_has_the_indispensable_stages(finalized: int, plan_seed: int) -> None:
    plan = plan_of(finalized, seed=plan_seed, kill_count=20)
    assert len(plan) >= 20
    for stage in NEVER_LEFT_OUT:
        stage_kills = [kill for kill in plan if kill.point.stage is stage]
        assert {kill.point.victim is Victim.APPLICATION for kill in stage_kills} == {True, False}


@pytest.mark.parametrize("finalized", LEVELS)
@pytest.mark.parametrize("kill_count", [3, 20, 70])
@pytest.mark.parametrize("plan_seed", range(10))
def test_a_start_is_struck_after_a_death_in_a_transaction(
    finalized: int, kill_count: int, plan_seed: int
) -> None:
    expect_starts_after_deaths(plan_of(finalized, seed=plan_seed, kill_count=kill_count))


@pytest.mark.parametrize("point_words", ["InitProducerId", "coordinator", "after TxnOffsetCommit"])
@pytest.mark.parametrize("plan_seed", range(10))
def test_so_it_is_in_a_part_of_a_plan(point_words: str, plan_seed: int) -> None:
    plan = plan_of(2, seed=plan_seed, kill_count=70)
    selected = select_kills(plan, point_words)
    expected_points = [kill.point for kill in plan if point_words in kill.point.name]
    assert [kill.point for kill in selected if point_words in kill.point.name] == expected_points
    expect_starts_after_deaths(selected)


def test_of_a_plan_without_such_points_nothing_is_left() -> None:
    assert select_kills(plan_of(2, seed=1, kill_count=20), "no such words") == ()


def expect_starts_after_deaths(plan: Sequence[Kill]) -> None:
    for kill_before, kill in zip((None, *plan), plan, strict=False):
        if kill.point.at_start:
            assert kill_before is not None
            assert kill_before.stays_dead
            assert kill_before.instance == kill.instance
            assert kill_before.point.victim is Victim.APPLICATION
            assert kill_before.point.fate is RequestFate.LOST
        else:
            assert kill_before is None or not kill_before.stays_dead
    assert not plan[-1].stays_dead


def test_names_of_points_are_their_own() -> None:
    assert len({point.name for point in POINTS}) == len(POINTS)


# The judge of the kills can say no.


def _ledger_of(**words: int) -> Ledger:
    ledger = Ledger()
    for word, count in words.items():
        for _ in range(count):
            ledger.feed(word)
    return ledger


def test_counts_without_gap_or_repetition_are_exact() -> None:
    ledger = _ledger_of(one=2, two=1)
    ledger.see("one", 1, "0 at 0")
    ledger.see("two", 1, "1 at 0")
    assert ledger.missing() == Counter(one=1)
    ledger.see("one", 2, "0 at 1")
    assert not ledger.missing()
    assert ledger.problems == ()
    assert ledger.fed == 3


def test_a_count_that_comes_twice_is_told() -> None:
    ledger = _ledger_of(one=3)
    for count in (1, 2, 2, 3):
        ledger.see("one", count, "0 at 7")
    assert ledger.problems == ("0 at 7: one is 2 again, after 2",)


def test_a_count_that_is_left_out_is_told() -> None:
    ledger = _ledger_of(one=3)
    for count in (1, 3):
        ledger.see("one", count, "0 at 7")
    assert ledger.problems == ("0 at 7: one is 3, but 2 is missing",)


def test_more_counts_than_inputs_are_told() -> None:
    ledger = _ledger_of(one=1)
    ledger.see("one", 1, "0 at 0")
    ledger.see("one", 2, "0 at 1")
    assert ledger.problems == ("one was counted 2 times, fed 1 times",)


def test_another_reader_starts_with_the_same_inputs_and_no_outputs() -> None:
    ledger = _ledger_of(one=1)
    ledger.see("one", 1, "0 at 0")
    assert ledger.without_outputs().missing() == Counter(one=1)


# What is kept of the kills is enough, and about points that there are.


def test_each_level_was_killed_twenty_times_and_at_the_indispensable_stages() -> None:
    runs = load()
    assert tuple(sorted(runs)) == LEVELS
    for level, run in runs.items():
        points = {point.name: point for point in points_at(level)}
        assert run.kills.keys() <= points.keys()
        assert sum(run.kills.values()) >= 20
        stages = Counter(points[name].stage for name in run.kills)
        assert all(stages[stage] for stage in NEVER_LEFT_OUT)


def test_a_run_comes_back_as_it_was_kept(tmp_path: Path) -> None:
    names = [point.name for point in points_at(2)][:3]
    runs = {2: KillRun(7, dict.fromkeys(reversed(names), 1)), 0: KillRun(1, {names[0]: 2})}
    save(runs, tmp_path / "kills.json")
    loaded_runs = load(tmp_path / "kills.json")
    assert loaded_runs == runs
    assert list(loaded_runs) == [0, 2]
    assert list(loaded_runs[2].kills) == names


def test_nothing_is_kept_where_nothing_is(tmp_path: Path) -> None:
    assert load(tmp_path / "kills.json") == {}

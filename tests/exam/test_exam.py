"""The exam itself can fail: it finds a bug that is there, and none where there is none."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from tests.exam import run
from tests.exam.mutations import MUTATIONS
from tests.support.plans import leaderless_plan
from txnsim.releases.rules import Rules
from txnsim.simulation.plan import Plan
from txnsim.simulation.play import play


def as_4_2(_seed: int) -> Plan:
    """Healthy; its commit waits for a leader and then for a marker."""
    return leaderless_plan(as_version="4.2")


@pytest.mark.slow
def test_a_bug_is_found_by_what_the_same_seed_has_not_without_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run, "draw", as_4_2)
    answer = run.examine("leaderless_partitions_keep_markers", cpu_s=20)
    assert answer.found
    assert answer.seeds == 1
    assert "stuck-last-stable-offset" in answer.kinds
    shrunk = run.shrunk(answer).shrunk
    assert shrunk is not None
    assert shrunk <= 4


@pytest.mark.slow
def test_what_changes_nothing_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "draw", as_4_2)
    answer = run.examine("features_change_together", cpu_s=0.01)
    assert (answer.found, answer.kinds) == (False, ())
    assert answer.seeds == 1


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutation_is_in_force_for_its_exam_alone(name: str) -> None:
    mutation = MUTATIONS[name]
    sound = vars(mutation.owner)[mutation.name]
    with run.bug_in(name):
        wrong = vars(mutation.owner)[mutation.name]
        assert wrong is not sound
    assert vars(mutation.owner)[mutation.name] is sound
    kept = [one.__name__ for one in ours() if any(value is wrong for value in vars(one).values())]
    assert kept == []


def ours() -> list[ModuleType]:
    """The modules of txnsim that are loaded."""
    return [module for name, module in sys.modules.items() if name.partition(".")[0] == "txnsim"]


def test_there_are_sixty_mutations_and_each_says_something_else() -> None:
    assert len(MUTATIONS) >= 60
    assert len({one.what for one in MUTATIONS.values()}) == len(MUTATIONS)
    assert not set(MUTATIONS) & set(Rules.__struct_fields__)


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTATIONS)
def test_a_run_with_a_mutation_comes_to_an_end(name: str) -> None:
    """What it does wrong is done in a run: the patch fits the function that it takes the place of.
    A finding may come of it, but not a complaint about arguments.
    """
    with run.bug_in(name):
        played = play(leaderless_plan(as_version="4.2"), cpu_s=run.SEED_S)
    assert [one for one in played.findings if "TypeError" in one.because] == []


def test_a_search_goes_on_where_the_last_one_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []

    def noted(seed: int) -> Plan:
        drawn.append(seed)
        return as_4_2(seed)

    monkeypatch.setattr(run, "draw", noted)
    before = run.Answer(bug="features_change_together", found=False, seeds=40, cpu_s=5)
    after = run.examine("features_change_together", cpu_s=5.01, before=before)
    assert drawn[0] == 40
    assert after.seeds == 40 + len(drawn)
    assert after.cpu_s >= 5


def test_what_was_asked_is_about_bugs_that_there_are() -> None:
    assert {one.bug for one in run.answers()} <= set(run.bugs())

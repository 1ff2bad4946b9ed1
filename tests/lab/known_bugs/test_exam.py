"""The exam itself can fail: it finds a bug that is there, and none where there is none."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from tests.lab.known_bugs import run
from tests.lab.known_bugs.mutations import MUTATIONS
from tests.support.hand_made_plans import leaderless_plan
from txnsim.releases.rules import LATEST_RULES, Rules
from txnsim_lab.simulation.plan import Plan
from txnsim_lab.simulation.play import play


def as_4_2(_seed: int) -> Plan:
    """A healthy plan whose commit waits for a leader and then for a marker."""
    return leaderless_plan(as_version="4.2")


@pytest.mark.costly
@pytest.mark.slow
def test_a_bug_is_found_by_what_the_same_seed_has_not_without_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run, "draw", as_4_2)
    *_, answer = run.examine(["markers-without-leader-are-dropped"], cpu_s=20)
    assert answer.found
    assert answer.noticed == 7
    assert answer.seeds == 1
    assert "stuck-coordinator" in answer.kinds
    shrunk_size = run.shrunk(answer).shrunk
    assert shrunk_size is not None
    assert shrunk_size <= 4


@pytest.mark.slow
def test_what_changes_nothing_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "draw", as_4_2)
    *_, answer = run.examine(["features_change_together"], cpu_s=0.01)
    assert (answer.found, answer.kinds, answer.noticed) == (False, (), None)
    assert answer.seeds == 1


@pytest.mark.parametrize("mutation_name", MUTATIONS)
def test_a_mutation_is_in_force_for_its_exam_alone(mutation_name: str) -> None:
    mutation = MUTATIONS[mutation_name]
    original = vars(mutation.owner)[mutation.name]
    with run.bug_in(mutation_name):
        mutated_function = vars(mutation.owner)[mutation.name]
        assert mutated_function is not original
    assert vars(mutation.owner)[mutation.name] is original
    modules_with_wrong = [
        module.__name__
        for module in ours()
        if any(attribute_value is mutated_function for attribute_value in vars(module).values())
    ]
    assert modules_with_wrong == []


def ours() -> list[ModuleType]:
    """The modules of txnsim that are loaded."""
    return [
        module
        for module_name, module in sys.modules.items()
        if module_name.partition(".")[0] == "txnsim"
    ]


def test_there_are_sixty_mutations_and_each_says_something_else() -> None:
    assert len(MUTATIONS) >= 60
    assert len({mutation.what for mutation in MUTATIONS.values()}) == len(MUTATIONS)
    assert not set(MUTATIONS) & set(Rules.documentation())


@pytest.mark.costly
@pytest.mark.slow
@pytest.mark.parametrize("name", MUTATIONS)
def test_a_run_with_a_mutation_comes_to_an_end(name: str) -> None:
    """What it does wrong is done in a run: the patch fits the function that it takes the place of.
    A finding may come of it, but not a complaint about arguments.
    """
    with run.bug_in(name):
        played_run = play(leaderless_plan(as_version="4.2"), cpu_s=run.SEED_S)
    assert [finding for finding in played_run.findings if "TypeError" in finding.because] == []


@pytest.mark.costly
@pytest.mark.slow
def test_where_a_bug_would_make_no_difference_its_run_is_the_sound_one() -> None:
    plan = leaderless_plan(as_version="4.2")
    with run.watching() as reached_names:
        sound_run = play(plan)
    assert sound_run.digest == play(plan).digest
    assert {"unknown-coordinator-verifies", "markers-without-leader-are-dropped"} <= reached_names
    left_out = [bug_name for bug_name in run.bugs() if bug_name not in reached_names]
    assert len(left_out) > 60
    for name in left_out:
        with run.bug_in(name):
            assert play(run.with_bug(plan, name)).digest == sound_run.digest, name


def test_what_is_asked_of_a_rule_is_noted_and_the_rules_are_what_they_were() -> None:
    fields = dict(vars(Rules))
    with run.watching() as reached_names:
        assert LATEST_RULES.fence_bumps_once
    assert "fence_bumps_once" in reached_names
    assert dict(vars(Rules)) == fields


def test_a_search_goes_on_where_the_last_one_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn_seeds: list[int] = []

    def draw_and_note(seed: int) -> Plan:
        drawn_seeds.append(seed)
        return as_4_2(seed)

    monkeypatch.setattr(run, "draw", draw_and_note)
    bug_name = "features_change_together"
    answer_before = run.Answer(bug=bug_name, found=False, seeds=40, cpu_s=5)
    *_, answer_after = run.examine([bug_name], cpu_s=5.01, answers_before={bug_name: answer_before})
    assert drawn_seeds[0] == 40
    assert answer_after.seeds == 40 + len(drawn_seeds)
    assert answer_after.cpu_s >= 5


@pytest.mark.costly
@pytest.mark.slow
def test_bugs_that_are_played_together_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """The three bugs: one is found, one is noticed, and one makes no difference."""
    monkeypatch.setattr(run, "draw", as_4_2)
    names = ["markers-for-one-leader", "implicit_add_is_repeated", "no-snapshots"]
    lone_answers = [list(run.examine([name], cpu_s=0.01))[-1] for name in names]
    together = {answer.bug: answer for answer in run.examine(names, cpu_s=0.01)}
    assert [(answer.found, answer.noticed) for answer in lone_answers] == [
        (True, 7),
        (False, 7),
        (False, None),
    ]
    for answer_alone in lone_answers:
        answer_together = together[answer_alone.bug]
        assert (answer_together.found, answer_together.kinds, answer_together.noticed) == (
            answer_alone.found,
            answer_alone.kinds,
            answer_alone.noticed,
        )


def test_what_was_asked_is_about_bugs_that_there_are() -> None:
    assert {answer.bug for answer in run.answers()} <= set(run.bugs())

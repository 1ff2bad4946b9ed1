"""The exam itself can fail: it finds a bug that is there, and none where there is none."""

from __future__ import annotations

from typing import Any

import pytest

from tests.exam import run
from tests.exam.mutations import MUTATIONS
from tests.support.plans import leaderless_plan
from txnsim.simulation.plan import Plan


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
    assert answer.shrunk is not None
    assert answer.shrunk <= 4


@pytest.mark.slow
def test_what_changes_nothing_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "draw", as_4_2)
    answer = run.examine("features_change_together", cpu_s=0.01)
    assert (answer.found, answer.kinds) == (False, ())
    assert answer.seeds == 1


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutation_ends_with_its_exam(name: str) -> None:
    mutation: Any = MUTATIONS[name]
    sound = vars(mutation.owner)[mutation.name]
    with run.bug_in(name):
        assert vars(mutation.owner)[mutation.name] is not sound
    assert vars(mutation.owner)[mutation.name] is sound


def test_what_was_asked_is_about_bugs_that_there_are() -> None:
    assert {one.bug for one in run.answers()} <= set(run.bugs())

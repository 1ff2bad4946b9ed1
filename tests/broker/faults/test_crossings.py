"""What passes a fault point, and how it may go on."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from txnsim.faults.crossings import (
    Crossing,
    FaultEffect,
    PassAll,
    RewriteHow,
    Rewriting,
    SubmitOutcome,
)
from txnsim.faults.subjects import NO_SUBJECT


@dataclass(frozen=True)
class Answer:
    f: object


def test_an_effect_that_lets_pass_changes_nothing() -> None:
    effect = FaultEffect(outcome=SubmitOutcome.PASS)
    assert (effect.error, effect.times, effect.throttle_ms, effect.damage) == (0, 0, 0, None)


def test_an_undisturbed_cluster_lets_everything_pass() -> None:
    crossing = Crossing(
        point="client.request",
        source="client/app",
        target="broker/2",
        api_key=26,
        api_version=4,
        correlation_id=1,
        subject=NO_SUBJECT,
    )
    assert not PassAll.armed
    assert PassAll().cross(crossing) is None


@pytest.mark.parametrize(
    ("how", "before", "after"),
    [
        (RewriteHow.SET, 7, 5),
        (RewriteHow.ADD, 7, 12),
        (RewriteHow.REVERSE, (1, 2, 3), (3, 2, 1)),
        (RewriteHow.REVERSE, None, None),
        (RewriteHow.CLEAR, (1, 2), ()),
        (RewriteHow.CLEAR, None, ()),
    ],
)
def test_a_field_of_an_answer_is_changed(how: RewriteHow, before: object, after: object) -> None:
    answer = Answer(f=before)
    assert Rewriting(field="f", how=how, value=5).applied(answer) == Answer(f=after)
    insert = Rewriting(field="g", how=RewriteHow.INSERT, entry={"id": 1})
    assert insert.applied(answer) is answer, "it has no such list"

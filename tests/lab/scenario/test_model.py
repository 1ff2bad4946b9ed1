from __future__ import annotations

import pytest

from tests.support.stories import call, small
from txnsim.errors import ConfigError
from txnsim_lab.scenario.fields import Situation
from txnsim_lab.scenario.model import Actor

ARMED = Situation(run="V-", mode="V-", take="armed")
DISARMED = Situation(run="V-", mode="V-", take="disarmed")


@pytest.mark.parametrize(
    ("only", "meant"),
    [
        ((), True),
        (("V-",), True),
        (("V+", "V-"), True),
        (("V+",), False),
        (("armed",), True),
        (("V-", "disarmed"), False),
        (("V-", "armed", "control"), True),
        (("program",), False),
        (("V-", "armed", "step-by-step"), True),
    ],
)
def test_of_each_kind_of_word_one_must_fit(only: tuple[str, ...], meant: bool) -> None:
    assert small([{"observe": "everything"}]).meant_for((only,), ARMED) is meant


def test_a_disarmed_run_leaves_out_what_is_about_faults() -> None:
    steps = [
        {"hold": {"id": "late", "point": "client.request", "api": "Produce"}},
        call("produce", partition="t-0", value="x", background="x"),
        {"wait-until": {"struck": "late"}},
        {"give-up": "x"},
        {"release": "late"},
        {"await": "x"},
        {"advance": "1s"},
    ]
    story = small(steps, cure=[{"advance": "1m"}])
    assert len(story.steps_of(ARMED)) == 7
    assert [step.call or step.await_ or step.advance for step in story.steps_of(DISARMED)] == [
        story.steps[1].call, "x", 1_000,
    ]  # fmt: skip
    assert [step.advance for step in story.cure_of(DISARMED)] == [60_000]


def test_everybodys_neighbours_are_there_without_being_declared() -> None:
    story = small([{"advance": "1s"}], actors={"reader": {"plays": "reader", "uncommitted": True}})
    assert story.cast["bystander"] == Actor(plays="bystander")
    assert story.cast["reader"].uncommitted


def test_a_file_may_still_call_its_anomaly_an_animal() -> None:
    assert small([{"advance": "1s"}], animal="Z01").anomaly == "Z01"
    with pytest.raises(ConfigError, match="anomaly is given twice"):
        small([{"advance": "1s"}], animal="Z01", anomaly="Z02")


def test_verdicts_are_kinds_and_healthy_is_none_of_them() -> None:
    runs = {
        "V-/before": {"mode": "V-", "verdict": "lost-write", "cured": "healthy"},
        "V-/fixed": {"mode": "V-", "title": "mended", "verdict": ["duplicate", "lost-write"]},
    }
    story = small([{"advance": "1s"}], runs=runs, cure=[{"advance": "1s"}])
    assert story.verdict_of("V-/before", "armed") == ("lost-write",)
    assert story.verdict_of("V-/fixed", "armed") == ("duplicate", "lost-write")
    assert story.verdict_of("V-/fixed", "disarmed") == ()
    assert story.runs["V-/before"].cured == ()
    assert story.runs["V-/fixed"].description == "mended"
    assert "verification" in story.runs["V-/before"].description
    assert story.takes == ("armed", "disarmed")
    assert set(story.words) >= {"V-/before", "V-/fixed", "V-", "armed", "program"}

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from sim.faults.actions import Fail, Hold
from sim.scenario import catalog
from sim.scenario.model import ACTS, CALLS, Condition, Milliseconds, Scenario, Step


@pytest.mark.parametrize(
    ("text", "value_ms"),
    [("0ms", 0), ("500ms", 500), ("30s", 30_000), ("21m", 1_260_000), ("2h", 7_200_000),
     ("7d", 604_800_000)],
)  # fmt: skip
def test_durations_have_units(text: str, value_ms: int) -> None:
    assert TypeAdapter(Milliseconds).validate_python(text) == value_ms


@pytest.mark.parametrize("wrong", ["", "5", "m", "-5m", "5 m", "1.5h", "5w", 5, None])
def test_what_is_no_duration_is_refused(wrong: object) -> None:
    with pytest.raises(ValidationError, match="500ms"):
        TypeAdapter(Milliseconds).validate_python(wrong)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"say": "Nothing happens."},
        {"release": "x", "advance": "1s"},
    ],
)
def test_a_step_has_exactly_one_act(given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="exactly one of call, hold"):
        Step.model_validate(given)


@pytest.mark.parametrize("given", [{}, {"struck": "x", "marker": "written"}])
def test_a_condition_is_exactly_one(given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="exactly one of struck"):
        Condition.model_validate(given)


def test_a_fault_holds_unless_it_says_otherwise() -> None:
    rule = {"id": "x", "point": "client.request"}
    assert Step.model_validate({"hold": rule}).hold.action == Hold()
    other = {**rule, "action": {"do": "error", "error": "NOT_COORDINATOR"}}
    assert Step.model_validate({"hold": other}).hold.action == Fail(error="NOT_COORDINATOR")


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ("x", "expected the fields of a fault rule"),
        ({"id": "x"}, "missing required field `point`"),
        ({"id": "x", "point": "client.request", "api": "Prodduce"}, "no API of Kafka's"),
    ],
)
def test_a_wrong_fault_says_why(rule: object, why: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Step.model_validate({"hold": rule})
    assert why in str(caught.value)


def late_produce() -> Scenario:
    return catalog.find("z01")[1]


def test_what_is_about_faults_is_left_out_of_a_disarmed_run() -> None:
    scenario = late_produce()
    armed = scenario.steps_of("V-", armed=True, program=False)
    disarmed = scenario.steps_of("V-", armed=False, program=False)
    assert any(step.is_about_faults for step in armed)
    assert not any(step.is_about_faults for step in disarmed)
    for steps, other in ((armed, disarmed), (disarmed, armed)):
        calls = [step.call.do for step in steps if step.call is not None and step not in other]
        assert calls in (["give-up"], ["await-ack"])  # the one flag, seen by the producer


def test_a_step_may_be_for_some_modes_or_players_only() -> None:
    scenario = late_produce()

    def sent(mode: str, *, program: bool) -> list[str]:
        steps = scenario.steps_of(mode, armed=True, program=program)
        return [step.call.value for step in steps if step.call is not None and step.call.value]

    assert sent("TV2", program=False) == ["first", "late"]
    assert sent("TV2", program=True) == sent("V+", program=False) == ["late"]


def test_every_act_and_every_actor_is_used_by_a_scenario() -> None:
    steps = [step for scenario in catalog.scenarios().values() for step in scenario.steps]
    assert {act for step in steps for act in ACTS if getattr(step, act) is not None} == set(ACTS)
    used = {(step.call.who, step.call.do) for step in steps if step.call is not None}
    assert used == {(who, do) for who, can in CALLS.items() for do in can}

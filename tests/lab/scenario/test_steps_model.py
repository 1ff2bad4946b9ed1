from __future__ import annotations

import pytest
from pydantic import ValidationError

from txnsim_lab.scenario.steps_model import CALLS, CLUSTER, Call, ClusterAct, Step


def step(**given: object) -> Step:
    return Step.model_validate({name.replace("_", "-"): value for name, value in given.items()})


def test_a_step_does_exactly_one_thing() -> None:
    for given in ({}, {"release": "a", "advance": "1s"}, {"say": "Hm."}):
        with pytest.raises(ValidationError, match="expected exactly one of call, await, give-up"):
            step(**given)
    with pytest.raises(ValidationError, match="expected exactly one of struck, answered"):
        step(wait_until={})
    with pytest.raises(ValidationError, match="expected one of committed, uncommitted"):
        step(expect={"partition": "t-0"})


def test_what_is_about_faults_says_so() -> None:
    rule = {"id": "a", "point": "client.request"}
    for given in (
        {"hold": rule},
        {"arm": {**rule, "action": {"do": "drop"}}},
        {"release": "a"},
        {"disarm": "a"},
        {"give-up": "x"},
        {"wait-until": {"struck": {"rule": "a", "times": 2}}},
    ):
        assert Step.model_validate(given).is_about_faults, given
    for given in ({"await": "x"}, {"advance": "1s"}, {"wait-until": {"answered": "x"}}):
        assert not Step.model_validate(given).is_about_faults, given


def test_every_field_of_a_call_and_of_an_act_belongs_to_somebody() -> None:
    used = {
        name for can in CALLS.values() for needs in can.values() for part in needs for name in part
    }
    assert used | {"who", "do"} == set(Call.model_fields)
    acts = {name for needed, possible in CLUSTER.values() for name in (*needed, *possible)}
    assert acts | {"do"} == set(ClusterAct.model_fields)


def test_a_call_knows_what_was_given_and_its_records() -> None:
    call = Call.model_validate({"who": "P", "do": "produce", "value": "a", "from": 3})
    assert call.given == {"value", "from_"}
    assert call.records == ("a",)
    assert Call.model_validate({"who": "P", "do": "x", "values": ["a", "b"]}).records == ("a", "b")

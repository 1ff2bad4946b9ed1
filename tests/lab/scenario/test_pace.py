from __future__ import annotations

from txnsim_lab.scenario._pace import LOOK, planned
from txnsim_lab.scenario.catalog import find
from txnsim_lab.scenario.steps_model import Step


def test_steps_are_numbered_and_told_in_words() -> None:
    found = planned((*find("z01")[1].steps, LOOK))
    assert [one.number for one in found] == list(range(len(found)))
    assert {one.of for one in found} == {len(found)}
    assert found[0].text == "The producer opens a transaction."
    assert found[-1].text == LOOK
    assert all(one.text for one in found)


def test_a_step_without_a_sentence_is_told_by_what_it_does() -> None:
    steps = [
        Step.model_validate(one)
        for one in (
            {"wait-until": {"struck": "late"}},
            {"release": "late"},
            {"call": {"who": "reader", "do": "read", "partition": "t-0"}},
        )
    ]
    assert [one.text for one in planned(steps)] == [
        "wait until: struck late",
        "release: late",
        "reader: read t-0",
    ]

"""What an editor accepts is what the reader accepts, as far as a schema can say it."""

from __future__ import annotations

import copy
from typing import Any

import jsonschema
import pytest
import yaml

from txnsim_lab.cli._scenario.template import TEMPLATE
from txnsim_lab.scenario.catalog import directory
from txnsim_lab.scenario.json_schema import fault_schema, scenario_schema

STORIES = sorted(directory().glob("*.yaml"))
JUDGE = jsonschema.Draft202012Validator(scenario_schema())
RULES = jsonschema.Draft202012Validator(fault_schema())
TEXT = TEMPLATE.replace("NAME", "my-story")
RULE = {"id": "late", "point": "peer.request", "action": {"do": "delay", "delay_ms": 5}}


def complaints(document: Any) -> list[str]:
    return [one.message for one in JUDGE.iter_errors(document)]


def test_there_are_stories() -> None:
    assert len(STORIES) > 20


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_every_story_of_the_zoo_is_accepted(path: Any) -> None:
    assert complaints(yaml.safe_load(path.read_text("utf-8"))) == []


def test_a_new_story_is_accepted() -> None:
    assert complaints(yaml.safe_load(TEXT)) == []


@pytest.mark.parametrize(
    "broken",
    [
        {"titel": "x"},
        {"topics": {"orders": 0}},
        {"topics": {"orders": {"partition": 1}}},
        {"runs": {"V-": {"mod": "V-"}}},
        {"actors": {"shop": {"plays": "wires"}}},
        {"steps": [{"advance": "30 seconds"}]},
        {"steps": [{"call": {"who": "shop", "do": "produce", "partition": "orders"}}]},
        {"steps": [{"hold": {"id": "x", "point": "peer.reqest"}}]},
        {"steps": [{"arm": {"id": "x", "point": "peer.request", "action": {"do": "hld"}}}]},
        {"steps": [{"sleep": "5s"}]},
    ],
    ids=str,
)
def test_a_broken_one_is_not(broken: dict[str, Any]) -> None:
    document = copy.deepcopy(yaml.safe_load(TEXT))
    document.update(broken)
    assert complaints(document)


def test_the_former_name_of_a_field_is_accepted_and_marked() -> None:
    assert complaints({**yaml.safe_load(TEXT), "animal": "Z01"}) == []
    assert scenario_schema()["properties"]["animal"]["deprecated"]


def test_what_has_to_be_there_is_missed() -> None:
    assert len(complaints({"name": "x"})) >= 5


def test_a_fault_rule_is_judged_alone_too() -> None:
    assert RULES.is_valid(RULE)
    assert not RULES.is_valid({**RULE, "poin": 1})
    assert not RULES.is_valid({"id": "late", "point": "peer.request"})
    assert not RULES.is_valid({**RULE, "action": {"do": "delay"}})

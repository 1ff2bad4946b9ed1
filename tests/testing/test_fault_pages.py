"""docs/faults: a page for each action, whose rule is the same through each door and whose test
passes as it stands.
"""

from __future__ import annotations

import ast
import json
import re
import shlex
from typing import Any, Final

import msgspec
import pytest
import yaml

from tests.docs import ROOT, fault_actions_table
from tests.test_readme import blocks
from txnsim.faults.meanings import CLUSTER_ACTIONS, CROSSING_ACTIONS, TAKES, name_of
from txnsim.faults.plan import FaultRule

FOLDER: Final = "docs/faults/"
CROSSING: Final = {name_of(action): action for action in CROSSING_ACTIONS}
NAMES: Final = [*CROSSING, *map(name_of, CLUSTER_ACTIONS)]


def block(name: str, language: str) -> str:
    """The one block of a language on an action's page."""
    page = f"{FOLDER}{name}.md"
    (found,) = (one.text for one in blocks() if (one.page, one.language) == (page, language))
    return found


def rule(fields: dict[str, Any]) -> FaultRule:
    return msgspec.convert(fields, FaultRule)


def armed_in(program: str, rule_id: str) -> dict[str, Any]:
    """The keyword arguments with which a program arms that rule."""
    calls = [
        {each.arg: ast.literal_eval(each.value) for each in node.keywords if each.arg is not None}
        for node in ast.walk(ast.parse(program))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "arm"
    ]
    (found,) = (call for call in calls if call["id"] == rule_id)
    return found


def test_every_action_has_its_page() -> None:
    pages = {path.stem for path in (ROOT / FOLDER).glob("*.md")}
    assert pages == set(NAMES)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_rule_is_the_same_through_every_door(name: str) -> None:
    written = rule(yaml.safe_load(block(name, "yaml")))
    assert name_of(type(written.action)) == name
    assert rule(armed_in(block(name, "python"), written.id)) == written
    words = shlex.split(block(name, "console").removeprefix("$ "))
    assert rule(json.loads(words[words.index("-d") + 1])) == written


@pytest.mark.parametrize("name", NAMES)
def test_the_page_tells_what_happens_at_each_point_that_takes_it(name: str) -> None:
    text = (ROOT / f"{FOLDER}{name}.md").read_text("utf-8")
    table = text.split("## At each point")[1].split("##")[0]
    told = re.findall(r"^\| `?([^`|]+?)`? \|", table, re.MULTILINE)[1:]
    if name in CROSSING:
        expected = [str(point) for point, takes in TAKES.items() if CROSSING[name] in takes]
    else:
        expected = ["every point", "now"]
    assert [each for each in told if each != "---"] == expected


def test_the_overview_has_the_table_that_the_code_gives() -> None:
    text = (ROOT / "docs/faults.md").read_text("utf-8")
    assert fault_actions_table() in text
    assert {f"faults/{name}.md" for name in NAMES} <= set(re.findall(r"\((faults/.+?)\)", text))


@pytest.mark.costly
@pytest.mark.clients
def test_every_example_passes(pytester: pytest.Pytester) -> None:
    """All in one run of pytest, with aiokafka in virtual time."""
    pytester.makeini("[pytest]\naddopts = -p no:randomly -p no:cacheprovider -p no:asyncio\n")
    programs = {name: block(name, "python") for name in NAMES}
    for name, program in programs.items():
        (pytester.path / f"test_{name.replace('-', '_')}.py").write_text(program)
    result = pytester.runpytest_subprocess("-W", "ignore::DeprecationWarning")
    cases = sum(2 if "parametrize" in program else 1 for program in programs.values())
    result.assert_outcomes(passed=cases)

"""docs/fault-actions.md: a section for each action, whose rule is the same in YAML and in Python,
and whose test passes as it stands.
"""

from __future__ import annotations

import ast
import re
from typing import Any, Final

import msgspec
import pytest
import yaml

from tests.docs import ROOT, fault_actions_table
from txnsim.faults.meanings import CLUSTER_ACTIONS, CROSSING_ACTIONS, TAKES, name_of
from txnsim.faults.plan import FaultRule

SECTIONS: Final = {
    page_text.partition("\n")[0]: page_text
    for page_text in (ROOT / "docs/fault-actions.md").read_text("utf-8").split("\n## ")[1:]
}
CLUSTER: Final = "Actions on the cluster"
CROSSING: Final = {name_of(action): action for action in CROSSING_ACTIONS}
FAULT_NAMES: Final = [*CROSSING, *map(name_of, CLUSTER_ACTIONS)]


def block(section_name: str, language: str) -> str:
    """The one block of a language in an action's section."""
    (example,) = re.findall(
        rf"^```{language}\n(.*?)^```$", SECTIONS[section_name], re.DOTALL | re.MULTILINE
    )
    return str(example)


def rule(fields: dict[str, Any]) -> FaultRule:
    return msgspec.convert(fields, FaultRule)


def armed_in(program: str, rule_id: str) -> dict[str, Any]:
    """The keyword arguments with which a program arms that rule."""
    calls = [
        {
            keyword_argument.arg: ast.literal_eval(keyword_argument.value)
            for keyword_argument in node.keywords
            if keyword_argument.arg is not None
        }
        for node in ast.walk(ast.parse(program))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "arm"
    ]
    (armed_rule,) = (call for call in calls if call["id"] == rule_id)
    return armed_rule


def test_every_action_has_its_section() -> None:
    assert SECTIONS.keys() - {CLUSTER} == set(FAULT_NAMES)


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULT_NAMES)
def test_the_rule_is_the_same_in_yaml_and_python(name: str) -> None:
    yaml_rule = rule(yaml.safe_load(block(name, "yaml")))
    assert name_of(type(yaml_rule.action)) == name
    assert rule(armed_in(block(name, "python"), yaml_rule.id)) == yaml_rule


@pytest.mark.parametrize("section_name", [*CROSSING, CLUSTER])
def test_it_tells_what_happens_at_each_point_that_takes_it(section_name: str) -> None:
    told_points = re.findall(r"^\| `?([^`|]+?)`? \|", SECTIONS[section_name], re.MULTILINE)
    expected = {
        "pass": ["every point"],
        "delay": ["as at hold"],
        CLUSTER: ["every point", "now"],
    }.get(section_name) or points(section_name)
    assert [point for point in told_points if point not in ("Point", "---")] == expected
    assert points("pass") == [str(point) for point, takes in TAKES.items() if takes]
    assert points("delay") == points("hold")


def points(name: str) -> list[str]:
    """The fault points at which an action has a meaning."""
    return [str(point) for point, takes in TAKES.items() if CROSSING[name] in takes]


def test_the_overview_leads_to_each_action() -> None:
    page_text = fault_actions_table() + (ROOT / "docs/faults.md").read_text("utf-8")
    linked = set(re.findall(r"\(fault-actions\.md#(.+?)\)", page_text))
    assert set(FAULT_NAMES) <= linked


@pytest.mark.costly
@pytest.mark.clients
def test_every_example_passes(pytester: pytest.Pytester) -> None:
    """All examples run in one session of pytest, with aiokafka in virtual time."""
    pytester.makeini("[pytest]\naddopts = -p no:randomly -p no:cacheprovider -p no:asyncio\n")
    programs = {name: block(name, "python") for name in FAULT_NAMES}
    for program_name, program in programs.items():
        (pytester.path / f"test_{program_name.replace('-', '_')}.py").write_text(program)
    result = pytester.runpytest_subprocess("-W", "ignore::DeprecationWarning")
    case_count = sum(2 if "parametrize" in program else 1 for program in programs.values())
    result.assert_outcomes(passed=case_count)

"""Where the broker asks for a release's behaviour: in one place, and the reference's way first."""

from __future__ import annotations

import ast
import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from txnsim.releases.rules import Rules

SOURCE_FOLDER = Path(__file__).parents[3] / "sim" / "txnsim"

TWICE = {
    "coordinator_checks_leadership": "whether requests ask at all, and the decision itself",
    "client_version_is_kept": "where partitions are added, and where a record is read",
    "transactions_are_verified": "where the coordinator is asked, and where the log takes a batch",
    "offset_commits_are_verified": "the same, of positions",
    "share_states_are_swept": "what a leader writes, and what its coordinator makes of it",
    "streams_heartbeats_are_whole": "what a member may say, and what it is told",
}
"""Switches that two decisions ask, neither of which can tell the other."""
LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)


def trees() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(SOURCE_FOLDER.rglob("*.py")):
        name = path.relative_to(SOURCE_FOLDER).as_posix()
        if name != "releases/rules.py":
            yield name, ast.parse(path.read_text())


def find_places_by_switch() -> dict[str, list[str]]:
    """The places in the code that read a switch, by the switch's name."""
    places_by_switch = defaultdict(list)
    switches = Rules.documentation()
    for name, module_tree in trees():
        for node in ast.walk(module_tree):
            match node:
                case ast.Attribute(attr=str(switch_name)) | ast.Constant(value=str(switch_name)):
                    if switch_name in switches:
                        places_by_switch[switch_name].append(f"{name}:{node.lineno}")
                case _:
                    pass
    return places_by_switch


def switches_of_settings() -> set[str]:
    """Switches that the table of settings asks: since or until when a setting is there, and what it
    was before. A row is data, so it is no second place.
    """
    rows = [
        json.loads(line)
        for path in SOURCE_FOLDER.glob("metadata/settings/*.jsonl")
        for line in path.read_text().splitlines()
    ]
    return {
        asked
        for row in rows
        for asked in (row.get("since"), row.get("until"), *row.get("before", {}))
        if asked in Rules.documentation()
    }


def older_first(module_tree: ast.Module) -> Iterator[int]:
    """Lines that ask whether a switch is off, but to name that, or for one more step."""
    named_tests = set()
    for node in ast.walk(module_tree):
        match node:
            case ast.Assign(value=value) | ast.Return(value=value):
                named_tests |= set(ast.walk(value)) if value is not None else set()
            case ast.If(test=test, body=[only], orelse=[]) if not isinstance(only, LEAVES):
                named_tests.add(test)
    for node in ast.walk(module_tree):
        match node:
            case ast.UnaryOp(op=ast.Not(), operand=ast.Attribute(attr=switch)):
                if node not in named_tests and switch in Rules.documentation():
                    yield node.lineno


@pytest.mark.costly
def test_each_switch_is_asked_in_one_place() -> None:
    places_by_switch = find_places_by_switch()
    repeated_switches = {
        switch: places for switch, places in places_by_switch.items() if len(places) > 1
    }
    assert repeated_switches.keys() == TWICE.keys(), repeated_switches
    assert all(len(places) == 2 for places in repeated_switches.values()), repeated_switches
    asked = places_by_switch.keys() | switches_of_settings()
    assert not Rules.documentation().keys() - asked, "nobody asks"


@pytest.mark.costly
def test_the_way_of_the_reference_comes_first() -> None:
    places_found = [
        f"{name}:{line}" for name, module_tree in trees() for line in older_first(module_tree)
    ]
    assert not places_found, "ask whether the switch is on, or give the older way a name"


def test_what_counts_as_the_older_way_first() -> None:
    switch = "fence_bumps_once"
    texts = [
        f"if not rules.{switch}:\n    return 1",
        f"if known and not rules.{switch}:\n    step()",
        f"if not rules.{switch}:\n    step()\nelse:\n    other()",
    ]
    fine = [
        f"if rules.{switch}:\n    step()\nelse:\n    other()",
        f"if not rules.{switch}:\n    step()",
        f"bumps_twice = known and not rules.{switch}",
        "if not rules.other:\n    return 1",
    ]
    assert [list(older_first(ast.parse(text))) for text in texts] == [[1], [1], [1]]
    assert not [text for text in fine if list(older_first(ast.parse(text)))]

"""Designs: what their texts mean, and what they do to a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from txnsim.errors import ConfigError
from txnsim.releases import REFERENCE
from txnsim_lab.exploration.catalog import explorations
from txnsim_lab.referee.design import read_design
from txnsim_lab.scenario.catalog import find
from txnsim_lab.simulation.drawing import SimulationOptions, draw

PLUGIN = (
    "from txnsim_lab.referee.plugin import replaces\n"
    '@replaces("txn.timeout")\ndef never(original, *facts, **named):\n    return False\n'
)


def test_a_design_has_a_release_switches_settings_and_plug_ins(tmp_path: Path) -> None:
    plugin_file = tmp_path / "never.py"
    plugin_file.write_text(PLUGIN)
    design = read_design(
        f"4.3, late_commit_is_fenced=on,transaction.max.timeout.ms=1000,{plugin_file}"
    )
    assert design.as_version == "4.3"
    assert design.rules == {"late_commit_is_fenced": True}
    assert design.settings == {"transaction.max.timeout.ms": 1000}
    assert list(design.replacements()) == ["txn.timeout"]


def test_the_text_of_a_plug_in_is_that_of_the_beginning(tmp_path: Path) -> None:
    plugin_file = tmp_path / "never.py"
    plugin_file.write_text(PLUGIN)
    design = read_design(str(plugin_file))
    plugin_file.unlink()
    assert list(design.replacements()) == ["txn.timeout"]


def test_without_a_release_it_is_the_newest() -> None:
    assert read_design("late_commit_is_fenced=off").as_version == REFERENCE.name


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("5.9", "'5.9': no part of a design: expected a release"),
        ("4.4,late=on", "no switch 'late'"),
        ("late_commit_is_fenced=1", "expected late_commit_is_fenced=on or"),
        ("missing.py", "missing.py: can't be read"),
    ],
)
def test_a_wrong_part_is_named(text: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        read_design(text)


def test_two_plug_ins_for_one_decision_are_refused(tmp_path: Path) -> None:
    for name in ("one.py", "two.py"):
        (tmp_path / name).write_text(PLUGIN)
    with pytest.raises(ConfigError, match=r"two plug-ins replace txn\.timeout"):
        read_design(f"{tmp_path}/one.py,{tmp_path}/two.py")


def test_a_plan_keeps_its_acts_in_a_cluster_of_the_design() -> None:
    plan = draw(3, SimulationOptions())
    for release, mode in (("2.8", "V-"), ("4.4", plan.world.mode)):
        changed_plan = read_design(f"{release},group.max.size=7").plan(plan)
        assert changed_plan.tracks == plan.tracks
        assert changed_plan.world.as_version == release
        assert changed_plan.world.mode == mode
        assert changed_plan.world.settings["group.max.size"] == 7


def test_an_exploration_of_an_old_release_is_played_in_that_of_the_design() -> None:
    exploration = explorations()["broker-dies"]
    assert exploration.plan.world.as_version == "4.3"
    world = read_design("4.4").exploration(exploration).plan.world
    assert (world.as_version, world.rules) == ("4.4", {})
    assert world.mode in ("TV2", "TV2+")


def test_a_run_of_a_story_loses_its_own_switches() -> None:
    _, story = find("z27")
    run = next(name for name, run in story.runs.items() if run.rules or run.as_version)
    changed_run = read_design("4.2,late_commit_is_fenced=on").scenario(story, run).runs[run]
    assert (changed_run.as_version, changed_run.rules) == ("4.2", {"late_commit_is_fenced": True})
    assert story.runs[run] != changed_run

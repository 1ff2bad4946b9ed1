"""tests/real/FOUND.md: its table of releases is what real brokers came to, as it was kept, and its
stories come to what it says.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final

import pytest

from txnsim_lab.scenario.runner import ScenarioRun, run_in_virtual_time
from txnsim_lab.scenario.scenario_reader import read

ROOT: Final = Path(__file__).resolve().parents[1]
HANGS: Final = "stuck-last-stable-offset"
STORY: Final = re.compile(r"^```yaml\n(.+?)^```$", re.MULTILINE | re.DOTALL)
ROW: Final = re.compile(r"^\| (\d\S+) \| ([^|]+) \| (hangs) \| (healthy) \|$", re.MULTILINE)


def test_each_release_of_the_table_hangs_on_real_brokers_and_only_with_the_fault() -> None:
    verdicts = map(json.loads, (ROOT / "tests/real/verdicts.jsonl").read_text().splitlines())
    rows = [row for row in verdicts if row["animal"] == "Z34"]
    page_text = (ROOT / "tests/real/FOUND.md").read_text("utf-8")
    rows_of_page = {
        (release, run): (hangs, healthy)
        for release, runs, hangs, healthy in ROW.findall(page_text)
        for run in re.findall(r"`([^`]+)`", runs)
    }
    assert rows_of_page.keys() == {(row["on"], row["run"]) for row in rows}
    for row in rows:
        observation, _, cure = row["real"].partition("; cured: ")
        assert (HANGS in observation) == (row["take"] == "armed"), row
        assert HANGS not in cure, f"the abort has not ended it: {row}"


@pytest.mark.costly
def test_the_stories_of_the_page_come_to_what_it_says() -> None:
    came_to = {}
    for page_text in STORY.findall((ROOT / "tests/real/FOUND.md").read_text("utf-8")):
        story = read("found.yaml", page_text)
        (run_name,) = story.runs
        came_to[story.name] = run_in_virtual_time(
            ScenarioRun(scenario=story, run=run_name, take="armed")
        ).verdict
    assert {name: judges_result.observed for name, judges_result in came_to.items()} == {
        "no-leader-after-fewer-replicas": ("story-failed",),
        "cut-off-coordinator": ("false-fencing",),
        "share-state-made-twice": ("delivered-after-acknowledgement",),
    }
    assert "leader" in came_to["no-leader-after-fewer-replicas"].because[0]

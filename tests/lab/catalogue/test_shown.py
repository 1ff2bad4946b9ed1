"""Every story that a page shows is played, in all its runs and takes; so is each list of steps."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.support.stories import small
from txnsim_lab.scenario.model import Scenario
from txnsim_lab.scenario.reading import read
from txnsim_lab.scenario.runner import ScenarioRun, run_in_virtual_time

ROOT: Final = Path(__file__).resolve().parents[3]
PAGES: Final = (
    ROOT / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    ROOT / "tests/real/FOUND.md",
)
TEXTS: Final = {page.relative_to(ROOT).as_posix(): page.read_text("utf-8") for page in PAGES}
BLOCK: Final = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SEEDS: Final = range(1, 7)

PART: Final = {"plays": "member", "group": "billing"}
HEAD: Final[dict[str, Any]] = {
    "settings": {"group.initial.rebalance.delay.ms": 0},
    "topics": {"orders": 1, "in": 1},
    "actors": {
        "shop": {"plays": "wire", "transactional-id": "shop"},
        "first": PART,
        "second": PART,
    },
}
"""What the steps that a page shows without a file name."""
BEFORE: Final = (
    {"call": {"who": "shop", "do": "init-producer-id"}},
    {"call": {"who": "bystander", "do": "append", "partition": "in-0", "value": "order"}},
)


def shown() -> Iterator[tuple[str, Scenario]]:
    """Each with the page and line where it begins."""
    for page, text in TEXTS.items():
        for found in BLOCK.finditer(text):
            place = f"{page}:{text.count(chr(10), 0, found.start()) + 1}"
            if found[1] == "yaml" and re.search("^steps:", found[2], re.MULTILINE):
                yield place, read(place, found[2])
            elif found[2].startswith("- "):
                control = {"control": "As it is."} if "only: control" in found[2] else {}
                yield place, small([*BEFORE, *yaml.safe_load(found[2])], **HEAD, **control)


SHOWN: Final = dict(shown())
FAILS: Final = {
    "no-leader-after-fewer-replicas": (
        "waited 60000 ms in vain until broker 2 leads t-1; t-1 has no leader"
    ),
}
"""Stories that ask a question, and the answer, which the page says too."""


def test_what_is_shown_is_found() -> None:
    assert [place.partition(":")[0] for place in SHOWN] == [
        *["docs/writing-scenarios.md"] * 5,
        *["tests/real/FOUND.md"] * 2,
    ]


def check(place: str, run: str, take: str, seed: int) -> None:
    scenario = SHOWN[place]
    told = run_in_virtual_time(ScenarioRun(scenario=scenario, run=run, take=take), seed=seed)
    said = FAILS.get(scenario.name)
    if said is None:
        assert told.as_declared, (run, take, seed, told.verdict)
    else:
        assert said in TEXTS[place.partition(":")[0]]
        assert told.verdict.observed == ("story-failed",)
        assert told.verdict.because[0].endswith(said)


@pytest.mark.slow
@pytest.mark.parametrize("place", SHOWN)
def test_a_story_of_a_page_comes_to_what_the_page_says(place: str) -> None:
    check(place, next(iter(SHOWN[place].runs)), "armed", seed=SEEDS[0])


@pytest.mark.costly
@pytest.mark.parametrize("place", SHOWN)
def test_it_does_so_in_all_its_runs_and_takes(place: str) -> None:
    """Where members have a part, with some seeds: they act at the same time."""
    scenario = SHOWN[place]
    has_members = any(one.plays == "member" for one in scenario.cast.values())
    for seed in SEEDS if has_members else SEEDS[:1]:
        for run in scenario.runs:
            for take in scenario.takes:
                check(place, run, take, seed)

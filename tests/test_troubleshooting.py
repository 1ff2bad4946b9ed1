"""docs/troubleshooting.md: each section has a story that shows it, which comes to what it declares
and tells the errors of the heading.
"""

from __future__ import annotations

import re
import shlex
from typing import Final

import pytest

from tests.docs import ROOT
from txnsim.cli.main import main
from txnsim_lab.scenario import catalog

PAGE: Final = (ROOT / "docs/troubleshooting.md").read_text("utf-8")
SECTIONS: Final = dict(text.split("\n", 1) for text in PAGE.split("\n## ")[1:])
STORY: Final = re.compile(r"^\$ txnsim (scenario run .+)$", re.MULTILINE)
ERROR: Final = re.compile(r"\b[A-Z]+(?:_[A-Z]+)+\b")


@pytest.mark.slow
@pytest.mark.parametrize("title", SECTIONS)
def test_its_stories_show_it(title: str, capfd: pytest.CaptureFixture[str]) -> None:
    stories = STORY.findall(SECTIONS[title])
    assert stories
    for story in stories:
        assert main(shlex.split(story)) == 0, story
    told = capfd.readouterr().out
    assert set(ERROR.findall(title)) <= set(ERROR.findall(told))


def test_it_says_what_to_do() -> None:
    assert [title for title, text in SECTIONS.items() if text.count("**Do:**") != 1] == []


def test_each_error_that_contributors_look_up_is_there() -> None:
    symptoms = (ROOT / "docs/contributing/where.md").read_text("utf-8").split("### Two defences")[0]
    looked_up = {
        name
        for row in re.findall(r"^\| ([^|]+) \|", symptoms, re.MULTILINE)
        for name in ERROR.findall(row)
    }
    assert len(looked_up) > 10
    assert looked_up <= set(ERROR.findall("\n".join(SECTIONS)))


def test_each_story_of_an_error_is_told_there() -> None:
    files = {path.stem for path in (catalog.directory() / catalog.ERRORS).glob("*.yaml")}
    assert files <= set(re.findall(r"scenario run ([\w-]+)", PAGE))

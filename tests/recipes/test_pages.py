"""What the recipes' pages show is what is run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.recipes.pages import PAGES, current_text, expected_text, shown_files
from tests.recipes.recipe import ALL
from tests.support.apache_kafka import REPOSITORY

FOLDER = REPOSITORY / "tests" / "recipes"
PROGRAMS = {".java", ".mjs", ".properties", ".yaml"}
"""What a reader copies, whole."""
IN_PYTHON = {
    file
    for file_name in ("faststream", "quix", "share")
    for file in (FOLDER / file_name).glob("*.py")
}


def pages() -> list[Path]:
    return sorted(PAGES.glob("*.md"))


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_a_page_shows_the_files_as_they_are(page: Path) -> None:
    assert current_text(page) == expected_text(page), "python -m tests.recipes.pages --write"


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_a_page_shows_no_program_that_is_not_run(page: Path) -> None:
    text = current_text(page)
    program_count = len(
        re.findall(r"^```(?:java|js|json|properties|python|xml|yaml)$", text, re.MULTILINE)
    )
    assert program_count == len(shown_files(page))


def test_every_recipe_has_a_page_and_shows_its_programs() -> None:
    files_shown = {file for page in pages() for file in shown_files(page)}
    assert {page.stem for page in pages()} >= set(ALL)
    hidden_programs = [
        file.relative_to(REPOSITORY).as_posix()
        for file in FOLDER.rglob("*")
        if (file.suffix in PROGRAMS or file in IN_PYTHON) and file not in files_shown
    ]
    assert hidden_programs == []


def test_a_changed_file_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "one.mjs").write_text("new\n")
    page = tmp_path / "page.md"
    page.write_text("# One\n\n**[one.mjs](one.mjs)**, a program:\n\n```js\nold\n```\n")
    assert expected_text(page) == current_text(page).replace("old", "new")
    assert shown_files(page) == {tmp_path / "one.mjs"}

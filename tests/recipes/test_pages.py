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


@pytest.mark.parametrize("page_file", pages(), ids=lambda page: page.name)
def test_a_page_shows_the_files_as_they_are(page_file: Path) -> None:
    assert current_text(page_file) == expected_text(page_file), (
        "python -m tests.recipes.pages --write"
    )


@pytest.mark.parametrize("page_file", pages(), ids=lambda page: page.name)
def test_a_page_shows_no_program_that_is_not_run(page_file: Path) -> None:
    text = current_text(page_file)
    program_count = len(
        re.findall(r"^```(?:java|js|json|properties|python|xml|yaml)$", text, re.MULTILINE)
    )
    assert program_count == len(shown_files(page_file))


def test_every_recipe_has_a_page_and_shows_its_programs() -> None:
    files_shown = {file for page_file in pages() for file in shown_files(page_file)}
    assert {page_file.stem for page_file in pages()} >= set(ALL)
    hidden_programs = [
        file.relative_to(REPOSITORY).as_posix()
        for file in FOLDER.rglob("*")
        if (file.suffix in PROGRAMS or file in IN_PYTHON) and file not in files_shown
    ]
    assert hidden_programs == []


def test_a_changed_file_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "one.mjs").write_text("new\n")
    page_file = tmp_path / "page.md"
    page_file.write_text("# One\n\n**[one.mjs](one.mjs)**, a program:\n\n```js\nold\n```\n")
    assert expected_text(page_file) == current_text(page_file).replace("old", "new")
    assert shown_files(page_file) == {tmp_path / "one.mjs"}

"""The rules of CONTRIBUTING.md, "English", as far as a program can hold them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from typing import Final

import pytest

from tests.docs import ROOT

CHECKED: Final = {  # a rule, and what breaks it
    2: r"\b(?:is|are|was|were|be|been|being) told\b",
    3: r"(?i)\b(?:nobody|whoever|whomever|everybody|somebody|someone|whom)\b",
    4: r"(?:^|[.:;]\s|- |\| )Who (?!may ask)[a-z']+ [^?|.]*[.|]|\b(?:to|of|by|for|from|than) who\b",
    5: r"(?i)\bwhatever\b|\bWhat no \w+ \w+s is\b",
    8: r"(?i)\bone's own\b",
    9: r"\b(?:hears?|heard)\b",
    10: r"\bload (?:of )?\d|\bby turns, load\b|\baims? (?:is|are) (?:not )?met\b",
}
PAGES: Final = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "DEVIATIONS.md", "docs/**/*.md")
HELP: Final = "docs/cli.md"  # its blocks of code are read, too
EXAMPLES: Final = re.compile(r"^\| (\d+)\. [^|]+\| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)


def prose() -> Iterator[tuple[str, str]]:
    """Each page without its code and, in CONTRIBUTING.md, without the examples."""
    for path in sorted(path for pattern in PAGES for path in ROOT.glob(pattern)):
        file_text = path.read_text("utf-8")
        if path != ROOT / HELP:
            file_text = re.sub(r"(?ms)^ *```.*?^ *```$", "", file_text)
        file_text = re.sub(r"`[^`\n]*`", "X", EXAMPLES.sub("", file_text))
        yield path.relative_to(ROOT).as_posix(), file_text


def find_broken(rule: int, text: str) -> list[str]:
    return [match[0] for match in re.finditer(CHECKED[rule], text, re.MULTILINE)]


@pytest.mark.parametrize("rule", CHECKED)
def test_no_page_breaks_the_rule(rule: int) -> None:
    assert {name: hits for name, text in prose() if (hits := find_broken(rule, text))} == {}


SPOKEN: Final = {
    "sim/txnsim_lab/exam/situations/_readers.py": {"the end that it is told"},
}
"""Sentences of recorded results, which keep their words."""
COMMENT: Final = re.compile(r"(?ms)/\*.*?\*/|(?:^|(?<=[\s;{},)]))//[^\n]*")
"""Of JavaScript."""


@cache
def printed_texts() -> tuple[tuple[str, str], ...]:
    """What programs print: stories, lessons, the page's scripts without their comments, and each
    string of more than a word.
    """
    return tuple(_texts_for_people())


def _texts_for_people() -> Iterator[tuple[str, str]]:
    for path in sorted(ROOT.glob("scenarios/**/*.yaml")):
        file_text = re.sub(r"(?m)^name: .*$", "", path.read_text("utf-8"))
        yield path.relative_to(ROOT).as_posix(), file_text
    for path in sorted(ROOT.glob("sim/txnsim_lab/http/page/static/**/*.js")):
        if "vendor" not in path.parts:
            yield path.relative_to(ROOT).as_posix(), COMMENT.sub("", path.read_text("utf-8"))
    for path in sorted(ROOT.glob("sim/**/*.py")):
        module_tree = ast.parse(path.read_text("utf-8"))
        docstring_ids = {
            id(node.value) for node in ast.walk(module_tree) if isinstance(node, ast.Expr)
        }
        name = path.relative_to(ROOT).as_posix()
        for node in ast.walk(module_tree):
            if isinstance(node, ast.Constant) and id(node) not in docstring_ids:
                file_text = node.value
                if (
                    isinstance(file_text, str)
                    and " " in file_text
                    and file_text not in SPOKEN.get(name, ())
                ):
                    yield f"{name}:{node.lineno}", file_text


@pytest.mark.parametrize("rule", CHECKED)
def test_no_lesson_and_no_message_breaks_the_rule(rule: int) -> None:
    assert {name: hits for name, text in printed_texts() if (hits := find_broken(rule, text))} == {}


def test_no_sentence_is_too_long() -> None:
    parts = re.compile(r"\n\s*\n|^\s*(?:[-*>]|\d+\.) |\||(?<=[.:;?!])\s+|\)\s*$", re.MULTILINE)
    long_sentences = {
        name: [part[:70] for part in parts.split(text) if part and len(part.split()) > 50]
        for name, text in prose()
        if name != HELP
    }
    assert {name: sentences for name, sentences in long_sentences.items() if sentences} == {}


def test_the_rules_are_ten_and_their_examples_right() -> None:
    examples = EXAMPLES.findall((ROOT / "CONTRIBUTING.md").read_text("utf-8"))
    assert [int(number) for number, _, _ in examples] == list(range(1, 11))
    for rule_number, bad_text, good_text in examples:
        assert int(rule_number) not in CHECKED or find_broken(int(rule_number), bad_text), bad_text
        assert not any(find_broken(rule, good_text) for rule in CHECKED), good_text

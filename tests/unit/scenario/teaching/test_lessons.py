from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from txnsim.errors import ConfigError
from txnsim.scenario.catalog import find
from txnsim.scenario.teaching.lessons import goals, lesson, lessons, read

ALL = ("L0", "L1", "L2", "L3", "L4", "L5", "L6", "L7", "L8", "L9")


def test_each_lesson_ends_with_something_that_the_learner_makes() -> None:
    assert list(lessons()) == [*ALL, "demo"]
    for one in lessons().values():
        assert one.id == "demo" or one.parts[-1].saves
        assert "`" not in msgspec.json.encode(one).decode()  # they are no Markdown


def test_goals_are_those_of_the_story_that_a_part_is_in() -> None:
    one = lesson("L1")
    first, last = [part for part in one.parts if part.goal]
    assert goals("l1") == [first]
    assert goals(f"L1:{len(one.parts) - 1}") == [last]
    assert goals("L1:8") == []


WRONG = {
    "    until: 3": ("    until: three", r"parts.0.until: Expected `int`"),
    "    fact: lso payments-0": ("    fact: weather payments-0", r"parts.2.fact: no fact 'weather"),
    "    until: 5": ("    until: 2", r"parts.1.until: the story is at step 3 already"),
    "    solution: [1, 2, 3]": ("    solution: [9]", r"parts.5.solution: there is no action 9"),
    "[{call: {who: app, do: begin}}]": (
        "[{cal: {who: app, do: begin}}]",
        r"parts.5.actions.0.steps.0: .*cal",
    ),
    '    hints: ["Begin': ('    clues: ["Begin', r"parts.5.*: Object contains unknown field"),
}


@pytest.mark.parametrize("right", WRONG)
def test_an_error_of_a_file_names_line_and_field(right: str) -> None:
    path = Path(find("z01")[0]).parent / "lessons" / "l0.yaml"
    text = path.read_text("utf-8")
    assert right in text
    wrong, said = WRONG[right]
    with pytest.raises(ConfigError, match=rf"l0.yaml:\d+: {said}"):
        read(path, text.replace(right, wrong, 1))


def test_what_is_no_lesson_is_told() -> None:
    with pytest.raises(ConfigError, match="L1"):
        lesson("L99")

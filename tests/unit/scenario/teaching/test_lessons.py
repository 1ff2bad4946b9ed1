from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from txnsim.errors import ConfigError
from txnsim.scenario.catalog import find
from txnsim.scenario.teaching.lessons import goals, lesson, lessons, read
from txnsim.scenario.teaching.played import played

ALL = ("L0", "L1", "L2", "L3", "L4", "L5", "L6", "L7", "L8", "L9")


def test_each_lesson_ends_with_something_that_the_learner_makes() -> None:
    assert list(lessons()) == [*ALL, "demo", "quiz"]
    for one in lessons().values():
        assert one.id in ("demo", "quiz") or one.parts[-1].saves
        assert "`" not in msgspec.json.encode(one).decode()  # they are no Markdown


WORDS_PER_MINUTE = 150
SECONDS_PER_DEED = 20
"""For a prediction, or for something that is done to reach a goal."""


@pytest.mark.parametrize("name", [one for one in lessons() if one != "demo"])
def test_a_lesson_takes_the_minutes_that_it_states(name: str) -> None:
    one = lesson(name)
    words, deeds = 0, 0
    for part in one.parts:
        texts = (part.say, part.then, part.ask, *part.choices.values())
        words += sum(len(text.split()) for text in (*texts, *(each.text for each in part.actions)))
        deeds += bool(part.ask) + len(part.solution)
    quick = words / WORDS_PER_MINUTE + deeds * SECONDS_PER_DEED / 60
    assert quick <= one.minutes <= 2 * quick, f"{quick:.1f} minutes without a second look"


def test_the_quiz_has_a_right_choice_for_each_question() -> None:
    one = lesson("quiz")
    answers = [part.answer for part in played(one).values()]
    assert len(answers) == 12
    for part, answer in zip(one.parts, answers, strict=True):
        assert answer in part.choices
        assert answer not in part.mistakes
        assert part.choices.keys() - {answer} == part.mistakes.keys()  # each wrong one is answered


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

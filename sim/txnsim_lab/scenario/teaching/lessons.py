"""Lessons: a run that stops, asks a question before it shows the answer, and gives the learner a
task at its end. A lesson is a file of texts (``scenarios/lessons/*.yaml``). It does not contain the
right answers: answers and goals are facts (``trace_facts``), read from the trace of the learner's
own run. A lesson on a cluster of one's own (``OwnCluster``) has no story: the learner's programs
talk to a running cluster, and some facts are what these saw (``outside_facts``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from txnsim.errors import BadInputError, ConfigError
from txnsim.faults.rule import FaultRule
from txnsim.text import unknown_word_message
from txnsim.trace.trace_file import Recording
from txnsim_lab.scenario.catalog import directory
from txnsim_lab.scenario.teaching.outside_facts import is_outside_fact
from txnsim_lab.scenario.teaching.trace_facts import fact, fact_text, is_fact

LESSONS_FOLDER: Final = "lessons"
_PATH_PART_RE: Final = re.compile(r"\.?([\w-]+)|\[(\d+)\]")
_STORY_FIELDS: Final = ("story", "until", "watch", "beside", "shows", "saves")
_CLUSTER_FIELDS: Final = (
    "code", "file", "arms", "disarms", "advance_ms", "do", "do_minutes", "expected",
)  # fmt: skip
"""Fields of a part that only lessons on the learner's own cluster have."""


class StoryRun(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The run that a lesson plays."""

    scenario: str
    run: str
    take: str = "armed"


class OwnCluster(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A running cluster that the learner's own programs talk to."""

    topics: Mapping[str, int] = {}
    """Name -> number of partitions. The topics are recreated when the lesson begins."""
    loads: Literal["", "practise"] = ""
    """Log directories that the cluster loads: those that ``txnsim practise`` leaves."""
    needs: Mapping[str, str] = {}
    """Fact -> the value that it must have when the lesson begins."""


class BesideRun(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Another run of the same story, to be compared with this one."""

    run: str
    until: int
    facts: tuple[str, ...]
    """The facts that the terminal compares; the page shows both stages."""


class Action(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something that the learner may do to reach a goal."""

    text: str
    steps: tuple[Mapping[str, Any], ...] = ()
    """Steps, in the form of a scenario file."""
    arms: tuple[FaultRule, ...] = ()
    """Fault rules to arm, for a lesson on the learner's own cluster."""
    then: str
    """Text that is shown if the action does not reach the goal."""


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part of a lesson: a text, perhaps a question, then steps of the story, then an explanation.
    Or a text, and a goal that the learner reaches by actions.

    On a cluster of one's own the learner does something meanwhile. ``{bootstrap}`` and ``{http}``
    in a text are its addresses.
    """

    say: str
    then: str
    """Text after the part; for a goal, after it is reached."""
    story: StoryRun | None = None
    """The story that begins with this part; None: the story goes on."""
    until: int = 0
    """The story stops before this step; 0 leaves it where it is."""
    watch: str = ""
    """What to watch while the story goes on to there; the question's subject unless given."""
    ask: str = ""
    choices: Mapping[str, str] = {}
    """Possible value of the fact -> the text of this choice."""
    fact: str = ""
    """The fact that answers the question after the story has gone on."""
    mistakes: Mapping[str, str] = {}
    """Wrong choice -> what a learner who chooses it has overlooked."""
    hints: tuple[str, ...] = ()
    shows: bool = False
    """Whether the terminal first shows the events that have happened meanwhile."""
    view: str = "stage"
    """The view of the page that shows it."""
    beside: BesideRun | None = None
    goal: Mapping[str, str] = {}
    """Fact -> the value that it must have."""
    actions: tuple[Action, ...] = ()
    solution: tuple[int, ...] = ()
    """Actions that reach the goal, by number, from 1 on."""
    saves: str = ""
    """Verdict of the story that the learner has made; it is offered as a scenario file."""
    code: str = ""
    """A program, or commands, shown verbatim."""
    file: str = ""
    """File name under which the code is offered."""
    arms: tuple[FaultRule, ...] = ()
    """Fault rules to arm after the answer."""
    disarms: tuple[str, ...] = ()
    """Ids of the fault rules to disarm after the answer."""
    advance_ms: int = 0
    """Time by which the cluster clock advances after the answer, in milliseconds."""
    do: str = ""
    """What the learner does after the answer, outside of the lesson."""
    do_minutes: int = 0
    expected: str = ""
    """Value of the fact for the lesson's own program: for printed sheets, which have no cluster."""


class Lesson(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A lesson of several parts, on one story or on the learner's own cluster."""

    id: str
    title: str
    shows: str
    """What it shows, in one sentence, for a list of lessons."""
    minutes: int
    story: StoryRun | None = None
    cluster: OwnCluster | None = None
    """Set for a lesson on the learner's own cluster, which has no story."""
    parts: tuple[Part, ...]

    def story_of(self, part_number: int) -> tuple[StoryRun, int]:
        """The story of a part, and the number of the part that begins the story."""
        for number in range(min(part_number, len(self.parts) - 1), 0, -1):
            begun_story = self.parts[number].story
            if begun_story is not None:
                return begun_story, number
        assert self.story is not None, f"{self.id} is played on its own cluster"
        return self.story, 0

    def goals_from(self, first_part: int) -> list[Part]:
        """The goals from a part on, up to the end of the story."""
        goal_parts = []
        for part_number, lesson_part in enumerate(self.parts):
            if part_number > first_part and lesson_part.story is not None:
                break
            if part_number >= first_part and lesson_part.goal:
                goal_parts.append(lesson_part)
        return goal_parts

    def rules(self) -> set[str]:
        """Ids of the fault rules that the lesson arms."""
        rules_of_parts = [part.arms for part in self.parts]
        rules_of_actions = [action.arms for part in self.parts for action in part.actions]
        return {
            fault_rule.id
            for fault_rules in (*rules_of_parts, *rules_of_actions)
            for fault_rule in fault_rules
        }


msgspec.json.Decoder(Lesson)  # as a fault rule: two pages may ask for lessons at once


@cache
def lessons() -> dict[str, Lesson]:
    """Every lesson, by its id: L0, L1 and so on, then the demo and the quiz.

    Raises:
        ConfigError: A file is no lesson.
    """
    read_lessons = [
        read(path, path.read_text("utf-8"))
        for path in (directory() / LESSONS_FOLDER).glob("*.yaml")
    ]
    return {
        each_lesson.id: each_lesson
        for each_lesson in sorted(
            read_lessons, key=lambda each_lesson: (len(each_lesson.id), each_lesson.id)
        )
    }


def lesson(lesson_id: str) -> Lesson:
    """The lesson of an id, in upper or lower case.

    Raises:
        ConfigError: There is no such lesson.
    """
    by_id = lessons()
    matching_lesson = {
        known_id.lower(): known_lesson for known_id, known_lesson in by_id.items()
    }.get(lesson_id.lower())
    if matching_lesson is None:
        raise ConfigError(unknown_word_message("lesson", lesson_id, dict.fromkeys(by_id)))
    return matching_lesson


def fill_addresses(text: str, *, bootstrap: str = "BOOTSTRAP", http: str = "PAGE") -> str:
    """Fill the addresses of the cluster into the text; on paper, placeholders."""
    return text.replace("{bootstrap}", bootstrap).replace("{http}", http)


def goals(lesson_id: str) -> list[Part]:
    """The goals of a lesson (``L1``), or of the story that contains a part of it (``L1:5``).

    Raises:
        ConfigError: There is no such lesson.
    """
    plain_lesson_id, _, part_number = lesson_id.partition(":")
    return lesson(plain_lesson_id).goals_from(int(part_number) if part_number.isdecimal() else 0)


def reaches_goal(goal_part: Part, recording: Recording) -> bool:
    """Whether a trace reaches a goal; False if the trace lacks a fact."""
    try:
        return all(
            fact(recording, fact_words) == goal_value
            for fact_words, goal_value in goal_part.goal.items()
        )
    except BadInputError:
        return False


# Reading


def read(path: Path, yaml_text: str) -> Lesson:
    """Read the lesson in a file's text.

    Raises:
        ConfigError: The text is no lesson; the message names file, line and field.
    """
    from txnsim_lab.scenario.scenario_reader import (  # YAML: only when a file is read
        parse_document,
        place_error,
    )

    document, line_by_path = parse_document(str(path), yaml_text)
    try:
        converted = msgspec.convert(document, Lesson)
    except msgspec.ValidationError as error:
        message, _, error_place = str(error).partition(" - at `$")
        field_path = tuple(
            key_text if key_text else int(index_text)
            for key_text, index_text in _PATH_PART_RE.findall(error_place.rstrip("`"))
        )
        raise place_error(str(path), line_by_path, [(field_path, message)]) from None
    problems = list(_problems(converted))
    if problems:
        raise place_error(str(path), line_by_path, problems)
    parts = tuple(map(_with_watch, converted.parts))
    return msgspec.structs.replace(converted, parts=parts)


def _with_watch(part: Part) -> Part:
    """Where a question is asked, its subject is what to watch."""
    if part.watch or not part.fact:
        return part
    return msgspec.structs.replace(part, watch=fact_text(part.fact))


def _problems(lesson_read: Lesson) -> Iterator[tuple[tuple[str | int, ...], str]]:
    step = 0
    if (lesson_read.story is None) == (lesson_read.cluster is None):
        yield ("id",), "a lesson has a story, or its own cluster"
    for fact_words in lesson_read.cluster.needs if lesson_read.cluster else ():
        if not is_fact(fact_words):
            yield ("cluster", "needs"), f"no fact {fact_words!r} of a trace"
    for part_number, part in enumerate(lesson_read.parts):
        part_path = ("parts", part_number)
        yield from _problems_of_kind(part, part_path, has_cluster=lesson_read.cluster is not None)
        step = 0 if part.story is not None else step
        if part.until and part.until <= step:
            yield (*part_path, "until"), f"the story is at step {step} already"
        step = max(step, part.until)
        if bool(part.ask) != (len(part.choices) > 1) or bool(part.ask) != bool(part.fact):
            yield (*part_path, "ask"), "a question has ask, fact and several choices"
        for wrong_choice in part.mistakes.keys() - part.choices.keys():
            yield (
                (*part_path, "mistakes", wrong_choice),
                unknown_word_message("choice", wrong_choice, dict.fromkeys(part.choices)),
            )
        for fact_words in (*([part.fact] if part.fact else ()), *part.goal):
            if not (is_fact(fact_words) or (lesson_read.cluster and is_outside_fact(fact_words))):
                yield (
                    (*part_path, "fact" if fact_words == part.fact else "goal"),
                    f"no fact {fact_words!r}",
                )
        yield from _problems_of_goal(part, part_path)


def _problems_of_kind(
    part: Part, part_path: tuple[str | int, ...], *, has_cluster: bool
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Checks that a lesson has no fields of the other kind of lessons."""
    lesson_kind = "on its own cluster" if has_cluster else "on a story"
    for field_name in _STORY_FIELDS if has_cluster else _CLUSTER_FIELDS:
        if getattr(part, field_name):
            yield (*part_path, field_name), f"a lesson {lesson_kind} has none"
    for action_number, action in enumerate(part.actions):
        forbidden_field = "steps" if has_cluster else "arms"
        if getattr(action, forbidden_field):
            yield (
                (*part_path, "actions", action_number, forbidden_field),
                f"a lesson {lesson_kind} has none",
            )
    if has_cluster and part.ask and part.expected not in part.choices:
        yield (
            (*part_path, "expected"),
            unknown_word_message("choice", part.expected, dict.fromkeys(part.choices)),
        )
    if bool(part.file) and not part.code:
        yield (*part_path, "file"), "there is no code to be offered"


def _problems_of_goal(
    part: Part, part_path: tuple[str | int, ...]
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    from txnsim_lab.scenario.scenario_reader import read_step

    if bool(part.goal) != bool(part.actions) or bool(part.goal) != bool(part.solution):
        yield (*part_path, "goal"), "a goal has goal, actions and solution"
    for action_number in part.solution:
        if not 1 <= action_number <= len(part.actions):
            yield (*part_path, "solution"), f"there is no action {action_number}"
    for action_number, action in enumerate(part.actions):
        for step_index, step in enumerate(action.steps):
            try:
                read_step(step)
            except ConfigError as error:
                yield (*part_path, "actions", action_number, "steps", step_index), str(error)

"""Lessons: their texts, their facts, and what a learner did."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.support.learnt_structs import is_learnt
from tests.support.small_trace import small
from tests.support.traces import hung_at, recording_of_run
from txnsim.errors import BadInputError, ConfigError
from txnsim_lab.scenario.catalog import find
from txnsim_lab.scenario.teaching.lesson_solver import answers, solve_lesson
from txnsim_lab.scenario.teaching.lessons import (
    Lesson,
    fill_addresses,
    goals,
    lesson,
    lessons,
    read,
)
from txnsim_lab.scenario.teaching.trace_facts import TRACE_FACTS, fact, fact_text, is_fact

ALL = ("L0", "L1", "L2", "L3", "L4", "L5", "L6", "L7", "L8", "L9", "L10", "L11")


def test_each_lesson_ends_with_something_that_the_learner_makes() -> None:
    assert list(lessons()) == [*ALL, "demo", "quiz"]
    for each_lesson in lessons().values():
        last_part = each_lesson.parts[-1]
        assert each_lesson.id in ("demo", "quiz") or (
            last_part.goal if each_lesson.cluster else last_part.saves
        )
        assert "`" not in msgspec.json.encode(each_lesson).decode()  # they are no Markdown


WORDS_PER_MINUTE = 150
SECONDS_PER_DEED = 20
"""For a prediction, or for something that is done to reach a goal."""


@pytest.mark.parametrize("lesson_id", [name for name in lessons() if name != "demo"])
def test_a_lesson_takes_the_minutes_that_it_states(lesson_id: str) -> None:
    lesson_played = lesson(lesson_id)
    word_count, action_count = 0, 0
    for lesson_part in lesson_played.parts:
        texts = (
            lesson_part.say,
            lesson_part.watch,
            lesson_part.do,
            lesson_part.then,
            lesson_part.ask,
            *lesson_part.choices.values(),
        )
        word_count += sum(
            len(text.split()) for text in (*texts, *(action.text for action in lesson_part.actions))
        )
        action_count += bool(lesson_part.ask) + len(lesson_part.solution)
    outside_minutes = sum(lesson_part.do_minutes for lesson_part in lesson_played.parts)
    quick = word_count / WORDS_PER_MINUTE + action_count * SECONDS_PER_DEED / 60 + outside_minutes
    assert quick <= lesson_played.minutes <= 2 * quick, f"{quick:.1f} minutes without a second look"


def test_before_each_step_a_lesson_says_what_to_watch() -> None:
    for each_lesson in lessons().values():
        for lesson_part in (
            each_lesson.parts if each_lesson.story and each_lesson.id != "demo" else ()
        ):
            if lesson_part.until or lesson_part.fact:
                assert lesson_part.watch
                # A right answer in it would be no riddle.
                assert not any(text in lesson_part.watch for text in lesson_part.choices.values())


def test_the_quiz_has_a_right_choice_for_each_question() -> None:
    quiz_lesson = lesson("quiz")
    answers = [lesson_part.answer for lesson_part in solve_lesson(quiz_lesson).values()]
    assert len(answers) == 12
    for lesson_part, answer_text in zip(quiz_lesson.parts, answers, strict=True):
        assert answer_text in lesson_part.choices
        assert answer_text not in lesson_part.mistakes
        assert (
            lesson_part.choices.keys() - {answer_text} == lesson_part.mistakes.keys()
        )  # each wrong one is answered


def test_goals_are_those_of_the_story_that_a_part_is_in() -> None:
    first_lesson = lesson("L1")
    first_part, last_part = [lesson_part for lesson_part in first_lesson.parts if lesson_part.goal]
    assert goals("l1") == [first_part]
    assert goals(f"L1:{len(first_lesson.parts) - 1}") == [last_part]
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


@pytest.mark.parametrize("right_text", WRONG)
def test_an_error_of_a_file_names_line_and_field(right_text: str) -> None:
    assert_refused("l0.yaml", right_text, *WRONG[right_text])


WRONG_OF_CLUSTERS = {
    "{id: l10-answer, point: client.response,": (
        "{id: l10-answer, point: client.answer,",
        r"parts.1.arms.0.point: Invalid enum value 'client.answer'",
    ),
    '    expected: "order-1,': ('    expected: "order-7,', r"parts.1.expected: no choice 'order-7"),
    "    fact: reads l10-second-0": ("    fact: reads l10", r"parts.1.fact: no fact 'reads l10'"),
    "    file: l10_shop.py": (
        "    saves: healthy",
        r"parts.0.saves: a lesson on its own cluster",
    ),
    "cluster: {topics: {l10-first: 1,": (
        "cluster: {needs: {verdict t-0: healthy}, topics: {l10-first: 1,",
        r"cluster.needs: no fact 'verdict t-0' of a trace",
    ),
    "cluster:": (
        "story: {scenario: z01, run: V-}\ncluster:",
        r"id: a lesson has a story, or its own cluster",
    ),
}


@pytest.mark.parametrize("right_text", WRONG_OF_CLUSTERS)
def test_so_does_one_of_a_lesson_on_a_cluster_of_ones_own(right_text: str) -> None:
    assert_refused("l10.yaml", right_text, *WRONG_OF_CLUSTERS[right_text])


def test_a_story_has_nothing_that_is_done_outside() -> None:
    complaint = r"parts.0.do: a lesson on a story has none"
    assert_refused("l0.yaml", "    until: 3", "    do: it\n    until: 3", complaint)


def assert_refused(file_name: str, right_text: str, wrong_text: str, complaint: str) -> None:
    """Check that the error about a lesson's file names the line and the field."""
    path = Path(find("z01")[0]).parent / "lessons" / file_name
    file_text = path.read_text("utf-8")
    assert right_text in file_text
    with pytest.raises(ConfigError, match=rf"{file_name}:\d+: {complaint}"):
        read(path, file_text.replace(right_text, wrong_text, 1))


def test_on_paper_addresses_are_words() -> None:
    assert fill_addresses("run it {bootstrap} {http}") == "run it BOOTSTRAP PAGE"
    assert (
        fill_addresses("run it {bootstrap}", bootstrap="127.0.0.1:9092") == "run it 127.0.0.1:9092"
    )


def test_what_is_no_lesson_is_told() -> None:
    with pytest.raises(ConfigError, match="L1"):
        lesson("L99")


def test_what_threads_read_is_known_to_msgspec_before_they_begin() -> None:
    """``tests/broker/http/test_app.py`` says why."""
    assert is_learnt(Lesson)


def test_facts_are_read_from_the_trace() -> None:
    recording = recording_of_run()
    until = tuple(event for event in recording.events if event.i <= hung_at(recording))
    recording = msgspec.structs.replace(recording, events=until)
    assert fact(recording, "cause payments-0") == "hanging transaction"
    assert fact(recording, "lso payments-0") == "1"
    assert fact(recording, "withheld payments-0") == "3"
    assert fact(recording, "gets payments-0") == "nothing"
    assert fact(recording, "markers payments-0") == "ABORT"
    assert fact(recording, "known-epoch payments-0") == "0"
    assert fact(recording, "refused payments-0") == "nothing"
    assert fact(recording, "marker-refused payments-0") == "nothing"
    assert fact(recording, "answer abort") == "NONE"
    with pytest.raises(BadInputError, match="no rule late is armed"):
        fact(recording, "struck late")
    assert fact(recording, "epoch app") == "1"
    assert fact(recording, "state app") in ("CompleteAbort", "Empty")


def test_what_was_committed_or_not_transactional_is_got() -> None:
    assert fact(recording_of_run(), "gets payments-0") == "2, 3"  # the operator has ended what hung
    assert fact(recording_of_run(), "markers payments-0") == "ABORT, ABORT"


def test_each_fact_has_its_words() -> None:
    assert fact_text("reads orders-0") == "what a consumer reads of orders-0"
    assert fact_text("lso payments-0") == "last stable offset of payments-0"
    assert all(is_fact(f"{fact_name} payments-0") for fact_name in TRACE_FACTS)
    assert not is_fact("lso")


@pytest.mark.parametrize("fact_words", ["lso orders-0", "gets orders-0", "known-epoch orders-0"])
def test_a_partition_that_the_trace_does_not_have_is_told(fact_words: str) -> None:
    with pytest.raises(BadInputError, match="orders-0"):
        fact(recording_of_run(), fact_words)


def test_what_is_no_fact_is_told() -> None:
    with pytest.raises(BadInputError, match="nothing of shop"):
        fact(small(("broker/1",)), "state shop")
    with pytest.raises(BadInputError, match="'commit' was answered"):
        fact(recording_of_run(), "answer commit")
    with pytest.raises(ConfigError, match="no fact 'weather'"):
        fact(recording_of_run(), "weather payments-0")


@pytest.mark.costly
@pytest.mark.parametrize("lesson_id", [name.id for name in lessons().values() if name.story])
def test_a_lesson_is_played_to_its_end_and_what_it_asks_is_answered_by_its_runs(
    lesson_id: str,
) -> None:
    lesson_played = lesson(lesson_id)
    for number, played_part in solve_lesson(lesson_played).items():
        lesson_part = lesson_played.parts[number]
        if lesson_part.ask:
            assert played_part.answer in lesson_part.choices, lesson_part.ask
            assert played_part.answer not in lesson_part.mistakes, lesson_part.ask
            assert bool(lesson_part.hints) == (lesson_id != "quiz")
        assert not played_part.was_reached, lesson_part.say
        assert played_part.is_reached == bool(lesson_part.goal), lesson_part.say


def test_what_a_sheet_calls_right_is_played_or_stands_in_the_lesson() -> None:
    assert answers(lesson("L0"))[2] == solve_lesson(lesson("L0"))[2].answer
    assert answers(lesson("L11")) == {
        0: "nothing", 1: "open transaction", 2: "hanging transaction", 3: "nothing",
    }  # fmt: skip


@pytest.mark.slow
def test_other_actions_do_not_reach_the_goal_of_the_first_lesson() -> None:
    first_lesson = lesson("l1")
    number, lesson_part = next(
        (n, lesson_part) for n, lesson_part in enumerate(first_lesson.parts) if lesson_part.goal
    )
    for wrong_action in range(1, len(lesson_part.actions) + 1):
        changed_part = msgspec.structs.replace(lesson_part, solution=(wrong_action,))
        changed_lesson = msgspec.structs.replace(
            first_lesson, parts=(*first_lesson.parts[:number], changed_part)
        )
        assert solve_lesson(changed_lesson)[number].is_reached == (
            wrong_action in lesson_part.solution
        )


def test_the_tour_says_how_many_records_its_run_writes() -> None:
    tour_lesson = lesson("L0")
    counted_parts = [
        msgspec.structs.replace(lesson_part, fact="withheld payments-0")
        for lesson_part in tour_lesson.parts[:3]
    ]
    tour = solve_lesson(msgspec.structs.replace(tour_lesson, parts=tuple(counted_parts)))
    assert [played_part.answer for played_part in tour.values()] == ["1", "2", "0"]
    assert "writes its first record" in " ".join(tour_lesson.parts[0].say.split())
    assert "writes a second record" in " ".join(tour_lesson.parts[1].say.split())

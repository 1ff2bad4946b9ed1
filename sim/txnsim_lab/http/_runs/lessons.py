"""Lessons through the control port: their texts, and the answers of the learner's own run.

A lesson is played in a driven run (``driven_runs``). The trace of the run tells whether its goal is
reached.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec
from starlette.requests import Request

from txnsim.errors import BadInputError, ConfigError
from txnsim.http.operation import PREFIX, Noun, Operation, Query
from txnsim.http.replies import RefusedError, digits_of
from txnsim.http.work_thread import WorkThread
from txnsim.trace.trace_file import Recording
from txnsim_lab.scenario.teaching.lessons import Lesson, lesson, lessons
from txnsim_lab.scenario.teaching.trace_facts import fact


class LessonAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of a run to a question."""

    key: str
    """The choice that is right."""
    text: str
    """The answer in words."""


def lesson_of(lesson_id: str) -> Lesson:
    """Find a lesson by its id, which may name a part: ``L1:5``.

    Raises:
        RefusedError: There is none of that id.
    """
    try:
        return lesson(lesson_id.partition(":")[0])
    except ConfigError as error:
        raise RefusedError(404, str(error)) from error


class LessonRoutes(Noun):
    """Lists lessons, plays their parts and judges answers."""

    def __init__(
        self, trace_of: Callable[[Request], bytes | None], warm_up: Callable[[], object]
    ) -> None:
        """Args:
        trace_of: The trace of the run that a request names.
        warm_up: Has what driven runs need made ready: who asks for lessons will play one.
        """
        self._trace_of = trace_of
        self._warm_up = warm_up

    @Operation("get", f"{PREFIX}/lessons")
    async def lessons(self, _request: Request) -> list[Lesson]:
        """List every lesson: its run, its texts, its questions, its goal."""
        self._warm_up()
        return list((await WorkThread.run_beside(lessons)).values())

    @Operation(
        "get",
        f"{PREFIX}/lessons/{{id}}/parts/{{part}}/answer",
        query=(
            Query("of", "Id of the run", "string"),
            Query("take", "armed unless given", "string"),
        ),
        refusals=("404", "409", "422"),
    )
    async def answer(self, request: Request) -> LessonAnswer:
        """Answer the question of a part of a lesson from the trace of a run."""
        asked_lesson = lesson_of(str(request.path_params["id"]))
        part_number = digits_of(str(request.path_params["part"]))
        # A lesson on a cluster of one's own has no run: its questions go to …/now.
        story_parts = () if asked_lesson.cluster is not None else asked_lesson.parts
        if (
            part_number is None
            or part_number >= len(story_parts)
            or not story_parts[part_number].fact
        ):
            raise RefusedError(404, f"{asked_lesson.id} has no such question")
        trace = self._trace_of(request)
        if trace is None:
            raise RefusedError(422, "of: name the run that plays the lesson")
        part = asked_lesson.parts[part_number]
        try:
            answer_key = await WorkThread.run_beside(partial(_answer_of_trace, trace, part.fact))
        except BadInputError as error:
            raise RefusedError(409, str(error)) from error
        return LessonAnswer(key=answer_key, text=part.choices.get(answer_key, answer_key))


def _answer_of_trace(trace: bytes, fact_words: str) -> str:
    return fact(Recording.from_lines("the run", trace.splitlines()), fact_words)

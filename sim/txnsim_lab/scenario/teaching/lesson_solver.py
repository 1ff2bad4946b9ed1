"""Plays a lesson to its end, with the right answer to every question and the solution of every
goal.
"""

from __future__ import annotations

from contextlib import suppress

import msgspec

from txnsim.trace.trace_file import Recording
from txnsim_lab.scenario.catalog import find
from txnsim_lab.scenario.driver_commands import Input, PlannedStep
from txnsim_lab.scenario.repeated_inputs import do_input
from txnsim_lab.scenario.runner import ScenarioRun, run_in_virtual_time
from txnsim_lab.scenario.scenario_reader import read_step
from txnsim_lab.scenario.stage import Stage
from txnsim_lab.scenario.teaching.lessons import Lesson, StoryRun, reaches_goal
from txnsim_lab.scenario.teaching.trace_facts import fact


class PlayedPart(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one part of a lesson."""

    answer: str
    """Value of the fact that the part asks for; empty without a question."""
    was_reached: bool
    is_reached: bool
    inputs: tuple[Input, ...]


class PlayedError(Exception):
    """The wanted part of a story has been played; ends the run early."""


def scenario_run_of(story: StoryRun) -> ScenarioRun:
    """The run that a lesson plays."""
    return ScenarioRun(scenario=find(story.scenario)[1], run=story.run, take=story.take)


def so_far(stage: Stage) -> Recording:
    """The trace of a run up to now."""
    return Recording.of("the run", b"".join(stage.environment.tracer.pieces()).splitlines())


def solve_lesson(lesson: Lesson) -> dict[int, PlayedPart]:
    """Play a lesson; returns the result of each part, by its number from 0 on."""
    parts: dict[int, PlayedPart] = {}
    while len(parts) < len(lesson.parts):
        story, _ = lesson.story_of(len(parts))
        with suppress(PlayedError):
            run_in_virtual_time(scenario_run_of(story), pace=_Solver(lesson, parts))
    return parts


def answers(lesson: Lesson) -> dict[int, str]:
    """The answer to the question of each part. For a lesson without a story, it is the result that
    a learner's own program gives.
    """
    if lesson.cluster is not None:
        return {number: part.expected for number, part in enumerate(lesson.parts) if part.ask}
    return {number: part.answer for number, part in solve_lesson(lesson).items() if part.answer}


class _Solver:
    """The pace of one story of a lesson: takes the parts in, and does their solutions."""

    def __init__(self, lesson: Lesson, parts: dict[int, PlayedPart]) -> None:
        self._lesson = lesson
        self._found = parts
        self._first = len(parts)

    async def wait_before_step(self, stage: Stage, step: PlannedStep) -> None:
        """Play the parts that end before this step."""
        parts = self._lesson.parts
        while (number := len(self._found)) < len(parts):
            if parts[number].until > step.number:
                return
            if self._lesson.story_of(number)[1] != self._first:
                break
            part = parts[number]
            was = bool(part.goal) and reaches_goal(part, so_far(stage))
            steps = [
                step_data
                for chosen in part.solution
                for step_data in part.actions[chosen - 1].steps
            ]
            for step_data in steps:
                await do_input(stage, read_step(step_data))
            run = so_far(stage)
            self._found[number] = PlayedPart(
                answer=fact(run, part.fact) if part.fact else "",
                was_reached=was,
                is_reached=bool(part.goal) and reaches_goal(part, run),
                inputs=tuple(Input(before=step.number, step=step_data) for step_data in steps),
            )
        raise PlayedError

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
from txnsim_lab.scenario.stage import RunningStory
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


def recording_so_far(running_story: RunningStory) -> Recording:
    """The trace of a run up to now."""
    return Recording.from_lines(
        "the run", b"".join(running_story.environment.tracer.pieces()).splitlines()
    )


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
        return {
            part_number: part.expected for part_number, part in enumerate(lesson.parts) if part.ask
        }
    return {
        part_number: part.answer
        for part_number, part in solve_lesson(lesson).items()
        if part.answer
    }


class _Solver:
    """The pace of one story of a lesson: takes the parts in, and does their solutions."""

    def __init__(self, lesson: Lesson, parts: dict[int, PlayedPart]) -> None:
        self._lesson = lesson
        self._part_by_number = parts
        self._first_part = len(parts)

    async def wait_before_step(self, running_story: RunningStory, step: PlannedStep) -> None:
        """Play the parts that end before this step."""
        parts = self._lesson.parts
        while (part_number := len(self._part_by_number)) < len(parts):
            if parts[part_number].until > step.number:
                return
            if self._lesson.story_of(part_number)[1] != self._first_part:
                break
            part = parts[part_number]
            was_reached = bool(part.goal) and reaches_goal(part, recording_so_far(running_story))
            steps = [
                step_data
                for action_number in part.solution
                for step_data in part.actions[action_number - 1].steps
            ]
            for step_data in steps:
                await do_input(running_story, read_step(step_data))
            recording = recording_so_far(running_story)
            self._part_by_number[part_number] = PlayedPart(
                answer=fact(recording, part.fact) if part.fact else "",
                was_reached=was_reached,
                is_reached=bool(part.goal) and reaches_goal(part, recording),
                inputs=tuple(Input(before=step.number, step=step_data) for step_data in steps),
            )
        raise PlayedError

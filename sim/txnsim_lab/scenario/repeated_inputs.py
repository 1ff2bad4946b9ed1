"""Repeats a user's inputs to a run at the same steps: with the same scenario, run, take and seed
they give the same run.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from txnsim.errors import ConfigError
from txnsim.server.user_inputs import input_event
from txnsim_lab.scenario.driver_commands import Input, PlannedStep
from txnsim_lab.scenario.scenario_reader import read_step
from txnsim_lab.scenario.stage import RunningStory
from txnsim_lab.scenario.steps import act
from txnsim_lab.scenario.steps_model import Step


def inputs_of(text: str) -> tuple[Input, ...]:
    """Parse inputs in the JSON form of the page and the control port.

    Raises:
        ConfigError: The text is no list of inputs.
    """
    try:
        inputs = msgspec.json.decode(text, type=tuple[Input, ...])
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ConfigError(
            f'inputs: {error}; expected [{{"before": 3, "step": {{"release": "late"}}}}]'
        ) from None
    for given_input in inputs:
        read_step(given_input.step)
    return inputs


class GivenInputs:
    """Plays a run without stops, and carries out given inputs of a visitor before the steps before
    which they came.
    """

    def __init__(self, inputs: Iterable[Input]) -> None:
        self._inputs_left = sorted(inputs, key=lambda given_input: given_input.before)
        self.done: list[Input] = []

    async def wait_before_step(self, running_story: RunningStory, step: PlannedStep) -> None:
        while self._inputs_left and self._inputs_left[0].before <= step.number:
            await do_input(running_story, read_step(self._inputs_left[0].step))
            self.done.append(self._inputs_left.pop(0))


async def do_input(running_story: RunningStory, step: Step) -> None:
    """Do an input, traced as the cause of everything that follows from it."""
    if step.advance is not None:
        await act(running_story, step)  # it is an input by itself
        return
    step_fields = step.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    with input_event(
        running_story.environment, "step", name=step.choice.rstrip("_"), step=step_fields
    ):
        await act(running_story, step)
    if step.rule is not None:
        del running_story.armed_at[step.rule.id]  # the story can be played without its strike

"""A run that a user drives: it stops before a step, takes inputs there, and can return to an
earlier stop.

It lives in a process of its own (``python -m txnsim_lab.scenario.driven_run`` is the helper that
forks them), as a run occupies its whole thread. An input is an additional step of the story. The
process forks before each step that the user requests; to go back, the newer process ends
(``Checkpoints``).
"""

from __future__ import annotations

import gc
import logging
from typing import Final, Protocol

import structlog

from txnsim.errors import ClientError, ConfigError
from txnsim.loggers import set_up
from txnsim.runtime.trace import NO_CAUSE, Tracer
from txnsim.trace.trace_file import Recording
from txnsim_lab.scenario.call_results import StoryFailedError
from txnsim_lab.scenario.catalog import find
from txnsim_lab.scenario.driver_commands import (
    Back,
    Command,
    Drive,
    Go,
    Input,
    Order,
    PlannedStep,
    RunEnded,
    RunFailed,
    RunStopped,
    encode,
    to_command,
    to_order,
)
from txnsim_lab.scenario.forked_processes import CHECKPOINTS_BACK_MAX, Channel, Checkpoints, serve
from txnsim_lab.scenario.repeated_inputs import GivenInputs, do_input
from txnsim_lab.scenario.runner import FAILED_VERDICT, ScenarioRun, run_in_virtual_time
from txnsim_lab.scenario.scenario_reader import read, read_step
from txnsim_lab.scenario.stage import RunningStory
from txnsim_lab.scenario.steps_model import Step
from txnsim_lab.scenario.teaching.lessons import goals, reaches_goal

WARM_UP_SCENARIO: Final = "z01"
WARM_UP_RUN: Final = "V-"
POSTED_FILE_NAME: Final = "posted.yaml"
"""File name in messages about a scenario that was posted without a file."""


class DriverChannel(Protocol):
    """Connects the run to the user who drives it."""

    def send(self, message: bytes) -> None: ...

    def hear(self) -> bytes:
        """Wait for the next command."""
        ...


class CheckpointStore(Protocol):
    """Checkpoints of the run, which it can return to."""

    checkpoint_count: int

    def keep(self) -> bool:
        """Make a checkpoint; True when the run has returned to it."""
        ...

    def back(self, checkpoint_count: int) -> None:
        """Return to the ``checkpoint_count``-th newest checkpoint; the call itself does not return.

        Raises:
            ValueError: There are fewer checkpoints.
        """
        ...


class DrivenPace:
    """The pace of a driven run: it stops before steps and obeys the driver's commands."""

    def __init__(self, channel: DriverChannel, order: Order, checkpoints: CheckpointStore) -> None:
        self._channel = channel
        self._given_inputs = GivenInputs(order.inputs)
        self._steps_left: int | None = 0 if order.paused else None
        """Steps until the run stops; None if it does not stop."""
        self._checkpoints = checkpoints
        self._goals_left = goals(order.lesson) if order.lesson else []
        self.inputs = self._given_inputs.done

    @property
    def checkpoint_count(self) -> int:
        """Number of earlier stops that the run can return to."""
        return self._checkpoints.checkpoint_count

    async def wait_before_step(self, running_story: RunningStory, step: PlannedStep) -> None:
        """Do the inputs for this step; then, if a stop is due, wait for commands."""
        await self._given_inputs.wait_before_step(running_story, step)
        if self._steps_left is None:
            return
        if self._steps_left:
            self._steps_left -= 1
            return
        await self._obey(running_story, step)

    async def _obey(self, running_story: RunningStory, step: PlannedStep) -> None:
        error: str | None = None
        while True:
            command = self._ask_driver(running_story.environment.tracer, step, error)
            error = None
            if isinstance(command, Back):
                error = self.back(command.count)
                continue
            input_step: Step | None = None
            goes_to_end = isinstance(command, Go) and command.steps is None
            if self.checkpoint_count >= CHECKPOINTS_BACK_MAX and not goes_to_end:
                error = (
                    f"a run has {CHECKPOINTS_BACK_MAX} stops to return to, and no more are kept:"
                    " step back, or let the story go on to its end"
                )
                continue
            if isinstance(command, Drive):
                try:
                    input_step = read_step(command.step)
                except ConfigError as wrong:
                    error = str(wrong)
                    continue
            if self._checkpoints.keep():
                continue
            if isinstance(command, Go):
                self._steps_left = None if command.steps is None else max(0, command.steps - 1)
                return
            assert input_step is not None
            try:
                await do_input(running_story, input_step)
            except (ClientError, ConfigError, StoryFailedError) as failed:
                self._tell_failure(str(failed))
            self.inputs.append(Input(before=step.number, step=command.step))
            self._record_reached_goal(running_story.environment.tracer)

    def _ask_driver(self, tracer: Tracer, step: PlannedStep, error: str | None) -> Command:
        stop_message = RunStopped(
            next=step,
            back=self.checkpoint_count,
            inputs=tuple(self.inputs),
            trace=b"".join(tracer.pieces()),
            error=error,
        )
        self._channel.send(encode(stop_message))
        command: Command = to_command(self._channel.hear())
        return command

    def _record_reached_goal(self, tracer: Tracer) -> None:
        """Records in the trace that the next goal of the lesson is reached, if it is."""
        if not self._goals_left:
            return
        lines = b"".join(tracer.pieces()).splitlines()
        if reaches_goal(self._goals_left[0], Recording.from_lines("the run", lines)):
            goal_data = {"goal": self._goals_left.pop(0).say, "met": True}
            tracer.emit("goal", "lesson", parents=(NO_CAUSE,), data=goal_data)

    def _tell_failure(self, error: str) -> None:
        """Report an input's error, then return to the checkpoint before the input."""
        self._channel.send(encode(RunFailed(error=error)))
        self._checkpoints.back(1)

    def take_back(self, reason: str) -> None:
        """Undo the last command, because it blocks the story, if there is a checkpoint."""
        if self.checkpoint_count:
            self._tell_failure(
                f"{reason}. What was done to the run is in its way: change that here."
            )

    def back(self, stop_count: int) -> str | None:
        """Return to an earlier stop. If that fails, returns the reason."""
        try:
            self._checkpoints.back(stop_count)
        except ValueError as wrong:
            return str(wrong)
        return None


def make(channel: Channel) -> None:
    """Play one run in this process, as the driver commands."""
    run_driven(channel, Checkpoints())


def run_driven(channel: DriverChannel, checkpoints: CheckpointStore) -> None:
    """Play one run as the driver commands; after its end the driver may still go back."""
    order = to_order(channel.hear())
    driven_pace = DrivenPace(channel, order, checkpoints)
    try:
        scenario_run = ScenarioRun(
            scenario=read(POSTED_FILE_NAME, order.yaml), run=order.run, take=order.take
        )
        run_result = run_in_virtual_time(scenario_run, seed=order.seed, pace=driven_pace)
    except Exception as error:  # noqa: BLE001 - a bug in a story is the answer to the one who asked
        channel.send(encode(RunFailed(error=f"{type(error).__name__}: {error}")))
        return
    if driven_pace.inputs and FAILED_VERDICT in run_result.verdict.observed:
        driven_pace.take_back(run_result.verdict.because[0])
    encoded_order, refusal = encode(run_result), None
    while True:
        end_message = RunEnded(
            result=encoded_order,
            back=driven_pace.checkpoint_count,
            inputs=tuple(driven_pace.inputs),
            error=refusal,
        )
        channel.send(encode(end_message))
        command = to_command(channel.hear())
        refusal = "the run has come to its end: step back first"
        if isinstance(command, Back):
            refusal = driven_pace.back(command.count) or refusal


def warm_up() -> None:
    """Play a story once, so that the forked children have all imports."""
    scenario_run = ScenarioRun(scenario=find(WARM_UP_SCENARIO)[1], run=WARM_UP_RUN)
    run_in_virtual_time(scenario_run)
    gc.collect()
    gc.freeze()  # children share what there is, and no collection writes to it


def main() -> None:
    """The helper process. It logs only errors: a run has a trace of its own, and its log lines
    would have dates of virtual time.
    """
    set_up()
    only_errors = structlog.make_filtering_bound_logger(logging.ERROR)
    structlog.configure(wrapper_class=only_errors)
    warm_up()
    serve(make)


if __name__ == "__main__":
    main()

"""Plays a scenario and judges it.

Armed and disarmed runs differ by one thing: in the disarmed one no fault is armed. All of them have
the same steps, the same observations at the end and the same judges, who know only the answers that
clients got. In virtual time a run depends on nothing but its seed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from txnsim.errors import ClientError, ConfigError
from txnsim.runtime.environment import Environment
from txnsim.runtime.real_world import real_environment
from txnsim.runtime.trace import NO_CAUSE, TraceLevel, Tracer
from txnsim.runtime.virtual.run import run_virtual
from txnsim.trace.story import Sentence, story
from txnsim_lab.check.history import History
from txnsim_lab.check.judge import judge
from txnsim_lab.scenario.actors._application import ApplicationActor
from txnsim_lab.scenario.call_results import StoryFailedError, error_name_of
from txnsim_lab.scenario.driver_commands import PlannedStep
from txnsim_lab.scenario.fields import RunSelection
from txnsim_lab.scenario.final_observation import observe_twice
from txnsim_lab.scenario.model import Scenario
from txnsim_lab.scenario.players.casting import Cast, Casting, cast
from txnsim_lab.scenario.recorder import Recorder
from txnsim_lab.scenario.stage import LOOKER_NAME, RunningStory, open_story, simulated_target
from txnsim_lab.scenario.steps import act, first_answer_lines, require_strikes
from txnsim_lab.scenario.steps_model import Step
from txnsim_lab.target.cluster import Target

if TYPE_CHECKING:
    from txnsim_lab.scenario.stage import RunningStory


FAILED_VERDICT: Final = "story-failed"
"""Verdict of a story that did not reach its end; a file can't declare it."""
SEED_DEFAULT: Final = 1
JUDGES_SPEAKER: Final = "judges"


class JudgesResult(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict of the judges, before or after the cure."""

    expected: tuple[str, ...]
    observed: tuple[str, ...]
    because: tuple[str, ...] = ()
    """One sentence for each conviction."""

    @property
    def as_declared(self) -> bool:
        return self.expected == self.observed


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict of one run of a scenario, beside the expected one, with its history and trace."""

    scenario: str
    anomaly: str
    run: str
    mode: str
    take: str
    seed: int | None
    """None if the run was in real time."""
    players: tuple[str, ...]
    verdict: JudgesResult
    cured: JudgesResult | None
    """The verdict after the cure; None without a cure."""
    story: tuple[Sentence, ...]
    remarks: tuple[str, ...]
    """Other available players, and what clients logged."""
    duration_ms: int
    history: bytes
    """The observations of all actors, as JSON lines."""
    trace: bytes
    """The whole trace, as JSON lines."""
    answered: str = ""
    """The unexpected error by which the story failed, by Kafka's name; empty if there was none."""
    mismatches: tuple[str, ...] = ()
    """What came otherwise than the story expects, in a run that went on all the same."""

    @property
    def as_declared(self) -> bool:
        return self.verdict.as_declared and (self.cured is None or self.cured.as_declared)


class ScenarioRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run to play: a scenario, one of its runs, and the take."""

    scenario: Scenario
    run: str
    take: str = "armed"
    goes_on: bool = False
    """Whether the run goes on where something else comes than the story expects."""

    @property
    def mode(self) -> str:
        return self.scenario.runs[self.run].mode

    def __str__(self) -> str:
        return f"{self.scenario.name} {self.run} {self.take}"


def run_in_virtual_time(
    scenario_run: ScenarioRun,
    *,
    seed: int = SEED_DEFAULT,
    trace_level: TraceLevel = TraceLevel.BRIEF,
    pace: StoryPace | None = None,
) -> RunResult:
    """Play a story once, in virtual time; our own client plays every application.

    Args:
        scenario_run: The run to play.
        seed: Seed of all randomness: the same seed gives the same trace.
        trace_level: How much the trace records.
        pace: Is awaited before each step; unless given, the story plays without stops.
    """
    casts = casts_of(scenario_run, Casting(player="own"))
    return run_virtual(
        lambda environment: _on_simulated(scenario_run, environment, casts, seed=seed, pace=pace),
        seed=seed,
        trace_level=trace_level,
    )


async def run_in_real_time(scenario_run: ScenarioRun, casting: Casting | None = None) -> RunResult:
    """Play a story once, in real time and over TCP.

    Raises:
        ConfigError: The wanted player can't play the run.
        MissingExtraError: The wanted player is not installed.
    """
    casts = casts_of(scenario_run, casting or Casting())
    environment = real_environment(trace_level=TraceLevel.BRIEF, trace_ring_bytes=None)
    return await _on_simulated(scenario_run, environment, casts, seed=None)


def casts_of(scenario_run: ScenarioRun, casting: Casting) -> dict[str, Cast]:
    """Choose the player of each application.

    Raises:
        ConfigError: The wanted player can't play the run, or there is no application.
        MissingExtraError: The wanted player is not installed.
    """
    scenario, able_players = (
        scenario_run.scenario,
        scenario_run.scenario.runs[scenario_run.run].players,
    )
    casts = {
        actor_name: cast(
            tuple(
                player for player in actor.players if able_players is None or player in able_players
            ),
            casting,
            run_name=f"{scenario.name} {scenario_run.run}",
        )
        for actor_name, actor in scenario.actors.items()
        if actor.plays == "application"
    }
    if not casts and (casting.program is not None or casting.player not in (None, "own")):
        raise ConfigError(f"{scenario.name} has no application that another player could take")
    return casts


async def _on_simulated(
    scenario_run: ScenarioRun,
    environment: Environment,
    casts: Mapping[str, Cast],
    *,
    seed: int | None,
    pace: StoryPace | None = None,
) -> RunResult:
    run = scenario_run.scenario.runs[scenario_run.run]
    simulated_target_context = simulated_target(scenario_run.scenario, run, environment)
    return await run_on(
        scenario_run, environment, casts, simulated_target_context, seed=seed, pace=pace
    )


async def run_on(
    scenario_run: ScenarioRun,
    environment: Environment,
    casts: Mapping[str, Cast],
    target_context: AbstractAsyncContextManager[Target],
    *,
    seed: int | None = None,
    pace: StoryPace | None = None,
) -> RunResult:
    """Play a story once, on any target.

    Args:
        scenario_run: The run to play.
        environment: The run's environment. Events that its trace already has are left out of the
            result.
        casts: Who plays each application.
        target_context: The target, which is opened here and closed afterwards.
        seed: Seed of all randomness; None in real time.
        pace: Is awaited before each step; unless given, the story plays without stops.

    Raises:
        ConfigError: The cluster can't be configured as the story needs.
    """
    scenario = scenario_run.scenario
    run_selection = _selection_of(scenario_run, casts)
    _name_run(environment.tracer, scenario_run)
    start_ms, first_event = environment.clock.monotonic_ms(), len(environment.tracer)
    recorder = Recorder(environment.clock, environment.tracer)
    notes = _RunNotes(casts)
    try:
        async with (
            target_context as target,
            open_story(
                scenario, run_selection, casts=casts, target=target, recorder=recorder
            ) as running_story,
        ):
            await _play_story(running_story, notes, pace, goes_on=scenario_run.goes_on)
    except (ClientError, StoryFailedError) as error:
        notes.failure = str(error)
        notes.answered = error_name_of(error)
    judges_result, cured = _judge_run(scenario_run, recorder.history, notes)
    tracer = environment.tracer
    for result in (judges_result, cured):
        if result is not None:
            _tell_verdict(tracer, result)
    lines: list[bytes] = []
    tracer.export(
        lines.append, verdict=", ".join(judges_result.observed) or "healthy", start=first_event
    )
    return RunResult(
        scenario=scenario.name,
        anomaly=scenario.anomaly,
        run=scenario_run.run,
        mode=scenario_run.mode,
        take=scenario_run.take,
        seed=seed,
        players=tuple(notes.players),
        verdict=judges_result,
        cured=cured,
        story=story(tracer.events(first_event), tracer.nodes),
        remarks=tuple(notes.remarks),
        duration_ms=environment.clock.monotonic_ms() - start_ms,
        history=recorder.history.to_lines(),
        trace=b"".join(lines),
        answered=notes.answered,
        mismatches=tuple(notes.mismatches),
    )


def _selection_of(scenario_run: ScenarioRun, casts: Mapping[str, Cast]) -> RunSelection:
    """What chooses the steps of a run."""
    return RunSelection(
        run=scenario_run.run,
        mode=scenario_run.mode,
        take=scenario_run.take,
        program=any(player_cast.program for player_cast in casts.values()),
    )


class _RunNotes:
    """What is known of a story while it is played, up to its failure."""

    def __init__(self, casts: Mapping[str, Cast]) -> None:
        self.remarks = [player_cast.remark for player_cast in casts.values() if player_cast.remark]
        self.players: list[str] = []
        self.failure: str | None = None
        self.answered = ""
        self.mismatches: list[str] = []
        self.before_cure: int | None = None
        """Length of the history at the start of the cure; None if it was not reached."""


async def _play_story(
    running_story: RunningStory, notes: _RunNotes, pace: StoryPace | None, *, goes_on: bool
) -> None:
    """Play every step, observe, play the cure, observe again."""
    scenario, run_selection = running_story.scenario, running_story.run_selection
    shuffle = running_story.environment.rng.stream(ORDER_STREAM).shuffle
    steps = in_drawn_order(scenario.steps_of(run_selection), shuffle)
    cure_steps = in_drawn_order(scenario.cure_of(run_selection), shuffle)
    last_look_steps = (SECOND_LOOK_SENTENCE,) if cure_steps else ()
    planned_steps = iter(
        plan_steps((*steps, LOOK_SENTENCE, *cure_steps, *last_look_steps))
        if pace is not None
        else ()
    )

    async def wait_for_pace() -> None:
        if pace is not None:
            await pace.wait_before_step(running_story, next(planned_steps))

    async def play(step: Step) -> None:
        try:
            await _play_step(running_story, step)
        except StoryFailedError as error:
            if not goes_on:
                raise
            notes.mismatches.append(str(error))

    try:
        for step in steps:
            await wait_for_pace()
            await play(step)
        if not goes_on:
            require_strikes(running_story)
        await wait_for_pace()
        await _end_faults(running_story)
        notes.before_cure = len(running_story.recorder.history)
        for step in cure_steps:
            await wait_for_pace()
            await play(step)
        if cure_steps:
            await wait_for_pace()
            await observe_twice(running_story)
    finally:
        for actor in running_story.actors.values():
            if isinstance(actor, ApplicationActor):
                notes.players.append(actor.player.name)  # a program tells its name while it plays
                notes.remarks += actor.player.remarks()


async def _play_step(running_story: RunningStory, step: Step) -> None:
    """Play one step; an error names the step."""
    try:
        await act(running_story, step)
    except (ClientError, StoryFailedError) as error:
        place_prefix = f"{step.place}: " if step.place else ""
        message = "; ".join(
            [f"{place_prefix}{error}", *first_answer_lines(running_story, failure=str(error))]
        )
        raise StoryFailedError(message, error_name=error_name_of(error)) from error


async def _end_faults(running_story: RunningStory) -> None:
    """End all faults of the story, and observe everything."""
    running_story.target.injector.disarm_all()
    if not running_story.healed:
        running_story.recorder.note_healing(LOOKER_NAME)
    running_story.tell(
        "The cluster is looked at from outside, and once more twenty-one minutes later."
    )
    await observe_twice(running_story)


def _judge_run(
    scenario_run: ScenarioRun, history: History, notes: _RunNotes
) -> tuple[JudgesResult, JudgesResult | None]:
    scenario, take = scenario_run.scenario, scenario_run.take
    expected_kinds = scenario.verdict_of(scenario_run.run, take)
    if notes.before_cure is None:
        reason = notes.failure or "the story did not come to its end"
        return JudgesResult(
            expected=expected_kinds, observed=(FAILED_VERDICT,), because=(reason,)
        ), None
    judges_result = _judge_history(history.until(notes.before_cure), expected_kinds)
    if not scenario.cure:
        return judges_result, None
    declared_verdict = (
        scenario.runs[scenario_run.run].cured if take == "armed" else scenario.disarmed
    )
    expected_after_cure = expected_kinds if declared_verdict is None else declared_verdict
    if notes.failure is not None:
        return judges_result, JudgesResult(
            expected=expected_after_cure, observed=(FAILED_VERDICT,), because=(notes.failure,)
        )
    return judges_result, _judge_history(history, expected_after_cure)


def _tell_verdict(tracer: Tracer, judges_result: JudgesResult) -> None:
    """Append the verdict to the trace; the judges themselves read only the history."""
    for reason in judges_result.because:
        rule, _, finding_text = reason.partition(": ")
        expected_text = rule if rule in judges_result.expected else ""
        violation_data = {"rule": rule, "expected": expected_text, "found": finding_text}
        tracer.emit("check.violation", JUDGES_SPEAKER, parents=(NO_CAUSE,), data=violation_data)
    if not judges_result.because:
        tracer.emit("check.pass", JUDGES_SPEAKER, parents=(NO_CAUSE,), data={"rule": "all"})


def _judge_history(history: History, expected_kinds: tuple[str, ...]) -> JudgesResult:
    anomalies = judge(history).anomalies
    return JudgesResult(
        expected=tuple(sorted(expected_kinds)),
        observed=tuple(sorted({str(anomaly.kind) for anomaly in anomalies})),
        because=tuple(f"{anomaly.kind}: {anomaly.because}" for anomaly in anomalies),
    )


def _name_run(tracer: Tracer, scenario_run: ScenarioRun) -> None:
    """Write the scenario and the run into the trace; the cluster adds its own part
    (``server.user_inputs``).
    """
    tracer.run = msgspec.structs.replace(
        tracer.run,
        scenario=scenario_run.scenario.name,
        run=scenario_run.run,
        mode=scenario_run.mode,
        take=scenario_run.take,
    )


# The order of steps in ``any-order`` blocks, which the run's seed draws.
#
# A story that is true in one order only has a race; playing it with many seeds shows that.

ORDER_STREAM = "any-order"
"""Name of the random stream for the order of steps."""


def in_drawn_order(
    steps: Sequence[Step], shuffle: Callable[[list[Any]], object]
) -> tuple[Step, ...]:
    """The steps in drawn order: shuffles the parts of each ``any-order`` block; the steps within a
    part keep their order.
    """
    ordered_steps: list[Step] = []
    for block, block_steps in groupby(steps, key=lambda step: step.unit and step.unit[0]):
        if block is None:
            ordered_steps += block_steps
            continue
        block_parts = [
            list(part_steps) for _, part_steps in groupby(block_steps, key=lambda step: step.unit)
        ]
        shuffle(block_parts)
        ordered_steps += [step for part_steps in block_parts for step in part_steps]
    return tuple(ordered_steps)


# The pace of a story: asked before each of its steps

LOOK_SENTENCE: Final = (
    "Nothing is broken any more, and the cluster is looked at, once more 21 minutes later."
)
SECOND_LOOK_SENTENCE: Final = "The cluster is looked at again."


class StoryPace(Protocol):
    """Decides when a story goes on."""

    async def wait_before_step(self, running_story: RunningStory, step: PlannedStep) -> None:
        """Return when the step may be played; the user may change the cluster meanwhile."""
        ...


def plan_steps(steps: Sequence[Step | str]) -> list[PlannedStep]:
    """Number the steps and describe them in words."""
    return [
        PlannedStep(
            number=step_number,
            of=len(steps),
            text=step if isinstance(step, str) else _step_text(step),
        )
        for step_number, step in enumerate(steps)
    ]


def _step_text(step: Step) -> str:
    if step.say:
        return step.say.strip()
    chosen_act = getattr(step, step.choice)
    if step.call is not None:
        partition_text = "" if step.call.partition is None else f" {step.call.partition}"
        return f"{step.call.who}: {step.call.do}{partition_text}"
    argument_text = chosen_act if isinstance(chosen_act, str | int) else ""
    if not isinstance(chosen_act, str | int) and hasattr(chosen_act, "model_dump"):
        act_fields = chosen_act.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        argument_text = ", ".join(
            f"{field_name} {field_value}" for field_name, field_value in act_fields.items()
        )
    return f"{step.choice.rstrip('_').replace('_', ' ')}: {argument_text}"

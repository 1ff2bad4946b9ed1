"""Reports a finding: files, its cause, the smallest run, and the command that repeats it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from txnsim.errors import ConfigError
from txnsim.files import write_all
from txnsim.releases import REFERENCE, release_named
from txnsim.runtime.trace import TraceLevel
from txnsim.shell_text import command_line, continued, option
from txnsim_lab.scenario.model import Scenario
from txnsim_lab.scenario.runner import FAILED_VERDICT, ScenarioRun, run_in_virtual_time
from txnsim_lab.simulation._causes import FindingCause, causes_of
from txnsim_lab.simulation._sentences import sentence_of
from txnsim_lab.simulation._shrinking import shrink
from txnsim_lab.simulation.drawing import SimulationOptions, draw
from txnsim_lab.simulation.plan import RUN_NAME, Plan, StepBody
from txnsim_lab.simulation.play import Finding, PlayedAct, PlayedRun, play


class FindingReport(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong in the run of a seed, its causes, and the files that show it."""

    seed: int
    kinds: tuple[str, ...]
    because: tuple[str, ...]
    causes: tuple[FindingCause, ...]
    """Changes that together make the run healthy; empty if none is known."""
    files: tuple[str, ...]
    of_smallest: str = ""
    """The cause of the smallest run, if no known cause explains the whole run."""
    shrunk: int | None = None
    """Number of acts of the smallest plan; None if the plan was not shrunk."""
    steps: int | None = None
    """Number of steps of the scenario file; None if steps can't show the finding."""
    tries: int = 0
    release: str = REFERENCE.patch_release
    """Kafka release; a real broker of that release can be compared."""
    sentences: tuple[str, ...] = msgspec.field(default=(), name="told")
    """The smallest run, as numbered sentences."""

    def lines(self, *, repeat_options: Sequence[str] = ()) -> Iterator[str]:
        """The report as lines for a terminal.

        Args:
            repeat_options: Options to add to the command that repeats the run.
        """
        cause_names = "; and ".join(map(str, self.causes))
        cause_sentence = f"This is {cause_names}." if cause_names else "No switch explains it."
        if self.of_smallest:
            cause_sentence += f" Its smallest run is {self.of_smallest}, and not all of it."
        yield f"Seed {self.seed}: {', '.join(self.kinds)}. {cause_sentence}"
        for sentence in self.because[:3]:
            yield f"  {sentence}"
        if self.shrunk is not None:
            steps = f", a story of {self.steps} steps" if self.steps is not None else ""
            yield f"  Shrunk in {self.tries} runs to {self.shrunk} acts{steps}:"
            yield from (f"    {sentence}" for sentence in self.sentences)
        seed_option = option("--seed", self.seed)
        yield f"  again: {command_line('txnsim', 'simulate', *seed_option, *repeat_options)}"
        for file_path in self.files:
            if file_path.endswith(".yaml"):
                run_command = command_line("txnsim", "scenario", "run", file_path, "--armed")
                target_option = option("--on", f"apache-{self.release}")
                yield f"  see it: {continued(run_command, '--open')}"
                yield f"  ask a real Kafka: {continued(run_command, *target_option)}"
        yield from (f"  {file_path}" for file_path in self.files)


def report_on(
    seed: int, options: SimulationOptions, *, folder: Path, shrinks: bool
) -> FindingReport:
    """Examine a seed that has findings, and write its files."""
    return write_report(*examine_seed(seed, options, shrinks=shrinks), folder=folder)


def write_report(report: FindingReport, files: dict[str, bytes], *, folder: Path) -> FindingReport:
    """Write the files of a report; returns the report with their paths.

    Raises:
        ConfigError: The files can't be written.
    """
    return msgspec.structs.replace(report, files=write_files(folder, files))


def examine_seed(
    seed: int, options: SimulationOptions, *, shrinks: bool
) -> tuple[FindingReport, dict[str, bytes]]:
    """Examine a seed that has findings; returns the report, and its files by name."""
    plan = draw(seed, options)
    played_run = play(plan, trace_level=TraceLevel.BRIEF)
    anomaly_kinds, causes = played_run.kinds, causes_of(plan)
    stem = f"seed-{seed}"
    files = {
        f"{stem}.history.jsonl": played_run.history,
        f"{stem}.trace.jsonl": played_run.trace,
        f"{stem}.plan.json": plan.to_json(),
    }
    as_version = plan.world.as_version
    release = REFERENCE if as_version is None else release_named(as_version)
    report = FindingReport(
        seed=seed,
        kinds=anomaly_kinds,
        because=_reasons_of(played_run.findings),
        causes=causes,
        files=(),
        release=release.patch_release,
    )
    if shrinks and anomaly_kinds:
        (cause,) = causes if len(causes) == 1 else (None,)
        switch = (cause.switch, cause.healthy) if cause is not None and cause.switch else None
        shrunk_plan = shrink(plan, anomaly_kinds, switch=switch)
        story = story_of(shrunk_plan.plan, shrunk_plan.run)
        files |= _files_of(stem, shrunk_plan.plan, story)
        report = msgspec.structs.replace(
            report,
            of_smallest="" if causes else "; and ".join(map(str, causes_of(shrunk_plan.plan))),
            shrunk=shrunk_plan.plan.size,
            tries=shrunk_plan.try_count,
            steps=None if story is None else story.steps,
            sentences=tuple(numbered_sentences(shrunk_plan.run.acts)),
        )
    return report, files


def _reasons_of(findings: tuple[Finding, ...]) -> tuple[str, ...]:
    return tuple(f"{finding.kind}: {finding.because}" for finding in findings)


def _files_of(stem: str, plan: Plan, story: Story | None) -> dict[str, bytes]:
    if story is not None:
        return {f"{stem}.yaml": story.text.encode()}
    return {f"test_{stem.replace('-', '_')}.py": pytest_of(plan).encode()}


def numbered_sentences(acts: tuple[PlayedAct, ...]) -> Iterator[str]:
    """Each act as a numbered sentence."""
    for act_number, act in enumerate(sorted(acts, key=lambda act: act.at_us), 1):
        answer = "" if act.error == "NONE" else f": {act.error}"
        yield f"{act_number:>2}. {act.at_us / 1e6:8.3f} s  {sentence_of(act.step)}{answer}"


def write_files(folder: Path, files: dict[str, bytes]) -> tuple[str, ...]:
    """Write files by name; returns their paths.

    Raises:
        ConfigError: The files can't be written.
    """
    return tuple(map(str, write_all(folder, files)))


# Writes a shrunk run as a file that others can read and run: a scenario if its steps can express
# the run, else a pytest test that contains the plan.
#
# Acts of a plan run at the same time, steps of a scenario one after the other. So an act that was
# still running when the next one began becomes a background call, and a step waits for what the
# next act needs: a leader, or the end of a transaction. Waits that the finding does not need are
# removed again.

TRIES_MAX: Final = 120
_ERRORS_WITHOUT_EFFECT: Final = ("IMPOSSIBLE", "IN_VAIN")
"""Errors of acts that had no effect, and so need no step."""


class Story(msgspec.Struct, frozen=True, kw_only=True):
    """A scenario file that shows the finding."""

    text: str
    steps: int
    verdict: tuple[str, ...]


def story_of(plan: Plan, played_run: PlayedRun) -> Story | None:
    """The run as a scenario with as few steps as possible; None if steps can't show the finding."""
    anomaly_kinds = frozenset(played_run.kinds)
    steps = list(_story_steps(played_run.acts))
    verdict = _observed_verdict(plan, steps)
    if not verdict or not anomaly_kinds.issuperset(verdict):
        return None
    tries_left, step_index = TRIES_MAX, len(steps) - 1
    while step_index >= 0 and tries_left > 0:
        fewer_steps = steps[:step_index] + steps[step_index + 1 :]
        tries_left -= 1
        fewer_verdict = _observed_verdict(plan, fewer_steps)
        if fewer_verdict and anomaly_kinds.issuperset(fewer_verdict):
            steps, verdict = fewer_steps, fewer_verdict
        step_index -= 1
    told_steps = [
        {"say": _sentence_of_step(step), **step} if _is_act(step) else step for step in steps
    ]
    return Story(
        text=yaml.safe_dump(_story_text(plan, told_steps, verdict), sort_keys=False, width=100),
        steps=len(steps),
        verdict=verdict,
    )


def _is_act(step: StepBody) -> bool:
    return step.keys().isdisjoint(("wait-until", "await"))


def _sentence_of_step(step: StepBody) -> str:
    sentence = sentence_of(step)
    is_name = "call" in step  # of an actor, as the file has it
    return f"{sentence if is_name else sentence[0].upper() + sentence[1:]}."


def _observed_verdict(plan: Plan, steps: Sequence[StepBody]) -> tuple[str, ...]:
    """Verdict of the judges on the steps; empty if the story can't be played."""
    try:
        scenario = Scenario.model_validate(_story_text(plan, steps, ()))
        run_result = run_in_virtual_time(
            ScenarioRun(scenario=scenario, run=RUN_NAME), seed=plan.seed
        )
    except (ConfigError, ValueError, KeyError):
        return ()
    observed_kinds = run_result.verdict.observed
    return () if FAILED_VERDICT in observed_kinds else observed_kinds


def _story_text(plan: Plan, steps: Sequence[StepBody], verdict: tuple[str, ...]) -> StepBody:
    """The content of the scenario file."""
    world = plan.world
    run_fields: StepBody = {"mode": world.mode, "verdict": [*verdict] or "healthy"}
    if world.rules:
        run_fields["rules"] = dict(world.rules)
    if world.as_version is not None:
        run_fields["as-version"] = world.as_version
    actors = {track.name: track.actor for track in plan.tracks if track.actor is not None}
    return {
        "name": f"seed-{plan.seed}",
        "title": f"What seed {plan.seed} has found",
        "goal": "See what is left of a run that was drawn.",
        "method": "Everything that the finding does not need was left out.",
        "brokers": world.brokers,
        **({"settings": dict(world.settings)} if world.settings else {}),
        "topics": dict(world.topics),
        "actors": actors,
        "runs": {RUN_NAME: run_fields},
        "steps": [*steps],
    }


def _story_steps(acts: Sequence[PlayedAct]) -> Iterator[StepBody]:
    """A step per act, with the conditions that must hold before the next."""
    acts_by_time = sorted(
        (act for act in acts if act.error not in _ERRORS_WITHOUT_EFFECT), key=lambda act: act.at_us
    )
    ends_of_open_calls: list[tuple[int, str]] = []
    for act_index, act in enumerate(acts_by_time):
        for end_us, call_name in sorted(ends_of_open_calls):
            if end_us <= act.at_us:
                ends_of_open_calls.remove((end_us, call_name))
                yield {"await": {"call": call_name, "error": "any"}}
        yield from _wait_steps(acts_by_time, act_index)
        next_start_us = (
            acts_by_time[act_index + 1].at_us if act_index + 1 < len(acts_by_time) else None
        )
        is_slow = next_start_us is not None and next_start_us < act.at_us + act.took_us
        step = _with_expected_error(act)
        if is_slow and "call" in step and "background" not in step["call"]:
            call_name = f"call {act_index}"
            step = {"call": {**step["call"], "background": call_name, "error": "any"}}
            ends_of_open_calls.append((act.at_us + act.took_us, call_name))
        yield step
    for _, call_name in sorted(ends_of_open_calls):
        yield {"await": {"call": call_name, "error": "any"}}
    yield from _healing_steps(acts_by_time)


def _healing_steps(acts: Sequence[PlayedAct]) -> Iterator[StepBody]:
    """Steps that undo the remaining damage: the end of a run does so by itself, that of a story
    does not.
    """
    healing_act_by_broker: dict[int, str] = {}
    for act in acts:
        match act.step.get("cluster"):
            case {"do": "kill" | "stop", "broker": broker}:
                healing_act_by_broker[broker] = "start"
            case {"do": "isolate", "broker": broker}:
                healing_act_by_broker[broker] = "heal"
            case {"do": "start" | "heal", "broker": broker}:
                healing_act_by_broker.pop(broker, None)
    for broker, healing_act in healing_act_by_broker.items():
        yield {"cluster": {"do": healing_act, "broker": broker}}


def _with_expected_error(act: PlayedAct) -> StepBody:
    """The step of an act; a call that got an error expects any answer."""
    call = act.step.get("call")
    if call is None or act.error == "NONE" or "background" in call:
        return act.step
    return {"call": {**call, "error": "any"}}


def _wait_steps(acts: Sequence[PlayedAct], act_index: int) -> Iterator[StepBody]:
    """Conditions that clients can see, and that the act before has brought about."""
    if act_index == 0:
        return
    for partition_or_id, leader in acts[act_index].leaders.items():
        if acts[act_index - 1].leaders.get(partition_or_id, leader) != leader:
            yield {"wait-until": {"leader": {"partition": partition_or_id, "is": leader or "none"}}}
    for partition_or_id, state in acts[act_index].states.items():
        if acts[act_index - 1].states.get(partition_or_id) not in (None, state):
            yield {"wait-until": {"transaction": {"id": partition_or_id, "is": state}}}


def pytest_of(plan: Plan) -> str:
    """Source of a pytest test of the plan; the test passes once the run has no findings."""
    plan_json: Any = plan.to_json().decode()
    return f'''"""Found by `txnsim simulate`, seed {plan.seed}, and shrunk."""

from txnsim_lab.simulation.plan import Plan
from txnsim_lab.simulation.play import play

PLAN = {plan_json!r}


def test_the_run_is_healthy() -> None:
    assert play(Plan.from_json(PLAN.encode())).kinds == ()
'''

"""Saves a run with a user's inputs as a story file of its own."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import yaml

from txnsim_lab.scenario.driver_commands import Input
from txnsim_lab.scenario.fields import RunSelection
from txnsim_lab.scenario.model import Scenario
from txnsim_lab.scenario.scenario_reader import read_step
from txnsim_lab.scenario.steps_model import Step

_LEFT_OUT = ("aliases", "anomaly", "symptoms", "sources", "control", "cure", "steps", "runs")
_TITLE = "A story of my own"


def story_with_inputs(
    scenario: Scenario,
    run: str,
    take: str,
    inputs: Iterable[Input],
    *,
    name: str,
    verdict: str,
) -> str:
    """The story up to the last input, with all inputs as additional steps."""
    pending = deque(sorted(inputs, key=lambda given_input: given_input.before))
    situation = RunSelection(run=run, mode=scenario.runs[run].mode, take=take)
    without_faults = msgspec.structs.replace(situation, take="disarmed")
    words_of_others = {*scenario.words} - {*situation.words}
    steps: list[Any] = []
    played = 0
    for step in scenario.steps:
        if scenario.belongs(step, situation):
            while pending and pending[0].before <= played:
                steps.append(_plain(read_step(pending.popleft().step)))
            if not pending:
                break
            played += 1
            steps.append(_of_one_run(_plain(step), words_of_others))
        elif scenario.belongs(step, without_faults):  # it waits where this run had given up
            steps.append(_of_one_run(_plain(step), words_of_others) | {"only": "disarmed"})
    steps += [_plain(read_step(given_input.step)) for given_input in pending]
    head = scenario.model_dump(
        mode="json", by_alias=True, exclude_defaults=True, exclude=set(_LEFT_OUT)
    )
    head |= {"name": name, "title": _TITLE, "goal": f"It began as {scenario.name}, {run}."}
    own = scenario.runs[run].model_dump(
        mode="json", by_alias=True, exclude_defaults=True, exclude={"cured", "players", "title"}
    )
    document = {**head, "runs": {run: own | {"verdict": verdict}}, "steps": steps}
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=100)


def _plain(step: Step) -> dict[str, Any]:
    step_fields: dict[str, Any] = step.model_dump(
        mode="json", by_alias=True, exclude_defaults=True, exclude={"only"}
    )
    if any("armed" in group for group in step.only) or _is_giving_up(step_fields):
        step_fields["only"] = "armed"
    return step_fields


def _is_giving_up(step: Mapping[str, Any]) -> bool:
    """Whether a step gives up a call; such steps are dropped in a run without the fault."""
    return "give-up" in step or step.get("call", {}).get("do") == "give-up"


def _of_one_run(value: Any, words_of_others: set[str]) -> Any:
    """Remove the parts of a value that are for other runs."""
    if isinstance(value, dict):
        return {
            key: _of_one_run(part, words_of_others)
            for key, part in value.items()
            if key not in words_of_others
        }
    return (
        [_of_one_run(part, words_of_others) for part in value] if isinstance(value, list) else value
    )

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

_OMITTED_FIELDS = ("aliases", "anomaly", "symptoms", "sources", "control", "cure", "steps", "runs")
_STORY_TITLE = "A story of my own"


def story_with_inputs(
    scenario: Scenario,
    run_name: str,
    take: str,
    inputs: Iterable[Input],
    *,
    story_name: str,
    verdict: str,
) -> str:
    """The story up to the last input, with all inputs as additional steps."""
    pending_inputs = deque(sorted(inputs, key=lambda given_input: given_input.before))
    run_selection = RunSelection(run=run_name, mode=scenario.runs[run_name].mode, take=take)
    selection_without_faults = msgspec.structs.replace(run_selection, take="disarmed")
    words_selecting_other_runs = {*scenario.words} - {*run_selection.words}
    steps: list[Any] = []
    played_step_count = 0
    for step in scenario.steps:
        if scenario.belongs(step, run_selection):
            while pending_inputs and pending_inputs[0].before <= played_step_count:
                steps.append(_step_without_only(read_step(pending_inputs.popleft().step)))
            if not pending_inputs:
                break
            played_step_count += 1
            steps.append(_keep_parts_of_run(_step_without_only(step), words_selecting_other_runs))
        elif scenario.belongs(
            step, selection_without_faults
        ):  # it waits where this run had given up
            steps.append(
                _keep_parts_of_run(_step_without_only(step), words_selecting_other_runs)
                | {"only": "disarmed"}
            )
    steps += [_step_without_only(read_step(given_input.step)) for given_input in pending_inputs]
    story_head = scenario.model_dump(
        mode="json", by_alias=True, exclude_defaults=True, exclude=set(_OMITTED_FIELDS)
    )
    story_head |= {
        "name": story_name,
        "title": _STORY_TITLE,
        "goal": f"It began as {scenario.name}, {run_name}.",
    }
    run_fields = scenario.runs[run_name].model_dump(
        mode="json", by_alias=True, exclude_defaults=True, exclude={"cured", "players", "title"}
    )
    story_document = {
        **story_head,
        "runs": {run_name: run_fields | {"verdict": verdict}},
        "steps": steps,
    }
    return yaml.safe_dump(story_document, sort_keys=False, allow_unicode=True, width=100)


def _step_without_only(step: Step) -> dict[str, Any]:
    step_fields: dict[str, Any] = step.model_dump(
        mode="json", by_alias=True, exclude_defaults=True, exclude={"only"}
    )
    if any("armed" in word_group for word_group in step.only) or _is_giving_up(step_fields):
        step_fields["only"] = "armed"
    return step_fields


def _is_giving_up(step: Mapping[str, Any]) -> bool:
    """Whether a step gives up a call; such steps are dropped in a run without the fault."""
    return "give-up" in step or step.get("call", {}).get("do") == "give-up"


def _keep_parts_of_run(value: Any, words_selecting_other_runs: set[str]) -> Any:
    """Remove the parts of a value that are for other runs."""
    if isinstance(value, dict):
        return {
            key: _keep_parts_of_run(inner_value, words_selecting_other_runs)
            for key, inner_value in value.items()
            if key not in words_selecting_other_runs
        }
    return (
        [_keep_parts_of_run(inner_value, words_selecting_other_runs) for inner_value in value]
        if isinstance(value, list)
        else value
    )

"""What is wrong in an exploration file beyond its fields: steps that no scenario file may have,
tracks without an actor or a call, twins and APIs that are not there.

The steps are those of scenario files, so they are checked as one: what comes before, then each
track, then each disturbance.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pydantic import ValidationError

from txnsim.config.complaints import problems_in
from txnsim.text import unknown_word_message
from txnsim.wire.apis import APIS
from txnsim_lab.exploration.model import ExplorationFile
from txnsim_lab.scenario.model import Scenario
from txnsim_lab.scenario.scenario_reader import DocumentPath, contradictions

_RUN: Final = "explored"
_RUN_PATH: Final = ("runs", _RUN)
Problem = tuple[DocumentPath, str]
"""Path in the file, and what is wrong there."""


def mistakes_of(file: ExplorationFile) -> list[Problem]:
    """The mistakes of a file whose fields have the right types; none if it can be explored."""
    own_mistakes = [*_missing_steps_and_actors(file), *_wrong_names(file)]
    # A call of an actor that is not there would be told twice.
    return own_mistakes or list(_wrong_steps(file))


def _missing_steps_and_actors(file: ExplorationFile) -> Iterator[Problem]:
    if not file.tracks:
        yield ("tracks",), "there is none: expected the calls of an actor"
    for name, calls in file.tracks.items():
        if name not in file.actors:
            yield ("tracks", name), unknown_word_message("actor", name, file.actors)
        if not calls:
            yield ("tracks", name), "it is empty: expected a call"
        for number, call in enumerate(calls):
            if "who" in call:
                yield ("tracks", name, number, "who"), f"all calls here are those of {name}"
    for number, disturbance in enumerate(file.disturbances):
        for index, step in enumerate(disturbance.steps):
            if not step:
                step_path = ("disturbances", number, "steps", index)
                yield step_path, "it is empty: expected a step, or several"


def _wrong_names(file: ExplorationFile) -> Iterator[Problem]:
    for number, twins in enumerate(file.twins):
        for index, name in enumerate(twins):
            if name not in file.tracks:
                yield ("twins", number, index), unknown_word_message("track", name, file.tracks)
    api_names = sorted(name for name, _ in APIS.values())
    for field, bound_names in (
        ("client-apis", file.bounds.client_apis),
        ("peer-apis", file.bounds.peer_apis),
    ):
        for index, api_name in enumerate(bound_names):
            if api_name not in api_names:
                yield ("bounds", field, index), unknown_word_message("API", api_name, api_names)


def _wrong_steps(file: ExplorationFile) -> Iterator[Problem]:
    """What the rules of scenario files say, at the places of this file."""
    step_paths, steps = [], []
    for step_path, step in _steps_with_places(file):
        step_paths.append(step_path)
        steps.append(step)
    run_fields = {"mode": file.mode, "verdict": "healthy", "rules": file.rules}
    if file.as_version is not None:
        run_fields["as-version"] = file.as_version
    scenario_document = {
        "name": "explored",
        "title": file.title,
        "goal": "See what comes of it.",
        "method": "Every order.",
        "brokers": file.brokers,
        "settings": file.settings,
        "topics": {
            name: topic.model_dump(by_alias=True, exclude_unset=True)
            for name, topic in file.topics.items()
        },
        "actors": {
            name: actor.model_dump(by_alias=True, exclude_unset=True)
            for name, actor in file.actors.items()
        },
        "runs": {_RUN: run_fields},
        "steps": steps,
    }
    try:
        problems = list(contradictions(Scenario.model_validate(scenario_document)))
    except ValidationError as error:
        problems = problems_in(error, Scenario)
    for path, message in problems:
        yield _place_in_file(path, step_paths), message


def _place_in_file(path: DocumentPath, step_paths: list[DocumentPath]) -> DocumentPath:
    match path:
        case ("steps", int(step_index), "call", *path_below_step) if (
            step_paths[step_index][0] == "tracks"
        ):
            return (*step_paths[step_index], *path_below_step)
        case ("steps", int(step_index), *path_below_step):
            return (*step_paths[step_index], *path_below_step)
    return path[len(_RUN_PATH) :] if path[: len(_RUN_PATH)] == _RUN_PATH else path


def _steps_with_places(file: ExplorationFile) -> Iterator[tuple[DocumentPath, dict[str, Any]]]:
    for number, step in enumerate(file.before):
        yield ("before", number), step
    for name, calls in file.tracks.items():
        for number, call in enumerate(calls):
            yield ("tracks", name, number), {"call": {"who": name, **call}}
    for number, disturbance in enumerate(file.disturbances):
        for index, parts_of_step in enumerate(disturbance.steps):
            step_path = ("disturbances", number, "steps", index)
            if isinstance(parts_of_step, dict):
                yield step_path, parts_of_step
                continue
            for part_index, step_part in enumerate(parts_of_step):
                yield (*step_path, part_index), step_part

"""Finds and reads what is explored: files that come with txnsim, or of a user."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec
from pydantic import ValidationError

from txnsim.config.complaints import problems_in
from txnsim.errors import ConfigError
from txnsim.text import unknown_word_message
from txnsim_lab.exploration._mistakes import mistakes_of
from txnsim_lab.exploration.model import Bounds, Exploration, ExplorationFile, exploration_of
from txnsim_lab.scenario.catalog import FILE_SUFFIXES, directory, scenario_of_name, text_of_file
from txnsim_lab.scenario.scenario_reader import parse_document, place_error

FOLDER: Final = "explore"


def explorations() -> dict[str, Exploration]:
    """The explorations that come with txnsim, by name."""
    files = sorted((directory() / FOLDER).glob(f"*{FILE_SUFFIXES[0]}"))
    return {path.stem: read(path) for path in files}


def find(name: str) -> Exploration:
    """The exploration of a name, of the story of that name or number, or in a file.

    Raises:
        ConfigError: There is none, or the file is wrong.
    """
    if name.endswith(FILE_SUFFIXES):
        return read(Path(name))
    known_explorations = explorations()
    if name in known_explorations:
        return known_explorations[name]
    story = scenario_of_name(name)
    explorations_of_story = (
        ()
        if story is None
        else [
            known_exploration
            for known_exploration in known_explorations.values()
            if known_exploration.of == story[1].name
        ]
    )
    if explorations_of_story:
        return explorations_of_story[0]
    stories = [
        exploration.of for exploration in known_explorations.values() if exploration.of is not None
    ]
    raise ConfigError(
        f"{unknown_word_message('exploration', name, [*known_explorations, *stories])}; or give a"
        " file ending"
        " in .yaml"
    )


def read(path: Path) -> Exploration:
    """Read a file.

    Raises:
        ConfigError: It can't be read, or something in it is wrong: one line for each mistake.
    """
    file = str(path)
    document, line_by_path = parse_document(file, text_of_file(path))
    try:
        exploration_file = ExplorationFile.model_validate(document)
    except ValidationError as error:
        raise place_error(file, line_by_path, problems_in(error, ExplorationFile)) from None
    if problems := mistakes_of(exploration_file):
        raise place_error(file, line_by_path, problems)
    return exploration_of(exploration_file)


def changed(
    exploration: Exploration,
    *,
    mode: str | None = None,
    as_version: str | None = None,
    rule_settings: Mapping[str, bool] = {},
    changed_bounds: Mapping[str, int] = {},
) -> Exploration:
    """The exploration in another cluster, or within other bounds.

    Raises:
        ConfigError: There are no such bounds.
    """
    plan, world = exploration.plan, exploration.plan.world
    new_world = msgspec.structs.replace(
        world,
        mode=mode or world.mode,
        as_version=as_version or world.as_version,
        rules={**world.rules, **rule_settings},
    )
    try:
        new_bounds = Bounds.model_validate(
            {**exploration.bounds.model_dump(by_alias=True), **changed_bounds}
        )
    except ValidationError as error:
        problems = [
            f"{'.'.join(map(str, field_path))}: {problem}"
            for field_path, problem in problems_in(error, Bounds)
        ]
        raise ConfigError(f"--bounds: {'; '.join(problems)}") from None
    return msgspec.structs.replace(
        exploration, plan=msgspec.structs.replace(plan, world=new_world), bounds=new_bounds
    )

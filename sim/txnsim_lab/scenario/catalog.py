"""Finds scenario files: in the wheel, next to the package; in a checkout, at its top; or by
path.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import txnsim_lab
from txnsim.errors import ConfigError
from txnsim.files import problem_of, read_given
from txnsim.text import unknown_word_message

if TYPE_CHECKING:
    from txnsim_lab.scenario.model import Scenario

FILE_SUFFIXES: Final = (".yaml", ".yml")
ERRORS_FOLDER: Final = "errors"
"""The folder of small stories, one for an error or symptom of docs/troubleshooting.md. They can be
found by name, but are no anomalies, so ``scenarios()`` leaves them out.
"""


def directory() -> Path:
    """The folder of the scenarios that come with txnsim.

    Raises:
        ConfigError: This installation has no scenarios.
    """
    package = Path(txnsim_lab.__file__).parent
    for folder in (package / "scenarios", package.parent.parent / "scenarios"):
        if folder.is_dir():
            return folder
    raise ConfigError(f"no scenarios in {package}: the installation is incomplete")


def scenarios() -> dict[Path, Scenario]:
    """Every scenario that comes with txnsim, by its file; a file is read again only when it has
    changed.
    """
    return {path: _load_once(path, path.stat().st_mtime_ns) for path in _scenario_files()}


def heads() -> Iterator[Mapping[str, Any]]:
    """The top level of each of those files. Nothing is checked: the files are ours, and importing
    the model takes longer than reading all of them.
    """
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml is in PyYAML's wheels
    for path in _scenario_files():
        yield yaml.load(path.read_bytes(), loader)


def _scenario_files(subfolder: str = "") -> list[Path]:
    files = directory().glob(f"{subfolder}/*" if subfolder else "*")
    return sorted(path for path in files if path.suffix in FILE_SUFFIXES)


def find(name: str) -> tuple[Path, Scenario]:
    """Find a scenario by its name or alias, or read the given file; returns the file, too.

    Raises:
        ConfigError: There is no such scenario.
    """
    if name.endswith(FILE_SUFFIXES):
        return Path(name), load(Path(name))
    file_and_scenario = scenario_of_name(name)
    if file_and_scenario is None:
        names = [
            scenario_name
            for scenario in scenarios().values()
            for scenario_name in (scenario.name, *scenario.aliases)
        ]
        raise ConfigError(
            f"{unknown_word_message('scenario', name, names)}; or give a file ending in .yaml"
        )
    return file_and_scenario


def scenario_of_name(name: str) -> tuple[Path, Scenario] | None:
    """The scenario that comes with txnsim under a name or alias (in upper or lower case), and its
    file; None if there is none. Only files that mention the name are read: reading all takes a
    second.
    """
    lowered_name = name.lower()
    return _of_exact_name(lowered_name) or _of_exact_name(_two_digits(lowered_name))


def _two_digits(scenario_name: str) -> str:
    """Write ``z1`` as ``z01``; other names stay as they are."""
    number_match = re.fullmatch(r"([a-z]+)0*(\d{1,2})", scenario_name)
    return scenario_name if number_match is None else f"{number_match[1]}{int(number_match[2]):02}"


def _of_exact_name(name: str) -> tuple[Path, Scenario] | None:
    for path in (*_scenario_files(), *_scenario_files(ERRORS_FOLDER)):
        if path.stem == name or name in path.read_text("utf-8").lower():
            scenario = _load_once(path, path.stat().st_mtime_ns)
            if name in (known_name.lower() for known_name in (scenario.name, *scenario.aliases)):
                return path, scenario
    return None


@functools.cache
def _load_once(path: Path, _modified_ns: int) -> Scenario:
    return load(path)


def load(path: Path) -> Scenario:
    """Read the scenario in a file.

    Raises:
        ConfigError: The file can't be read or is no scenario.
    """
    from txnsim_lab.scenario.scenario_reader import (
        read,  # pydantic and YAML, only when a file is read
    )

    return read(str(path), text_of_file(path))


def text_of_file(path: Path) -> str:
    """The text of a file that a user names.

    Raises:
        ConfigError: The file can't be read, or is no text.
    """
    try:
        return read_given(path).decode()
    except OSError as error:
        raise ConfigError(f"{path}: can't be read: {problem_of(error)}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 at byte {error.start}") from None

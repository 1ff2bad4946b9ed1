"""Where scenario files are: in the wheel beside the package, in a checkout at its top; or anywhere,
by path.
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
from txnsim.text import unknown

if TYPE_CHECKING:
    from txnsim_lab.scenario.model import Scenario

SUFFIXES: Final = (".yaml", ".yml")
ERRORS: Final = "errors"
"""The folder of small stories, one for an error or symptom of docs/troubleshooting.md. They have
names, and are no anomalies: `scenarios` leaves them out.
"""


def directory() -> Path:
    """The folder of the scenarios that come with txnsim.

    Raises:
        ConfigError: This installation carries none.
    """
    package = Path(txnsim_lab.__file__).parent
    for candidate in (package / "scenarios", package.parent.parent / "scenarios"):
        if candidate.is_dir():
            return candidate
    raise ConfigError(f"no scenarios in {package}: the installation is incomplete")


def scenarios() -> dict[Path, Scenario]:
    """Every scenario that comes with txnsim and its file, by name; a file that has not changed is
    read once.
    """
    return {path: _load_once(path, path.stat().st_mtime_ns) for path in _files()}


def heads() -> Iterator[Mapping[str, Any]]:
    """What the files of those scenarios say at their top level, by name. Nothing is checked: these
    files are ours, and a model of them takes longer to import than all of them to read.
    """
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml is in PyYAML's wheels
    for path in _files():
        yield yaml.load(path.read_bytes(), loader)


def _files(below: str = "") -> list[Path]:
    files = directory().glob(f"{below}/*" if below else "*")
    return sorted(path for path in files if path.suffix in SUFFIXES)


def find(name: str) -> tuple[Path, Scenario]:
    """The scenario of that name or alias, or in that file; and the file.

    Raises:
        ConfigError: There is none.
    """
    if name.endswith(SUFFIXES):
        return Path(name), load(Path(name))
    file_and_scenario = of_name(name)
    if file_and_scenario is None:
        names = [
            own for scenario in scenarios().values() for own in (scenario.name, *scenario.aliases)
        ]
        raise ConfigError(f"{unknown('scenario', name, names)}; or give a file ending in .yaml")
    return file_and_scenario


def of_name(name: str) -> tuple[Path, Scenario] | None:
    """The scenario that comes with txnsim under a name or alias, in any case, and its file; None
    where there is none. Only files that mention the name are read: reading all takes a second.
    """
    lowered = name.lower()
    return _of_exact_name(lowered) or _of_exact_name(_two_digits(lowered))


def _two_digits(name: str) -> str:
    """``z1`` is ``z01``; a name without a number, or with more, stays."""
    numbered = re.fullmatch(r"([a-z]+)0*(\d{1,2})", name)
    return name if numbered is None else f"{numbered[1]}{int(numbered[2]):02}"


def _of_exact_name(name: str) -> tuple[Path, Scenario] | None:
    for path in (*_files(), *_files(ERRORS)):
        if path.stem == name or name in path.read_text("utf-8").lower():
            scenario = _load_once(path, path.stat().st_mtime_ns)
            if name in (known_name.lower() for known_name in (scenario.name, *scenario.aliases)):
                return path, scenario
    return None


@functools.cache
def _load_once(path: Path, _changed_ns: int) -> Scenario:
    return load(path)


def load(path: Path) -> Scenario:
    """The scenario in a file.

    Raises:
        ConfigError: The file can't be read or is no scenario.
    """
    from txnsim_lab.scenario.scenario_reader import (
        read,  # pydantic and YAML, only when a file is read
    )

    try:
        text = read_given(path).decode()
    except OSError as error:
        raise ConfigError(f"{path}: can't be read: {problem_of(error)}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 at byte {error.start}") from None
    return read(str(path), text)

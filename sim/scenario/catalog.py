"""Where scenario files are: in the wheel beside the package, in a checkout at its top; or anywhere,
by path.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import sim
from sim.errors import ConfigError

if TYPE_CHECKING:
    from sim.scenario.model import Scenario

SUFFIX = ".yaml"


def directory() -> Path:
    """The folder of the scenarios that come with txnsim.

    Raises:
        ConfigError: This installation carries none.
    """
    package = Path(sim.__file__).parent
    for candidate in (package / "scenarios", package.parent / "scenarios"):
        if candidate.is_dir():
            return candidate
    raise ConfigError(f"no scenarios in {package}: the installation is incomplete")


def scenarios() -> tuple[Scenario, ...]:
    """Every scenario that comes with txnsim, by name."""
    return tuple(load(path) for path in sorted(directory().glob("*" + SUFFIX)))


def find(name: str) -> Scenario:
    """The scenario of that name or alias, or in that file.

    Raises:
        ConfigError: There is none.
    """
    if name.endswith(SUFFIX):
        return load(Path(name))
    known = scenarios()
    for scenario in known:
        if name.lower() in (scenario.name, *(alias.lower() for alias in scenario.aliases)):
            return scenario
    names = ", ".join(scenario.name for scenario in known)
    raise ConfigError(
        f"no scenario {name!r}; there are: {names}; or give a file ending in {SUFFIX}"
    )


def load(path: Path) -> Scenario:
    """The scenario in a file.

    Raises:
        ConfigError: The file can't be read or is no scenario.
    """
    from sim.scenario.model import read  # pydantic and YAML, only when a file is read

    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    return read(path, text)

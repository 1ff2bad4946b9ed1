"""Where scenario files are: in the wheel beside the package, in a checkout at its top; or anywhere,
by path.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Final

import txnsim
from txnsim.errors import ConfigError
from txnsim.scenario.suggestions import unknown

if TYPE_CHECKING:
    from txnsim.scenario.model import Scenario

SUFFIXES: Final = (".yaml", ".yml")


def directory() -> Path:
    """The folder of the scenarios that come with txnsim.

    Raises:
        ConfigError: This installation carries none.
    """
    package = Path(txnsim.__file__).parent
    for candidate in (package / "scenarios", package.parent.parent / "scenarios"):
        if candidate.is_dir():
            return candidate
    raise ConfigError(f"no scenarios in {package}: the installation is incomplete")


def scenarios() -> dict[Path, Scenario]:
    """Every scenario that comes with txnsim and its file, by name; a file that has not changed is
    read once.
    """
    files = (path for path in directory().iterdir() if path.suffix in SUFFIXES)
    return {path: _load_once(path, path.stat().st_mtime_ns) for path in sorted(files)}


def find(name: str) -> tuple[Path, Scenario]:
    """The scenario of that name or alias, or in that file; and the file.

    Raises:
        ConfigError: There is none.
    """
    if name.endswith(SUFFIXES):
        return Path(name), load(Path(name))
    named = directory() / f"{name.lower()}{SUFFIXES[0]}"
    if named.is_file():
        return named, _load_once(named, named.stat().st_mtime_ns)
    names: list[str] = []
    for path, scenario in scenarios().items():
        own = (scenario.name, *scenario.aliases)
        if name.lower() in (one.lower() for one in own):
            return path, scenario
        names += own
    raise ConfigError(f"{unknown('scenario', name, names)}; or give a file ending in .yaml")


@functools.cache
def _load_once(path: Path, _changed_ns: int) -> Scenario:
    return load(path)


def load(path: Path) -> Scenario:
    """The scenario in a file.

    Raises:
        ConfigError: The file can't be read or is no scenario.
    """
    from txnsim.scenario.reading import read  # pydantic and YAML, only when a file is read

    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: can't be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 at byte {error.start}") from None
    return read(str(path), text)

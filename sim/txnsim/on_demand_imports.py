"""Modules that are imported when somebody wants them, and not before.

``OnDemand`` stands for a module that most runs never need. The rest is about packages that may lie
beside ``txnsim``: the lab and Spark. ``txnsim`` serves without them. It knows their names alone,
and asks them for a module when somebody wants what it lacks: a command, a route, a history.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, Final

EXTENSIONS: Final = ("txnsim_lab", "txnsim_spark")


class OnDemand:
    """A stand-in for a module with the same attributes.

    A server has to accept soon after its process was started, and it needs few of its modules for
    that.
    """

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(import_module(self.__name__), attribute)
        setattr(self, attribute, value)  # from now on it costs what an attribute costs
        return value


def offering(name: str) -> tuple[str, ...]:
    """The module of this name of each extension that has one, by its whole name; imports none.

    Args:
        name: Below the package, with dots: ``cli.commands``.
    """
    return tuple(f"{package}.{name}" for package in EXTENSIONS if _has(package, name))


def offered(name: str) -> Iterator[ModuleType]:
    """Import what ``offering`` names."""
    yield from map(import_module, offering(name))


def borrowed(name: str, what: str) -> Any:
    """Import a module of an extension.

    Args:
        name: With its package: ``txnsim_lab.testing.history``.
        what: What somebody misses without it, for the error.

    Raises:
        MissingExtraError: The package is not installed.
    """
    from txnsim.errors import MissingExtraError  # knows kio's error codes: slow to import

    package, _, inside = name.partition(".")
    if not _has(package, inside):
        raise MissingExtraError(f"{what} comes with {package}, which is not installed")
    return import_module(name)


def require_libraries(extra: str, *names: str) -> None:
    """See that libraries of an extra are installed; loads none.

    Raises:
        MissingExtraError: One of them is missing; the message has the pip line.
    """
    if not has_libraries(*names):
        from txnsim.errors import MissingExtraError

        raise MissingExtraError.of(extra)


def has_libraries(*names: str) -> bool:
    """Whether libraries are installed; loads none."""
    return all(map(find_spec, names))


def missing() -> tuple[str, ...]:
    """Names of the extensions that are not installed."""
    return tuple(package for package in EXTENSIONS if not _has(package, "__init__"))


def _has(package: str, name: str) -> bool:
    """Looks for the file: ``find_spec`` of a name with dots imports what is above it."""
    spec = find_spec(package)
    above = spec.submodule_search_locations if spec is not None else None
    inside = Path(*name.split("."))
    return any(
        Path(folder, inside).with_suffix(".py").is_file()
        or Path(folder, inside, "__init__.py").is_file()
        for folder in above or ()
    )

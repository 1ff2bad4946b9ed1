"""Imports modules when they are first needed.

``OnDemand`` stands for a module that most runs never need. The rest is about packages that may be
installed with ``txnsim``: the lab and Spark. ``txnsim`` serves without them. It knows only their
names, and asks them for a module when a user wants something that it lacks: a command, a route, a
history.
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
    """A stand-in for a module: its attributes are the module's, which is imported at the first use
    of one.

    A server should accept connections soon after its process has started, and needs few of its
    modules for that.
    """

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(import_module(self.__name__), attribute)
        setattr(self, attribute, value)  # later accesses are plain attributes
        return value


def offering(name: str) -> tuple[str, ...]:
    """Full names of the modules that the extensions have under a name; imports none of them.

    Args:
        name: Name below the extension's package, with dots: ``cli.commands``.
    """
    return tuple(f"{package}.{name}" for package in EXTENSIONS if _has(package, name))


def offered(name: str) -> Iterator[ModuleType]:
    """Import the modules that ``offering`` names."""
    yield from map(import_module, offering(name))


def borrowed(name: str, what: str) -> Any:
    """Import a module of an extension.

    Args:
        name: Full name of the module: ``txnsim_lab.testing.history``.
        what: The feature that needs the module, for the error's message.

    Raises:
        MissingExtraError: The extension is not installed.
    """
    from txnsim.errors import MissingExtraError  # slow to import: it loads kio's error codes

    package, _, inside = name.partition(".")
    if not _has(package, inside):
        raise MissingExtraError(f"{what} comes with {package}, which is not installed")
    return import_module(name)


def require_libraries(extra: str, *names: str) -> None:
    """Checks that the libraries of an extra are installed, without importing them.

    Raises:
        MissingExtraError: One of them is missing; the message has the pip line.
    """
    if not has_libraries(*names):
        from txnsim.errors import MissingExtraError

        raise MissingExtraError.of(extra)


def has_libraries(*names: str) -> bool:
    """Whether the libraries are installed; imports none of them."""
    return all(map(find_spec, names))


def missing() -> tuple[str, ...]:
    """Names of the extension packages that are not installed."""
    return tuple(package for package in EXTENSIONS if not _has(package, "__init__"))


def _has(package: str, name: str) -> bool:
    """Whether the package has a module. Looks for its file: ``find_spec`` would import the packages
    above it.
    """
    spec = find_spec(package)
    above = spec.submodule_search_locations if spec is not None else None
    inside = Path(*name.split("."))
    return any(
        Path(folder, inside).with_suffix(".py").is_file()
        or Path(folder, inside, "__init__.py").is_file()
        for folder in above or ()
    )

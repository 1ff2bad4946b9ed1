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

    def __init__(self, module_name: str) -> None:
        self.__name__ = module_name

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(import_module(self.__name__), attribute)
        setattr(self, attribute, value)  # later accesses are plain attributes
        return value


def offering(module_name: str) -> tuple[str, ...]:
    """Full names of the modules that the extensions have under a name; imports none of them.

    Args:
        module_name: Name below the extension's package, with dots: ``cli.commands``.
    """
    return tuple(
        f"{package_name}.{module_name}"
        for package_name in EXTENSIONS
        if _has_module(package_name, module_name)
    )


def offered(module_name: str) -> Iterator[ModuleType]:
    """Import the modules that ``offering`` names."""
    yield from map(import_module, offering(module_name))


def borrowed(module_name: str, feature: str) -> Any:
    """Import a module of an extension.

    Args:
        module_name: Full name of the module: ``txnsim_lab.testing.history``.
        feature: The feature that needs the module, for the error's message.

    Raises:
        MissingExtraError: The extension is not installed.
    """
    from txnsim.errors import MissingExtraError  # slow to import: it loads kio's error codes

    package_name, _, inner_name = module_name.partition(".")
    if not _has_module(package_name, inner_name):
        raise MissingExtraError(f"{feature} comes with {package_name}, which is not installed")
    return import_module(module_name)


def require_libraries(extra_name: str, *library_names: str) -> None:
    """Checks that the libraries of an extra are installed, without importing them.

    Raises:
        MissingExtraError: One of them is missing; the message has the pip line.
    """
    if not has_libraries(*library_names):
        from txnsim.errors import MissingExtraError

        raise MissingExtraError.of(extra_name)


def has_libraries(*library_names: str) -> bool:
    """Whether the libraries are installed; imports none of them."""
    return all(map(find_spec, library_names))


def missing() -> tuple[str, ...]:
    """Names of the extension packages that are not installed."""
    return tuple(
        package_name for package_name in EXTENSIONS if not _has_module(package_name, "__init__")
    )


def _has_module(package_name: str, module_name: str) -> bool:
    """Whether the package has a module. Looks for its file: ``find_spec`` would import the packages
    above it.
    """
    package_spec = find_spec(package_name)
    search_folders = package_spec.submodule_search_locations if package_spec is not None else None
    module_path = Path(*module_name.split("."))
    return any(
        Path(folder, module_path).with_suffix(".py").is_file()
        or Path(folder, module_path, "__init__.py").is_file()
        for folder in search_folders or ()
    )

"""Keeps old module names importable, from the time when ``txnsim`` was one package for the broker,
the lab and Spark. An old name gives the same module as the new one. Docs promised some of them.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Final

MOVED: Final = {
    "txnsim.check": "txnsim_lab.check",
    "txnsim.pipeline": "txnsim_spark",
    "txnsim.proxy": "txnsim_lab.proxy",
    "txnsim.scenario": "txnsim_lab.scenario",
    "txnsim.simulation": "txnsim_lab.simulation",
}
"""Old package name -> new package name."""


class _OldNames:
    """A finder and loader that stands before Python's own. Below an old package Python's finder
    would find the files of the new package and load them a second time.
    """

    @staticmethod
    def find_spec(name: str, *_: object) -> ModuleSpec | None:
        package_name = ".".join(name.split(".")[:2])
        if package_name not in MOVED:
            return None
        real_module_name = MOVED[package_name] + name.removeprefix(package_name)
        return ModuleSpec(name, _OldNames, origin=real_module_name)  # type: ignore[arg-type]  # a loader's methods

    @staticmethod
    def create_module(spec: ModuleSpec) -> ModuleType:
        assert spec.origin is not None
        module = import_module(spec.origin)
        spec.loader_state = module.__spec__
        return module

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        """Give the module its own spec back; its code ran at the import under its new name."""
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state


def install() -> None:
    """Make the old module names importable."""
    sys.meta_path.insert(0, _OldNames)

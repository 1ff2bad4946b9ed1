"""Modules that are imported when something of theirs is first used.

A server has to accept soon after its process was started, and it needs few of its modules for that.
Where most runs never need a module, ``OnDemand`` stands for it.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


class OnDemand:
    """A stand-in for a module with the same attributes."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __getattr__(self, attribute: str) -> Any:
        found = getattr(import_module(self.__name__), attribute)
        setattr(self, attribute, found)  # from now on it costs what an attribute costs
        return found

"""Loggers that import structlog with the first line that is logged: most starts log nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

_waiting: Final[list[Callable[[], None]]] = []


class Logger:
    """A logger of structlog, by its name."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, method: str) -> Any:
        import structlog

        set_up()
        return getattr(structlog.get_logger(self._name), method)


def before_first_line(do: Callable[[], None]) -> None:
    """Set structlog up: now where it is there already, else before the first line."""
    _waiting.clear()
    if "structlog" in sys.modules:
        do()
    else:
        _waiting.append(do)


def set_up() -> None:
    """Do now what is to be done before the first line: what changes it later counts."""
    while _waiting:
        _waiting.pop()()

"""Loggers that import structlog with the first line that is logged: most starts log nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable
from typing import Any, Final

TRIED_MAX: Final = 10_000
"""What is remembered of one kind; then it begins anew."""
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


class Retries:
    """What is tried until it succeeds, and may never: that it fails is logged once, and once more
    where the error is another one.
    """

    __slots__ = ("_about", "_event", "_logger", "_patience", "tried")

    def __init__(self, logger: Logger, event: str, about: str, *, patience: int = 1) -> None:
        """Nothing has failed yet.

        Args:
            logger: Whose event it is.
            event: What is logged.
            about: The value of a line that says what is tried.
            patience: How often it has to fail in a row; more than once where that is ordinary.
        """
        self._logger = logger
        self._event = event
        self._about = about
        self._patience = patience
        self.tried: dict[Hashable, tuple[str, int]] = {}
        """What has failed and is tried again: its error, and how often."""

    def failed(self, what: Hashable, error: str, reason: str) -> None:
        """It has failed with this error; the reason is for people, and may differ each time."""
        last_error, count = self.tried.get(what, (error, 0))
        count = count + 1 if last_error == error else 1
        if what not in self.tried and len(self.tried) == TRIED_MAX:
            self.tried.clear()
        self.tried[what] = error, count
        if count == self._patience:
            fields = {self._about: what, "error": error, "reason": reason}
            self._logger.warning(self._event, **fields)

    def done(self, what: Hashable) -> None:
        """Forget the failures of a success or of an abandoned attempt; the next is logged."""
        self.tried.pop(what, None)


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

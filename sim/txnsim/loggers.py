"""Loggers that import structlog when the first line is logged: most runs log nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

TRIED_MAX: Final = 10_000
"""Number of failing attempts that a ``Retries`` remembers; above it, it forgets them all."""
_waiting: Final[list[Callable[[], None]]] = []
_error_watchers: Final[list[Callable[[BaseException], object]]] = []


class Logger:
    """A structlog logger that is created when it is first used."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, method: str) -> Any:
        import structlog

        set_up()
        log_line = getattr(structlog.get_logger(self._name), method)
        return partial(_log_watched, log_line) if _error_watchers else log_line


class FailureLog:
    """Logs failures of things that are tried again until they succeed: once, and again when the
    error changes.
    """

    __slots__ = ("_about", "_event", "_failures_to_wait", "_logger", "tried")

    def __init__(self, logger: Logger, event: str, field_name: str, *, patience: int = 1) -> None:
        """Start without any failure.

        Args:
            logger: The logger that writes the event.
            event: Name of the event to log.
            field_name: Name of the event's field that says what is retried.
            patience: Number of failures in a row before the event is logged; more than 1 where a
                few failures are ordinary.
        """
        self._logger = logger
        self._event = event
        self._about = field_name
        self._failures_to_wait = patience
        self.tried: dict[Hashable, tuple[str, int]] = {}
        """What is being retried -> its last error, and how often in a row it failed with that
        error.
        """

    def note_failure(self, retried_thing: Hashable, error: str, reason: str) -> None:
        """Count a failure. ``error`` tells failures apart; ``reason`` is for readers and may differ
        each time.
        """
        last_error, failure_count = self.tried.get(retried_thing, (error, 0))
        failure_count = failure_count + 1 if last_error == error else 1
        if retried_thing not in self.tried and len(self.tried) == TRIED_MAX:
            self.tried.clear()
        self.tried[retried_thing] = error, failure_count
        if failure_count == self._failures_to_wait:
            fields = {self._about: retried_thing, "error": error, "reason": reason}
            self._logger.warning(self._event, **fields)

    def forget_failures(self, retried_thing: Hashable) -> None:
        """Forget the failures of ``retried_thing``, which succeeded or was given up: its next
        failure is logged again.
        """
        self.tried.pop(retried_thing, None)


def before_first_line(set_up_structlog: Callable[[], None]) -> None:
    """Register the set-up of structlog: it runs now if structlog is imported, else before the first
    line.
    """
    _waiting.clear()
    if "structlog" in sys.modules:
        set_up_structlog()
    else:
        _waiting.append(set_up_structlog)


@contextmanager
def watched_errors(watcher: Callable[[BaseException], object]) -> Iterator[None]:
    """Call a function with each error that a line of the log reports (``exc_info``), also where no
    line is printed: bugs that a broker survives are only logged.
    """
    _error_watchers.append(watcher)
    try:
        yield
    finally:
        _error_watchers.remove(watcher)


def _log_watched(log_line: Callable[..., Any], event: str, **fields: Any) -> Any:
    error = fields.get("exc_info")
    if isinstance(error, BaseException):
        for watcher in _error_watchers:
            watcher(error)
    return log_line(event, **fields)


def set_up() -> None:
    """Run the set-up that ``before_first_line`` registered, so that later changes of the set-up
    win.
    """
    while _waiting:
        _waiting.pop()()

"""Where logs go and how they look: to standard error, away from results, for people or as JSON.

A line is an event with named values. Those that are bound while a request is handled
(``server._request_log``) are part of each line. docs/event-log.md tells what is logged.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, MutableMapping
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from txnsim.cli._log_floods import Floods
from txnsim.cli.output import may_colour
from txnsim.extensions import OnDemand
from txnsim.loggers import Logger, before_first_line
from txnsim.runtime.wall_clock import monotonic_ms
from txnsim.text import printable

if TYPE_CHECKING:
    import structlog
    from structlog.typing import Processor
else:
    structlog = OnDemand("structlog")

LEVELS: Final = ("debug", "info", "warning", "error")
LEVEL_DEFAULT: Final = "info"
_FIRST: Final = ("timestamp", "level", "logger", "event")
"""Keys with which each line of JSON begins."""


class LogFormat(StrEnum):
    """How lines look."""

    CONSOLE = "console"
    """For people, in colours on a terminal."""
    JSON = "json"
    """An object a line."""


def set_up_logs(*, level: str = LEVEL_DEFAULT, log_format: LogFormat = LogFormat.CONSOLE) -> None:
    """From now on logs go to standard error."""
    global _floods  # a process has one log
    loop_log = logging.getLogger("asyncio")
    loop_log.removeFilter(_floods)
    _floods = Floods(monotonic_ms)
    loop_log.addFilter(_floods)
    before_first_line(partial(_configure, level, log_format))


def _configure(level: str, log_format: LogFormat) -> None:
    class Named(structlog.PrintLogger):
        """A logger that knows its name."""

        def __init__(self, name: str) -> None:
            super().__init__(sys.stderr)
            self.name = name

    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            _add_name,
            _floods,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *_look(log_format),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.getLevelNamesMapping()[level.upper()]
        ),
        logger_factory=lambda *names: Named(names[0] if names else "txnsim"),
    )


def log_to_stderr() -> None:
    """From now on logs go to standard error, as all that is no result; only errors, because what
    else happens in a story is said by the story.
    """
    set_up_logs(level="error")


def tell_left_out(*, at_once: bool = False) -> None:
    """Say how much of what kind of trouble has not been logged, once it has ended for a second.

    Args:
        at_once: Also where it goes on.
    """
    for (name, event, *_), count in _floods.rest(at_once=at_once):
        Logger(str(name)).warning(event, left_out=count)


_floods = Floods(monotonic_ms)
"""The rate limit of the last logging setup."""


def _look(log_format: LogFormat) -> Iterable[Processor]:
    if log_format is LogFormat.CONSOLE:
        return (
            _printable,
            structlog.dev.ConsoleRenderer(
                colors=may_colour(), exception_formatter=structlog.dev.plain_traceback
            ),
        )
    return (
        structlog.processors.format_exc_info,
        _in_order,
        structlog.processors.JSONRenderer(default=str),
    )


def _printable(
    _logger: Any, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    for name, value in event.items():
        if isinstance(value, str):
            event[name] = printable(value)
    return event


def _add_name(
    logger: Any, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    event["logger"] = logger.name
    return event


def _in_order(
    _logger: Any, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    return {**{key: event[key] for key in _FIRST}, **event}

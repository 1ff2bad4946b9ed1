"""The log: written to standard error, apart from results, as text for people or as JSON.

A line is an event with named values. Values that are bound while a request is handled
(``server._request_log``) appear in each line. docs/serve.md tells what is logged.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable, Iterable, MutableMapping
from enum import StrEnum
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from txnsim.cli.output import TERMINAL
from txnsim.loggers import Logger, before_first_line
from txnsim.on_demand_imports import OnDemand
from txnsim.runtime.wall_clock import monotonic_ms
from txnsim.text import printable

if TYPE_CHECKING:
    import structlog
    from structlog.typing import Processor
else:
    structlog = OnDemand("structlog")

LEVELS: Final = ("debug", "info", "warning", "error")
LEVEL_DEFAULT: Final = "info"
_FIRST_FIELDS: Final = ("timestamp", "level", "logger", "event")
"""The first keys of each JSON line."""
QUIET_MS: Final = 1_000
KINDS_MAX: Final = 1_000
"""Number of kinds to remember; the code has fewer."""
REASONS_MAX: Final = 20
"""Number of reasons of one event per second that get their own lines; further ones share a line."""
REASON_CHARACTERS_MAX: Final = 200
REASON_FIELD_BY_EVENT: Final = {"txn.timed_out": "transactional_id"}
"""Event -> the field that counts as its reason, unchanged."""
_NUMBER_RE: Final = re.compile(r"\d+")
_TROUBLE_LEVELS: Final = frozenset({"warning", "error", "critical"})


class LogFormat(StrEnum):
    """The form of log lines."""

    CONSOLE = "console"
    """For people, with colours on a terminal."""
    JSON = "json"
    """One JSON object per line."""


def set_up_logs(*, level: str = LEVEL_DEFAULT, log_format: LogFormat = LogFormat.CONSOLE) -> None:
    """Send logs to standard error from now on."""
    global _flood_filter  # a process has one log
    asyncio_logger = logging.getLogger("asyncio")
    asyncio_logger.removeFilter(_flood_filter)
    _flood_filter = FloodFilter(monotonic_ms)
    asyncio_logger.addFilter(_flood_filter)
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
            _flood_filter,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *_renderers(log_format),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.getLevelNamesMapping()[level.upper()]
        ),
        logger_factory=lambda *names: Named(names[0] if names else "txnsim"),
    )


def tell_left_out(*, tells_at_once: bool = False) -> None:
    """Log how many lines of each kind were suppressed, for kinds without a line in the last second.

    Args:
        tells_at_once: For all kinds.
    """
    for (logger_name, event_name, *_), count in _flood_filter.take_suppressed(
        takes_all=tells_at_once
    ):
        Logger(str(logger_name)).warning(event_name, left_out=count)


def _renderers(log_format: LogFormat) -> Iterable[Processor]:
    if log_format is LogFormat.CONSOLE:
        return (
            _make_printable,
            structlog.dev.ConsoleRenderer(
                colors=TERMINAL.may_colour(), exception_formatter=structlog.dev.plain_traceback
            ),
        )
    return (
        structlog.processors.format_exc_info,
        _order_fields,
        structlog.processors.JSONRenderer(default=str),
    )


def _make_printable(
    _logger: Any, _method: str, event_fields: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    for field_name, value in event_fields.items():
        if isinstance(value, str):
            event_fields[field_name] = printable(value)
    return event_fields


def _add_name(
    logger: Any, _method: str, event_fields: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    event_fields["logger"] = logger.name
    return event_fields


def _order_fields(
    _logger: Any, _method: str, event_fields: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    return {**{key: event_fields[key] for key in _FIRST_FIELDS}, **event_fields}


# Not too many of a kind

Kind = tuple[object, ...]


class FloodFilter:
    """Logs trouble of one kind once per second, and counts the rest.

    Anyone who can reach a port can cause a log line with a few bytes, and a traceback where there
    is a bug. A kind is a logger, an event, its reason (without numbers) and, for an exception, its
    class and the line that raised it. The number of suppressed lines is in the next line of the
    kind (``left_out``), or comes from ``take_suppressed``. Lines below warning are always logged,
    except events that thousands of transactions cause at once (``REASON_FIELD_BY_EVENT``).
    """

    def __init__(self, read_now_ms: Callable[[], int]) -> None:
        """``read_now_ms`` is a monotonic clock."""
        self._now_ms = read_now_ms
        self._told_ms: dict[Kind, int] = {}
        self._left_out_counts: dict[Kind, int] = {}
        self._reasons: dict[Kind, tuple[int, set[str]]] = {}
        """Event -> start of the second and the reasons seen in it; clients can choose reasons
        freely.
        """

    def __call__(
        self, logger: Any, _method: str, event_fields: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        """Drop a line, or pass it with the number of dropped ones (a structlog processor)."""
        reason_field = REASON_FIELD_BY_EVENT.get(event_fields["event"])
        if event_fields.get("level") not in _TROUBLE_LEVELS and reason_field is None:
            return event_fields
        event_kind = (
            logger.name,
            event_fields["event"],
            *_exception_kind(event_fields.get("exc_info")),
        )
        reason = event_fields.get(reason_field or "reason")
        if isinstance(reason, str):
            reason = reason if reason_field else _NUMBER_RE.sub("#", reason)
            event_kind = self._with_reason(event_kind, reason[:REASON_CHARACTERS_MAX])
        suppressed_count = self.admit(event_kind)
        if suppressed_count is None:
            from structlog import DropEvent

            raise DropEvent
        if suppressed_count:
            event_fields["left_out"] = suppressed_count
        return event_fields

    def filter(self, record: logging.LogRecord) -> bool:
        """Like ``__call__``, for lines of the standard library's logging (asyncio's own)."""
        suppressed_count = self.admit((record.name, record.msg, *_exception_kind(record.exc_info)))
        if suppressed_count:
            record.msg = f"{record.msg} ({suppressed_count} more left out)"
        return suppressed_count is not None

    def admit(self, event_kind: Kind) -> int | None:
        """Number of suppressed lines of a kind since the last logged one; None if this line is
        suppressed too.
        """
        now_ms = self._now_ms()
        last_logged_ms = self._told_ms.get(event_kind)
        if last_logged_ms is not None and now_ms - last_logged_ms < QUIET_MS:
            self._left_out_counts[event_kind] = self._left_out_counts.get(event_kind, 0) + 1
            return None
        if last_logged_ms is None and len(self._told_ms) >= KINDS_MAX:
            self._told_ms.clear()
        self._told_ms[event_kind] = now_ms
        return self._left_out_counts.pop(event_kind, 0)

    def _with_reason(self, event_kind: Kind, reason: str) -> Kind:
        """The kind with its reason, or without a reason above the limit per second."""
        now_ms = self._now_ms()
        second_start_ms, reasons_logged = self._reasons.get(event_kind, (now_ms, set()))
        if now_ms - second_start_ms >= QUIET_MS:
            second_start_ms, reasons_logged = now_ms, set()
        self._reasons[event_kind] = second_start_ms, reasons_logged
        if reason not in reasons_logged and len(reasons_logged) >= REASONS_MAX:
            return event_kind
        reasons_logged.add(reason)
        return (*event_kind, reason)

    def take_suppressed(self, *, takes_all: bool = False) -> list[tuple[Kind, int]]:
        """Suppressed lines by kind, for kinds without a line in the last second; all kinds if
        ``takes_all``.
        """
        now_ms = self._now_ms()
        suppressed_counts = [
            (kind, count)
            for kind, count in self._left_out_counts.items()
            if takes_all or now_ms - self._told_ms.get(kind, 0) >= QUIET_MS
        ]
        for kind, _ in suppressed_counts:
            del self._left_out_counts[kind]
        return suppressed_counts


def _exception_kind(exc_info: object) -> Kind:
    """Class and line of an exception, given in any form that loggers accept."""
    if exc_info is True:
        exc_info = sys.exc_info()
    error = exc_info[1] if isinstance(exc_info, tuple) else exc_info
    if not isinstance(error, BaseException):
        return ()
    frame: TracebackType | None = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    raising_line = () if frame is None else (frame.tb_frame.f_code.co_filename, frame.tb_lineno)
    return (type(error), *raising_line)


_flood_filter = FloodFilter(monotonic_ms)
"""The rate limit that the last ``set_up_logs`` installed."""

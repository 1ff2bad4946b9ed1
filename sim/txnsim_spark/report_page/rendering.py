"""HTML and SVG by the templates beside this: what they are given is escaped where it is written."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined

ROWS_MAX: Final = 2_000
"""Of a table, or a list."""
NOTHING: Final = "–"


def rendered(template: str, **values: Any) -> str:
    """A template with its values.

    Args:
        template: Its name.
        values: By the names that it has for them.
    """
    return _environment().get_template(template).render(values)


def time_text(time_ms: int | None) -> str:
    """To the millisecond, in UTC."""
    if time_ms is None:
        return NOTHING
    moment = datetime.fromtimestamp(time_ms / 1_000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{time_ms % 1_000:03d}Z"


def producer_text(of: Any) -> str:
    """The producer of a transaction."""
    return f"{of.producer_id}:{of.producer_epoch}"


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader(__package__),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals["rows_max"] = ROWS_MAX
    made.filters |= {
        "base64": lambda data: base64.b64encode(data).decode(),
        "known": lambda number: NOTHING if number is None else number,
        "producer": producer_text,
        "thousands": lambda number: f"{number:,}",
        "time": time_text,
    }
    return made

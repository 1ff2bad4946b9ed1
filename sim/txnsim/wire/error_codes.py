"""The error codes of an answer, at its top and in each of its elements.

For metrics that count errors. A function is written out per message class on first use, as encoders
are (``wire.codegen``): it costs a comparison per error code. Kafka's counterpart:
AbstractResponse.errorCounts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final

from txnsim.wire.codegen import Source
from txnsim.wire.schema import ENTITY, FIXED, describe

ERROR_CODE: Final = "error_code"
"""Kafka type of the fields in question, whatever their names."""

Tell = Callable[[int], object]
Teller = Callable[[Any, Tell], object]
"""(message, function to call with each error that is not NONE)."""

_tellers: dict[Any, Teller | None] = {}


def errors_of(cls: Any) -> Teller | None:
    """The function that finds the errors of such a message; None where it can hold none."""
    if cls not in _tellers:
        _tellers[cls] = _compile(cls)
    return _tellers[cls]


@cache
def position_of_error(cls: Any) -> int | None:
    """Where in its bytes an answer's own error stands; None unless that is always one place."""
    position = 0
    for row in describe(cls).plain:
        if row.array or row.kind not in FIXED:
            return None
        if row.kind == ERROR_CODE:
            return position
        position += FIXED[row.kind][1]
    return None


def _compile(cls: Any) -> Teller | None:
    source = Source()
    source.enter("def tell_errors(o, tell):")
    lines = 0
    rows = describe(cls)
    for row in (*rows.plain, *rows.tagged):
        if row.kind == ERROR_CODE and not row.array:
            source.line(f"if o.{row.name}: tell(o.{row.name})")
            lines += 1
        elif row.kind == ENTITY:
            inner = errors_of(row.entity)
            if inner is None:
                continue
            call = f"{source.bind(inner, 'inner')}(v, tell)"
            elements = f"o.{row.name}" if row.array else f"(o.{row.name},)"
            source.enter(f"for v in {elements} or ():")
            source.line(f"if v is not None: {call}")
            source.leave()
            lines += 1
    if not lines:
        return None
    teller: Teller = source.function("tell_errors", origin=f"errors of {cls.__name__}")
    return teller

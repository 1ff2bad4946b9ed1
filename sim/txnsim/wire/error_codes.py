"""Finds the error codes of a response, at its top level and in each of its elements.

For metrics that count errors. A function is generated per message class on first use, like encoders
(``wire._codegen``): it costs one comparison per error code. Kafka's counterpart:
AbstractResponse.errorCounts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final

from txnsim.wire._codegen import CodeSource
from txnsim.wire._schema import ENTITY, FIXED_WIDTH_CODES, describe

ERROR_CODE: Final = "error_code"
"""Kafka type of error code fields, whatever their names."""

ErrorCallback = Callable[[int], object]
ErrorTeller = Callable[[Any, ErrorCallback], object]
"""Called with (message, function); it calls the function with each error code that is not NONE."""


class _ErrorTellers(dict[Any, ErrorTeller | None]):
    def __missing__(self, cls: Any) -> ErrorTeller | None:
        error_teller = self[cls] = _compile_teller(cls)
        return error_teller


errors_of: Final = _ErrorTellers().__getitem__
"""Message class -> function that finds its error codes; None for a class without any."""


@cache
def position_of_error(cls: Any) -> int | None:
    """Position of the top-level error code in an encoded response; None if it varies or there is
    none.
    """
    position = 0
    for row in describe(cls).plain:
        if row.array or row.kind not in FIXED_WIDTH_CODES:
            return None
        if row.kind == ERROR_CODE:
            return position
        position += FIXED_WIDTH_CODES[row.kind][1]
    return None


def _compile_teller(cls: Any) -> ErrorTeller | None:
    code_source = CodeSource()
    code_source.enter_block("def tell_errors(o, tell):")
    if not _emit_error_lines(code_source, cls, "o"):
        return None
    error_teller: ErrorTeller = code_source.compile_function(
        "tell_errors", code_name=f"errors of {cls.__name__}"
    )
    return error_teller


def _emit_error_lines(code_source: CodeSource, cls: Any, message_variable: str) -> bool:
    """Add the lines that find the error codes of ``message_variable``; returns whether there can be
    any. Loops are nested: calling a function for each element would take longer than finding its
    error code.
    """
    entity_rows = describe(cls)
    has_errors = False
    for row in (*entity_rows.plain, *entity_rows.tagged):
        field_expression = f"{message_variable}.{row.name}"
        if row.kind == ERROR_CODE and not row.array:
            code_source.add_line(f"if (error := {field_expression}): tell(error)")
        elif row.kind == ENTITY and errors_of(row.entity) is not None:
            row_variable = f"{message_variable}_{row.name}"
            rows_expression = field_expression if row.array else f"({field_expression},)"
            code_source.enter_block(f"for {row_variable} in {rows_expression} or ():")
            code_source.enter_block(f"if {row_variable} is not None:")
            _emit_error_lines(code_source, row.entity, row_variable)
            code_source.leave_blocks()
            code_source.leave_blocks()
        else:
            continue
        has_errors = True
    return has_errors

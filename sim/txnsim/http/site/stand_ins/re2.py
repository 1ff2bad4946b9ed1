"""Python's ``re`` in place of ``google-re2``, which has no wheel for WebAssembly.

It knows expressions that RE2/J refuses, back references for example; ListTransactions v2 takes
them here.
"""

from __future__ import annotations

import re

error = re.error


class Options:
    """What ``txnsim.patterns`` sets; ``re`` has none of it."""


class _Compiled:
    """An expression, compiled."""

    def __init__(self, expression: str) -> None:
        self.fullmatch = re.compile(expression).fullmatch
        self.programsize = len(expression)


def compile(expression: str, _options: Options) -> _Compiled:
    """Compile an expression."""
    return _Compiled(expression)

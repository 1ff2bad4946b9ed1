"""Answers prepared once: those that repeat, and those that repeat but for some numbers.

Building a message and encoding it costs more than deciding what it says. So the commonest answers
are encoded once per shape, by the ordinary codec, and kept as bytes; where numbers differ they are
encoded with numbers that occur nowhere else, and the bytes around them are kept. Nothing here knows
a layout.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from txnsim.api.request import answer
from txnsim.wire.codec import encode_body

ANSWERS_MAX: Final = 16_384
"""Prepared answers per API; an entry is some hundred bytes."""

_MARKED_INT64: Final = 0x5AA5_1234_5678_9ABC
_MARKED_INT16: Final = 0x5AA5


class Gap:
    """The bytes around numbers that are side by side in a body."""

    __slots__ = ("_after", "_before", "_numbers")

    def __init__(self, layout: str, make: Callable[[tuple[int, ...]], Any]) -> None:
        """Encode ``make(marks)`` and find the marks.

        Args:
            layout: Layout of the numbers as ``struct`` writes them: ``q`` and ``h`` only.
            make: The message with these numbers.
        """
        self._numbers = struct.Struct(">" + layout)
        marks = tuple(
            _MARKED_INT64 + index if code == "q" else _MARKED_INT16 + index
            for index, code in enumerate(layout)
        )
        marked = self._numbers.pack(*marks)
        body = encode_body(make(marks))
        assert body.count(marked) == 1, f"{layout} is not found once in {body!r}"
        self._before, self._after = body.split(marked)

    def fill(self, *numbers: int) -> bytes:
        """The body with these numbers."""
        return self._before + self._numbers.pack(*numbers) + self._after


prepared: Final = lru_cache(maxsize=ANSWERS_MAX)
"""Decorates a function from the shape of an answer to its bytes or its ``Gap``."""


@prepared
def only_error(api_key: int, api_version: int, error: int) -> bytes:
    return encode_body(answer(api_key, api_version, error_code=error))

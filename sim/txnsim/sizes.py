"""Sizes as people write them, in bytes."""

from __future__ import annotations

from typing import Final

UNITS: Final = {
    "": 1,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
}
FORMS: Final = "128MiB, 1GB or 1073741824"
DIGITS_MAX: Final = 15
"""Of a number: enough for any memory, and quick to read."""


def read_size(text: str) -> int:
    """``128MiB``, ``1GB``, ``4096`` in bytes.

    Raises:
        ValueError: It is none of these forms.
    """
    unit = text.lstrip("0123456789")
    number = text.removesuffix(unit) if unit else text
    if unit not in UNITS or not 0 < len(number) <= DIGITS_MAX:
        raise ValueError(f"{text!r} is no size such as {FORMS}")
    return int(number) * UNITS[unit]


def spoken_size(size: int) -> str:
    """Text of a size in the largest unit that gives a whole number."""
    for unit, factor in sorted(UNITS.items(), key=lambda one: -one[1]):
        if unit and size and size % factor == 0:
            return f"{size // factor} {unit}"
    return f"{size} bytes"

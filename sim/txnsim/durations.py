"""Durations and points in time as people write them; here they are whole milliseconds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
FORMS: Final = "500ms, 30s, 21m, 2h or 7d"
DIGITS_MAX: Final = 15
"""Of a number: enough for any clock, and quick to read."""

_MILLISECOND: Final = timedelta(milliseconds=1)


def read_ms(text: str) -> int:
    """``21m``, ``500ms``, ``-10s`` in milliseconds.

    Raises:
        ValueError: It is none of these forms.
    """
    number = text.rstrip("abcdefghijklmnopqrstuvwxyz")
    unit = text[len(number) :]
    digits = number.removeprefix("-")
    is_number = digits.isascii() and digits.isdigit() and len(digits) <= DIGITS_MAX
    if unit not in UNITS_MS or not is_number:
        raise ValueError(f"{text!r} is no duration such as {FORMS}")
    return int(number) * UNITS_MS[unit]


def whole_ms(given: object) -> int:
    """A duration in milliseconds: a whole number of them, a ``timedelta``, or a text: ``2m``.

    A clock that stands between two milliseconds would end up in records and on the wire, where
    Kafka knows whole ones only.

    Raises:
        ValueError: It has another form, or is no whole number of milliseconds.
    """
    if isinstance(given, str):
        return read_ms(given)
    if isinstance(given, timedelta):
        if given % _MILLISECOND:
            raise ValueError(f"{given!r} is no whole number of milliseconds")
        return given // _MILLISECOND
    if isinstance(given, float) and given.is_integer():
        return int(given)
    if isinstance(given, int) and not isinstance(given, bool):
        return given
    raise ValueError(
        f"{given!r} is no duration: expected a whole number of milliseconds, "
        f"or a text such as {FORMS}"
    )


def time_text(time_ms: int) -> str:
    """A wall clock's time, of milliseconds since 1970, in UTC to the second (ISO 8601); as it is
    where no calendar has it, as in a damaged file.
    """
    try:
        return datetime.fromtimestamp(time_ms / 1_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return str(time_ms)

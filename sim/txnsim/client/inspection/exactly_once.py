"""Was each input processed exactly once? Pure: values in, complaints out.

The comparison judges only the application: each committed input value must be in its output once,
and no other value may be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

Value = bytes | None

SHOWN_MAX: Final = 10
"""Number of values of one kind that a complaint lists."""
_VALUE_CHARACTERS_MAX: Final = 80


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """The differences between the values that were read and those that are owed."""

    missing: Mapping[Value, int] = {}
    repeated: Mapping[Value, int] = {}
    """Values that were read more often than owed -> how many times too often."""
    aborted_but_read: Mapping[Value, int] = {}
    """Values that were read although their input was aborted."""
    unexpected: Mapping[Value, int] = {}
    """Values that were read but not owed."""
    remarks: Mapping[Value, str] = {}
    """Remarks on values."""

    @property
    def is_exact(self) -> bool:
        return not (self.missing or self.repeated or self.aborted_but_read or self.unexpected)

    def __str__(self) -> str:
        """One paragraph per kind of complaint."""
        titled_counts = (
            ("missing", self.missing),
            ("more than once", self.repeated),
            ("aborted, but read", self.aborted_but_read),
            ("from nowhere", self.unexpected),
        )
        text_lines: list[str] = []
        for title, count_by_value in titled_counts:
            if count_by_value:
                text_lines.append(f"{title}: {_total(count_by_value)}")
                text_lines += [f"  {value_line}" for value_line in self._shown(count_by_value)]
        return "\n".join(text_lines)

    def _shown(self, count_by_value: Mapping[Value, int]) -> Iterable[str]:
        for value, count in list(count_by_value.items())[:SHOWN_MAX]:
            times_suffix = f" × {count}" if count > 1 else ""
            remark = f" ({self.remarks[value]})" if value in self.remarks else ""
            yield f"{_text(value)}{times_suffix}{remark}"
        if len(count_by_value) > SHOWN_MAX:
            yield f"… and {len(count_by_value) - SHOWN_MAX} more"


def compare(
    owed_values: Iterable[Value],
    read_values: Iterable[Value],
    *,
    aborted_values: Iterable[Value] = (),
    remarks: Mapping[Value, str] | None = None,
) -> Comparison:
    """Compare the values that were read with those that are owed.

    Args:
        owed_values: The values that must be in the output; a value may occur several times.
        read_values: The values that were read, in any order.
        aborted_values: The values derived from aborted input.
        remarks: Remarks on values.
    """
    owed_counts, read_counts = Counter(owed_values), Counter(read_values)
    surplus_counts = read_counts - owed_counts
    unowed_values = set(aborted_values) - owed_counts.keys()
    return Comparison(
        missing=dict(owed_counts - read_counts),
        repeated={value: count for value, count in surplus_counts.items() if value in owed_counts},
        aborted_but_read={
            value: count for value, count in surplus_counts.items() if value in unowed_values
        },
        unexpected={
            value: count
            for value, count in surplus_counts.items()
            if value not in owed_counts and value not in unowed_values
        },
        remarks=remarks or {},
    )


def _total(count_by_value: Mapping[Value, int]) -> str:
    record_count = sum(count_by_value.values())
    return f"{record_count} record{'s' if record_count != 1 else ''}"


def _text(value: Value) -> str:
    if value is None:
        return "null"
    shown_text = repr(value.decode("utf-8", "backslashreplace"))
    return (
        shown_text
        if len(shown_text) <= _VALUE_CHARACTERS_MAX
        else f"{shown_text[:_VALUE_CHARACTERS_MAX]}…"
    )

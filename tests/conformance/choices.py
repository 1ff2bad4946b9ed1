"""Choices of a play, drawn from Hypothesis, so that a play which parts two brokers can be shrunk.

The first option is the simplest one everywhere: shrinking goes towards right identities, right
sequences, low versions and requests about one thing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, TypeVar

from hypothesis import strategies as st

T = TypeVar("T")

_FINE = 1_000


class Choices:
    """What a rule draws with.

    Args:
        data: Of the rule.
    """

    def __init__(self, data: st.DataObject) -> None:
        self._data = data

    def between(self, low: int, high: int) -> int:
        """A number, both ends included."""
        return self._data.draw(_integers(low, high)) if high > low else low

    def pick(self, options: Sequence[T]) -> T:
        return options[self.between(0, len(options) - 1)]

    def sample(self, options: Sequence[T], count: int) -> list[T]:
        options_left = list(options)
        return [
            options_left.pop(self.between(0, len(options_left) - 1))
            for _ in range(min(count, len(options_left)))
        ]

    def some(self, *weighted: tuple[Any, float]) -> Any:
        total = sum(weight for _, weight in weighted)
        number = self.between(0, _FINE - 1) * total / _FINE
        for option, weight in weighted:
            number -= weight
            if number < 0:
                return option
        return weighted[-1][0]

    def rarely(self, once_in: float) -> bool:
        """Draw True once in ``once_in`` times on average."""
        return self.between(0, _FINE - 1) >= _FINE - _FINE / once_in


@cache
def _integers(low: int, high: int) -> st.SearchStrategy[int]:
    return st.integers(low, high)

"""Random draws of one seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from txnsim.runtime.rng import SeededRng

T = TypeVar("T")


class Dice:
    """A random stream, with the draws that plans need."""

    __slots__ = ("_stream",)

    def __init__(self, seed: int, name: str) -> None:
        self._stream = SeededRng(seed).stream(name)

    def pick_weighted(self, table: Sequence[tuple[T, float]]) -> T:
        """A random choice, by weight."""
        return self._stream.choices(
            [choice for choice, _ in table], weights=[weight for _, weight in table]
        )[0]

    def up_to(self, table: Sequence[tuple[int, float]]) -> int:
        """A random number from 0 to a bound, which is drawn by weight."""
        return self._stream.randint(0, self.pick_weighted(table))

    def happens(self, probability: float) -> bool:
        return self._stream.random() < probability

    def pick(self, among: Sequence[T]) -> T:
        return self._stream.choice(among)

    def pick_several(self, among: Sequence[T], count: int) -> list[T]:
        """Up to ``count`` different elements, in their order."""
        chosen = set(self._stream.sample(range(len(among)), min(count, len(among))))
        return [element for index, element in enumerate(among) if index in chosen]

    def left_in(self, features: Mapping[str, float]) -> frozenset[str]:
        """Draw the features that a seed has."""
        return frozenset(name for name, often in features.items() if self.happens(often))

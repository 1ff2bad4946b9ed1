"""Random draws of one seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from txnsim.runtime.rng import RandomStreams

T = TypeVar("T")


class Dice:
    """A random stream, with the draws that plans need."""

    __slots__ = ("_stream",)

    def __init__(self, seed: int, stream_name: str) -> None:
        self._stream = RandomStreams(seed).stream(stream_name)

    def pick_weighted(self, weighted_choices: Sequence[tuple[T, float]]) -> T:
        """A random choice, by weight."""
        return self._stream.choices(
            [choice for choice, _ in weighted_choices],
            weights=[weight for _, weight in weighted_choices],
        )[0]

    def up_to(self, weighted_bounds: Sequence[tuple[int, float]]) -> int:
        """A random number from 0 to a bound, which is drawn by weight."""
        return self._stream.randint(0, self.pick_weighted(weighted_bounds))

    def happens(self, probability: float) -> bool:
        return self._stream.random() < probability

    def pick(self, candidates: Sequence[T]) -> T:
        return self._stream.choice(candidates)

    def pick_several(self, candidates: Sequence[T], count_max: int) -> list[T]:
        """Up to ``count_max`` different elements, in their order."""
        chosen_indexes = set(
            self._stream.sample(range(len(candidates)), min(count_max, len(candidates)))
        )
        return [element for index, element in enumerate(candidates) if index in chosen_indexes]

    def left_in(self, probability_by_feature: Mapping[str, float]) -> frozenset[str]:
        """Draw the features that a seed has."""
        return frozenset(
            feature
            for feature, probability in probability_by_feature.items()
            if self.happens(probability)
        )

"""Other runs that are near to one that has shown something new.

A seed from ``STEP`` on is a variation: ``3_000_000_812`` is the third one of seed 812, drawn from
the plan of that seed and from its own number. So it is repeated, shrunk and written as any other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from txnsim.simulation import defaults
from txnsim.simulation.dice import Dice
from txnsim.simulation.plan import CLUSTER, Act, Plan, Track

STEP: Final = 1_000_000_000
STREAM: Final = "variation"
OF_A_FIND: Final = 3
"""Variations of a seed that has reached a new place."""


def parent_of(seed: int) -> int:
    """The seed that a variation varies; of any other the seed itself."""
    return seed % STEP


def other_of(seed: int) -> int:
    """The seed whose troubles a variation may have."""
    return Dice(seed, "other").one_of(range(STEP))


def varied(plan: Plan, seed: int, other: Plan) -> Plan:
    """The plan of a variation.

    Args:
        plan: Of its parent.
        seed: Its own number.
        other: A plan whose troubles may come in place of those that the parent has; but none in
            which a machine loses its power, which not every cluster bears.
    """
    dice = Dice(seed, STREAM)
    tracks = plan.tracks
    if dice.happens(0.4) and "power-failure" not in other.features:
        troubles = tuple(one for one in other.tracks if one.name == CLUSTER)
        tracks = (*(one for one in tracks if one.name != CLUSTER), *troubles)
    hurried = dice.some(range(len(tracks)), dice.weighted(((1, 0.5), (2, 0.3), (4, 0.2))))
    tracks = tuple(
        _at_other_times(dice, track) if index in hurried else track
        for index, track in enumerate(tracks)
    )
    return msgspec.structs.replace(plan, seed=seed, tracks=tracks)


def _at_other_times(dice: Dice, track: Track) -> Track:
    """The same acts after other pauses."""
    pauses = defaults.DISTURBANCE_PAUSES_MS if track.name == CLUSTER else defaults.PAUSES_MS

    def moved(one: Act) -> Act:
        return msgspec.structs.replace(one, after_ms=dice.up_to(pauses))

    acts = (moved(one) if dice.happens(0.5) else one for one in track.acts)
    return msgspec.structs.replace(track, acts=tuple(acts))


class Guide:
    """Which seed comes next: a variation of one that has shown something new, else another one."""

    def __init__(self, seeds: Iterable[int]) -> None:
        self._seeds = iter(seeds)
        self._next: deque[int] = deque()
        self._made: dict[int, int] = {}
        self._places: set[object] = set()

    def __iter__(self) -> Iterator[int]:
        """Until no seed is left."""
        while True:
            if self._next:
                yield self._next.popleft()
                continue
            seed = next(self._seeds, None)
            if seed is None:
                return
            yield seed

    def learn(self, seed: int, places: Iterable[object]) -> None:
        """A seed was played, and has been at these places."""
        new = {*places} - self._places
        self._places |= new
        if new:
            parent = parent_of(seed)
            made = self._made.get(parent, 0)
            self._made[parent] = made + OF_A_FIND
            self._next += (parent + STEP * (made + one) for one in range(1, OF_A_FIND + 1))

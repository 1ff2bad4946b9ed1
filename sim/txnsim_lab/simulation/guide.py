"""Chooses the seeds to play if there is no time for all. A run is interesting if a request meets a
trouble or a habit that it has not met before. The plan shows that, and drawing a plan takes a
hundredth of the time of a run. So the plans of several seeds are drawn, and the seed is played
whose plan has the most combinations that were played least.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from txnsim_lab.simulation._plan import Plan
from txnsim_lab.simulation.drawing import Wanted, draw

AMONG: Final = 8
"""One of this number of seeds is played."""

TROUBLES: Final = frozenset(("cluster", "arm", "advance"))
"""Kinds of steps that disturb the cluster; all others are requests."""


def guided_seeds(seeds: Iterable[int], options: Wanted) -> Iterator[int]:
    """Choose one of each eight seeds; the choice is deterministic.

    Args:
        seeds: The seeds to choose from.
        options: What the user has fixed.
    """
    remaining, played = iter(seeds), Counter[tuple[str, str]]()
    while choices := list(islice(remaining, AMONG)):
        pairs = {seed: pairs_of(draw(seed, options)) for seed in choices}
        best = max(choices, key=lambda seed: sum(1 / (1 + played[pair]) for pair in pairs[seed]))
        played.update(pairs[best])
        yield best


def pairs_of(plan: Plan) -> set[tuple[str, str]]:
    """Pairs of a request of a run and a trouble, habit or mode that it may meet."""
    acts = {act.request_name: act.step.keys() for act in plan.acts}
    troubles = {name for name, step in acts.items() if not TROUBLES.isdisjoint(step)}
    met = troubles | {plan.world.mode, *plan.features}
    return {(request, condition) for request in acts.keys() - troubles for condition in met}

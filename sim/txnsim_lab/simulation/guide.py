"""Which seeds to play where there are more than there is time for.

A run shows something new where a request meets a trouble or a habit that it has not met before. Its
plan tells that, and a plan is drawn in a hundredth of the time of its run. So the plans of some
seeds are drawn, and one seed is played: the plan with most of what was played least.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from txnsim_lab.simulation._plan import Plan
from txnsim_lab.simulation.drawing import Wanted, draw

AMONG: Final = 8
"""Seeds of which one is played."""

TROUBLES: Final = frozenset(("cluster", "arm", "advance"))
"""Step kinds done to the cluster; all others are requests."""


def guided_seeds(seeds: Iterable[int], options: Wanted) -> Iterator[int]:
    """One of each eight seeds; the same seeds give the same ones.

    Args:
        seeds: From which to choose.
        options: What the user has fixed.
    """
    remaining, played = iter(seeds), Counter[tuple[str, str]]()
    while choices := list(islice(remaining, AMONG)):
        pairs = {seed: pairs_of(draw(seed, options)) for seed in choices}
        best = max(choices, key=lambda seed: sum(1 / (1 + played[pair]) for pair in pairs[seed]))
        played.update(pairs[best])
        yield best


def pairs_of(plan: Plan) -> set[tuple[str, str]]:
    """Pairs of a run's requests with a trouble, a habit or a mode that they may meet."""
    acts = {act.request_name: act.step.keys() for act in plan.acts}
    troubles = {name for name, step in acts.items() if not TROUBLES.isdisjoint(step)}
    met = troubles | {plan.world.mode, *plan.features}
    return {(request, condition) for request in acts.keys() - troubles for condition in met}

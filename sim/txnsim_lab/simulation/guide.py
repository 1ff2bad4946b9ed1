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

from txnsim_lab.simulation.drawing import SimulationOptions, draw
from txnsim_lab.simulation.plan import Plan

CANDIDATES_PER_RUN: Final = 8
"""One of this number of seeds is played."""

DISTURBING_STEP_KINDS: Final = frozenset(("cluster", "arm", "advance"))
"""Kinds of steps that disturb the cluster; all others are requests."""


def guided_seeds(seeds: Iterable[int], options: SimulationOptions) -> Iterator[int]:
    """Choose one of each eight seeds; the choice is deterministic.

    Args:
        seeds: The seeds to choose from.
        options: What the user has fixed.
    """
    remaining, play_count_by_pair = iter(seeds), Counter[tuple[str, str]]()
    while candidate_seeds := list(islice(remaining, CANDIDATES_PER_RUN)):
        pairs_by_seed = {seed: pairs_of(draw(seed, options)) for seed in candidate_seeds}
        best_seed = max(
            candidate_seeds,
            key=lambda seed: sum(
                1 / (1 + play_count_by_pair[condition_pair])
                for condition_pair in pairs_by_seed[seed]
            ),
        )
        play_count_by_pair.update(pairs_by_seed[best_seed])
        yield best_seed


def pairs_of(plan: Plan) -> set[tuple[str, str]]:
    """Pairs of a request of a run and a trouble, habit or mode that it may meet."""
    steps_by_request = {act.request_name: act.step.keys() for act in plan.acts}
    disturbances = {
        request_name
        for request_name, step in steps_by_request.items()
        if not DISTURBING_STEP_KINDS.isdisjoint(step)
    }
    met_conditions = disturbances | {plan.world.mode, *plan.features}
    return {
        (request, condition)
        for request in steps_by_request.keys() - disturbances
        for condition in met_conditions
    }

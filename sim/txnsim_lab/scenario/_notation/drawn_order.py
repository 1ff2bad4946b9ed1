"""The order of steps in blocks that may be played in any: the run's seed draws it.

A story that holds in one order alone has a race in it; told under many seeds it shows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

from txnsim_lab.scenario.steps_model import Step

STREAM = "any-order"
"""Of the run's chance."""


def in_drawn_order(
    steps: Sequence[Step], shuffle: Callable[[list[Any]], object]
) -> tuple[Step, ...]:
    """The steps, in each block in any order with its parts as they are drawn; a part keeps the
    order of its own steps.
    """
    found: list[Step] = []
    for block, inside in groupby(steps, key=lambda step: step.unit and step.unit[0]):
        if block is None:
            found += inside
            continue
        parts = [list(part) for _, part in groupby(inside, key=lambda step: step.unit)]
        shuffle(parts)
        found += [step for part in parts for step in part]
    return tuple(found)

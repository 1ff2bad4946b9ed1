"""Python's cycle collector, for commands that keep much and make next to no cycles."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from typing import Final

THRESHOLDS: Final = (3_000, 5, 1_500)
"""With the defaults the collector's look at all objects of a server held 32 producers up for a
tenth of a second. The look at younger ones is bounded by the product of the first two: 15,000
objects take it some milliseconds. That a server makes no cycles:
tests/broker/simulation/test_determinism.py.
"""


def freeze_present_objects() -> None:
    """Never look at what there is by now: a server that has started has its modules and replicas,
    and keeps them. A look at 10,000 replicas took 140 ms.
    """
    gc.freeze()


@contextlib.contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Imports, inside a server that has begun: modules stay, so there is nothing to collect. A look
    at them took 7 ms of a start with a control port.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextlib.contextmanager
def rare_garbage_collection() -> Iterator[None]:
    """Let the collector look seldom inside, and never at what is there already: the modules are
    nine of ten objects of a server, and stay.
    """
    threshold_before = gc.get_threshold()
    gc.set_threshold(*THRESHOLDS)
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.set_threshold(*threshold_before)

"""Settings of Python's cycle collector, for commands with many objects and next to no cycles."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from typing import Final

THRESHOLDS: Final = (3_000, 5, 1_500)
"""Thresholds of the collector. With the defaults a full collection stopped a server with 32
producers for a tenth of a second. A collection of young objects is bounded by the product of the
first two numbers: 15,000 objects take some milliseconds. A test that a server makes no cycles:
tests/broker/simulation/test_determinism.py.
"""


def freeze_present_objects() -> None:
    """Exclude all present objects from collections: a started server keeps its modules and
    replicas. Checking 10,000 replicas took 140 ms.
    """
    gc.freeze()


@contextlib.contextmanager
def no_garbage_collection() -> Iterator[None]:
    """No collections inside, for imports in a running server: modules stay, so there is nothing to
    collect. Collections took 7 ms of a start with a control port.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextlib.contextmanager
def rare_garbage_collection() -> Iterator[None]:
    """Rare collections inside, and none of the present objects: nine of ten objects of a server
    belong to modules, which stay.
    """
    thresholds_before = gc.get_threshold()
    gc.set_threshold(*THRESHOLDS)
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.set_threshold(*thresholds_before)

"""Threads that let the loop have the interpreter's lock soon.

The lock changes hands every 5 ms unless more is asked for, and the loop needs it several times for
one answer: beside a thread that reads YAML a neighbour waited for 10 to 15 ms. So it changes hands
more often while such work is done.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

T = TypeVar("T")

SWITCH_S: Final = 0.0005
"""So often the lock changes hands meanwhile; sys.setswitchinterval."""

_lock: Final = threading.Lock()
_workers: dict[int, float] = {}
"""Threads that work now -> the interval that the first of them found."""


def with_short_switch_interval(work: Callable[[], T]) -> T:
    """What ``work`` returns, or raises."""
    with short_switch_interval():
        return work()


@contextmanager
def short_switch_interval() -> Iterator[None]:
    """Let the loop have the lock soon, as long as this thread works."""
    me = threading.get_ident()
    with _lock:
        _workers[me] = next(iter(_workers.values()), sys.getswitchinterval())
        sys.setswitchinterval(SWITCH_S)
    try:
        yield
    finally:
        with _lock:
            old_interval = _workers.pop(me)
            if not _workers:
                sys.setswitchinterval(old_interval)

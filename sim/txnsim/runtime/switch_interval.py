"""Shortens the interval at which threads hand over the interpreter's lock to the loop.

The lock changes hands every 5 ms by default, and the loop needs it several times for one answer:
while a thread read YAML, another client waited for 10 to 15 ms. So the lock changes hands more
often while a thread does such work.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

T = TypeVar("T")

SWITCH_S: Final = 0.0005
"""Interval of sys.setswitchinterval while threads work."""

_lock: Final = threading.Lock()
_workers: dict[int, float] = {}
"""Identifiers of working threads -> the interval before the first of them."""


def with_short_switch_interval(work: Callable[[], T]) -> T:
    """Call ``work`` with a short switch interval; returns or raises what it does."""
    with short_switch_interval():
        return work()


@contextmanager
def short_switch_interval() -> Iterator[None]:
    """Hand the lock to the loop more often, while this thread works."""
    thread_id = threading.get_ident()
    with _lock:
        _workers[thread_id] = next(iter(_workers.values()), sys.getswitchinterval())
        sys.setswitchinterval(SWITCH_S)
    try:
        yield
    finally:
        with _lock:
            old_interval = _workers.pop(thread_id)
            if not _workers:
                sys.setswitchinterval(old_interval)

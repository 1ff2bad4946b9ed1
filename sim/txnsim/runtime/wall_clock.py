"""The clocks of programs without an event loop; ``real_world`` would load all that a broker is."""

from __future__ import annotations

import time


def wall_ms() -> int:
    """Milliseconds since 1970, by the system's clock."""
    return time.time_ns() // 1_000_000


def cpu_ms() -> int:
    """Milliseconds of processor time that this process has used."""
    return time.process_time_ns() // 1_000_000


def monotonic_ms() -> int:
    """A clock that is never set, in milliseconds from an arbitrary start."""
    return time.monotonic_ns() // 1_000_000

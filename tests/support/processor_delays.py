"""Time limits that a busy machine does not break: the time in which a process could run and had no
processor does not count.

Standard library only, as ``txnsim_server`` uses it.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Final

SLOWNESS_MAX: Final = 20.0
"""How much longer than its limit something may take on a busy machine."""


def delays_s(*pids: int) -> float:
    """How long the threads of some processes have waited for a processor so far; 0 where the kernel
    does not count it.
    """
    delays_ns = 0
    for process_id in pids:
        for file in Path(f"/proc/{process_id}/task").glob("*/schedstat"):
            with contextlib.suppress(OSError):  # the thread has ended
                delays_ns += int(file.read_text().split()[1])
    return delays_ns / 1e9


def undelayed_s(seconds: float, delay_s: float) -> float:
    """How long something has taken, less the time in which it could run and had no processor: on a
    busy machine the clock proves nothing. What waits for ever is given up nevertheless.
    """
    return max(seconds - delay_s, seconds / SLOWNESS_MAX)

"""The whole process stood still: it was stopped, a laptop slept, a debugger waits at a breakpoint.

All brokers stand still together then, and none can be heard. On a cluster of machines that does not
happen, so what is inferred from a broker's silence waits until the process has run again for a
while. In virtual time nothing is ever late.
"""

from __future__ import annotations

from typing import Final

DEVIATIONS: Final = (
    "Where the whole process stands still for a second or more (a laptop sleeps, a debugger waits),"
    " sessions of brokers begin anew and no ISR shrinks: all brokers were silent together. On a"
    " cluster of machines, a broker whose machine stands still is fenced.",
)
STANDSTILL_MS: Final = 1_000
"""A timer this much too late was held up by the process, not by its wait."""


def stood_still(due_ms: float, now_ms: int) -> bool:
    """Whether a timer comes so late that the process must have stood still."""
    return now_ms - due_ms >= STANDSTILL_MS

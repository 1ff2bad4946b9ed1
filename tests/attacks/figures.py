"""The effects of an attack on a server, and the limits for them."""

from __future__ import annotations

from typing import Final

import msgspec

GAP_MS_MAX: Final = 100.0
"""The longest time that a single input may occupy the loop."""
MEMORY_MIB_MAX: Final = 64.0
"""Nor more memory beyond what it carries."""
NEIGHBOUR_FACTOR: Final = 5.0
"""A neighbour's p99 during an attack is remarked upon if it is so many times its quiet one. That is
no limit: on a shared host it says as much about other programs, and work that was done to hold its
last milliseconds cost the common load more than it saved (see the policy in
``txnsim.runtime.loop_turns``).
"""
NEIGHBOUR_FLOOR_MS: Final = 2.0
"""A quiet p99 below this counts as this much, as five times a tiny wait is still tiny."""


class NeighbourWaits(msgspec.Struct, frozen=True, kw_only=True):
    """Waits of a neighbour for its answers."""

    answers: int
    p99_ms: float
    worst_ms: float


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """The measurements of one attack."""

    name: str
    seconds: float
    sent_bytes: int
    gap_ms: float
    gap_cpu_ms: float
    memory_mib: float
    quiet: NeighbourWaits
    attacked: NeighbourWaits
    log_bytes: int
    kafka_stores_mib: float = 0.0
    """What Kafka itself stores for it beyond what was sent; so much more is allowed."""
    is_refused: bool = False
    """Whether the neighbour is refused for a while, as documented."""
    trouble: tuple[str, ...] = ()
    """What went wrong altogether: it did not end, the server no longer answers or did not stop."""

    def broken_limits(self) -> list[str]:
        """The broken limits in words."""
        broken_limits = list(self.trouble)
        if self.gap_cpu_ms > GAP_MS_MAX:
            broken_limits.append(f"the loop was busy for {self.gap_cpu_ms:.0f} ms")
        if self.memory_mib > MEMORY_MIB_MAX + self.kafka_stores_mib:
            broken_limits.append(f"{self.memory_mib:.0f} MiB more than it sent")
        return broken_limits

    def remarks(self) -> list[str]:
        """Remarks about the attack beside the broken limits."""
        expected_ms = NEIGHBOUR_FACTOR * max(self.quiet.p99_ms, NEIGHBOUR_FLOOR_MS)
        if self.attacked.p99_ms > expected_ms and not self.is_refused:
            return [f"a neighbour's p99 was {self.attacked.p99_ms:.1f} ms"]
        return []


HEAD: Final = (
    f"{'attack':<34} {'s':>6} {'sent MiB':>9} {'gap':>8} {'cpu':>8} {'memory':>8} "
    f"{'quiet':>7} {'attacked':>9} {'worst':>8} {'log':>9}"
)


def line(figures: Figures) -> str:
    """One line below ``HEAD``."""
    broken_limits = figures.broken_limits()
    return (
        f"{figures.name:<34} {figures.seconds:>6.1f} {figures.sent_bytes / 2**20:>9.2f} "
        f"{figures.gap_ms:>8.1f} {figures.gap_cpu_ms:>8.1f} {figures.memory_mib:>8.1f} "
        f"{figures.quiet.p99_ms:>7.2f} {figures.attacked.p99_ms:>9.2f} "
        f"{figures.attacked.worst_ms:>8.1f} {figures.log_bytes:>9}"
        + "".join(f"\n    OVER: {limit}" for limit in broken_limits)
        + "".join(f"\n    slow: {remark}" for remark in figures.remarks())
    )

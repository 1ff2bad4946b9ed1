"""The clock of one machine: the cluster's, set ahead or back by itself.

Machines of a cluster need not agree on the time, and NTP sets a clock back while a process runs.
What a broker hears as ``now_ms`` is therefore its own: the cluster clock plus an offset that a
fault moves. Cores notice nothing, they are handed a time as ever.

Setting it fires nothing and postpones nothing: timers of ``call_at`` keep the time that they have
left, as in Kafka, where periodic work goes by a monotonic clock (KafkaScheduler) and only looks at
the wall clock once it runs. The monotonic clock is the same for all.
"""

from __future__ import annotations

from collections.abc import Callable

from txnsim.runtime.clock import Clock, TimerHandle


class SkewedClock:
    """``Clock`` of one machine."""

    __slots__ = (
        "_cluster",
        "_wall_ns",
        "call_later",
        "elapsed_ms",
        "monotonic_ms",
        "monotonic_us",
        "ms_of",
        "offset_ms",
    )

    def __init__(self, cluster: Clock) -> None:
        """Agree with the cluster's clock.

        Args:
            cluster: Everybody's.
        """
        self.offset_ms = 0
        """How far it is ahead of the cluster's; behind where negative."""
        self._cluster = cluster
        self._wall_ns = cluster.wall_ns
        self.monotonic_ms: Callable[[], int] = cluster.monotonic_ms
        self.ms_of: Callable[[int], int] = cluster.ms_of
        self.elapsed_ms: Callable[[], int] = cluster.elapsed_ms
        self.monotonic_us: Callable[[], int] = cluster.monotonic_us
        self.call_later: Callable[[float, Callable[[], object]], TimerHandle] = cluster.call_later

    def shift(self, ms: int) -> None:
        """Set this clock alone ``ms`` ahead, or back where negative."""
        self.offset_ms += ms

    def now_ms(self) -> int:
        """The time that this machine believes in."""
        return self._wall_ns() // 1_000_000 + self._cluster.advanced_ms + self.offset_ms

    @property
    def wall_ns(self) -> Callable[[], int]:
        """The source of the cluster clock, before anything was advanced."""
        return self._cluster.wall_ns

    @property
    def stopwatch_ns(self) -> Callable[[], int]:
        """The monotonic source, everybody's."""
        return self._cluster.stopwatch_ns

    @property
    def advanced_ms(self) -> int:
        """How far this clock has been moved in all."""
        return self._cluster.advanced_ms + self.offset_ms

    def call_at(self, deadline_ms: int, callback: Callable[[], object]) -> TimerHandle:
        """Call back once this clock has come to the deadline, if it is not set meanwhile."""
        return self._cluster.call_at(deadline_ms - self.offset_ms, callback)

    def advance(self, ms: int) -> None:
        """Time passes, for everybody."""
        self._cluster.advance(ms)

    async def advance_with_breaks(self, ms: int) -> None:
        """The same, with breaks where much is due."""
        await self._cluster.advance_with_breaks(ms)

"""Pauses, deadlines and exponential backoff on the runtime's clock.

All times are monotonic: advancing the cluster clock neither shortens a pause nor expires a request.
No jitter is added, so that runs are reproducible.
"""

from __future__ import annotations

import asyncio

from txnsim.runtime.environment import Clock


async def pause(clock: Clock, delay_ms: float) -> None:
    """Sleep for ``delay_ms`` of monotonic time."""
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    timer = clock.call_later(delay_ms, lambda: _wake(future))
    try:
        await future
    finally:
        timer.cancel()


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class Deadline:
    """A point in monotonic time."""

    __slots__ = ("_clock", "_end_ms", "timeout_ms")

    def __init__(self, clock: Clock, timeout_ms: float) -> None:
        self._clock = clock
        self.timeout_ms = timeout_ms
        self._end_ms = clock.monotonic_ms() + timeout_ms

    @property
    def left_ms(self) -> float:
        return max(0, self._end_ms - self._clock.monotonic_ms())

    @property
    def has_passed(self) -> bool:
        return self._clock.monotonic_ms() >= self._end_ms


class Backoff:
    """Pauses between attempts: doubled from ``initial_ms`` up to ``max_ms`` (retry.backoff.ms,
    retry.backoff.max.ms)."""

    __slots__ = ("_clock", "_max_ms", "_next_ms")

    def __init__(self, clock: Clock, *, initial_ms: float, max_ms: float) -> None:
        self._clock = clock
        self._next_ms = initial_ms
        self._max_ms = max_ms

    async def wait(
        self, deadline: Deadline | None = None, *, at_most_ms: float | None = None
    ) -> None:
        """Pause before the next attempt, never beyond ``deadline``, nor longer than
        ``at_most_ms``."""
        delay_ms = self._next_ms if at_most_ms is None else min(self._next_ms, at_most_ms)
        self._next_ms = min(self._next_ms * 2, self._max_ms)
        if deadline is not None:
            delay_ms = min(delay_ms, deadline.left_ms)
        await pause(self._clock, delay_ms)

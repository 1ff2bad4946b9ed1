"""One direction of a link between brokers that takes time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from txnsim.runtime.clock import Clock


class Pipe:
    """Latency with order: a message never overtakes an earlier one of the same direction."""

    __slots__ = ("_clock", "_last_ms", "_waiting")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last_ms = 0.0
        self._waiting: deque[Callable[[], object]] = deque()

    def send(self, latency_ms: float, deliver: Callable[[], object]) -> None:
        """Call ``deliver`` after ``latency_ms``, or with the message before it if that is later."""
        now_ms = self._clock.monotonic_us() / 1_000
        self._last_ms = max(self._last_ms, now_ms + latency_ms)
        self._waiting.append(deliver)
        # One timer per message, but each takes the oldest: equal deadlines fire in no promised
        # order.
        self._clock.call_later(self._last_ms - now_ms, lambda: self._waiting.popleft()())

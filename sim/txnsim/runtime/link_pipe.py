"""One direction of a link between brokers that takes time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import msgspec

from txnsim.runtime.clock import Clock


class Pipe(msgspec.Struct, eq=False):
    """Latency with order: a message never overtakes an earlier one of the same direction."""

    _clock: Clock
    _last_ms: float = 0.0
    _waiting: deque[Callable[[], object]] = msgspec.field(default_factory=deque)

    def send(self, latency_ms: float, deliver: Callable[[], object]) -> None:
        """Call ``deliver`` after ``latency_ms``, or with the message before it if that is later."""
        now_ms = self._clock.monotonic_us() / 1_000
        self._last_ms = max(self._last_ms, now_ms + latency_ms)
        self._waiting.append(deliver)
        # One timer per message, but each takes the oldest: equal deadlines fire in no promised
        # order.
        self._clock.call_later(self._last_ms - now_ms, lambda: self._waiting.popleft()())

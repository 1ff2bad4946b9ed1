"""Parked work, by key and deadline: delayed fetches and produces.

A parked operation is a check that is run again whenever one of its keys is touched, and a deadline
on the monotonic clock. It is answered once: by a check that says yes, by the deadline, or by
``release_all``. Kafka's counterpart: DelayedOperationPurgatory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

from sim.runtime.env import Clock, TimerHandle

KeyT = TypeVar("KeyT", bound=Hashable)


class _Parked(Generic[KeyT]):
    """One parked operation."""

    __slots__ = ("check", "future", "keys", "timer")

    def __init__(self, keys: tuple[KeyT, ...], check: Callable[[], bool]) -> None:
        self.keys = keys
        self.check = check
        self.future: asyncio.Future[bool] | None = None
        self.timer: TimerHandle | None = None


class Purgatory(Generic[KeyT]):
    """Operations waiting for something to happen to one of their keys."""

    __slots__ = ("_clock", "_parked")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._parked: dict[KeyT, dict[_Parked[KeyT], None]] = {}

    async def wait(
        self, keys: Iterable[KeyT], *, timeout_ms: float, check: Callable[[], bool]
    ) -> bool:
        """Wait until ``check()`` holds after one of ``keys`` was touched.

        Returns:
            True when the check held or the wait was released; False at the deadline.
        """
        parked = _Parked(tuple(keys), check)
        parked.future = asyncio.get_running_loop().create_future()
        parked.timer = self._clock.call_later(timeout_ms, lambda: self._finish(parked, done=False))
        for key in parked.keys:
            self._parked.setdefault(key, {})[parked] = None
        try:
            return await parked.future
        finally:
            # A cancelled waiter (its connection went away, the cluster stops) leaves nothing
            # behind.
            self._forget(parked)

    def touch(self, key: KeyT) -> None:
        """Something happened to ``key``: run the checks of those who wait for it."""
        if not self._parked:
            return
        waiting = self._parked.get(key)
        if waiting is None:
            return
        for parked in list(waiting):
            if parked.check():
                self._finish(parked, done=True)

    def release(self, key: KeyT) -> None:
        """Answer everything that waits for ``key`` (leadership moved, topic deleted)."""
        for parked in list(self._parked.get(key, ())):
            self._finish(parked, done=True)

    def release_all(self) -> None:
        """Answer everything: the broker stops."""
        for key in list(self._parked):
            self.release(key)

    def __len__(self) -> int:
        """How many operations are parked."""
        return len({parked for waiting in self._parked.values() for parked in waiting})

    def _finish(self, parked: _Parked[KeyT], *, done: bool) -> None:
        self._forget(parked)
        assert parked.future is not None
        if not parked.future.done():
            parked.future.set_result(done)

    def _forget(self, parked: _Parked[KeyT]) -> None:
        if parked.timer is not None:
            parked.timer.cancel()
        for key in parked.keys:
            waiting = self._parked.get(key)
            if waiting is not None:
                waiting.pop(parked, None)
                if not waiting:
                    del self._parked[key]

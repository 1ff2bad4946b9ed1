"""Unpacks records beside the loop: one batch at a time, in one room for all of them.

What unpacks to megabytes takes a hundred milliseconds where its memory is new, and needs neither
the interpreter nor any state of a broker. So a thread does it, and writes into a room that is kept:
the second time takes a tenth. Each batch waits for the one before it, so many clients take no more
memory than one. In virtual time there are no threads, and no time passes.
"""

from __future__ import annotations

import asyncio
import mmap
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

from txnsim.runtime.switch_interval import with_short_switch_interval

T = TypeVar("T")


class Work(Protocol):
    """Something that needs room (``wire.compression.Packed``)."""

    @property
    def room_bytes(self) -> int:
        """How much."""


W = TypeVar("W", bound=Work)


class Unpacker:
    """Of one environment."""

    def __init__(self, *, in_thread: bool) -> None:
        self._in_thread = in_thread
        self._thread: ThreadPoolExecutor | None = None
        self._room: mmap.mmap | None = None
        self._lock = asyncio.Lock()

    async def enter(self) -> None:
        """Wait for the room; ``leave`` gives it back."""
        await self._lock.acquire()

    def leave(self) -> None:
        self._lock.release()

    async def unpack(self, do: Callable[[W, mmap.mmap], T], work: W) -> T:
        """What ``do`` makes of the work; the caller has entered.

        A wait that is cancelled does not end the thread's work, but the next one's begins behind
        it.
        """
        if self._room is None or len(self._room) < work.room_bytes:
            self._room = mmap.mmap(-1, work.room_bytes)
        if not self._in_thread:
            return do(work, self._room)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._begun(), do, work, self._room)

    async def do(self, work: Callable[[], T]) -> T:
        """What ``work`` returns, done by the thread; the caller has entered. The interpreter is
        needed for it, so its lock changes hands more often meanwhile.
        """
        if not self._in_thread:
            return work()
        return await asyncio.get_running_loop().run_in_executor(
            self._begun(), with_short_switch_interval, work
        )

    def _begun(self) -> ThreadPoolExecutor:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="txnsim-unpack")
        return self._thread

    def close(self) -> None:
        """End the thread; what it has begun is not waited for."""
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)
            self._thread = None

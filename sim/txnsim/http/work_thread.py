"""Work that would keep the loop busy, in a thread of its own that lets the loop go on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from txnsim.runtime.polite_threads import politely

T = TypeVar("T")


class WorkThread:
    """One thread; what is given to it is done in order."""

    def __init__(self, name: str) -> None:
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)

    async def do(self, work: Callable[[], T]) -> T:
        """What ``work`` returns, or raises."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, politely, work)

    def close(self) -> None:
        """Begin nothing more; what it has begun is not waited for."""
        self._pool.shutdown(wait=False, cancel_futures=True)

"""Worker processes that end with this one: no Ctrl-C reaches them, and none of them outlives an
error here. ``ProcessPoolExecutor`` alone waits at its end for all work under way.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.context import BaseContext
from typing import Any


@contextmanager
def process_pool(
    process_count: int,
    *,
    context: BaseContext,
    initializer: Callable[..., object] | None = None,
    initargs: tuple[Any, ...] = (),
) -> Iterator[ProcessPoolExecutor]:
    """A pool of worker processes for the block. An exception in the block, Ctrl-C among them, kills
    what is under way.

    Args:
        process_count: Number of processes.
        context: How they are started.
        initializer: Called in each of them first.
        initargs: Its arguments.
    """
    pool = ProcessPoolExecutor(
        process_count, mp_context=context, initializer=initializer, initargs=initargs
    )
    try:
        yield pool
    except BaseException:
        for process in list((pool._processes or {}).values()):  # None after a process died
            process.kill()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def interrupts_kept_back() -> Iterator[None]:
    """In the block, start processes that never get SIGINT.

    A terminal sends SIGINT to all processes of a command; this process gets it after the block.
    Processes inherit the mask of signals.
    """
    old_mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, old_mask)

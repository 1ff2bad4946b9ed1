"""Worker processes that end with this one: no Ctrl-C reaches them, and none of them outlives an
error here. ``ProcessPoolExecutor`` alone waits at its end for all work under way.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.context import BaseContext
from types import FrameType
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
def ended_as_by_interrupt() -> Iterator[None]:
    """In the block, SIGTERM and SIGHUP do what SIGINT does: so the block ends what it has started.
    A signal that is ignored, as SIGHUP below ``nohup``, still is.
    """
    if threading.current_thread() is not threading.main_thread():  # which alone gets signals
        yield
        return

    # Where a shell has its background jobs ignore SIGINT, no event loop would take care of it: then
    # KeyboardInterrupt would strike anywhere, and a callback that it strikes is lost.
    interrupt_handler_before = signal.getsignal(signal.SIGINT)
    if interrupt_handler_before is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def interrupt(_signal_number: int, frame: FrameType | None) -> None:
        handler = signal.getsignal(signal.SIGINT)  # the loop's, while one runs
        (handler if callable(handler) else signal.default_int_handler)(signal.SIGINT, frame)

    taken_signals = [
        signal_number
        for name in ("SIGTERM", "SIGHUP")  # Windows has no SIGHUP
        if (signal_number := getattr(signal, name, None)) is not None
        and signal.getsignal(signal_number) is signal.SIG_DFL
    ]
    for signal_number in taken_signals:
        signal.signal(signal_number, interrupt)
    try:
        yield
    finally:
        for signal_number in taken_signals:
            signal.signal(signal_number, signal.SIG_DFL)
        if interrupt_handler_before is signal.SIG_IGN:
            signal.signal(signal.SIGINT, signal.SIG_IGN)


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

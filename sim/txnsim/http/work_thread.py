"""Runs work that would block the event loop in a thread of its own.

The program's end does not wait for it, unlike with ``concurrent.futures``. WebAssembly has no
threads: there the work runs in a turn of the loop, which waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Final, TypeVar

from txnsim.on_demand_imports import OnDemand
from txnsim.runtime.switch_interval import with_short_switch_interval

if TYPE_CHECKING:
    import ctypes
else:
    ctypes = OnDemand("ctypes")

T = TypeVar("T")

HAS_THREADS: Final = sys.platform != "emscripten"


class _TooLongError(TimeoutError):
    """The work exceeded its time limit and was ended."""


class WorkThread:
    """A thread that runs work in order."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._thread: Thread | None = None
        self._work_queue: SimpleQueue[tuple[asyncio.Future[Any], Callable[[], Any]] | None] = (
            SimpleQueue()
        )
        self._is_closed = False
        self._lock = Lock()
        self._limited_work: object = None
        """Work with a time limit that is running."""

    async def do_within(self, limit_s: float, work: Callable[[], T]) -> T:
        """Run ``work`` and return its result; the limit counts from now, including the wait for
        other work.

        Raises:
            TimeoutError: The work took longer, and was ended.
        """
        wanted_flag = [True]
        time_limit = asyncio.get_running_loop().call_later(limit_s, self._end_overdue, wanted_flag)
        try:
            return await self.do(partial(self._run_unless_ended, wanted_flag, work))
        finally:
            time_limit.cancel()

    def _end_overdue(self, wanted_flag: list[bool]) -> None:
        with self._lock:
            wanted_flag.clear()
            if self._limited_work is wanted_flag and self._thread is not None:
                thread_id = ctypes.c_ulong(self._thread.ident or 0)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    thread_id, ctypes.py_object(_TooLongError)
                )

    def _run_unless_ended(self, wanted_flag: list[bool], work: Callable[[], T]) -> T:
        try:
            with self._lock:
                if not wanted_flag:
                    raise _TooLongError
                self._limited_work = wanted_flag
            try:
                return work()
            finally:
                with self._lock:
                    self._limited_work = None
        except _TooLongError:
            self._limited_work = None  # it may have come in between
            raise

    async def do(self, work: Callable[[], T]) -> T:
        """Run ``work`` and return its result."""
        if self._is_closed:
            raise RuntimeError(f"the thread {self._name} is closed")
        if not HAS_THREADS:
            return await run_in_turn(work)
        if self._thread is None:
            self._thread = Thread(target=self._run_queue, name=self._name, daemon=True)
            self._thread.start()
        work_result: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._work_queue.put((work_result, work))
        return await work_result

    @staticmethod
    async def run_beside(work: Callable[[], T]) -> T:
        """Run ``work`` in a thread of its own, if the platform has threads; returns its result."""
        return await (asyncio.to_thread(work) if HAS_THREADS else run_in_turn(work))

    def close(self) -> None:
        """Stop after the current work, without waiting for it."""
        self._is_closed = True
        self._work_queue.put(None)

    def _run_queue(self) -> None:
        while (work_item := self._work_queue.get()) is not None and not self._is_closed:
            work_result, work = work_item
            if work_result.cancelled():
                continue
            try:
                report_result = partial(
                    _resolve_future, work_result, with_short_switch_interval(work)
                )
            except BaseException as error:  # noqa: BLE001 - it is the answer to the one who waits
                report_result = partial(_fail_future, work_result, error)
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
                work_result.get_loop().call_soon_threadsafe(report_result)


async def run_in_turn(work: Callable[[], T]) -> T:
    """Run ``work`` in a loop turn of its own and return its result. No task runs meanwhile, and the
    running loop is hidden, so ``work`` may run another one.
    """
    loop = asyncio.get_running_loop()
    work_result: asyncio.Future[T] = loop.create_future()

    def do() -> None:
        asyncio._set_running_loop(None)
        try:
            _resolve_future(work_result, work())
        except Exception as error:  # noqa: BLE001 - it is the answer to the one who waits
            _fail_future(work_result, error)
        finally:
            asyncio._set_running_loop(loop)

    loop.call_soon(do)
    return await work_result


def _resolve_future(future: asyncio.Future[T], work_result: T) -> None:
    if not future.done():
        future.set_result(work_result)


def _fail_future(future: asyncio.Future[Any], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)

"""Owner of every background task, and the quick way for handlers that seldom wait.

A task costs a turn of the loop and several microseconds. ``drive`` therefore runs a coroutine's
first step by hand; only if that step waits for something does the rest become a task. Each drive
has a context of its own, the same for the first step and the
rest: what a handler sets in a context variable never reaches its caller.

A driven coroutine must not rely on ``asyncio.current_task`` (hence not on ``asyncio.timeout`` or
``TaskGroup``) in its first step.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Callable, Coroutine, Generator
from contextvars import copy_context
from typing import Any, Final

import structlog

_log: Final = structlog.get_logger("txnsim.tasks")

FAILURES_KEPT_MAX: Final = 16
"""Exceptions of background tasks kept for ``close``; every one of them is logged."""

Done = Callable[[Any, BaseException | None], object]


class LoopTasks:
    """``env.Tasks`` on the running event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._running: dict[
            asyncio.Task[Any], None
        ] = {}  # a dict, as it keeps order: close is deterministic
        self._failures: list[BaseException] = []

    def __len__(self) -> int:
        """Tasks that still run."""
        return len(self._running)

    def spawn(self, coroutine: Coroutine[Any, Any, Any], *, name: str) -> asyncio.Task[Any]:
        """Run in the background; an exception is logged as a bug and kept for ``close``."""
        task = self._loop.create_task(coroutine, name=name)
        self._running[task] = None
        task.add_done_callback(self._ended)
        return task

    def drive(self, coroutine: Coroutine[Any, Any, Any], done: Done, *, name: str) -> None:
        """Run the first step at once; only what has to wait becomes a task.

        ``done(result, exception)`` is called exactly once, also when the task is cancelled (with
        the CancelledError). What ``done`` itself raises reaches the caller, or fails the task.
        """
        context = copy_context()
        try:
            awaited = context.run(coroutine.send, None)
        except StopIteration as stop:
            done(stop.value, None)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - whatever it is, it is the caller's answer
            done(None, error)
        else:
            if hasattr(awaited, "_asyncio_future_blocking"):
                # A task takes this mark off at once, and so must we: until then nobody else may
                # await the same future ("await wasn't used with future").
                awaited._asyncio_future_blocking = False
            rest = _Rest(coroutine, awaited, done)
            task = self._loop.create_task(rest.run(), name=name, context=context)
            self._running[task] = None
            task.add_done_callback(rest.settle)
            task.add_done_callback(self._ended)

    async def close(self) -> None:
        """Cancel and await everything that still runs.

        Raises:
            ExceptionGroup: Background tasks failed since the start: bugs, which were logged when
                they happened.
        """
        while self._running:
            tasks = list(self._running)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        failures, self._failures = self._failures, []
        if failures:
            raise BaseExceptionGroup("background tasks failed", failures)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        del self._running[task]
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            _log.error("task.failed", task=task.get_name(), exc_info=error)
            if len(self._failures) < FAILURES_KEPT_MAX:
                self._failures.append(error)


class _Rest:
    """What is left of a driven coroutine after its first step waited."""

    __slots__ = ("_awaited", "_coroutine", "_done")

    def __init__(self, coroutine: Coroutine[Any, Any, Any], awaited: object, done: Done) -> None:
        self._coroutine = coroutine
        self._awaited = awaited
        self._done: Done | None = done

    async def run(self) -> None:
        """Go on to the end and report."""
        try:
            result = await _go_on(self._coroutine, self._awaited)
        except asyncio.CancelledError as error:
            self._report(None, error)
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the caller's answer
            self._report(None, error)
        else:
            self._report(result, None)

    def settle(self, task: asyncio.Task[Any]) -> None:
        """Report where the task was cancelled before ``run`` began."""
        if self._done is not None:
            self._coroutine.close()
            if task.cancelled():
                self._report(None, asyncio.CancelledError())

    def _report(self, result: Any, error: BaseException | None) -> None:
        done, self._done = self._done, None
        if done is not None:
            done(result, error)


@types.coroutine
def _go_on(coroutine: Coroutine[Any, Any, Any], awaited: Any) -> Generator[Any, Any, Any]:
    """Continue a coroutine that has been stepped by hand and yielded ``awaited``.

    Yielding the future once more hands it to the task as if the task had made the first step. The
    coroutine's ``__await__`` is used, because ``await`` refuses one that waits.
    """
    while True:
        if hasattr(awaited, "_asyncio_future_blocking"):
            # The mark by which a task knows that it was awaited; drive took it away.
            awaited._asyncio_future_blocking = True
        try:
            yield awaited
        except GeneratorExit:
            coroutine.close()
            raise
        except BaseException as error:  # noqa: BLE001 - cancellation too belongs to the coroutine
            try:
                awaited = coroutine.throw(error)
            except StopIteration as stop:
                return stop.value
        else:
            return (yield from coroutine.__await__())

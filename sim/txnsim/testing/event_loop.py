"""The event loop of a cluster, and how to call into it: from the same loop, from another loop, from
a thread that blocks.

All code that touches a cluster runs in its event loop. ``in_cluster_loop`` makes a coroutine method
do so, so that everything that can be done to a cluster is written once.
"""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Concatenate, Final, ParamSpec, Protocol, TypeVar

from txnsim.errors import ConfigError
from txnsim.injection.injector import UnknownRuleError
from txnsim.runtime.real_world import new_event_loop
from txnsim.value_errors import WrongValueError

P = ParamSpec("P")
T = TypeVar("T")

CALLER_MISTAKES: Final = (ConfigError, UnknownRuleError, WrongValueError)
"""Mistakes of the caller: their message says everything, so the traceback is cut."""
JOIN_SECONDS: Final = 10
"""Time for a loop's thread to end, in seconds."""


class ClusterLoop:
    """The event loop of a cluster."""

    __slots__ = ("loop",)

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop

    async def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Await ``coroutine`` in this loop, from whichever loop is running."""
        if asyncio.get_running_loop() is self.loop:
            return await coroutine
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coroutine, self.loop))

    def block(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run ``coroutine`` in this loop and wait for it, from another thread.

        Raises:
            RuntimeError: This is the loop's own thread: it would wait for itself.
        """
        if _running_loop() is self.loop:
            coroutine.close()
            raise RuntimeError("the cluster lives in this very loop: use AsyncSimulatedKafka here")
        future = asyncio.run_coroutine_threadsafe(coroutine, self.loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # Ctrl-C while waiting: the rest is not wanted
            raise


class LoopThread:
    """A thread that only runs an event loop."""

    def __init__(self) -> None:
        """Start the thread; the loop runs when this returns."""
        loop_future: Future[ClusterLoop] = Future()
        self._stop_event = asyncio.Event()
        self._thread = threading.Thread(
            target=self._run, args=(loop_future,), name="txnsim", daemon=True
        )
        self._thread.start()
        self.cluster_loop = loop_future.result()

    def stop(self) -> None:
        self.cluster_loop.loop.call_soon_threadsafe(self._stop_event.set)
        self._thread.join(JOIN_SECONDS)

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def _run(self, loop_future: Future[ClusterLoop]) -> None:
        async def until_stopped() -> None:
            loop_future.set_result(ClusterLoop(asyncio.get_running_loop()))
            await self._stop_event.wait()

        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(until_stopped())


class InClusterLoop(Protocol):
    """An object that runs in a cluster's event loop."""

    @property
    def cluster_loop(self) -> ClusterLoop:
        """The event loop in which the object runs."""


class BlockingTwin(Protocol):
    """The blocking form of an ``InClusterLoop``."""

    @property
    def asynchronous(self) -> Any:
        """The asynchronous form of the object."""


R = TypeVar("R", bound=InClusterLoop)


def in_cluster_loop(
    method: Callable[Concatenate[R, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[R, P], Coroutine[Any, Any, T]]:
    """Make a coroutine method run in its object's loop, whichever loop awaits it."""

    @functools.wraps(method)
    async def run(self: R, /, *args: P.args, **kwargs: P.kwargs) -> T:
        __tracebackhide__ = True
        try:
            return await self.cluster_loop.run(method(self, *args, **kwargs))
        except CALLER_MISTAKES as mistake:
            raise mistake.with_traceback(None) from None

    return run


def blocking(
    method: Callable[Concatenate[R, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], T]:
    """The twin of a method that waits for its end like any function."""

    is_verdict = method.__name__.startswith("assert_")

    @functools.wraps(method)
    def run(self: BlockingTwin, /, *args: P.args, **kwargs: P.kwargs) -> T:
        __tracebackhide__ = True
        async_twin = self.asynchronous
        cluster_loop: ClusterLoop = async_twin.cluster_loop
        try:
            return cluster_loop.block(method(async_twin, *args, **kwargs))
        except CALLER_MISTAKES as mistake:
            raise mistake.with_traceback(None) from None
        except AssertionError as verdict:
            if is_verdict:  # the message is enough; the traceback of the check would bury it
                raise verdict.with_traceback(None) from None
            raise

    return run


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None

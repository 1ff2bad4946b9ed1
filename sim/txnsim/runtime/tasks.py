"""Owner of all background tasks, and the quick way for handlers that seldom wait.

A task costs a turn of the loop and several microseconds. ``drive`` therefore runs a coroutine by
hand as long as it waits only for ``Pending`` objects, which resume it themselves; only if it waits
for a future, the rest becomes a task. While the trace is on, each driven coroutine has a current
cause of its own, the same for all its steps: a cause that a handler sets never reaches its caller.

A driven coroutine must not rely on ``asyncio.current_task`` (hence not on ``asyncio.timeout`` or
``TaskGroup``) in its first steps.
"""

from __future__ import annotations

import asyncio
import mmap
import types
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context, copy_context
from functools import partial
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec

from txnsim.loggers import Logger
from txnsim.runtime.loop_turns import Turns
from txnsim.runtime.switch_interval import with_short_switch_interval
from txnsim.runtime.trace import NO_CAUSE, Tracer

T = TypeVar("T")


class Stepper(Protocol):
    """An object that runs coroutines by hand (``LoopTasks``)."""

    @property
    def stepping(self) -> bool:
        """Whether a coroutine is being run by hand right now."""


class Pending(msgspec.Struct, Generic[T], eq=False):
    """A future result or error. Its waiters go on at once when it is resolved, not in a later turn
    of the loop.

    An ``asyncio.Future`` wakes its waiters in a later turn, through a task. A request between
    brokers has several waits, and during their turns the client that has its answer already sends
    its next request: a transaction would always meet the end of the one before. So those waits are
    ``Pending``: callbacks run when it is resolved, and a coroutine that ``Tasks.drive`` runs goes
    on at once, without a task. A task may await it too; then it costs the task's turn.
    """

    _stepper: Stepper
    is_done: bool = False
    value: T | None = None
    error: BaseException | None = None
    callbacks: list[Callable[[Pending[T]], object]] = []

    def done(self) -> bool:
        return self.is_done

    def resolve(self, result: T) -> None:
        """Set the result; ignored if it is done already."""
        if self.is_done:
            return
        self.value = result
        self.is_done = True
        callbacks, self.callbacks = self.callbacks, []
        for callback in callbacks:
            callback(self)

    def fail(self, error: BaseException) -> None:
        """Set the error; ignored if it is done already."""
        if self.is_done:
            return
        self.error = error
        self.is_done = True
        callbacks, self.callbacks = self.callbacks, []
        for callback in callbacks:
            callback(self)

    def exception(self) -> BaseException | None:
        return self.error

    def result(self) -> T:
        """The result.

        Raises:
            BaseException: The error that was set.
        """
        if self.error is not None:
            raise self.error
        return self.value  # type: ignore[return-value] # a cast is a call

    def on_done(self, callback: Callable[[Pending[T]], object]) -> None:
        """Call back once a result or an error is set; at once if one is set already."""
        if self.is_done:
            callback(self)
        else:
            self.callbacks.append(callback)

    def __await__(self) -> Generator[Any, None, T]:
        if not self.is_done:
            if self._stepper.stepping:
                yield self
            else:
                future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

                def wake(_: Pending[T]) -> None:
                    if not future.done():
                        future.set_result(None)

                self.on_done(wake)
                yield from future
        if self.error is not None:
            raise self.error
        return self.value  # type: ignore[return-value] # a cast is a call


async def coroutine_of(awaitable: Awaitable[T]) -> T:
    """An awaitable as a coroutine, as ``Tasks.drive`` runs it."""
    return await awaitable


async def ready_value(value: T) -> T:
    """An awaitable that has its value already."""
    return value


def ignore_end(_result: object, error: BaseException | None) -> None:
    """``done`` of ``Tasks.drive`` for work that nobody waits for.

    Its errors are handled elsewhere; an exception is a bug of txnsim and must not be swallowed.
    """
    if error is not None and not isinstance(error, asyncio.CancelledError):
        raise error


_log: Final = Logger("txnsim.tasks")

FAILURES_KEPT_MAX: Final = 16
"""Number of exceptions of background tasks that are kept for ``close``; every one is logged."""

DUE_PER_TURN_MAX: Final = 10_000
"""Greatest number of ``soon`` callbacks in one turn of the loop; then sockets are looked at
first.
"""
DUE_UNTIMED: Final = 2
"""Number of callbacks between two looks at the clock."""
OWED_PER_TURN: Final = 8
"""What brokers owe may take so many times as long as new requests (``Turns.limit_ns``), before
sockets are looked at again: see the policy in ``loop_turns``. 32 producers on three brokers cause
11 ms of such work at once. If it is cut short, they begin their next transactions before the
markers of the last ones are written, and meet CONCURRENT_TRANSACTIONS.
"""

_NOT_PARKED: Final = object()

Done = Callable[[Any, BaseException | None], object]


class LoopTasks:
    """Owner of all background tasks of an event loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        tracer: Tracer | None = None,
        read_stopwatch_ns: Callable[[], int] = lambda: 0,
        has_threads: bool = False,
    ) -> None:
        """Run on ``loop``.

        Args:
            loop: Has the turns, and the tasks of coroutines that wait for futures.
            tracer: Gets the current cause of coroutines that are run by hand. Without one each
                driven coroutine gets a context of its own.
            read_stopwatch_ns: Tells when a turn has lasted long enough; without it, only callbacks
                are counted.
            has_threads: Whether threads may do work.
        """
        self._loop = loop
        self.unpacker = Unpacker(unpacks_in_thread=has_threads)
        """Decompresses large record batches outside of the loop."""
        self._stopwatch_ns = read_stopwatch_ns
        self.turns = Turns(loop)
        """Shares turns among workers whose work exceeds one turn."""
        self._tracer = tracer
        self._running_tasks: dict[
            asyncio.Task[Any], None
        ] = {}  # a dict, as it keeps order: close is deterministic
        self._failures: list[BaseException] = []
        self._parked_coroutines: dict[_DrivenCoroutine, None] = {}
        self._due_callbacks: deque[tuple[Callable[[], object], int]] = deque()
        """Callbacks with their causes; NO_CAUSE while the trace is off."""
        self.last_callbacks: deque[Callable[[], object]] = deque()
        self.is_drain_due = False
        self._is_behind = False
        """Whether the last drain had more callbacks than one turn allows."""
        # One context for all due callbacks: they come from several callers.
        self._context = copy_context()
        self.stepping = False
        """Whether a driven coroutine is being run right now (see ``Pending``)."""

    def __len__(self) -> int:
        """Number of tasks and driven coroutines that have not ended yet."""
        return len(self._running_tasks) + len(self._parked_coroutines)

    def run_soon(self, callback: Callable[[], object]) -> None:
        """Run ``callback`` after the current one, before the loop looks at its sockets again.

        Callbacks that it adds by ``run_soon`` run in the same turn: brokers finish an exchange
        before the next request of a client is read.
        """
        tracer = self._tracer
        cause = NO_CAUSE
        if tracer is not None and tracer.on:
            trace_scope = tracer.scope
            cause = tracer.cause if trace_scope is None else trace_scope
        self._due_callbacks.append((callback, cause))
        if not self.is_drain_due:
            self.drain_soon()

    def run_at_turn_end(self, callback: Callable[[], object]) -> None:
        """Run ``callback`` when no ``run_soon`` callback is left, or the turn was long enough.

        Answers are written then: written one after the other they cost a tenth less on both sides
        than written between requests.
        """
        self.last_callbacks.append(callback)
        if not self.is_drain_due:
            self.drain_soon()

    def drain_soon(self) -> None:
        """Run all due callbacks in the next turn of the loop."""
        self.is_drain_due = True
        self._loop.call_soon(self._drain, context=self._context)

    def _drain(self) -> None:
        due_callbacks, last_callbacks, turns = self._due_callbacks, self.last_callbacks, self.turns
        tracer = self._tracer
        turns.spent_ns = 0
        deadline_ns = self._stopwatch_ns() + OWED_PER_TURN * turns.limit_ns
        is_time_over = False
        if self._is_behind:
            self._send_answers()  # clients whose requests were read since then get answers first
        for callback_number in range(1, DUE_PER_TURN_MAX + 1):
            try:
                if due_callbacks and not is_time_over:
                    callback, cause = due_callbacks.popleft()
                    if tracer is not None and tracer.on:
                        tracer.scope = cause
                        tracer.scope_waker = NO_CAUSE
                    callback()
                elif last_callbacks:
                    if tracer is not None:
                        tracer.scope = None
                    last_callbacks.popleft()()
                else:
                    break
            except Exception as error:  # noqa: BLE001 - one callback's bug must not lose the others
                self._note_failure("callback", error)
            if callback_number % DUE_UNTIMED == 0 and self._stopwatch_ns() > deadline_ns:
                # Due callbacks wait for the next turn. Answers do not: if each request adds
                # callbacks, no answer would be sent.
                is_time_over = True
        if tracer is not None:
            tracer.scope = None
        self.is_drain_due = False
        self._is_behind = is_time_over and bool(due_callbacks)
        if self._is_behind:
            self.is_drain_due = True
            # Sockets come first: callbacks that are ready now run in the turn before.
            self._loop.call_soon(self.drain_soon, context=self._context)
        elif due_callbacks or last_callbacks:
            self.drain_soon()

    def _send_answers(self) -> None:
        """Run the callbacks that wait for the end of a turn."""
        for _ in range(len(self.last_callbacks)):
            try:
                self.last_callbacks.popleft()()
            except Exception as error:  # noqa: BLE001 - one callback's bug must not lose the others
                self._note_failure("callback", error)

    def spawn(self, coroutine: Coroutine[Any, Any, Any], *, name: str) -> asyncio.Task[Any]:
        """Run a coroutine in the background; an exception is logged as a bug and kept for
        ``close``.
        """
        tracer = self._tracer
        context = None if tracer is None else tracer.timer_context()
        task = self._loop.create_task(coroutine, name=name, context=context)
        self._running_tasks[task] = None
        task.add_done_callback(self._drop_task)
        return task

    def drive(
        self,
        coroutine: Coroutine[Any, Any, Any],
        on_done: Done,
        *,
        name: str,
        has_own_context: bool = False,
        cause: int | None = None,
    ) -> None:
        """Run the first step at once; the coroutine becomes a task only if it has to wait for a
        future.

        ``has_own_context`` gives it a context of its own. ``cause`` is its cause in the trace, if
        that is not the current one. ``on_done(result, exception)`` is called exactly once, also
        when the wait is cancelled (with the CancelledError). An exception that ``on_done`` raises
        reaches the caller of the last step.
        """
        tracer = self._tracer
        if has_own_context or tracer is None:
            driven_coroutine = _DrivenCoroutine(coroutine, on_done, name, copy_context())
            if tracer is not None and tracer.on:
                driven_coroutine.cause = tracer.cause if cause is None else cause
                self._step_traced(driven_coroutine, tracer)
            else:
                self._run_step(driven_coroutine)
            return
        if tracer.on:
            self._drive_traced(coroutine, on_done, name, tracer, cause)
            return
        # The hot path: _run_step, written out for a coroutine that ends at once.
        was_stepping = self.stepping
        self.stepping = True
        try:
            awaited_object = coroutine.send(None)
        except StopIteration as stop:
            self.stepping = was_stepping
            on_done(stop.value, None)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - whatever it is, it is the caller's answer
            self.stepping = was_stepping
            on_done(None, error)
        else:
            self.stepping = was_stepping
            driven_coroutine = _DrivenCoroutine(coroutine, on_done, name, None)
            if isinstance(awaited_object, Pending) and not awaited_object.is_done:
                self._parked_coroutines[driven_coroutine] = None  # _wait_for, written out
                awaited_object.callbacks.append(partial(self._run_step, driven_coroutine))
            else:
                self._wait_for(driven_coroutine, awaited_object)

    def _drive_traced(
        self,
        coroutine: Coroutine[Any, Any, Any],
        on_done: Done,
        name: str,
        tracer: Tracer,
        cause: int | None,
    ) -> None:
        """Like ``drive``, with a current cause of its own: _step_traced, inlined."""
        outer_scope, outer_waker = tracer.scope, tracer.scope_waker
        if cause is not None:
            tracer.scope = cause
        elif outer_scope is None:
            tracer.scope = tracer.cause
        tracer.scope_waker = NO_CAUSE
        was_stepping, self.stepping = self.stepping, True
        try:
            awaited_object = coroutine.send(None)
        except StopIteration as stop:
            self.stepping = was_stepping
            tracer.scope_waker = outer_waker
            on_done(stop.value, None)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - whatever it is, it is the caller's answer
            self.stepping = was_stepping
            tracer.scope_waker = outer_waker
            on_done(None, error)
        else:
            self.stepping = was_stepping
            driven_coroutine = _DrivenCoroutine(coroutine, on_done, name, None)
            trace_scope = tracer.scope
            driven_coroutine.cause = tracer.cause if trace_scope is None else trace_scope
            self._wait_for(driven_coroutine, awaited_object)
        finally:
            tracer.scope, tracer.scope_waker = outer_scope, outer_waker

    def _run_step(
        self, driven_coroutine: _DrivenCoroutine, woken_by: Pending[Any] | None = None
    ) -> None:
        """Run the next step of a coroutine; ``woken_by`` is the wait that ended, if any."""
        if woken_by is not None:
            if self._parked_coroutines.pop(driven_coroutine, _NOT_PARKED) is _NOT_PARKED:
                return
            tracer = self._tracer
            if tracer is not None and tracer.on:
                trace_scope = tracer.scope
                driven_coroutine.waker = tracer.cause if trace_scope is None else trace_scope
                self._step_traced(driven_coroutine, tracer)
                return
        coroutine, on_done = driven_coroutine.coroutine, driven_coroutine.done
        context = driven_coroutine.context
        was_stepping, self.stepping = self.stepping, True
        try:
            awaited_object = (
                coroutine.send(None) if context is None else context.run(coroutine.send, None)
            )
        except StopIteration as stop:
            self.stepping = was_stepping
            on_done(stop.value, None)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - whatever it is, it is the caller's answer
            self.stepping = was_stepping
            on_done(None, error)
        else:
            self.stepping = was_stepping
            self._wait_for(driven_coroutine, awaited_object)

    def _step_traced(self, driven_coroutine: _DrivenCoroutine, tracer: Tracer) -> None:
        """Run a step in its own trace scope; its last cause holds for the next step and
        ``done``.
        """
        context = driven_coroutine.context
        outer_scope, outer_waker = tracer.scope, tracer.scope_waker
        tracer.scope, tracer.scope_waker = driven_coroutine.cause, driven_coroutine.waker
        was_stepping, self.stepping = self.stepping, True
        try:
            coroutine = driven_coroutine.coroutine
            awaited_object = (
                coroutine.send(None) if context is None else context.run(coroutine.send, None)
            )
        except StopIteration as stop:
            self.stepping = was_stepping
            tracer.scope_waker = outer_waker
            driven_coroutine.done(stop.value, None)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - whatever it is, it is the caller's answer
            self.stepping = was_stepping
            tracer.scope_waker = outer_waker
            driven_coroutine.done(None, error)
        else:
            self.stepping = was_stepping
            cause = tracer.scope
            driven_coroutine.cause = tracer.cause if cause is None else cause
            self._wait_for(driven_coroutine, awaited_object)
        finally:
            tracer.scope, tracer.scope_waker = outer_scope, outer_waker

    def _wait_for(self, driven_coroutine: _DrivenCoroutine, awaited_object: Any) -> None:
        if isinstance(awaited_object, Pending):
            self._parked_coroutines[driven_coroutine] = None
            if awaited_object.is_done:
                self._run_step(driven_coroutine, awaited_object)
            else:
                awaited_object.callbacks.append(partial(self._run_step, driven_coroutine))
            return
        if hasattr(awaited_object, "_asyncio_future_blocking"):
            # A task takes this mark off at once, and so must we: until then nothing else may await
            # the same future ("await wasn't used with future").
            awaited_object._asyncio_future_blocking = False
        coroutine_rest = _CoroutineRest(
            driven_coroutine.coroutine, awaited_object, driven_coroutine.done
        )
        task = self._loop.create_task(
            coroutine_rest.run(),
            name=driven_coroutine.name,
            context=self._task_context(driven_coroutine),
        )
        self._running_tasks[task] = None
        task.add_done_callback(coroutine_rest.settle)
        task.add_done_callback(self._drop_task)

    def _task_context(self, driven_coroutine: _DrivenCoroutine) -> Context | None:
        """Context in which the rest of a coroutine runs as a task."""
        tracer = self._tracer
        if tracer is None or not tracer.on:
            return driven_coroutine.context
        if driven_coroutine.context is None:
            return tracer.context(driven_coroutine.cause, driven_coroutine.waker)
        return driven_coroutine.context.run(
            tracer.context, driven_coroutine.cause, driven_coroutine.waker
        )

    async def close(self) -> None:
        """Cancel and await all running tasks and coroutines.

        Raises:
            ExceptionGroup: Background tasks failed since the start: bugs, which were logged when
                they happened.
        """
        while self._running_tasks or self._parked_coroutines:
            for driven_coroutine in list(self._parked_coroutines):
                del self._parked_coroutines[driven_coroutine]
                driven_coroutine.coroutine.close()
                driven_coroutine.done(None, asyncio.CancelledError())
            tasks = list(self._running_tasks)
            if not tasks:
                continue
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        self.unpacker.close()
        failures, self._failures = self._failures, []
        if failures:
            raise BaseExceptionGroup("background tasks failed", failures)

    def _drop_task(self, task: asyncio.Task[Any]) -> None:
        del self._running_tasks[task]
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            self._note_failure(task.get_name(), error)

    def _note_failure(self, name: str, error: BaseException) -> None:
        _log.error("task.failed", task=name, exc_info=error)
        if len(self._failures) < FAILURES_KEPT_MAX:
            self._failures.append(error)


class _DrivenCoroutine(msgspec.Struct, eq=False):
    """A coroutine that ``LoopTasks`` runs step by step, without a task of asyncio."""

    coroutine: Coroutine[Any, Any, Any]
    done: Done
    name: str
    context: Context | None
    """Context of the coroutine alone; None if it runs in its caller's."""
    cause: int = NO_CAUSE
    """Trace event that is the cause of its next step."""
    waker: int = NO_CAUSE
    """Trace event that ended the last wait."""


class _CoroutineRest(msgspec.Struct, eq=False):
    """The rest of a driven coroutine, after its first step waited."""

    _coroutine: Coroutine[Any, Any, Any]
    _awaited_object: object
    _report_end: Done | None

    async def run(self) -> None:
        try:
            result = await _continue_coroutine(self._coroutine, self._awaited_object)
        except asyncio.CancelledError as error:
            self._report_result(None, error)
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the caller's answer
            self._report_result(None, error)
        else:
            self._report_result(result, None)

    def settle(self, task: asyncio.Task[Any]) -> None:
        """Report the cancellation, if the task was cancelled before ``run`` began."""
        if self._report_end is not None:
            self._coroutine.close()
            if task.cancelled():
                self._report_result(None, asyncio.CancelledError())

    def _report_result(self, result: Any, error: BaseException | None) -> None:
        on_done, self._report_end = self._report_end, None
        if on_done is not None:
            on_done(result, error)


@types.coroutine
def _continue_coroutine(
    coroutine: Coroutine[Any, Any, Any], awaited_object: Any
) -> Generator[Any, Any, Any]:
    """Continue a coroutine that has been stepped by hand and yielded ``awaited_object``.

    Yielding the future once more hands it to the task as if the task had made the first step. The
    coroutine's ``__await__`` is used, because ``await`` refuses one that waits.
    """
    while True:
        if hasattr(awaited_object, "_asyncio_future_blocking"):
            # The mark by which a task knows that it was awaited; drive took it away.
            awaited_object._asyncio_future_blocking = True
        try:
            yield awaited_object
        except GeneratorExit:
            coroutine.close()
            raise
        except BaseException as error:  # noqa: BLE001 - cancellation too belongs to the coroutine
            try:
                awaited_object = coroutine.throw(error)
            except StopIteration as stop:
                return stop.value
        else:
            return (yield from coroutine.__await__())


# Decompresses records outside of the loop: one batch at a time, into the same memory.
#
# Decompressing megabytes takes a hundred milliseconds if the memory is new, and needs neither
# the interpreter nor any state of a broker. So a thread does it, and writes into memory that is
# kept: the second time takes a tenth. Each batch waits for the one before it, so many clients take
# no more memory than one. In virtual time there are no threads, and no time passes.


class PackedWork(Protocol):
    """Work that needs memory (``wire.compression.PackedRecords``)."""

    @property
    def room_bytes(self) -> int:
        """Bytes of memory that the work needs."""


W = TypeVar("W", bound=PackedWork)


class Unpacker:
    """The thread of an environment that decompresses records, and the memory that it writes to."""

    def __init__(self, *, unpacks_in_thread: bool) -> None:
        self._in_thread = unpacks_in_thread
        self._thread: ThreadPoolExecutor | None = None
        self._output_memory: mmap.mmap | None = None
        self._lock = asyncio.Lock()

    async def enter(self) -> None:
        """Wait for the memory; ``leave`` releases it."""
        await self._lock.acquire()

    def leave(self) -> None:
        self._lock.release()

    async def unpack(self, unpack_into: Callable[[W, mmap.mmap], T], work: W) -> T:
        """The result of ``do(work, memory)``; the caller has called ``enter``.

        If the wait is cancelled, the thread finishes this work before it begins the next.
        """
        if self._output_memory is None or len(self._output_memory) < work.room_bytes:
            self._output_memory = mmap.mmap(-1, work.room_bytes)
        if not self._in_thread:
            return unpack_into(work, self._output_memory)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            self._started_thread(), unpack_into, work, self._output_memory
        )

    async def do(self, work: Callable[[], T]) -> T:
        """The result of ``work``, which the thread calls; the caller has called ``enter``. The work
        needs the interpreter, so the interpreter's lock changes hands more often meanwhile.
        """
        if not self._in_thread:
            return work()
        return await asyncio.get_running_loop().run_in_executor(
            self._started_thread(), with_short_switch_interval, work
        )

    def _started_thread(self) -> ThreadPoolExecutor:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="txnsim-unpack")
        return self._thread

    def close(self) -> None:
        """End the thread without waiting for its current work."""
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)
            self._thread = None

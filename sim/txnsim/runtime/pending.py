"""An answer that is not there yet, without a turn of the loop between its arrival and
its waiters.

An ``asyncio.Future`` wakes its waiters in a later turn, by a task. A request between brokers
crosses several such waits, and while they turn, the client that has been answered already sends
its next request: a transaction would always meet its own past. So those waits are ``Pending``:
callbacks run when it is resolved, and a coroutine that ``Tasks.drive`` runs goes on at once,
without a task. A task may await it all the same; then it costs the task's turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any, Generic, Protocol, TypeVar

import msgspec

T = TypeVar("T")


class Stepper(Protocol):
    """The one that runs coroutines by hand (``LoopTasks``)."""

    @property
    def stepping(self) -> bool:
        """Whether such a step is being made right now."""


class Pending(msgspec.Struct, Generic[T], eq=False):
    """A result or an error to come; resolved once."""

    _stepper: Stepper
    is_done: bool = False
    value: T | None = None
    """The result, where there is one."""
    error: BaseException | None = None
    """Why there is none."""
    callbacks: list[Callable[[Pending[T]], object]] = []
    """Called when it is resolved (``on_done``)."""

    def done(self) -> bool:
        """Whether it is resolved."""
        return self.is_done

    def resolve(self, result: T) -> None:
        """Here is the result; without effect where one is there already."""
        if self.is_done:
            return
        self.value = result
        self.is_done = True
        callbacks, self.callbacks = self.callbacks, []
        for callback in callbacks:
            callback(self)

    def fail(self, error: BaseException) -> None:
        """There will be no result; without effect where there is one."""
        if self.is_done:
            return
        self.error = error
        self.is_done = True
        callbacks, self.callbacks = self.callbacks, []
        for callback in callbacks:
            callback(self)

    def exception(self) -> BaseException | None:
        """Why there is no result, None where there is one."""
        return self.error

    def result(self) -> T:
        """The result.

        Raises:
            BaseException: What it failed with.
        """
        if self.error is not None:
            raise self.error
        return self.value  # type: ignore[return-value] # a cast is a call

    def on_done(self, callback: Callable[[Pending[T]], object]) -> None:
        """Call back when it is resolved; at once where it is."""
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

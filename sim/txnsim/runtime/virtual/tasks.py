"""Tasks and futures that hash by their number in the run.

asyncio's own hash by their address, which differs from process to process, and so does the order in
which a library takes them out of a set: ``asyncio.wait`` answers with one.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from typing import Any, Final

TASK_NAME: Final = "Task-{number}"
"""As asyncio names a task that was given no name, where it counts all of a process."""


class NumberedFuture(asyncio.Future[Any]):
    """A future of a virtual loop."""

    def __init__(self, number: int, *, loop: asyncio.AbstractEventLoop) -> None:
        self._number = number
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._number


class NumberedTask(asyncio.Task[Any]):
    """A task of a virtual loop."""

    def __init__(
        self,
        number: int,
        coroutine: Coroutine[Any, Any, Any] | Generator[Any, None, Any],
        **options: Any,
    ) -> None:
        self._number = number  # before asyncio puts it into its set of all tasks
        super().__init__(coroutine, **options)

    def __hash__(self) -> int:
        return self._number


class Numbers:
    """Makes the tasks and futures of one loop."""

    def __init__(self) -> None:
        self._next: Callable[[], int] = itertools.count(1).__next__
        self._next_name: Callable[[], int] = itertools.count(1).__next__

    def future(self, loop: asyncio.AbstractEventLoop) -> asyncio.Future[Any]:
        """A future that nothing has answered yet."""
        return NumberedFuture(self._next(), loop=loop)

    def task(
        self,
        loop: asyncio.AbstractEventLoop,
        coroutine: Coroutine[Any, Any, Any] | Generator[Any, None, Any],
        *,
        name: str | None = None,
        context: Context | None = None,
        **options: Any,
    ) -> asyncio.Task[Any]:
        """A task, as ``loop.create_task`` is asked for it."""
        if name is None:
            name = TASK_NAME.format(number=self._next_name())
        return NumberedTask(
            self._next(), coroutine, loop=loop, name=name, context=context, **options
        )

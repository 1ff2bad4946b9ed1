"""Reads several parts at the same time, each in a thread, and hands them over in their order."""

from __future__ import annotations

import os
import queue
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Final, Generic, TypeVar

T = TypeVar("T")

THREADS_MAX: Final = 4
"""Limit of parts that are read at the same time: each holds some batches in memory."""
_ITEMS_AHEAD: Final = 2
"""Limit of items that a part holds ready."""
_STOP_CHECK_S: Final = 0.1


class _EndOfPart:
    """Comes behind the last item of a part, with the error that ended it, if one did."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


def read_ahead(
    readers: Sequence[Callable[[], Iterator[T]]], thread_count: int | None = None
) -> Generator[tuple[int, T]]:
    """Yield (number of the reader, item), all items of a reader before those of the next one. What
    is compiled or reads a file lets other threads run, so cores are used as far as readers are.

    Args:
        readers: Functions that begin to read a part.
        thread_count: Readers that run at the same time; None for one of each core, at most
            ``THREADS_MAX``. With one, or one reader, no thread is started.

    Raises:
        Exception: What a reader raised, behind the items of the readers before it.
    """
    thread_count = thread_count or min(os.cpu_count() or 1, THREADS_MAX)
    if thread_count == 1 or len(readers) <= 1:
        for reader_number, reader in enumerate(readers):
            for item in reader():
                yield reader_number, item
        return
    is_abandoned = threading.Event()
    running_parts: deque[_PartThread[T]] = deque()
    next_reader_number = 0
    try:
        for reader_number in range(len(readers)):
            while len(running_parts) < thread_count and next_reader_number < len(readers):
                running_parts.append(_PartThread(readers[next_reader_number], is_abandoned))
                next_reader_number += 1
            for item in running_parts[0].items():
                yield reader_number, item
            running_parts.popleft()
    finally:
        is_abandoned.set()
        for part in running_parts:
            part.thread.join()


class _PartThread(Generic[T]):
    """A thread that reads one part."""

    def __init__(self, reader: Callable[[], Iterator[T]], is_abandoned: threading.Event) -> None:
        self._reader = reader
        self._is_abandoned = is_abandoned
        self._ready_items: queue.Queue[T | _EndOfPart] = queue.Queue(_ITEMS_AHEAD)
        self.thread = threading.Thread(target=self._read, name="txnsim-read-ahead", daemon=True)
        self.thread.start()

    def items(self) -> Iterator[T]:
        """The part's items, as they become ready.

        Raises:
            Exception: What the reader raised.
        """
        while not isinstance(item := self._ready_items.get(), _EndOfPart):
            yield item
        if item.error is not None:
            raise item.error

    def _read(self) -> None:
        error: BaseException | None = None
        try:
            for item in self._reader():
                if not self._hand_over(item):
                    return
        except BaseException as reader_error:  # noqa: BLE001 - the waiting thread raises it
            error = reader_error
        self._hand_over(_EndOfPart(error))

    def _hand_over(self, item: T | _EndOfPart) -> bool:
        """Wait until there is room for the item; returns False once no more is read."""
        while not self._is_abandoned.is_set():
            try:
                self._ready_items.put(item, timeout=_STOP_CHECK_S)
            except queue.Full:
                continue
            return True
        return False

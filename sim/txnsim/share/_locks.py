"""The deadlines of acquisition locks. A deadline that is no longer valid is noticed when it is due:
by then the records have another deadline, or none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heappop, heappush

import msgspec

_CLEANUP_THRESHOLD = 64
"""With so few entries or fewer there is no clean-up."""


class LockDeadline(msgspec.Struct, frozen=True, order=True, gc=False):
    """A range of records and the time at which their lock was to expire."""

    deadline_ms: int
    first_offset: int
    last_offset: int
    is_stray: bool = False
    """Whether it ends any lock that the records have by then."""


class LockDeadlines:
    """Deadlines, the earliest first. Outdated ones are cleaned up, so that at least about half of
    the entries are valid.
    """

    __slots__ = ("_heap", "_valid_count")

    def __init__(self) -> None:
        self._heap: list[LockDeadline] = []
        self._valid_count = 0

    def add(self, deadline: LockDeadline) -> None:
        heappush(self._heap, deadline)

    @property
    def needs_cleanup(self) -> bool:
        return len(self._heap) > max(_CLEANUP_THRESHOLD, 2 * self._valid_count)

    def keep_valid(self, is_valid: Callable[[LockDeadline], bool]) -> None:
        """Drop all deadlines for which ``is_valid`` is False."""
        self._heap = sorted(filter(is_valid, self._heap))
        self._valid_count = len(self._heap)

    def next_deadline_ms(self) -> int | None:
        return self._heap[0].deadline_ms if self._heap else None

    def pop_due(self, now_ms: int) -> Iterator[LockDeadline]:
        while self._heap and self._heap[0].deadline_ms <= now_ms:
            yield heappop(self._heap)

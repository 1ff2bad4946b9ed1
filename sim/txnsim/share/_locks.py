"""When the next acquisition lock runs out. A deadline that was cleared meanwhile is found out when
its time comes: the records have another one, or none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heappop, heappush

import msgspec

_ENOUGH = 64
"""So few entries are not worth a clean-up."""


class LockDeadline(msgspec.Struct, frozen=True, order=True, gc=False):
    """Records whose lock was to run out at this time."""

    deadline_ms: int
    first_offset: int
    last_offset: int
    is_stray: bool = False
    """It ends whatever lock the records have by then."""


class LockDeadlines:
    """Deadlines in the order of time. Renewed locks do not pile up: half of the entries count."""

    __slots__ = ("_heap", "_kept")

    def __init__(self) -> None:
        self._heap: list[LockDeadline] = []
        self._kept = 0

    def add(self, deadline: LockDeadline) -> None:
        heappush(self._heap, deadline)

    @property
    def needs_cleanup(self) -> bool:
        return len(self._heap) > max(_ENOUGH, 2 * self._kept)

    def keep(self, counts: Callable[[LockDeadline], bool]) -> None:
        """Forget the others."""
        self._heap = sorted(filter(counts, self._heap))
        self._kept = len(self._heap)

    def next_ms(self) -> int | None:
        return self._heap[0].deadline_ms if self._heap else None

    def due(self, now_ms: int) -> Iterator[LockDeadline]:
        while self._heap and self._heap[0].deadline_ms <= now_ms:
            yield heappop(self._heap)

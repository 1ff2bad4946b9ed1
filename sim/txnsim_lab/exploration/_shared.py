"""What the processes of a search have together: the states that were seen, counters, and places."""

from __future__ import annotations

import mmap
import os
from typing import Final

COUNTERS: Final = ("states", "choices", "ends", "known", "cut", "broken")
_COUNTER_BYTES: Final = 8
_EMPTY: Final = 0


class SeenStates:
    """A set of states of a fixed size, in memory that processes share: a table with open
    addressing. Two processes that add one state at the same time may both take it for new: then it
    is searched twice.
    """

    def __init__(self, capacity_bits: int) -> None:
        """Make an empty set.

        Args:
            capacity_bits: It has room for 2 to this power states, of which 7 in 8 are used.
        """
        self._index_mask = (1 << capacity_bits) - 1
        self._fingerprint_slots = memoryview(mmap.mmap(-1, (self._index_mask + 1) * 8)).cast("Q")

    def add(self, fingerprint: int) -> bool:
        """Add a state; returns whether it was new.

        Raises:
            MemoryError: No room is left.
        """
        slots, mask = self._fingerprint_slots, self._index_mask
        index = fingerprint & mask
        for _ in range(mask + 1):
            slot = slots[index]
            if slot == _EMPTY:
                slots[index] = fingerprint
                return True
            if slot == fingerprint:
                return False
            index = (index + 1) & mask
        raise MemoryError(f"{mask + 1} states: the table is full")


class Counters:
    """Counters that processes share: each lane counts for itself."""

    def __init__(self, lane_count: int) -> None:
        self._lane_count = lane_count
        size = (len(COUNTERS) * lane_count + 1) * _COUNTER_BYTES
        self._counter_cells = memoryview(mmap.mmap(-1, size)).cast("Q")

    def count(self, name: str, lane: int) -> None:
        """Add one to a counter of a lane."""
        self._counter_cells[1 + COUNTERS.index(name) * self._lane_count + lane] += 1

    def totals(self) -> dict[str, int]:
        """The sums over all lanes."""
        return {
            name: sum(
                self._counter_cells[
                    1 + index * self._lane_count : 1 + (index + 1) * self._lane_count
                ]
            )
            for index, name in enumerate(COUNTERS)
        }

    @property
    def is_stopped(self) -> bool:
        """Whether the search is to end."""
        return bool(self._counter_cells[0])

    def stop(self) -> None:
        """Have the search end."""
        self._counter_cells[0] = 1


class Lanes:
    """How many processes may search at once; each has a lane, by number."""

    def __init__(self, lane_count: int) -> None:
        """Make the lanes; lane 0 is the first process's."""
        self._read_fd, self._write_fd = os.pipe()
        os.set_blocking(self._read_fd, False)
        for lane in range(1, lane_count):
            self.give_back(lane)

    def close(self) -> None:
        """Close the pipe that the lanes lie in."""
        os.close(self._read_fd)
        os.close(self._write_fd)

    def take(self) -> int | None:
        """Take a free lane; None if all lanes are taken."""
        try:
            return os.read(self._read_fd, 1)[0]
        except BlockingIOError:
            return None

    def give_back(self, lane: int) -> None:
        """Make a lane free for other processes."""
        os.write(self._write_fd, bytes((lane,)))

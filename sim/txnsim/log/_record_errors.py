"""Why records of a batch are refused (KIP-467).

A batch may hold hundreds of thousands of bad ones, and an answer names each of them. So of each
there are numbers here, 20 bytes, and its message is made when somebody asks for it.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, overload


class Refused(NamedTuple):
    """The fields of a refused record."""

    position: int
    """In the batch."""
    timestamp: int
    key_size: int
    """Bytes; -1 for null."""
    value_size: int
    """The same."""


class RecordErrors(Sequence[tuple[int, str]]):
    """(index in the batch, message) of each refused record."""

    __slots__ = ("_indexes", "_key_sizes", "_tell", "_timestamps", "_value_sizes")

    def __init__(self, tell: Callable[[Refused], str]) -> None:
        self._tell = tell
        self._indexes = array("i")
        self._timestamps = array("q")
        self._key_sizes = array("i")
        self._value_sizes = array("i")

    def note(self, refused: Refused) -> None:
        """One more."""
        self._indexes.append(refused.position)
        self._timestamps.append(refused.timestamp)
        self._key_sizes.append(refused.key_size)
        self._value_sizes.append(refused.value_size)

    def __len__(self) -> int:
        return len(self._indexes)

    def __iter__(self) -> Iterator[tuple[int, str]]:
        tell = self._tell
        for refused in map(
            Refused, self._indexes, self._timestamps, self._key_sizes, self._value_sizes
        ):
            yield refused.position, tell(refused)

    @overload
    def __getitem__(self, at: int) -> tuple[int, str]: ...

    @overload
    def __getitem__(self, at: slice) -> tuple[tuple[int, str], ...]: ...

    def __getitem__(self, at: int | slice) -> tuple[int, str] | tuple[tuple[int, str], ...]:
        if isinstance(at, slice):
            return tuple(self[each] for each in range(*at.indices(len(self))))
        refused = Refused(
            self._indexes[at], self._timestamps[at], self._key_sizes[at], self._value_sizes[at]
        )
        return refused.position, self._tell(refused)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash((len(self), self[:1]))

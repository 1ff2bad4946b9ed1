"""What is kept of a trace: encoded events in chunks, bounded by bytes.

A chunk is a piece of the file as it is written: lines with their line ends. It is encoded once, and
readers get these bytes. When there are too many of them, the oldest chunks go, up to one that opens
with a snapshot, so that a reader can start there. Transactions stay whole: where the kept part
begins, the older events of those that have not ended are carried along, until they end or take more
than their share.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Set
from heapq import merge
from itertools import chain, islice
from typing import Final, Protocol

import msgspec

CHUNK_BYTES: Final = 65_536
"""A chunk takes in more until it has so many."""
LINES_AT_ONCE: Final = 256
CARRIED_SHARE: Final = 4
"""One in so many bytes of the ring may go to transactions that began before its first event."""
OVERDUE_SHARE: Final = 8
"""While a snapshot is due and does not come, the ring may be fuller by one in so many bytes."""

_TX: Final = re.compile(rb'"k":"([^"]*)","tx":"((?:[^"\\]|\\.)*)')
"""Kind and transaction of an event that has one; they stand side by side in no payload."""
_ENDED: Final = frozenset({"CompleteCommit", "CompleteAbort", "Empty", "Dead"})
_ENDS: Final = tuple(f'"state":"{state}"'.encode() for state in sorted(_ENDED))
_INDEX_AT: Final = len(b'{"i":')


class Told(Protocol):
    """An event, as far as it tells of a transaction (``trace.Event``)."""

    @property
    def k(self) -> str:
        """Its kind."""

    @property
    def tx(self) -> str:
        """Its transaction."""

    @property
    def d(self) -> object:
        """Its payload."""


class Lives(msgspec.Struct):
    """What some consecutive events tell of transactions, by transactional id."""

    open: set[str]
    """Has events behind its last end here, or has none here."""
    ended: set[str]
    """Has ended here, and may have begun anew."""

    def follow(self, later: Lives) -> None:
        """Take in what the events right behind these tell."""
        self.open = (self.open - later.ended) | later.open
        self.ended |= later.ended


def lives_of(events: Iterable[Told]) -> Lives:
    """What becomes of transactions in these events."""
    lives = Lives(set(), set())
    for event in events:
        tx = event.tx
        if not tx:
            continue
        name = tx[: tx.rfind("/")]
        data = event.d
        if event.k == "txn.complete" and isinstance(data, Mapping) and data["state"] in _ENDED:
            lives.ended.add(name)
            lives.open.discard(name)
        else:
            lives.open.add(name)
    return lives


NO_LIVES: Final = Lives(set(), set())
"""Of events about no transaction; never changed."""


class _Chunk:
    """Consecutive events, encoded."""

    __slots__ = ("count", "first", "is_opening", "lives", "text")

    def __init__(
        self, first: int, count: int, text: bytes, lives: Lives, *, is_opening: bool
    ) -> None:
        self.first = first
        self.count = count
        self.text = text
        self.lives = Lives(set(lives.open), set(lives.ended))
        self.is_opening = is_opening
        """Its first event is a snapshot."""


class Ring:
    """The newest events of a trace, as many bytes as are wanted."""

    def __init__(self, bytes_max: int | None) -> None:
        """Start empty.

        Args:
            bytes_max: Keep about as many; None keeps all.
        """
        self._bytes_max = bytes_max
        self._chunks: list[_Chunk] = []
        self._first = 0
        self._next = 0
        self._size = 0
        self._carried: dict[str, list[tuple[int, bytes]]] = {}
        self._carried_size = 0

    @property
    def bytes_max(self) -> int | None:
        """About how many bytes are kept; None for all."""
        return self._bytes_max

    @property
    def first(self) -> int:
        """Index of the first event from which on nothing is missing."""
        return self._first

    @property
    def next(self) -> int:
        """Index that the next event gets."""
        return self._next

    @property
    def size(self) -> int:
        """Bytes that are kept."""
        return self._size + self._carried_size

    # Writing

    def add(
        self, text: bytes, count: int, lives: Lives = NO_LIVES, *, is_opening: bool = False
    ) -> None:
        """Take in the next events.

        Args:
            text: Their lines, each with its line end.
            count: How many they are.
            lives: What they tell of transactions; asked for only where the ring has a bound.
            is_opening: The first of them is a snapshot: a reader can begin here.
        """
        newest = self._chunks[-1] if self._chunks else None
        if newest is None or is_opening or len(newest.text) >= CHUNK_BYTES:
            self._chunks.append(_Chunk(self._next, count, text, lives, is_opening=is_opening))
        else:
            newest.text += text
            newest.count += count
            newest.lives.follow(lives)
        self._next += count
        self._size += len(text)
        if self._bytes_max is not None and self.size > self._bytes_max:
            self._shrink(self._bytes_max)

    def _shrink(self, bytes_max: int) -> None:
        openings = [at for at, chunk in enumerate(self._chunks) if chunk.is_opening and at]
        is_snapshotted = bool(openings) or self._chunks[0].is_opening
        while self.size > bytes_max and len(self._chunks) > 1:
            if openings:
                self._drop(openings.pop(0))
                openings = [at for at, chunk in enumerate(self._chunks) if chunk.is_opening and at]
            elif is_snapshotted and self.size < bytes_max + bytes_max // OVERDUE_SHARE:
                return
            else:
                self._drop(1)

    def _drop(self, count: int) -> None:
        dropped, self._chunks = self._chunks[:count], self._chunks[count:]
        ended: set[str] = set()
        open_ones: list[tuple[_Chunk, set[str]]] = []
        for chunk in reversed(dropped):
            self._size -= len(chunk.text)
            # What ends in a later chunk is not looked at: nearly all of it.
            if still_open := chunk.lives.open - ended:
                open_ones.append((chunk, still_open))
            ended |= chunk.lives.ended
        for name in ended & self._carried.keys():
            self._forget(name)
        for chunk, still_open in reversed(open_ones):
            self._carry(chunk.text, still_open)
        assert self._bytes_max is not None, "without a bound nothing is dropped"
        while self._carried_size * CARRIED_SHARE > self._bytes_max:
            self._forget(next(iter(self._carried)))
        self._first = self._chunks[0].first

    def _carry(self, text: bytes, names: Set[str]) -> None:
        """Keep the lines of these transactional ids behind the last end of each in this text: what
        is older is no part of the transaction that is open.
        """
        wanted = {msgspec.json.encode(name)[1:-1]: name for name in names}
        kept: dict[str, list[tuple[int, bytes]]] = {}
        for found in reversed(list(_TX.finditer(text))):
            kind, tx = found.groups()
            encoded = tx[: tx.rfind(b"/")]
            name = wanted.get(encoded)
            if name is None:
                continue
            line = text[text.rfind(b"\n", 0, found.start()) + 1 : text.find(b"\n", found.end())]
            if kind == b"txn.complete" and any(end in line for end in _ENDS):
                del wanted[encoded]
                continue
            kept.setdefault(name, []).append((_index(line), line))
            self._carried_size += len(line)
        for name, entries in reversed(kept.items()):
            self._carried.setdefault(name, []).extend(reversed(entries))

    def _forget(self, name: str) -> None:
        for _, line in self._carried.pop(name, ()):
            self._carried_size -= len(line)

    # Reading

    def lines(self, from_index: int) -> Iterator[bytes]:
        """Encoded events from a cursor on, without line ends.

        Events may be added between two steps. A cursor below ``first`` begins with what is carried
        along of older transactions.
        """
        if from_index < self._first:
            yield from (line for index, line in self._older() if index >= from_index)
        index = max(from_index, self._first)
        while index < self._next:
            chunk = self._chunks[bisect_right(self._chunks, index, key=_first) - 1]
            batch = chunk.text.splitlines()[index - chunk.first :]
            yield from batch
            index = max(index + len(batch), self._first)

    def texts(self) -> Iterator[bytes]:
        """All that is kept now, in pieces of whole lines; what comes later changes none of them."""
        return chain(_joined(self._older()), [chunk.text for chunk in self._chunks])

    def _older(self) -> Iterator[tuple[int, bytes]]:
        """What is carried along now, in order."""
        return merge(*map(tuple, self._carried.values()))


def _joined(entries: Iterator[tuple[int, bytes]]) -> Iterator[bytes]:
    while some := list(islice(entries, LINES_AT_ONCE)):
        yield b"".join(line + b"\n" for _, line in some)


def _first(chunk: _Chunk) -> int:
    return chunk.first


def _index(line: bytes) -> int:
    return int(line[_INDEX_AT : line.index(b",", _INDEX_AT)])

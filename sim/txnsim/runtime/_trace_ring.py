"""What is kept of a trace: batches of events in chunks, bounded by bytes.

A batch is some consecutive events in their form (``trace_forms``). Readers get lines, which are
made of a batch when it is read. When too many bytes are kept, the oldest chunks go, up to one that
opens with a snapshot, so that a reader can start there. Transactions stay whole: where the kept
part begins, the older events of those that have not ended are carried along as lines, until they
end or take more than their share.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence, Set
from heapq import merge
from itertools import chain, islice
from sys import getsizeof
from typing import Any, Final

import msgspec

from txnsim.runtime._trace_forms import Form, Row

CHUNK_BYTES: Final = 65_536
"""Size at which a chunk is full."""
LINES_AT_ONCE: Final = 256
BATCH_OVERHEAD: Final = 140
"""Bytes of memory that a batch takes besides its events."""
LINE_OVERHEAD: Final = 125
"""The same of a line that is carried along."""
READ_KEPT: Final = 8
"""Batches whose lines are kept for the next reader: listeners read the same ones."""
CARRIED_SHARE: Final = 4
"""At most 1/4 of the ring's bytes keeps transactions older than its first event."""
OVERDUE_SHARE: Final = 8
"""While a snapshot is overdue, the ring may grow 1/8 past its bound."""

_TX: Final = re.compile(rb'"k":"([^"]*)","tx":"((?:[^"\\]|\\.)*)/-?\d+:-?\d+"')
"""Kind and transactional id of an event of a transaction; they stand side by side in no payload."""
_NAMED: Final = re.compile(r"(.*)/-?\d+:-?\d+", re.DOTALL)
_ENDED: Final = frozenset({"CompleteCommit", "CompleteAbort", "Empty", "Dead"})
_ENDS: Final = tuple(f'"state":"{state}"'.encode() for state in sorted(_ENDED))
_INDEX_AT: Final = len(b'{"i":')
_AT_KIND, _AT_TX, _AT_DATA = 3, 4, 5
"""Places in a row."""


class Lives(msgspec.Struct):
    """What some consecutive events tell of transactions, by transactional id."""

    open: set[str]
    """Transactional ids with events after their last end here, or without an end here."""
    ended: set[str]
    """Transactional ids that ended here; they may have begun anew."""

    def follow(self, later: Lives) -> None:
        """Merge the lives in the events that follow these."""
        self.open = (self.open - later.ended) | later.open
        self.ended |= later.ended


def lives_of(rows: Sequence[Row]) -> Lives:
    """What becomes of transactions in these events."""
    last_of_tx: dict[Any, int] = {row[_AT_TX]: at for at, row in enumerate(rows)}
    last: dict[str, int] = {}
    for tx, at in last_of_tx.items():
        name = _name(tx)
        if name:
            last[name] = max(at, last.get(name, -1))
    ends: dict[str, int] = {}
    for at, row in enumerate(rows):
        if row[_AT_KIND] == "txn.complete":
            data = row[_AT_DATA]
            if isinstance(data, dict) and data["state"] in _ENDED:
                ends[_name(row[_AT_TX])] = at
    ends.pop("", None)
    return Lives({name for name, at in last.items() if at > ends.get(name, -1)}, set(ends))


def _name(tx: Any) -> str:
    """The transactional id of an event about a transaction; empty without one."""
    if type(tx) is tuple:
        name: str = tx[0]
        return name
    found = _NAMED.fullmatch(tx) if tx else None
    return found[1] if found else ""


NO_LIVES: Final = Lives(set(), set())
"""Of events about no transaction; never changed."""


class _Batch(msgspec.Struct, frozen=True, gc=False):
    """Consecutive events in their form."""

    first: int
    count: int
    kept: bytes


class _Chunk:
    """Consecutive batches, which go together."""

    __slots__ = ("batches", "first", "is_opening", "lives", "size")

    def __init__(self, batch: _Batch, lives: Lives, *, is_opening: bool) -> None:
        self.first = batch.first
        self.batches = [batch]
        self.lives = Lives(set(lives.open), set(lives.ended))
        self.size = len(batch.kept) + BATCH_OVERHEAD + self._size_of_lives()
        self.is_opening = is_opening
        """Its first event is a snapshot."""

    def add(self, batch: _Batch, lives: Lives) -> None:
        self.batches.append(batch)
        before = self._size_of_lives()
        self.lives.follow(lives)
        self.size += len(batch.kept) + BATCH_OVERHEAD + self._size_of_lives() - before

    def _size_of_lives(self) -> int:
        return getsizeof(self.lives.open) + getsizeof(self.lives.ended)


class Ring:
    """The newest events of a trace, as many bytes as are wanted."""

    def __init__(self, bytes_max: int | None, form: Form) -> None:
        """Start empty."""
        self.bytes_max = bytes_max
        """Approximate bound of the kept bytes; None for no bound."""
        self._form = form
        self._chunks: list[_Chunk] = []
        self.first = 0
        """Index of the first event from which on nothing is missing."""
        self.next = 0
        """Index that the next event gets."""
        self._size = 0
        self._carried: dict[str, list[tuple[int, bytes]]] = {}
        self._carried_size = 0
        self._read: dict[int, list[bytes]] = {}
        """Lines of the batches that were read last, by their first events."""

    @property
    def size(self) -> int:
        """Bytes of memory of the kept events."""
        return self._size + self._carried_size

    # Writing

    def add(
        self, kept: bytes, count: int, lives: Lives = NO_LIVES, *, is_opening: bool = False
    ) -> None:
        """Take in the next events.

        Args:
            kept: They, in their form.
            count: How many they are.
            lives: What they tell of transactions; asked for only where the ring has a bound.
            is_opening: The first of them is a snapshot: a reader can begin here.
        """
        newest = self._chunks[-1] if self._chunks else None
        batch = _Batch(self.next, count, kept)
        if newest is None or is_opening or newest.size >= CHUNK_BYTES:
            newest = _Chunk(batch, lives, is_opening=is_opening)
            self._chunks.append(newest)
            self._size += newest.size
        else:
            before = newest.size
            newest.add(batch, lives)
            self._size += newest.size - before
        self.next += count
        if self.bytes_max is not None and self.size > self.bytes_max:
            self._shrink(self.bytes_max)

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
            self._size -= chunk.size
            # What ends in a later chunk is not looked at: nearly all of it.
            if still_open := chunk.lives.open - ended:
                open_ones.append((chunk, still_open))
            ended |= chunk.lives.ended
        for name in ended & self._carried.keys():
            self._forget(name)
        for chunk, still_open in reversed(open_ones):
            self._carry(b"".join(map(self._text, chunk.batches)), still_open)
        assert self.bytes_max is not None, "without a bound nothing is dropped"
        while self._carried_size * CARRIED_SHARE > self.bytes_max:
            self._forget(next(iter(self._carried)))
        self.first = self._chunks[0].first

    def _carry(self, text: bytes, names: Set[str]) -> None:
        """Keep the lines of these transactional ids behind the last end of each in this text: what
        is older is no part of the transaction that is open.
        """
        wanted = {msgspec.json.encode(name)[1:-1]: name for name in names}
        kept: dict[str, list[tuple[int, bytes]]] = {}
        for found in reversed(list(_TX.finditer(text))):
            kind, encoded = found.groups()
            name = wanted.get(encoded)
            if name is None:
                continue
            line = text[text.rfind(b"\n", 0, found.start()) + 1 : text.find(b"\n", found.end())]
            if kind == b"txn.complete" and any(end in line for end in _ENDS):
                del wanted[encoded]
                continue
            kept.setdefault(name, []).append((_index(line), line))
            self._carried_size += len(line) + LINE_OVERHEAD
        for name, entries in reversed(kept.items()):
            self._carried.setdefault(name, []).extend(reversed(entries))

    def _forget(self, name: str) -> None:
        for _, line in self._carried.pop(name, ()):
            self._carried_size -= len(line) + LINE_OVERHEAD

    # Reading

    def lines(self, from_index: int) -> Iterator[bytes]:
        """Events from a cursor on as lines without line ends.

        Events may be added between two steps. A cursor below ``first`` begins with what is carried
        along of older transactions.
        """
        if from_index < self.first:
            yield from (line for index, line in self._older() if index >= from_index)
        index = max(from_index, self.first)
        for batch in self._batches(index):
            index = max(index, batch.first)
            yield from self._lines(batch)[index - batch.first :]

    def batches(self, from_index: int) -> Iterator[tuple[int, int, bytes]]:
        """Events from a cursor on, in batches: index of the first, how many, packed rows.

        The first batch may begin before the cursor. Events may be added between two steps.
        """
        for batch in self._batches(from_index):
            yield batch.first, batch.count, self._form.packed(batch.kept, batch.first)

    def _batches(self, from_index: int) -> Iterator[_Batch]:
        index = max(from_index, self.first)
        while index < self.next:
            chunk = self._chunks[bisect_right(self._chunks, index, key=_first) - 1]
            batch = chunk.batches[bisect_right(chunk.batches, index, key=_first) - 1]
            yield batch
            index = max(batch.first + batch.count, self.first)

    def texts(self) -> Iterator[bytes]:
        """All that is kept now, in pieces of whole lines; what comes later changes none of them.

        A piece is made when it is asked for, in a millisecond or two.
        """
        return chain(_joined(self._older()), self.texts_from(self.first))

    def texts_from(self, from_index: int) -> Iterator[bytes]:
        """The same of events from a cursor on, without older transactions. The first piece may
        begin before the cursor.
        """
        return self._texts(list(self._batches(from_index)))

    def _texts(self, batches: Sequence[_Batch]) -> Iterator[bytes]:
        some: list[bytes] = []
        count = 0
        for batch in batches:
            if some and count + batch.count > LINES_AT_ONCE:
                yield b"".join(some)
                some, count = [], 0
            some.append(self._text(batch))
            count += batch.count
        if some:
            yield b"".join(some)

    def _text(self, batch: _Batch) -> bytes:
        return self._form.lines(batch.kept, batch.first)

    def _lines(self, batch: _Batch) -> list[bytes]:
        lines = self._read.get(batch.first)
        if lines is None:
            lines = self._read[batch.first] = self._text(batch).splitlines()
            if len(self._read) > READ_KEPT:
                del self._read[next(iter(self._read))]
        return lines

    def _older(self) -> Iterator[tuple[int, bytes]]:
        """What is carried along now, in order."""
        return merge(*map(tuple, self._carried.values()))


def _joined(entries: Iterator[tuple[int, bytes]]) -> Iterator[bytes]:
    while some := list(islice(entries, LINES_AT_ONCE)):
        yield b"".join(line + b"\n" for _, line in some)


def _first(part: _Chunk | _Batch) -> int:
    return part.first


def _index(line: bytes) -> int:
    return int(line[_INDEX_AT : line.index(b",", _INDEX_AT)])

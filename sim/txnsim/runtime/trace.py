"""The ordered event trace: what happened, where, when and because of what.

One JSON line per event: ``i`` position, ``t`` µs of monotonic (in virtual runs: virtual) time,
``n`` node as an index into the header's list, ``l`` Lamport clock, ``p`` parents with the main
cause first, ``k`` kind, ``tx`` transaction, ``d`` payload. A header line comes before, a trailer
with the hash after. The kinds stand in ``trace_kinds``; readers live in ``txnsim.trace``.

The *current cause* is a context variable: who receives a message sets it, and whatever happens
deeper in the same handler, or in a task or timer started from it, gets its parent without having it
passed along.

Events are kept encoded, in chunks of 1,024: an encoded line takes a third of the memory of an
object. A ring bounds how many chunks are kept; the hash covers the dropped ones too. Off costs one
attribute test per site: ``if tracer.on: tracer.emit(…)``.
"""

from __future__ import annotations

import hashlib
from array import array
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from enum import StrEnum
from typing import Final

import msgspec

from txnsim.errors import InvariantViolation
from txnsim.runtime.trace_kinds import KINDS

SCHEMA_VERSION: Final = 1
CHUNK_EVENTS: Final = 1_024
NO_CAUSE: Final = -1


class TraceLevel(StrEnum):
    """How much is recorded."""

    OFF = "off"
    BRIEF = "brief"
    """Kinds of importance 1 and 2."""
    FULL = "full"


class RunInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What the header tells of a run, besides its nodes."""

    sim: str = ""
    """Version of txnsim."""
    scenario: str = ""
    seed: int | None = None
    settings: tuple[tuple[str, str | int | bool], ...] = ()
    """Settings that differ from the defaults, by Kafka's names."""
    clock: str = "real"
    """``real`` or ``virtual``."""


class Event(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of the trace; the field names are those of the file."""

    i: int
    t: int
    n: int
    l: int  # noqa: E741 - the file's name of the Lamport clock
    p: tuple[int, ...]
    k: str
    tx: str = ""
    d: object = None


Payload = Mapping[str, object] | msgspec.Struct | None

_encode: Final = msgspec.json.Encoder(order="deterministic").encode
_decode: Final = msgspec.json.Decoder(Event).decode
_cause: ContextVar[int] = ContextVar("txnsim_trace_cause", default=NO_CAUSE)


class Tracer:
    """Writer and keeper of one run's trace."""

    def __init__(
        self,
        now_us: Callable[[], int],
        *,
        level: TraceLevel = TraceLevel.OFF,
        ring_events: int | None = None,
        run: RunInfo | None = None,
        strict: bool = False,
    ) -> None:
        """Start an empty trace.

        Args:
            now_us: Microseconds since the start of the run (``Clock.monotonic_us``).
            level: How much is recorded.
            ring_events: Keep about this many of the newest events; None keeps all.
            run: What the header tells.
            strict: Refuse payload fields that are not in the table of kinds.
        """
        self.run = run or RunInfo()
        self._now_us = now_us
        self._ring_events = ring_events
        self._strict = strict
        self._chunks: deque[bytes] = deque()
        self._open: list[bytes] = []
        self._first = 0
        self._next = 0
        self._sha = hashlib.sha256()
        self._nodes: dict[str, int] = {}
        self._node_clocks: list[int] = []
        self._lamport = array("Q")  # of the events that are kept, for their children's clocks
        self._lamport_dropped = 0  # highest of the dropped ones: stands in for each of them
        self.on = False
        self._floor = 0
        self.level = level
        # A new run: what another one in this context was about is no cause here.
        _cause.set(NO_CAUSE)

    # Writing

    @property
    def level(self) -> TraceLevel:
        """How much is recorded; may be changed at any time."""
        return self._level

    @level.setter
    def level(self, level: TraceLevel) -> None:
        self._level = level
        self._floor = 1 if level is TraceLevel.BRIEF else 0
        self.on = level is not TraceLevel.OFF

    def emit(
        self,
        kind: str,
        node: str,
        *,
        parents: tuple[int, ...] = (),
        tx: str = "",
        data: Payload = None,
    ) -> int:
        """Record an event.

        Args:
            kind: A name in ``trace_kinds.KINDS``.
            node: The role it happened at, as ``broker/1``, ``broker/1/txn/7``, ``client/app``,
                ``fault``.
            parents: Causes, the main one first, without regard to -1 and repeats; none means the
                current cause.
            tx: ``transactionalId/producerId:epoch``.
            data: The payload.

        Returns:
            Its index; where the level leaves the event out, the index of its main cause, so that a
            chain of causes joins through; -1 while the trace is off or nothing caused it.

        Raises:
            InvariantViolation: The kind, or in a strict trace a field, is unknown.
        """
        if not parents:
            cause = _cause.get()
            parents = (cause,) if 0 <= cause < self._next else ()
        elif len(parents) > 1 or parents[0] < 0:
            parents = tuple(dict.fromkeys(parent for parent in parents if parent >= 0))
        known = KINDS.get(kind)
        if known is None:
            raise InvariantViolation(f"trace event of unknown kind {kind!r} at {node}")
        if not self.on or known.importance < self._floor:
            return parents[0] if parents and self.on else NO_CAUSE
        if self._strict and isinstance(data, Mapping) and not data.keys() <= known.fields:
            unknown = sorted(data.keys() - known.fields)
            raise InvariantViolation(f"trace event {kind} with unknown fields {unknown}")
        return self._append(kind, self.node(node), parents, tx, data)

    def _append(
        self, kind: str, node: int, parents: tuple[int, ...], tx: str, data: Payload
    ) -> int:
        clock = self._node_clocks[node]
        for parent in parents:
            at = parent - self._first
            clock = max(clock, self._lamport[at] if at >= 0 else self._lamport_dropped)
        clock += 1
        self._node_clocks[node] = clock
        index = self._next
        line = _encode(Event(index, self._now_us(), node, clock, parents, kind, tx, data))
        self._next = index + 1
        self._lamport.append(clock)
        self._open.append(line)
        if len(self._open) == CHUNK_EVENTS:
            self._close_chunk()
        return index

    def _close_chunk(self) -> None:
        chunk = b"\n".join(self._open) + b"\n"
        self._open.clear()
        self._sha.update(chunk)
        self._chunks.append(chunk)
        ring = self._ring_events
        while ring is not None and len(self._chunks) * CHUNK_EVENTS > ring + CHUNK_EVENTS:
            self._chunks.popleft()
            self._first += CHUNK_EVENTS
            self._lamport_dropped = max(self._lamport_dropped, *self._lamport[:CHUNK_EVENTS])
            del self._lamport[:CHUNK_EVENTS]

    def node(self, name: str) -> int:
        """Index of a node, which is listed in the header from now on."""
        index = self._nodes.get(name)
        if index is None:
            index = self._nodes[name] = len(self._nodes)
            self._node_clocks.append(0)
        return index

    # Causes

    @property
    def cause(self) -> int:
        """Index of the event that what happens now is due to; -1 for none."""
        return _cause.get()

    def caused_by(self, index: int) -> int:
        """Make ``index`` the current cause and return the one before, to be put back by the same
        call.

        No token: a handler's first step and its rest may run in different contexts
        (``Tasks.drive``).
        """
        before = _cause.get()
        _cause.set(index)
        return before

    # Reading

    def __len__(self) -> int:
        """Number of events ever recorded; the index that the next one gets."""
        return self._next

    @property
    def first(self) -> int:
        """Index of the oldest event kept: a reader whose cursor is below has missed some."""
        return self._first

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of the nodes, in the order of their indices."""
        return tuple(self._nodes)

    def lines(self, from_index: int = 0) -> Iterator[bytes]:
        """Encoded events from a cursor on, without line ends; ends where the trace ended when it
        was reached.

        Events may be added between two steps; a cursor below ``first`` starts at ``first``.
        """
        index = max(from_index, self._first)
        while index < self._next:
            chunk, within = divmod(index - self._first, CHUNK_EVENTS)
            if chunk < len(self._chunks):
                batch = self._chunks[chunk][:-1].split(b"\n")[within:]
            else:
                batch = self._open[within:]
            yield from batch
            index = max(index + len(batch), self._first)

    def events(self, from_index: int = 0) -> Iterator[Event]:
        """The same, decoded."""
        return map(_decode, self.lines(from_index))

    @property
    def hash(self) -> str:
        """SHA-256 over every event line ever recorded and the list of nodes."""
        sha = self._sha.copy()
        for line in self._open:
            sha.update(line + b"\n")
        sha.update(_encode(self.nodes))
        return f"sha256:{sha.hexdigest()}"

    def export(self, write: Callable[[bytes], object], *, verdict: str = "") -> None:
        """Write header, the kept events and trailer as JSON lines."""
        header = {
            "k": "run",
            "schema": SCHEMA_VERSION,
            "sim": self.run.sim,
            "scenario": self.run.scenario,
            "seed": self.run.seed,
            "set": dict(self.run.settings),
            "clock": self.run.clock,
            "first": self._first,
            "nodes": self.nodes,
        }
        write(msgspec.json.encode(header) + b"\n")
        for line in self.lines():
            write(line + b"\n")
        trailer = {"k": "end", "events": self._next, "hash": self.hash, "verdict": verdict}
        write(msgspec.json.encode(trailer) + b"\n")

"""The ordered event trace: what happened, where, when and because of what.

One JSON line per event: ``i`` position, ``t`` µs of monotonic (in virtual runs: virtual) time,
``n`` node as an index into the header's list, ``l`` Lamport clock, ``p`` parents with the main
cause first, ``k`` kind, ``tx`` transaction, ``d`` payload. A header line comes before, a trailer
with the hash after. ``w`` is an event's importance where it is not that of its kind. The kinds
stand in ``trace_kinds``; readers live in ``txnsim.trace``.

The *current cause* is a context variable: who receives a message sets it, and whatever happens
deeper in the same handler, or in a task or timer started from it, gets its parent without having it
passed along.

Events are encoded together, some hundreds at once, and kept so (``trace_ring``): an encoded line
takes a third of the memory of an object. A ring bounds how many bytes are kept; the hash covers the
dropped ones too. Off costs one attribute test per site: ``if tracer.on: tracer.emit(…)``. A site
that tells only what brief leaves out asks ``tracer.full``.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import Context, ContextVar, copy_context
from enum import StrEnum
from functools import partial
from itertools import chain
from typing import Final

import msgspec

from txnsim.errors import InvariantViolation
from txnsim.runtime.trace_kinds import IMPORTANCE_MAX, KINDS
from txnsim.runtime.trace_ring import NO_LIVES, Ring, lives_of

SCHEMA_VERSION: Final = 2
ENCODED_AT_ONCE: Final = 256
SNAPSHOT_SHARE: Final = 8
"""A ring holds about so many snapshots, and they are at most one in so many bytes of the trace."""
NO_CAUSE: Final = -1
MAIL_MAX: Final = 4_096
"""Messages of clients in this process that are on their way."""


class TraceLevel(StrEnum):
    """How much is recorded."""

    OFF = "off"
    BRIEF = "brief"
    """Events of importance 1 and 2."""
    FULL = "full"


class RunInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What the header tells of a run, besides its nodes."""

    sim: str = ""
    """Version of txnsim."""
    scenario: str = ""
    seed: int | None = None
    settings: tuple[tuple[str, str | int | bool], ...] = ()
    """Settings that differ from the defaults, by Kafka's names."""
    run: str = ""
    """Which run of the scenario."""
    mode: str = ""
    """The transaction protocol: ``V-``, ``V+``, ``TV2``, ``TV2+``."""
    take: str = ""
    """``armed``, ``disarmed`` or ``control``."""
    rules: tuple[tuple[str, bool], ...] = ()
    """Behaviours that differ from those of the release, by their names in ``Rules``."""
    releases: tuple[str, ...] = ()
    """Of Apache Kafka, as they were asked for; none for the newest."""
    brokers: int = 0
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
    w: int | None = None


Payload = Mapping[str, object] | msgspec.Struct | None
Snapshot = Callable[[], Iterable[Payload]]
Later = Callable[[Callable[[], object]], object]

_encoder: Final = msgspec.json.Encoder(order="deterministic")
_decode: Final = msgspec.json.Decoder(Event).decode
_IMPORTANCE: Final = {name: kind.importance for name, kind in KINDS.items()}
_cause: ContextVar[int] = ContextVar("txnsim_trace_cause", default=NO_CAUSE)
_waker: ContextVar[int] = ContextVar("txnsim_trace_waker", default=NO_CAUSE)


class Tracer:
    """Writer and keeper of one run's trace."""

    def __init__(
        self,
        now_us: Callable[[], int],
        *,
        level: TraceLevel = TraceLevel.OFF,
        ring_bytes: int | None = None,
        run: RunInfo | None = None,
        strict: bool = False,
    ) -> None:
        """Start an empty trace.

        Args:
            now_us: Microseconds since the start of the run (``Clock.monotonic_us``).
            level: How much is recorded.
            ring_bytes: Keep about so many bytes of the newest events; None keeps all.
            run: What the header tells.
            strict: Refuse payload fields that are not in the table of kinds.
        """
        self.run = run or RunInfo()
        self._now_us = now_us
        self._strict = strict
        self._ring = Ring(ring_bytes)
        self._pending: list[Event] = []
        """The newest events, not encoded yet."""
        self._next = 0
        self._written = 0
        self._sha = hashlib.sha256()
        self._nodes: dict[str, int] = {}
        self._node_clocks: list[int] = []
        self._lamport = array("Q")  # of the events that are kept, for their children's clocks
        self._lamport_first = 0
        self._lamport_dropped = 0  # highest of the dropped ones: stands in for each of them
        self._mail: dict[tuple[str, int, bool], int] = {}
        self.on = False
        """Whether anything is recorded."""
        self.full = False
        """Whether everything is recorded, events of importance 0 too."""
        self._floor = 0
        self._snapshot: Snapshot = tuple
        self._later: Later = _at_once
        self._parts: Iterator[Payload] = iter(())
        """Of the newest snapshot, those that are not told yet."""
        self._snapshot_due: int | None = None
        """How many bytes are written when the next one is due."""
        self.level = level
        # A new run: what another one in this context was about is no cause here.
        _cause.set(NO_CAUSE)

    # Writing

    @property
    def level(self) -> TraceLevel:
        """How much is recorded; may be changed at any time. More than before: a snapshot first."""
        return self._level

    @level.setter
    def level(self, level: TraceLevel) -> None:
        self._level = level
        floor, self._floor = self._floor, _FLOORS[level]
        self.on = level is not TraceLevel.OFF
        self.full = level is TraceLevel.FULL
        if self._floor < floor:
            self._begin_snapshot()

    def emit(
        self,
        kind: str,
        node: str,
        *,
        parents: tuple[int, ...] = (),
        tx: str = "",
        data: Payload = None,
        importance: int | None = None,
    ) -> int:
        """Record an event.

        Args:
            kind: A name in ``trace_kinds.KINDS``.
            node: The role it happened at, as ``broker/1``, ``broker/1/txn/7``, ``client/app``,
                ``fault``.
            parents: Causes, the main one first, without regard to -1 and repeats; none means the
                current cause.
            tx: ``transactionalId/producerId:epoch``.
            data: The payload, which is not changed any more.
            importance: Of this event, where it is not that of its kind.

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
        weight = _IMPORTANCE.get(kind)
        if weight is None:
            raise InvariantViolation(f"trace event of unknown kind {kind!r} at {node}")
        if importance is None or importance == weight:
            importance = None
        else:
            weight = importance
        if weight < self._floor:
            return parents[0] if parents and self.on else NO_CAUSE
        if self._strict and isinstance(data, Mapping) and not data.keys() <= KINDS[kind].fields:
            unknown = sorted(data.keys() - KINDS[kind].fields)
            raise InvariantViolation(f"trace event {kind} with unknown fields {unknown}")
        at = self._nodes.get(node)
        if at is None:
            at = self.node(node)
        clock = self._node_clocks[at]
        for parent in parents:
            place = parent - self._lamport_first
            clock = max(clock, self._lamport[place] if place >= 0 else self._lamport_dropped)
        clock += 1
        self._node_clocks[at] = clock
        self._lamport.append(clock)
        index = self._next
        self._next = index + 1
        self._pending.append(
            Event(index, self._now_us(), at, clock, parents, kind, tx, data, importance)
        )
        if len(self._pending) >= ENCODED_AT_ONCE:
            self._encode()
        return index

    def _encode(self, *, is_opening: bool = False) -> None:
        """Make lines of the events that are none yet."""
        pending = self._pending
        if not pending:
            return
        text = _encoder.encode_lines(pending)
        self._sha.update(text)
        self._written += len(text)
        lives = NO_LIVES if self._ring.bytes_max is None else lives_of(pending)
        self._ring.add(text, len(pending), lives, is_opening=is_opening)
        pending.clear()
        if self._snapshot_due is not None and self._written >= self._snapshot_due:
            self._snapshot_due = None
            self._later(self._begin_snapshot)
        dropped = self._ring.first - self._lamport_first
        if dropped:
            self._lamport_dropped = max(self._lamport_dropped, *self._lamport[:dropped])
            del self._lamport[:dropped]
            self._lamport_first = self._ring.first

    def node(self, name: str) -> int:
        """Index of a node, which is listed in the header from now on."""
        index = self._nodes.get(name)
        if index is None:
            index = self._nodes[name] = len(self._nodes)
            self._node_clocks.append(0)
        return index

    # Beginning in the middle

    def begin_with(self, snapshot: Snapshot, later: Later) -> None:
        """Let recordings that begin in the middle open with a snapshot: when more is recorded than
        before, and again and again where a ring drops what is old.

        Args:
            snapshot: Makes the payloads of its parts, each when it is asked for.
            later: Calls back in a later turn of the loop, for the next part.
        """
        self._snapshot, self._later = snapshot, later
        self._plan_snapshot(0)

    def _begin_snapshot(self) -> None:
        self._encode()
        self._parts = iter(self._snapshot())
        self._tell_part(self._parts, 0)

    def _tell_part(self, parts: Iterator[Payload], bytes_before: int) -> None:
        """Tell the next part of a snapshot, unless recording has ended or begun again meanwhile.

        Args:
            parts: What is left of it.
            bytes_before: What the parts before have taken.
        """
        if parts is not self._parts:
            return
        payload = next(parts, None) if self.on else None
        if payload is None:
            self._plan_snapshot(bytes_before)
            return
        self._encode()
        before = self._written
        self.emit("snapshot", "cluster", parents=(NO_CAUSE,), data=payload)
        self._encode(is_opening=bytes_before == 0)
        self._later(partial(self._tell_part, parts, bytes_before + self._written - before))

    def _plan_snapshot(self, snapshot_bytes: int) -> None:
        """The next one is due when it costs little beside what it opens."""
        ring = self._ring.bytes_max
        if ring is not None:
            share = max(ring // SNAPSHOT_SHARE, SNAPSHOT_SHARE * snapshot_bytes)
            self._snapshot_due = self._written + min(share, ring // 2)

    # Causes

    def joined(self, parents: tuple[int, ...]) -> int:
        """What ``emit`` answers where the level leaves an event with these parents out: a site that
        knows the level may save itself the payload.
        """
        cause = (
            next((parent for parent in parents if parent >= 0), NO_CAUSE)
            if parents
            else _cause.get()
        )
        return cause if cause < self._next else NO_CAUSE

    @property
    def cause(self) -> int:
        """Index of the event that what happens now is due to; -1 for none."""
        cause = _cause.get()
        return cause if cause < self._next else NO_CAUSE  # of another run in this context

    present = staticmethod(_cause.get)
    """The current cause as it was set, which may be one of another run in this context."""

    def caused_by(self, index: int) -> int:
        """Make ``index`` the current cause and return the one before, to be put back by the same
        call.

        No token: a handler's first step and its rest may run in different contexts
        (``Tasks.drive``).
        """
        before = _cause.get()
        _cause.set(index)
        return before

    def bound(self, callback: Callable[[], object], cause: int | None = None) -> Callable[[], None]:
        """The callback, to be called later from anywhere: due to ``cause``, or to what is the
        current cause now.
        """
        due_to = _cause.get() if cause is None else cause

        def call() -> None:
            before = _cause.get()
            _cause.set(due_to)
            try:
                callback()
            finally:
                _cause.set(before)

        return call

    def cause_in(self, context: Context) -> int:
        """The current cause of a context that is not the present one."""
        return context.get(_cause, NO_CAUSE)

    @property
    def waker(self) -> int:
        """What ended the last wait of this driven coroutine (``Tasks.drive``); -1 for none.

        A coroutine goes on with the cause that it had when it began to wait; here it asks what set
        it free, as a second cause, or the main one where it has waited for news.
        """
        waker = _waker.get()
        return waker if waker < self._next else NO_CAUSE

    def own_context(self) -> Context:
        """A copy of the present context in which nothing has waited yet."""
        context = copy_context()
        context.run(_waker.set, NO_CAUSE)
        return context

    def wakes(self, context: Context) -> None:
        """What waits in ``context`` goes on, because of the present cause."""
        context.run(_waker.set, _cause.get())

    # Between a client of ours and its broker

    def post(self, key: tuple[str, int, bool], index: int) -> None:
        """A message is on its way on a connection: ``key`` is the client's address, the correlation
        id, and whether it is an answer. What nobody takes is forgotten.
        """
        mail = self._mail
        mail[key] = index
        if len(mail) > MAIL_MAX:
            del mail[next(iter(mail))]

    def take(self, key: tuple[str, int, bool]) -> int:
        """The sending of a message that has come; -1 where nobody has told of it."""
        return self._mail.pop(key, NO_CAUSE)

    # Reading

    def __len__(self) -> int:
        """Number of events ever recorded; the index that the next one gets."""
        return self._next

    @property
    def first(self) -> int:
        """Index of the event from which on nothing is missing: a reader whose cursor is below has
        missed some. Of those before, the ones of transactions that had not ended then are kept.
        """
        return self._ring.first

    @property
    def size(self) -> int:
        """Bytes that are kept."""
        self._encode()
        return self._ring.size

    @property
    def written(self) -> int:
        """Bytes of all lines ever recorded."""
        self._encode()
        return self._written

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of the nodes, in the order of their indices."""
        return tuple(self._nodes)

    def lines(self, from_index: int = 0) -> Iterator[bytes]:
        """Encoded events from a cursor on, without line ends; ends where the trace ended when it
        was reached.

        Events may be added between two steps. A cursor below ``first`` begins with what is kept of
        older transactions, and goes on at ``first``.
        """
        reached = from_index
        while reached < self._next:
            self._encode()
            yield from self._ring.lines(reached)
            reached = self._ring.next

    def events(self, from_index: int = 0) -> Iterator[Event]:
        """The same, decoded."""
        return map(_decode, self.lines(from_index))

    @property
    def hash(self) -> str:
        """SHA-256 over every event line ever recorded and the list of nodes."""
        self._encode()
        sha = self._sha.copy()
        sha.update(_encoder.encode(self.nodes))
        return f"sha256:{sha.hexdigest()}"

    def export(self, write: Callable[[bytes], object], *, verdict: str = "") -> None:
        """Write header, the kept events and trailer as JSON lines."""
        for piece in self.pieces(verdict=verdict):
            write(piece)

    def pieces(self, *, verdict: str = "") -> Iterator[bytes]:
        """The same, as it is now, in pieces of whole lines: what happens between two steps is not
        in it, and takes nothing from it.
        """
        self._encode()
        header = {
            "k": "run",
            "schema": SCHEMA_VERSION,
            "sim": self.run.sim,
            "scenario": self.run.scenario,
            "seed": self.run.seed,
            "set": dict(self.run.settings),
            "run": self.run.run,
            "mode": self.run.mode,
            "take": self.run.take,
            "rules": dict(self.run.rules),
            "releases": self.run.releases,
            "brokers": self.run.brokers,
            "level": self._level,
            "clock": self.run.clock,
            "first": self.first,
            "nodes": self.nodes,
        }
        trailer = {"k": "end", "events": self._next, "hash": self.hash, "verdict": verdict}
        texts = self._ring.texts()
        return chain(
            (msgspec.json.encode(header) + b"\n",), texts, (msgspec.json.encode(trailer) + b"\n",)
        )


def _at_once(callback: Callable[[], object]) -> None:
    callback()


_FLOORS: Final = {
    TraceLevel.OFF: IMPORTANCE_MAX + 1,
    TraceLevel.BRIEF: 1,
    TraceLevel.FULL: 0,
}
"""Level -> least importance that is recorded."""

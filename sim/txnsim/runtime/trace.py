"""The ordered event trace: what happened, where, when and because of what.

One JSON line per event: ``i`` position, ``t`` µs of monotonic (in virtual runs: virtual) time,
``n`` node as an index into the header's list, ``l`` Lamport clock, ``p`` parents with the main
cause first, ``k`` kind, ``tx`` transaction, ``d`` payload. A header line comes before, a trailer
with the hash after. ``w`` is an event's importance where it is not that of its kind. The kinds
stand in ``trace_kinds``; readers live in ``txnsim.trace``.

The *current cause*: who receives a message sets it, and whatever happens deeper in the same
handler, or in a task or timer started from it, gets its parent without having it passed along. It
is a context variable, and a plain attribute where ``LoopTasks`` runs what happens
(``Tracer.scope``).

Events are put in their form together, some hundreds at once (``trace_forms``), and kept so
(``trace_ring``). A trace that is kept whole has lines at once. A ring bounds how many bytes are
kept; it packs events, and makes lines of those that somebody reads. Off costs one attribute test
per site: ``if tracer.on: tracer.emit(…)``. A site that tells only what brief leaves out asks
``tracer.full``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import Context, ContextVar, copy_context
from enum import StrEnum
from functools import partial
from typing import Final

import msgspec

from txnsim.errors import InvariantViolation
from txnsim.runtime._trace_forms import Event as Event
from txnsim.runtime._trace_forms import LaterPayload as LaterPayload
from txnsim.runtime._trace_forms import Lines, Noted, Payload, Rows, rows_of
from txnsim.runtime._trace_forms import Transaction as Transaction
from txnsim.runtime._trace_forms import name_of as name_of
from txnsim.runtime._trace_ring import NO_LIVES, Ring, lives_of
from txnsim.runtime.trace_kinds import IMPORTANCE_MAX, KINDS

SCHEMA_VERSION: Final = 2
KEPT_AT_ONCE: Final = 256
SNAPSHOT_SHARE: Final = 8
"""Snapshots per ring; a snapshot is also at most one in 8 bytes of the trace."""
NO_CAUSE: Final = -1
MAIL_MAX: Final = 4_096
"""Limit of noted messages on their way between clients of this process."""


class TraceLevel(StrEnum):
    """How much a trace records."""

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
    """Apache Kafka releases as requested; empty for the newest."""
    brokers: int = 0
    clock: str = "real"
    """``real`` or ``virtual``."""


Snapshot = Callable[[], Iterable[Payload]]
Defer = Callable[[Callable[[], object]], object]

_decode: Final = msgspec.json.Decoder(Event).decode
_IMPORTANCE: Final = {name: kind.importance for name, kind in KINDS.items()}


class Tracer:
    """Writer and keeper of one run's trace."""

    def __init__(
        self,
        now: Callable[[], int],
        *,
        start_ns: int | None = None,
        level: TraceLevel = TraceLevel.OFF,
        ring_bytes: int | None = None,
        run: RunInfo | None = None,
        strict: bool = False,
    ) -> None:
        """Start an empty trace.

        Args:
            now: Microseconds since the start of the run (``Clock.monotonic_us``).
            start_ns: If given, ``now`` tells nanoseconds, and the run began at this one: the rest
                is reckoned when lines are made.
            level: How much is recorded.
            ring_bytes: Keep about so many bytes of memory of the newest events; None keeps all.
            run: What the header tells.
            strict: Refuse payload fields that are not in the table of kinds.
        """
        self.run = run or RunInfo()
        self._now = now
        self.is_strict = strict
        """Whether payloads are made at once and held against the table of kinds."""
        self._form = Lines(start_ns) if ring_bytes is None else Rows(start_ns)
        self._ring = Ring(ring_bytes, self._form)
        self._pending: list[Noted] = []
        """The newest events, not put in their form yet."""
        self._next = 0
        self._written = 0
        self._nodes: dict[str, int] = {}
        self.mail: dict[tuple[str, int, bool], int] = {}
        """Messages of clients in this process that are on their way (``post``, ``take``)."""
        self.on = False
        """Whether anything is recorded."""
        self.full = False
        """Whether everything is recorded, events of importance 0 too."""
        self.scope: int | None = None
        """The current cause while ``LoopTasks`` runs a callback or a coroutine by hand, which sets
        it: an attribute costs a fifth of a context variable. None elsewhere, in tasks and in what
        the loop calls: there the variable holds.
        """
        self.scope_waker = NO_CAUSE
        """``waker`` in that scope."""
        self._floor = 0
        self._snapshot: Snapshot = tuple
        self._defer: Defer = _at_once
        self._parts: Iterator[Payload] = iter(())
        """Of the newest snapshot, those that are not written yet."""
        self._snapshot_due: int | None = None
        """Number of written bytes at which the next snapshot is due."""
        # Variables of its own: what another run in the same context was about is no cause here.
        self._cause: ContextVar[int] = ContextVar("txnsim_trace_cause", default=NO_CAUSE)
        self._waker: ContextVar[int] = ContextVar("txnsim_trace_waker", default=NO_CAUSE)
        self.level = level

    # Writing

    @property
    def level(self) -> TraceLevel:
        """May change at any time; a higher level writes a snapshot first."""
        return self._level

    @level.setter
    def level(self, level: TraceLevel) -> None:
        self._level = level
        floor, self._floor = self._floor, _FLOORS[level]
        self.on = level is not TraceLevel.OFF
        self.full = level is TraceLevel.FULL
        if self._floor < floor:
            self.tell_snapshot()

    def emit(
        self,
        kind: str,
        node: str,
        *,
        parents: tuple[int, ...] = (),
        tx: Transaction = "",
        data: Payload | LaterPayload = None,
        importance: int | None = None,
    ) -> int:
        """Record an event.

        Args:
            kind: A name in ``trace_kinds.KINDS``.
            node: The role it happened at, as ``broker/1``, ``broker/1/txn/7``, ``client/app``,
                ``fault``.
            parents: Causes, the main one first, without regard to -1 and repeats; none means the
                current cause.
            tx: ``transactionalId/producerId:epoch``, or these three.
            data: The payload, which is not changed any more; or how it is made, later.
            importance: Of this event, where it is not that of its kind.

        Returns:
            Its index; where the level leaves the event out, the index of its main cause, so that a
            chain of causes joins through; -1 while the trace is off or nothing caused it.

        Raises:
            InvariantViolation: The kind, or in a strict trace a field, is unknown.
        """
        if not parents:
            cause = self.scope
            if cause is None:
                cause = self.cause
            parents = (cause,) if cause >= 0 else ()
        elif len(parents) > 1:
            main, second, *others = parents
            if others or main < 0 or second < 0 or main == second:
                parents = tuple(dict.fromkeys([parent for parent in parents if parent >= 0]))
        elif parents[0] < 0:
            parents = ()
        weight = _IMPORTANCE.get(kind)
        if weight is None:
            raise InvariantViolation(f"trace event of unknown kind {kind!r} at {node}")
        if importance is None or importance == weight:
            importance = None
        else:
            weight = importance
        if weight < self._floor:
            return parents[0] if parents and self.on else NO_CAUSE
        if self.is_strict:
            data = _checked(kind, data)
        at = self._nodes.get(node)
        if at is None:
            at = self.node(node)
        index = self._next
        self._next = index + 1
        pending = self._pending
        pending.append((self._now(), at, parents, kind, tx, data, importance))
        if len(pending) >= KEPT_AT_ONCE:
            self._keep()
        return index

    def _keep(self, *, is_opening: bool = False) -> None:
        """Put the events in their form that have none yet. What need not be known when an event
        happens is done here, for many at once: a tight loop takes a third of the time.
        """
        pending = self._pending
        if not pending:
            return
        rows = rows_of(pending)
        first = self._next - len(rows)
        kept = self._form.kept(rows, first)
        self._written += len(kept)
        lives = NO_LIVES if self._ring.bytes_max is None else lives_of(rows)
        self._ring.add(kept, len(rows), lives, is_opening=is_opening)
        pending.clear()
        if self._snapshot_due is not None and self._written >= self._snapshot_due:
            self._snapshot_due = None
            self._defer(self.tell_snapshot)

    def node(self, name: str) -> int:
        """Index of a node, which is listed in the header from now on."""
        index = self._nodes.get(name)
        if index is None:
            index = self._nodes[name] = len(self._nodes)
        return index

    # Beginning in the middle

    def begin_with(self, snapshot: Snapshot, defer: Defer) -> None:
        """Let recordings that begin in the middle open with a snapshot: when more is recorded than
        before, and again and again where a ring drops what is old.

        Args:
            snapshot: Makes the payloads of its parts, each when it is asked for.
            defer: Calls back in a later turn of the loop, for the next part.
        """
        self._snapshot, self._defer = snapshot, defer
        self._plan_snapshot(0)

    def tell_snapshot(self) -> None:
        """Tell how everything is now, for readers who can't know it from the events before."""
        self._keep()
        self._parts = iter(self._snapshot())
        self._tell_part(self._parts, 0)

    def _tell_part(self, parts: Iterator[Payload], bytes_before: int) -> None:
        """Tell the next part of a snapshot, unless recording has ended or begun again meanwhile."""
        if parts is not self._parts:
            return
        payload = next(parts, None) if self.on else None
        if payload is None:
            self._plan_snapshot(bytes_before)
            return
        self._keep()
        before = self._written
        self.emit("snapshot", "cluster", parents=(NO_CAUSE,), data=payload)
        self._keep(is_opening=bytes_before == 0)
        self._defer(partial(self._tell_part, parts, bytes_before + self._written - before))

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
        if not parents:
            return self.cause
        for parent in parents:
            if 0 <= parent < self._next:
                return parent
        return NO_CAUSE

    @property
    def cause(self) -> int:
        """Index of the event that what happens now is due to; -1 for none."""
        scope = self.scope
        if scope is not None:
            return scope
        return self._cause.get()

    def caused_by(self, index: int) -> int:
        """Make ``index`` the current cause and return the one before, to be put back by the same
        call.

        No token: a handler's first step and its rest may run in different contexts
        (``Tasks.drive``).
        """
        before = self.scope
        if before is not None:
            self.scope = index
            return before
        before = self._cause.get()
        self._cause.set(index)
        return before

    def bound(self, callback: Callable[[], object], cause: int | None = None) -> Callable[[], None]:
        """The callback, to be called later from anywhere: due to ``cause``, or to what is the
        current cause now.
        """
        due_to = self.cause if cause is None else cause

        def call() -> None:
            before = self.caused_by(due_to)
            try:
                callback()
            finally:
                self.caused_by(before)

        return call

    @property
    def waker(self) -> int:
        """What ended the last wait of this driven coroutine (``Tasks.drive``); -1 for none.

        A coroutine goes on with the cause that it had when it began to wait; here it asks what set
        it free, as a second cause, or the main one where it has waited for news.
        """
        if self.scope is not None:
            return self.scope_waker
        return self._waker.get()

    def context(self, cause: int, waker: int = NO_CAUSE) -> Context:
        """A copy of the present context for what the loop will run: due to ``cause``."""
        context = copy_context()
        context.run(self._cause.set, cause)
        context.run(self._waker.set, waker)
        return context

    def timer_context(self) -> Context | None:
        """The context of what is armed now to run later; None for the present one."""
        scope = self.scope
        return None if scope is None else self.context(scope)

    # Between a client of ours and its broker

    def post(self, key: tuple[str, int, bool], index: int) -> None:
        """A message is on its way on a connection: ``key`` is the client's address, the correlation
        id, and whether it is an answer. What is not taken is forgotten.
        """
        mail = self.mail
        mail[key] = index
        if len(mail) > MAIL_MAX:
            del mail[next(iter(mail))]

    def take(self, key: tuple[str, int, bool]) -> int:
        """Trace event of the sending of a received message; -1 if it was not noted."""
        return self.mail.pop(key, NO_CAUSE)

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
        """Bytes of memory of the kept events."""
        self._keep()
        return self._ring.size

    @property
    def written(self) -> int:
        """Bytes of all events ever recorded, in their kept form."""
        self._keep()
        return self._written

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of the nodes, in the order of their indices."""
        return tuple(self._nodes)

    def lines(self, from_index: int = 0) -> Iterator[bytes]:
        """Events from a cursor on as lines without line ends; ends where the trace ended when it
        was reached.

        Events may be added between two steps. A cursor below ``first`` begins with what is kept of
        older transactions, and goes on at ``first``.
        """
        reached = from_index
        while reached < self._next:
            self._keep()
            yield from self._ring.lines(reached)
            reached = self._ring.next

    def batches(self, from_index: int) -> Iterator[tuple[int, int, bytes]]:
        """Events from a cursor on in the batches in which they are kept: index of the first, how
        many they are, and their rows as MessagePack (``trace_forms.Row``). The first batch may
        begin before the cursor. Of older transactions nothing is told.
        """
        self._keep()
        return self._ring.batches(from_index)

    def texts(self, from_index: int) -> Iterator[bytes]:
        """The same in pieces of whole lines, as it is now: any thread may ask for the pieces."""
        self._keep()
        return self._ring.texts_from(from_index)

    @property
    def rows_start_ns(self) -> int | None:
        """From when the times of such rows count, in ns; None: they are microseconds of the run."""
        return self._form.rows_start_ns

    def events(self, from_index: int = 0) -> Iterator[Event]:
        """The same as ``lines``, decoded."""
        return map(_decode, self.lines(from_index))

    @property
    def hash(self) -> str:
        """SHA-256 over every event line that is kept and the list of nodes: of the whole trace
        where there is no ring.
        """
        self._keep()
        sha = hashlib.sha256()
        for text in self._ring.texts():
            sha.update(text)
        return _hash(sha, self.nodes)

    def export(
        self, write: Callable[[bytes], object], *, verdict: str = "", first: int = 0
    ) -> None:
        """Write header, the kept events and trailer as JSON lines.

        Args:
            write: Takes them.
            verdict: What judges came to, for the trailer.
            first: Leave out the events before this one.
        """
        for piece in self.pieces(verdict=verdict, first=first):
            write(piece)

    def pieces(self, *, verdict: str = "", first: int = 0) -> Iterator[bytes]:
        """The same, as it is now, in pieces of whole lines: what happens between two steps is not
        in it, and takes nothing from it.
        """
        self._keep()
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
            "first": max(self.first, first),
            "nodes": self.nodes,
        }
        texts = self._ring.texts() if first == 0 else (line + b"\n" for line in self.lines(first))
        return self._told(header, self.nodes, self._next, texts, verdict)

    @staticmethod
    def _told(
        header: dict[str, object],
        nodes: tuple[str, ...],
        events: int,
        texts: Iterator[bytes],
        verdict: str,
    ) -> Iterator[bytes]:
        sha = hashlib.sha256()
        yield msgspec.json.encode(header) + b"\n"
        for text in texts:
            sha.update(text)
            yield text
        trailer = {"k": "end", "events": events, "hash": _hash(sha, nodes), "verdict": verdict}
        yield msgspec.json.encode(trailer) + b"\n"


def _hash(sha: hashlib._Hash, nodes: tuple[str, ...]) -> str:
    sha.update(msgspec.json.encode(nodes))
    return f"sha256:{sha.hexdigest()}"


def _checked(kind: str, data: Payload | LaterPayload) -> Payload:
    """The payload, made now: a bug shows where it is."""
    if isinstance(data, tuple):
        data = data[0](*data[1:])
    if isinstance(data, Mapping) and not data.keys() <= KINDS[kind].fields:
        unknown = sorted(data.keys() - KINDS[kind].fields)
        raise InvariantViolation(f"trace event {kind} with unknown fields {unknown}")
    return data


def _at_once(callback: Callable[[], object]) -> None:
    callback()


_FLOORS: Final = {
    TraceLevel.OFF: IMPORTANCE_MAX + 1,
    TraceLevel.BRIEF: 1,
    TraceLevel.FULL: 0,
}
"""Level -> least importance that is recorded."""

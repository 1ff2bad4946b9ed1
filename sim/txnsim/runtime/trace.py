"""The ordered event trace: what happened, where, when and why.

One JSON line per event: ``i`` position, ``t`` µs of monotonic (in virtual runs: virtual) time,
``n`` node as an index into the header's list, ``l`` Lamport clock, ``p`` parents with the main
cause first, ``k`` kind, ``tx`` transaction, ``d`` payload; ``w`` is an event's importance if it
differs from that of its kind. A header line comes before, a trailer with the hash after. The kinds
are in ``trace_kinds``; readers are in ``txnsim.trace``.

The *current cause*: a receiver of a message sets it, and every event that happens deeper in the
same handler, or in a task or timer started from it, gets its parent without having it passed along.
It is a context variable, and a plain attribute where ``LoopTasks`` runs callbacks
(``Tracer.scope``).

Events are encoded together, some hundreds at once (``_trace_encodings``), and kept
encoded (``Ring``). A trace that is kept whole has lines at once. A ring bounds how many bytes are
kept; it packs events, and makes lines only of those that are read. A trace that is off costs one
attribute test per site: ``if tracer.on: tracer.emit(…)``. A site whose events the brief level
leaves out tests ``tracer.full``.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextvars import Context, ContextVar, copy_context
from enum import StrEnum
from functools import partial
from heapq import merge
from itertools import chain, islice
from sys import getsizeof
from typing import Any, Final

import msgspec

from txnsim.errors import InvariantViolation
from txnsim.runtime._trace_encodings import Event as Event
from txnsim.runtime._trace_encodings import LaterPayload as LaterPayload
from txnsim.runtime._trace_encodings import (
    NotedEvent,
    Payload,
    Row,
    StoredForm,
    TraceLines,
    TraceRows,
    rows_of,
)
from txnsim.runtime._trace_encodings import Transaction as Transaction
from txnsim.runtime._trace_encodings import name_of as name_of
from txnsim.runtime.trace_kinds import IMPORTANCE_MAX, KINDS

SCHEMA_VERSION: Final = 2
KEPT_AT_ONCE: Final = 256
SNAPSHOT_SHARE: Final = 8
"""Snapshots per ring; also, a snapshot takes at most one in 8 bytes of the trace."""
NO_CAUSE: Final = -1
MAIL_MAX: Final = 4_096
"""Greatest number of noted messages that are on their way between clients of this process."""


class TraceLevel(StrEnum):
    """How much a trace records."""

    OFF = "off"
    BRIEF = "brief"
    """Events of importance 1 and 2."""
    FULL = "full"


class RunInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The header's information about a run, besides its nodes."""

    sim: str = ""
    """Version of txnsim."""
    scenario: str = ""
    seed: int | None = None
    settings: tuple[tuple[str, str | int | bool], ...] = ()
    """Settings that differ from the defaults, with Kafka's names."""
    run: str = ""
    """Number of the run of the scenario."""
    mode: str = ""
    """The transaction protocol: ``V-``, ``V+``, ``TV2``, ``TV2+``."""
    take: str = ""
    """``armed``, ``disarmed`` or ``control``."""
    rules: tuple[tuple[str, bool], ...] = ()
    """Behaviours that differ from those of the release, with their names in ``Rules``."""
    releases: tuple[str, ...] = ()
    """Apache Kafka releases as requested; empty for the newest."""
    brokers: int = 0
    clock: str = "real"
    """``real_world`` or ``virtual``."""


Snapshot = Callable[[], Iterable[Payload]]
Defer = Callable[[Callable[[], object]], object]

_decode_event: Final = msgspec.json.Decoder(Event).decode
_IMPORTANCE: Final = {name: kind.importance for name, kind in KINDS.items()}


class Tracer:
    """Records and keeps the trace of one run."""

    def __init__(
        self,
        read_clock: Callable[[], int],
        *,
        start_ns: int | None = None,
        level: TraceLevel = TraceLevel.OFF,
        ring_bytes: int | None = None,
        run_info: RunInfo | None = None,
        is_strict: bool = False,
    ) -> None:
        """Start an empty trace.

        Args:
            read_clock: Microseconds since the start of the run (``Clock.monotonic_us``).
            start_ns: If given, ``read_clock`` returns nanoseconds and this is the start of the run;
                times are converted when lines are made.
            level: How much is recorded.
            ring_bytes: Approximate memory for the newest events in bytes; None keeps all events.
            run_info: Information for the header.
            is_strict: Refuse payload fields that are not in the table of kinds.
        """
        self.run = run_info or RunInfo()
        self._now = read_clock
        self.is_strict = is_strict
        """Whether payloads are made at once and checked against the table of kinds."""
        self._form = TraceLines(start_ns) if ring_bytes is None else TraceRows(start_ns)
        self._ring = TraceRing(ring_bytes, self._form)
        self._pending_events: list[NotedEvent] = []
        """The newest events, not encoded yet."""
        self._next_index = 0
        self._written_bytes = 0
        self._index_by_node: dict[str, int] = {}
        self.mail: dict[tuple[str, int, bool], int] = {}
        """Messages of clients in this process that are on their way (``post``, ``take``)."""
        self.on = False
        """Whether anything is recorded."""
        self.full = False
        """Whether everything is recorded, events of importance 0 too."""
        self.scope: int | None = None
        """The current cause while ``LoopTasks`` runs a callback or a coroutine by hand: an
        attribute costs a fifth of a context variable. None elsewhere, in tasks and in callbacks of
        the loop: there the context variable counts.
        """
        self.scope_waker = NO_CAUSE
        """``waker`` in that scope."""
        self._floor = 0
        self._level = TraceLevel.OFF
        self._snapshot: Snapshot = tuple
        self._defer: Defer = _call_now
        self._parts: Iterator[Payload] = iter(())
        """Parts of the newest snapshot that are not written yet."""
        self._snapshot_due: int | None = None
        """Number of written bytes at which the next snapshot is due."""
        # Own variables: the cause of another run in the same context is none here.
        self._cause: ContextVar[int] = ContextVar("txnsim_trace_cause", default=NO_CAUSE)
        self._waker: ContextVar[int] = ContextVar("txnsim_trace_waker", default=NO_CAUSE)
        self._level = TraceLevel.OFF
        self.level = level

    # Writing

    @property
    def level(self) -> TraceLevel:
        """How much is recorded. May change at any time; raising it writes a snapshot first."""
        return self._level

    @level.setter
    def level(self, level: TraceLevel) -> None:
        if level is TraceLevel.OFF and self.on:
            data = {"level": self._level.value}
            self.emit("trace.off", "cluster", parents=(NO_CAUSE,), data=data)
            self._encode_pending()
        self._level = level
        old_floor, self._floor = self._floor, _IMPORTANCE_FLOORS[level]
        self.on = level is not TraceLevel.OFF
        self.full = level is TraceLevel.FULL
        if self._floor < old_floor:
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
            node: Where it happened: ``broker/1``, ``broker/1/txn/7``, ``client/app``, ``fault``.
            parents: Causes, the main one first; -1 and repeats are ignored; empty for the current
                cause.
            tx: The transaction, as ``transactionalId/producerId:epoch`` or as a tuple of these
                three.
            data: The payload, which must not change any more; or a function that makes it later.
            importance: Importance of this event, if it differs from that of its kind.

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
            first_cause, second_cause, *more_parents = parents
            if more_parents or first_cause < 0 or second_cause < 0 or first_cause == second_cause:
                parents = tuple(dict.fromkeys([parent for parent in parents if parent >= 0]))
        elif parents[0] < 0:
            parents = ()
        event_importance = _IMPORTANCE.get(kind)
        if event_importance is None:
            raise InvariantViolation(f"trace event of unknown kind {kind!r} at {node}")
        if importance is None or importance == event_importance:
            importance = None
        else:
            event_importance = importance
        if event_importance < self._floor:
            return parents[0] if parents and self.on else NO_CAUSE
        if self.is_strict:
            data = _check_payload(kind, data)
        node_index = self._index_by_node.get(node)
        if node_index is None:
            node_index = self.node_index(node)
        event_index = self._next_index
        self._next_index = event_index + 1
        pending_lines = self._pending_events
        pending_lines.append((self._now(), node_index, parents, kind, tx, data, importance))
        if len(pending_lines) >= KEPT_AT_ONCE:
            self._encode_pending()
        return event_index

    def _encode_pending(self, *, is_opening: bool = False) -> None:
        """Encode the pending events.

        Work that can wait until after the event is done here, for many events at once: a tight loop
        takes a third of the time.
        """
        pending_lines = self._pending_events
        if not pending_lines:
            return
        rows = rows_of(pending_lines)
        first_index = self._next_index - len(rows)
        encoded_rows = self._form.kept(rows, first_index)
        self._written_bytes += len(encoded_rows)
        lives = NO_LIVES if self._ring.bytes_max is None else lives_of(rows)
        self._ring.add(encoded_rows, len(rows), lives, is_opening=is_opening)
        pending_lines.clear()
        if self._snapshot_due is not None and self._written_bytes >= self._snapshot_due:
            self._snapshot_due = None
            self._defer(self.tell_snapshot)

    def node_index(self, node_name: str) -> int:
        """Index of a node, which is listed in the header from now on."""
        node_index = self._index_by_node.get(node_name)
        if node_index is None:
            node_index = self._index_by_node[node_name] = len(self._index_by_node)
        return node_index

    # Beginning in the middle

    def begin_with(self, read_snapshot_parts: Snapshot, run_later: Defer) -> None:
        """Let recordings that begin in the middle open with a snapshot: when the level is raised,
        and repeatedly where a ring drops old events.

        Args:
            read_snapshot_parts: Yields the payloads of its parts, each made when it is needed.
            run_later: Runs a callback in a later turn of the loop, for the next part.
        """
        self._snapshot, self._defer = read_snapshot_parts, run_later
        self._plan_snapshot(0)

    def tell_snapshot(self) -> None:
        """Record the current state of the cluster, for readers who don't have the events before."""
        self._encode_pending()
        self._parts = iter(self._snapshot())
        self._trace_snapshot_part(self._parts, 0)

    def _trace_snapshot_part(self, snapshot_parts: Iterator[Payload], bytes_before: int) -> None:
        """Record the next part of a snapshot, unless recording has ended or a newer snapshot has
        begun.
        """
        if snapshot_parts is not self._parts:
            return
        payload = next(snapshot_parts, None) if self.on else None
        if payload is None:
            self._plan_snapshot(bytes_before)
            return
        self._encode_pending()
        bytes_at_start = self._written_bytes
        self.emit("snapshot", "cluster", parents=(NO_CAUSE,), data=payload)
        self._encode_pending(is_opening=bytes_before == 0)
        self._defer(
            partial(
                self._trace_snapshot_part,
                snapshot_parts,
                bytes_before + self._written_bytes - bytes_at_start,
            )
        )

    def _plan_snapshot(self, snapshot_bytes: int) -> None:
        """Decide when the next snapshot is due: its cost has to be small compared to the events it
        opens.
        """
        ring_bytes = self._ring.bytes_max
        if ring_bytes is not None:
            bytes_until_snapshot = max(
                ring_bytes // SNAPSHOT_SHARE, SNAPSHOT_SHARE * snapshot_bytes
            )
            self._snapshot_due = self._written_bytes + min(bytes_until_snapshot, ring_bytes // 2)

    # Causes

    def cause_of(self, parents: tuple[int, ...]) -> int:
        """The index that ``emit`` returns for an event with these parents if the level leaves the
        event out: with it a caller can avoid making the payload.
        """
        if not parents:
            return self.cause
        for cause in parents:
            if 0 <= cause < self._next_index:
                return cause
        return NO_CAUSE

    @property
    def cause(self) -> int:
        """Index of the event that is the current cause; -1 for none."""
        scope = self.scope
        if scope is not None:
            return scope
        return self._cause.get()

    def set_cause(self, index: int) -> int:
        """Make ``index`` the current cause; returns the one before, which the caller puts back by
        the same call.

        There is no token: a handler's first step and its rest may run in different contexts
        (``Tasks.drive``).
        """
        old_scope = self.scope
        if old_scope is not None:
            self.scope = index
            return old_scope
        old_scope = self._cause.get()
        self._cause.set(index)
        return old_scope

    def bind_cause(
        self, callback: Callable[[], object], cause: int | None = None
    ) -> Callable[[], None]:
        """A callback that can be called later from anywhere, with ``cause`` as the current cause,
        or the one of now.
        """
        new_cause = self.cause if cause is None else cause

        def call() -> None:
            cause_before = self.set_cause(new_cause)
            try:
                callback()
            finally:
                self.set_cause(cause_before)

        return call

    @property
    def waker(self) -> int:
        """Trace event that ended the last wait of this driven coroutine (``Tasks.drive``); -1 for
        none.

        After a wait, a coroutine has the same current cause as before. With this it can name the
        event that ended the wait as a second cause, or as the main one.
        """
        if self.scope is not None:
            return self.scope_waker
        return self._waker.get()

    def context(self, cause: int, waker: int = NO_CAUSE) -> Context:
        """A copy of the current context, with ``cause`` as the current cause, for callbacks of the
        loop.
        """
        context = copy_context()
        context.run(self._cause.set, cause)
        context.run(self._waker.set, waker)
        return context

    def timer_context(self) -> Context | None:
        """Context for a timer that is armed now; None for the current one."""
        scope = self.scope
        return None if scope is None else self.context(scope)

    # Messages between a client of this process and its broker

    def post(self, message_key: tuple[str, int, bool], event_index: int) -> None:
        """Note the trace event of a message that is on its way on a connection.

        ``message_key`` is the client's address, the correlation id, and whether it is an answer.
        The trace forgets the oldest messages that have no receiver.
        """
        event_by_message = self.mail
        event_by_message[message_key] = event_index
        if len(event_by_message) > MAIL_MAX:
            del event_by_message[next(iter(event_by_message))]

    def take(self, message_key: tuple[str, int, bool]) -> int:
        """Trace event of the sending of a received message; -1 if it was not noted."""
        return self.mail.pop(message_key, NO_CAUSE)

    # Reading

    def __len__(self) -> int:
        """Number of events ever recorded; the index that the next one gets."""
        return self._next_index

    @property
    def first_index(self) -> int:
        """Index of the event from which on nothing is missing: a reader with a lower cursor has
        missed some.

        Of the earlier events, those of transactions that were open then are kept.
        """
        return self._ring.first

    @property
    def size(self) -> int:
        """Bytes of memory of the kept events."""
        self._encode_pending()
        return self._ring.size

    @property
    def bytes_written(self) -> int:
        """Size of all events ever recorded, encoded."""
        self._encode_pending()
        return self._written_bytes

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of the nodes, in the order of their indices."""
        return tuple(self._index_by_node)

    def lines(self, from_index: int = 0) -> Iterator[bytes]:
        """Events from a cursor on as lines without line ends, up to the end of the trace.

        Events may be added during the iteration. A cursor below ``first`` starts with the kept
        events of older transactions, and goes on at ``first``.
        """
        next_index = from_index
        while next_index < self._next_index:
            self._encode_pending()
            yield from self._ring.lines(next_index)
            next_index = self._ring.next

    def batches(self, from_index: int) -> Iterator[tuple[int, int, bytes]]:
        """Events from a cursor on, in batches as they are kept: index of the first event, number of
        events, and their rows as MessagePack (``_trace_encodings.Row``).

        The first batch may begin before the cursor. Kept events of older transactions are left out.
        """
        self._encode_pending()
        return self._ring.batches(from_index)

    def texts(self, from_index: int) -> Iterator[bytes]:
        """The current events from a cursor on, as pieces of whole lines; any thread may iterate
        over them.
        """
        self._encode_pending()
        return self._ring.texts_from(from_index)

    @property
    def rows_start_ns(self) -> int | None:
        """Start of the run in nanoseconds, if the times of such rows are nanoseconds; None: they
        are microseconds of the run.
        """
        return self._form.rows_start_ns

    def events(self, from_index: int = 0) -> Iterator[Event]:
        """The kept events from an index on, decoded."""
        return map(_decode_event, self.lines(from_index))

    @property
    def hash(self) -> str:
        """SHA-256 over all kept event lines and the list of nodes: of the whole trace if there is
        no ring.
        """
        self._encode_pending()
        sha = hashlib.sha256()
        for text in self._ring.texts():
            sha.update(text)
        return _trace_hash(sha, self.nodes)

    def export(
        self, write: Callable[[bytes], object], *, verdict: str = "", start: int = 0
    ) -> None:
        """Write header, the kept events and trailer as JSON lines.

        Args:
            write: Writes a piece.
            verdict: Verdict of the checks, for the trailer.
            start: Index of the first event that is written.
        """
        for encoded_piece in self.pieces(verdict=verdict, start=start):
            write(encoded_piece)

    def pieces(self, *, verdict: str = "", start: int = 0) -> Iterator[bytes]:
        """The lines of ``export`` as pieces of whole lines; events that are added during the
        iteration are not included.
        """
        self._encode_pending()
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
            "first": max(self.first_index, start),
            "nodes": self.nodes,
        }
        encoded_lines = (
            self._ring.texts() if start == 0 else (line + b"\n" for line in self.lines(start))
        )
        return self._pieces_of(header, self.nodes, self._next_index, encoded_lines, verdict)

    @staticmethod
    def _pieces_of(
        header: dict[str, object],
        nodes: tuple[str, ...],
        event_count: int,
        chunk_texts: Iterator[bytes],
        verdict: str,
    ) -> Iterator[bytes]:
        sha = hashlib.sha256()
        yield msgspec.json.encode(header) + b"\n"
        for text in chunk_texts:
            sha.update(text)
            yield text
        trailer = {
            "k": "end",
            "events": event_count,
            "hash": _trace_hash(sha, nodes),
            "verdict": verdict,
        }
        yield msgspec.json.encode(trailer) + b"\n"


def _trace_hash(sha: hashlib._Hash, nodes: tuple[str, ...]) -> str:
    sha.update(msgspec.json.encode(nodes))
    return f"sha256:{sha.hexdigest()}"


def _check_payload(kind: str, data: Payload | LaterPayload) -> Payload:
    """Make the payload now and check it, so that a bug shows at its site."""
    if isinstance(data, tuple):
        data = data[0](*data[1:])
    if isinstance(data, Mapping) and not data.keys() <= KINDS[kind].fields:
        unknown_fields = sorted(data.keys() - KINDS[kind].fields)
        raise InvariantViolation(f"trace event {kind} with unknown fields {unknown_fields}")
    return data


def _call_now(callback: Callable[[], object]) -> None:
    callback()


_IMPORTANCE_FLOORS: Final = {
    TraceLevel.OFF: IMPORTANCE_MAX + 1,
    TraceLevel.BRIEF: 1,
    TraceLevel.FULL: 0,
}
"""Level -> least importance that is recorded."""


# The kept events of a trace: batches in chunks, bounded by bytes.
#
# A batch is some consecutive events, encoded (``_trace_encodings``). Readers get lines, which are
# made of a batch when it is read. When too many bytes are kept, the oldest chunks go, up to one
# that opens with a snapshot, so that a reader can start there. Transactions stay whole: where the
# kept part begins, the older events of those that have not ended are carried along as lines, until
# they end or take more than their share.

CHUNK_BYTES: Final = 65_536
"""Size at which a chunk is full."""
LINES_AT_ONCE: Final = 256
BATCH_OVERHEAD: Final = 140
"""Bytes of memory that a batch takes besides its events."""
LINE_OVERHEAD: Final = 125
"""Bytes of memory that a kept line of an older transaction takes besides its text."""
READ_KEPT: Final = 8
"""Number of batches whose lines are kept for the next reader: several listeners read the same
ones.
"""
CARRIED_SHARE: Final = 4
"""At most 1/4 of the ring's bytes is for events of transactions that began before its first
event.
"""
OVERDUE_SHARE: Final = 8
"""While a snapshot is overdue, the ring may exceed its bound by 1/8."""

_TX_PATTERN: Final = re.compile(rb'"k":"([^"]*)","tx":"((?:[^"\\]|\\.)*)/-?\d+:-?\d+"')
"""Kind and transactional id of an event about a transaction; no payload has this text."""
_TX_NAME_PATTERN: Final = re.compile(r"(.*)/-?\d+:-?\d+", re.DOTALL)
_END_STATES: Final = frozenset({"CompleteCommit", "CompleteAbort", "Empty", "Dead"})
_ENCODED_END_STATES: Final = tuple(f'"state":"{state}"'.encode() for state in sorted(_END_STATES))
_INDEX_POSITION: Final = len(b'{"i":')
_KIND_COLUMN, _TX_COLUMN, _DATA_COLUMN = 3, 4, 5
"""Indices of values in a row."""


class TransactionLives(msgspec.Struct):
    """What some consecutive events say about transactions, by transactional id."""

    open_ids: set[str]
    """Transactional ids with events after their last end here, or without an end here."""
    ended_ids: set[str]
    """Transactional ids whose transaction ended here; a new one may have begun since."""

    def follow(self, next_lives: TransactionLives) -> None:
        """Add the lives of the events that come next."""
        self.open_ids = (self.open_ids - next_lives.ended_ids) | next_lives.open_ids
        self.ended_ids |= next_lives.ended_ids


def lives_of(rows: Sequence[Row]) -> TransactionLives:
    """Which transactions are open after these events, and which ended in them."""
    last_index_by_tx: dict[Any, int] = {row[_TX_COLUMN]: index for index, row in enumerate(rows)}
    last_index_of_id: dict[str, int] = {}
    for tx, index in last_index_by_tx.items():
        transactional_id = _transactional_id_of(tx)
        if transactional_id:
            last_index_of_id[transactional_id] = max(
                index, last_index_of_id.get(transactional_id, -1)
            )
    end_index_by_id: dict[str, int] = {}
    for index, row in enumerate(rows):
        if row[_KIND_COLUMN] == "txn.complete":
            event_data = row[_DATA_COLUMN]
            if isinstance(event_data, dict) and event_data["state"] in _END_STATES:
                end_index_by_id[_transactional_id_of(row[_TX_COLUMN])] = index
    end_index_by_id.pop("", None)
    return TransactionLives(
        {
            transactional_id
            for transactional_id, index in last_index_of_id.items()
            if index > end_index_by_id.get(transactional_id, -1)
        },
        set(end_index_by_id),
    )


def _transactional_id_of(tx: Any) -> str:
    """The transactional id of an event about a transaction; empty without one."""
    if type(tx) is tuple:
        transactional_id: str = tx[0]
        return transactional_id
    name_match = _TX_NAME_PATTERN.fullmatch(tx) if tx else None
    return name_match[1] if name_match else ""


NO_LIVES: Final = TransactionLives(set(), set())
"""For events that are not about transactions; never changed."""


class _Batch(msgspec.Struct, frozen=True, gc=False):
    """Consecutive events, encoded."""

    first_event: int
    event_count: int
    encoded: bytes


class _Chunk:
    """Consecutive batches, which are dropped together."""

    __slots__ = ("batches", "first", "is_opening", "lives", "size")

    def __init__(self, batch: _Batch, lives: TransactionLives, *, is_opening: bool) -> None:
        self.first = batch.first_event
        self.batches = [batch]
        self.lives = TransactionLives(set(lives.open_ids), set(lives.ended_ids))
        self.size = len(batch.encoded) + BATCH_OVERHEAD + self._size_of_lives()
        self.is_opening = is_opening
        """Its first event is a snapshot."""

    def add(self, batch: _Batch, lives: TransactionLives) -> None:
        self.batches.append(batch)
        lives_size_before = self._size_of_lives()
        self.lives.follow(lives)
        self.size += len(batch.encoded) + BATCH_OVERHEAD + self._size_of_lives() - lives_size_before

    def _size_of_lives(self) -> int:
        return getsizeof(self.lives.open_ids) + getsizeof(self.lives.ended_ids)


class TraceRing:
    """The newest events of a trace, up to a number of bytes."""

    def __init__(self, bytes_max: int | None, form: StoredForm) -> None:
        """Start without events."""
        self.bytes_max = bytes_max
        """Approximate bound of the kept bytes; None for no bound."""
        self._form = form
        self._chunks: list[_Chunk] = []
        self.first = 0
        """Index of the first event from which on nothing is missing."""
        self.next = 0
        """Index that the next event gets."""
        self._size = 0
        self._carried_lines_by_id: dict[str, list[tuple[int, bytes]]] = {}
        self._carried_size = 0
        self._read_lines: dict[int, list[bytes]] = {}
        """Lines of the batches that were read last, by their first events."""

    @property
    def size(self) -> int:
        """Bytes of memory of the kept events."""
        return self._size + self._carried_size

    # Writing

    def add(
        self,
        encoded: bytes,
        event_count: int,
        lives: TransactionLives = NO_LIVES,
        *,
        is_opening: bool = False,
    ) -> None:
        """Add the next events.

        Args:
            encoded: The events, in the ring's form.
            event_count: Number of events.
            lives: What they say about transactions; used only if the ring has a bound.
            is_opening: The first event is a snapshot: a reader can begin here.
        """
        newest_chunk = self._chunks[-1] if self._chunks else None
        batch = _Batch(self.next, event_count, encoded)
        if newest_chunk is None or is_opening or newest_chunk.size >= CHUNK_BYTES:
            newest_chunk = _Chunk(batch, lives, is_opening=is_opening)
            self._chunks.append(newest_chunk)
            self._size += newest_chunk.size
        else:
            size_before = newest_chunk.size
            newest_chunk.add(batch, lives)
            self._size += newest_chunk.size - size_before
        self.next += event_count
        if self.bytes_max is not None and self.size > self.bytes_max:
            self._shrink(self.bytes_max)

    def _shrink(self, bytes_max: int) -> None:
        opening_indexes = [
            chunk_index
            for chunk_index, chunk in enumerate(self._chunks)
            if chunk.is_opening and chunk_index
        ]
        is_snapshotted = bool(opening_indexes) or self._chunks[0].is_opening
        while self.size > bytes_max and len(self._chunks) > 1:
            if opening_indexes:
                self._drop_chunks(opening_indexes.pop(0))
                opening_indexes = [
                    chunk_index
                    for chunk_index, chunk in enumerate(self._chunks)
                    if chunk.is_opening and chunk_index
                ]
            elif is_snapshotted and self.size < bytes_max + bytes_max // OVERDUE_SHARE:
                return
            else:
                self._drop_chunks(1)

    def _drop_chunks(self, chunk_count: int) -> None:
        dropped_chunks, self._chunks = self._chunks[:chunk_count], self._chunks[chunk_count:]
        ended_ids: set[str] = set()
        chunks_with_open: list[tuple[_Chunk, set[str]]] = []
        for chunk in reversed(dropped_chunks):
            self._size -= chunk.size
            # Transactions that end in a later chunk are skipped: nearly all.
            if still_open_ids := chunk.lives.open_ids - ended_ids:
                chunks_with_open.append((chunk, still_open_ids))
            ended_ids |= chunk.lives.ended_ids
        for transactional_id in ended_ids & self._carried_lines_by_id.keys():
            self._forget_carried(transactional_id)
        for chunk, still_open_ids in reversed(chunks_with_open):
            self._carry_open_transactions(b"".join(map(self._text, chunk.batches)), still_open_ids)
        assert self.bytes_max is not None, "without a bound nothing is dropped"
        while self._carried_size * CARRIED_SHARE > self.bytes_max:
            self._forget_carried(next(iter(self._carried_lines_by_id)))
        self.first = self._chunks[0].first

    def _carry_open_transactions(self, chunk_text: bytes, transactional_ids: Set[str]) -> None:
        """Keep the lines of the given transactional ids that come after the last end of each in
        this text: earlier lines belong to finished transactions.
        """
        names_by_encoding = {
            msgspec.json.encode(transactional_id)[1:-1]: transactional_id
            for transactional_id in transactional_ids
        }
        lines_by_name: dict[str, list[tuple[int, bytes]]] = {}
        for match in reversed(list(_TX_PATTERN.finditer(chunk_text))):
            event_kind, encoded_id = match.groups()
            transactional_id = names_by_encoding.get(encoded_id)
            if transactional_id is None:
                continue
            event_line = chunk_text[
                chunk_text.rfind(b"\n", 0, match.start()) + 1 : chunk_text.find(b"\n", match.end())
            ]
            if event_kind == b"txn.complete" and any(
                encoded_end_state in event_line for encoded_end_state in _ENCODED_END_STATES
            ):
                del names_by_encoding[encoded_id]
                continue
            lines_by_name.setdefault(transactional_id, []).append(
                (_index_of_line(event_line), event_line)
            )
            self._carried_size += len(event_line) + LINE_OVERHEAD
        for transactional_id, indexed_lines in reversed(lines_by_name.items()):
            self._carried_lines_by_id.setdefault(transactional_id, []).extend(
                reversed(indexed_lines)
            )

    def _forget_carried(self, transactional_id: str) -> None:
        for _, line in self._carried_lines_by_id.pop(transactional_id, ()):
            self._carried_size -= len(line) + LINE_OVERHEAD

    # Reading

    def lines(self, from_index: int) -> Iterator[bytes]:
        """Events from a cursor on as lines without line ends.

        Events may be added during the iteration. A cursor below ``first`` starts with the kept
        lines of older transactions.
        """
        if from_index < self.first:
            yield from (
                line for event_index, line in self._carried_lines() if event_index >= from_index
            )
        event_index = max(from_index, self.first)
        for batch in self._batches(event_index):
            event_index = max(event_index, batch.first_event)
            yield from self._lines(batch)[event_index - batch.first_event :]

    def batches(self, from_index: int) -> Iterator[tuple[int, int, bytes]]:
        """Events from a cursor on, in batches: index of the first event, number of events, packed
        rows.

        The first batch may begin before the cursor. Events may be added during the iteration.
        """
        for batch in self._batches(from_index):
            yield (
                batch.first_event,
                batch.event_count,
                self._form.packed(batch.encoded, batch.first_event),
            )

    def _batches(self, from_index: int) -> Iterator[_Batch]:
        event_index = max(from_index, self.first)
        while event_index < self.next:
            chunk = self._chunks[bisect_right(self._chunks, event_index, key=_first_index) - 1]
            batch = chunk.batches[bisect_right(chunk.batches, event_index, key=_first_index) - 1]
            yield batch
            event_index = max(batch.first_event + batch.event_count, self.first)

    def texts(self) -> Iterator[bytes]:
        """All events that are kept now, as pieces of whole lines; later events change none of them.

        A piece is made when it is needed, in a millisecond or two.
        """
        return chain(_join_lines(self._carried_lines()), self.texts_from(self.first))

    def texts_from(self, from_index: int) -> Iterator[bytes]:
        """Like ``texts``, for events from a cursor on, without older transactions. The first piece
        may begin before the cursor.
        """
        return self._texts(list(self._batches(from_index)))

    def _texts(self, batches: Sequence[_Batch]) -> Iterator[bytes]:
        chunk_texts: list[bytes] = []
        event_count = 0
        for batch in batches:
            if chunk_texts and event_count + batch.event_count > LINES_AT_ONCE:
                yield b"".join(chunk_texts)
                chunk_texts, event_count = [], 0
            chunk_texts.append(self._text(batch))
            event_count += batch.event_count
        if chunk_texts:
            yield b"".join(chunk_texts)

    def _text(self, batch: _Batch) -> bytes:
        return self._form.lines(batch.encoded, batch.first_event)

    def _lines(self, batch: _Batch) -> list[bytes]:
        lines = self._read_lines.get(batch.first_event)
        if lines is None:
            lines = self._read_lines[batch.first_event] = self._text(batch).splitlines()
            if len(self._read_lines) > READ_KEPT:
                del self._read_lines[next(iter(self._read_lines))]
        return lines

    def _carried_lines(self) -> Iterator[tuple[int, bytes]]:
        """The kept lines of older transactions with their indices, in order."""
        return merge(*map(tuple, self._carried_lines_by_id.values()))


def _join_lines(indexed_lines: Iterator[tuple[int, bytes]]) -> Iterator[bytes]:
    while line_batch := list(islice(indexed_lines, LINES_AT_ONCE)):
        yield b"".join(line + b"\n" for _, line in line_batch)


def _first_index(part: _Chunk | _Batch) -> int:
    return part.first_event if isinstance(part, _Batch) else part.first


def _index_of_line(line: bytes) -> int:
    return int(line[_INDEX_POSITION : line.index(b",", _INDEX_POSITION)])

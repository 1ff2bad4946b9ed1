"""The trace through the control port: complete, or as a stream in one of two formats.

A listener is a cursor into the trace, which is a ring buffer. Nothing is stored per listener, so
brokers never wait for a slow reader, and memory does not grow. A listener that is further behind
than ``EVENTS_BEHIND_MAX`` continues with the newest events and learns how many it has lost.

Server-Sent Events are for people and programs: each is a line of the trace, preceded by the name of
its node. The page reads all events, and ten pages may be open. It gets them packed, as the ring
stores them: a listener costs only a few bytes per batch, and the page unpacks them
(``page/static/rows.js``).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from itertools import islice
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from txnsim.client.backoff import pause
from txnsim.http.messages import fault
from txnsim.http.operation import PREFIX, Noun, Operation, Query
from txnsim.http.replies import CURSOR_MAX, Body, RefusedError, digits_of, number_of
from txnsim.http.report import report
from txnsim.runtime.environment import Environment
from txnsim.runtime.rng import random_hex
from txnsim.runtime.trace import TraceLevel, Tracer
from txnsim.runtime.trace_kinds import KINDS
from txnsim.server.cluster import SimCluster

EVENTS_BEHIND_MAX: Final = 20_000
"""How many events a listener may be behind before it loses events: a few seconds of a busy
cluster.
"""
EVENTS_PER_TURN_MAX: Final = 500
"""Number of events sent to a listener before the brokers get their turn."""
LISTENERS_MAX: Final = 32
BATCHES_PER_TURN_MAX: Final = 8
"""Number of packed batches, of at most 256 events each, sent before the brokers get their turn."""
LOOK_MS: Final = 25
"""Milliseconds between two checks for new events with one listener; with ten, five times as long.
So the cost for brokers stays about the same, however many listeners there are.
"""
SILENCE_MS: Final = 15_000
"""Milliseconds without an event after which a comment is sent, so that both ends notice a dead
connection.
"""

EVENT_STREAM: Final = "text/event-stream"
TEXT: Final = "text/plain"
NDJSON: Final = "application/x-ndjson"
MESSAGE_PACK: Final = "application/vnd.msgpack"
STREAMS: Final = frozenset({EVENT_STREAM, MESSAGE_PACK})
"""Media types of answers that don't end."""

_pack: Final = msgspec.msgpack.Encoder().encode
_PAIR: Final = b"\x92"
"""MessagePack: the header of an array of two."""
_NOTHING_NEW_CHUNK: Final = _pack({})
IDENTITY: Final = "Txnsim-Trace"
"""Header that identifies the trace. Another cluster at the same address has another identity."""
Piece = tuple[int, bytes]
"""(cursor after the piece, bytes for the listener); empty bytes if there is nothing new."""


class TraceState(msgspec.Struct, frozen=True, kw_only=True):
    """Level and size of the trace."""

    level: str
    """``off``, ``brief`` or ``full``."""
    first: int
    """Position of the oldest event in memory."""
    next: int
    written: int
    """Number of bytes that all events so far have taken."""
    kept: int
    listeners: int


class SetTrace(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Record more or less from now on."""

    level: TraceLevel


_FROM_QUERY: Final = Query("from", "First event, as far as it is kept; only new ones unless given")


class EventRoutes(Noun):
    """The routes for the trace of one run."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._tracer = environment.tracer
        self._listeners: set[object] = set()
        """One object for each listener, from its admission to its end."""
        self._encoded_names: list[bytes] = []
        """Names of the nodes, as JSON."""
        self._is_closed = False
        self._headers = {"Cache-Control": "no-store", IDENTITY: random_hex()}

    def close(self) -> None:
        """End the streams at their next check, because the control port closes."""
        self._is_closed = True

    @Operation("get", f"{PREFIX}/trace", media_type=NDJSON)
    async def trace(self, _request: Request) -> Response:
        """The trace as JSON lines: header, events, trailer.

        It contains the events that are still in memory at this moment; brokers get their turn after
        each piece.
        """
        return StreamingResponse(
            self._send_chunks(self._tracer.pieces()), media_type=NDJSON, headers=self._headers
        )

    async def _send_chunks(self, chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk
            await self._pause(0)

    @Operation("post", f"{PREFIX}/trace", refusals=("422",))
    async def set_level(self, _request: Request, body: Body[SetTrace]) -> TraceState:
        """Record nothing (off), important events (brief) or everything (full) from now on."""
        self._tracer.level = (await body.read()).level
        return TraceState(
            level=self._tracer.level.value,
            first=self._tracer.first_index,
            next=len(self._tracer),
            written=self._tracer.bytes_written,
            kept=self._tracer.size,
            listeners=len(self._listeners),
        )

    @Operation(
        "get",
        f"{PREFIX}/events",
        media_type=EVENT_STREAM,
        query=(
            Query(
                "kind",
                "Only these kinds; fault stands for fault.arm and all others",
                "string",
                many=True,
            ),
            Query(
                "node",
                "Only these nodes; broker/1 stands for its logs as well",
                "string",
                many=True,
            ),
            _FROM_QUERY,
        ),
        refusals=("409", "422", "503"),
    )
    async def stream(self, request: Request) -> Response:
        """The growing trace as Server-Sent Events; a slow reader loses events, and learns how
        many.
        """
        self._admit()
        # Sets: a query may have ten thousand names, and each event is compared with them.
        event_kinds = frozenset(request.query_params.getlist("kind"))
        for event_kind in sorted(event_kinds - _KINDS_AND_PARENTS):
            raise RefusedError(
                422, f"kind {event_kind!r} is none of the trace's (docs/trace-kinds.md)"
            )
        node_names = frozenset(request.query_params.getlist("node"))
        cursor = number_of(
            request, "from", default=self._resume_position(request), minimum=0, maximum=CURSOR_MAX
        )
        return self._listener_response(
            cursor,
            lambda next_cursor: self._event_chunk(next_cursor, event_kinds, node_names),
            greeting=b": connected\n\n",
            idle_chunk=b": nothing new\n\n",
            media_type=EVENT_STREAM,
        )

    @Operation(
        "get",
        f"{PREFIX}/events/packed",
        media_type=MESSAGE_PACK,
        query=(_FROM_QUERY,),
        refusals=("409", "422", "503"),
    )
    async def packed(self, request: Request) -> Response:
        """The growing trace for the page: all events as MessagePack, in the form in which they are
        stored.

        It is a sequence of values. An array is a batch: the position of its first event, and its
        rows (``_trace_encodings.Row``). It may begin before the cursor. A map describes what
        follows: ``start_ns``, the origin of times (without it they are microseconds of the run);
        ``nodes``, names of additional nodes; ``lost``, the number of omitted events. An empty map
        only shows that the stream is alive.
        """
        self._admit()
        cursor = number_of(
            request, "from", default=len(self._tracer), minimum=0, maximum=CURSOR_MAX
        )
        return self._listener_response(
            cursor,
            _Packer(self._tracer).next_piece,
            greeting=_pack({"start_ns": self._tracer.rows_start_ns}),
            idle_chunk=_NOTHING_NEW_CHUNK,
            media_type=MESSAGE_PACK,
        )

    def _admit(self) -> None:
        """Raise ``RefusedError`` if nothing is recorded, or if there are enough listeners."""
        if not self._tracer.on:
            raise RefusedError(
                409,
                f'nothing is recorded: POST {PREFIX}/trace {{"level": "brief"}}, or start with '
                "`--trace brief`",
            )
        if len(self._listeners) >= LISTENERS_MAX:
            raise RefusedError(503, f"{LISTENERS_MAX} listeners are connected: close one of them")

    def _resume_position(self, request: Request) -> int:
        """The position after ``Last-Event-ID``, which browsers send when they reconnect."""
        last_position = digits_of(request.headers.get("last-event-id", ""))
        return len(self._tracer) if last_position is None else last_position + 1

    # One listener

    def _listener_response(
        self,
        cursor: int,
        next_piece: Callable[[int], Piece],
        *,
        greeting: bytes,
        idle_chunk: bytes,
        media_type: str,
    ) -> Response:
        """The answer to a listener, who counts from now on: many may be admitted before the first
        one hears anything.
        """
        listener = object()
        self._listeners.add(listener)
        return _ListenerResponse(
            self._listen(
                cursor, next_piece, greeting=greeting, idle_chunk=idle_chunk, listener=listener
            ),
            on_end=lambda: self._listeners.discard(listener),
            media_type=media_type,
            headers=self._headers,
        )

    async def _listen(
        self,
        cursor: int,
        next_piece: Callable[[int], Piece],
        *,
        greeting: bytes,
        idle_chunk: bytes,
        listener: object,
    ) -> AsyncIterator[bytes]:
        clock = self._environment.clock
        try:
            yield greeting
            last_sent_ms = clock.monotonic_ms()
            while not self._is_closed:
                cursor, chunk = next_piece(cursor)
                if chunk:
                    # A caller that does not read makes this wait, and no other reader.
                    yield chunk
                    last_sent_ms = clock.monotonic_ms()
                elif clock.monotonic_ms() - last_sent_ms >= SILENCE_MS:
                    yield idle_chunk
                    last_sent_ms = clock.monotonic_ms()
                if cursor >= len(self._tracer):
                    await self._pause(LOOK_MS * max(1, len(self._listeners) // 2))
                else:
                    await self._pause(0)
        finally:
            self._listeners.discard(listener)

    def _event_chunk(
        self, cursor: int, event_kinds: frozenset[str], node_names: frozenset[str]
    ) -> Piece:
        """The next events after a cursor, as Server-Sent Events."""
        tracer = self._tracer
        oldest_event = _oldest_event(tracer)
        encoded_events = []
        if cursor < oldest_event:
            lost_notice = msgspec.json.encode(_lost_notice(cursor, oldest_event))
            encoded_events.append(b"event: lost\ndata: %b\n\n" % lost_notice)
            cursor = oldest_event
        traced_nodes = tracer.nodes
        while len(self._encoded_names) < len(traced_nodes):
            self._encoded_names.append(msgspec.json.encode(traced_nodes[len(self._encoded_names)]))
        end_cursor = max(cursor, min(cursor + EVENTS_PER_TURN_MAX, len(tracer)))
        for event_index, event_line in enumerate(
            islice(tracer.lines(cursor), EVENTS_PER_TURN_MAX), cursor
        ):
            event_kind, node_index = _kind_and_node(event_line)
            if (event_kinds or node_names) and not _is_wanted(
                event_kind.decode(), traced_nodes[node_index], event_kinds, node_names
            ):
                continue
            encoded_events.append(
                b'id: %d\nevent: %b\ndata: {"node":%b,%b\n\n'
                % (event_index, event_kind, self._encoded_names[node_index], event_line[1:])
            )
        return end_cursor, b"".join(encoded_events)

    async def _pause(self, pause_ms: int) -> None:
        await pause(self._environment.clock, pause_ms)


class SimulatedTraceRoutes(EventRoutes):
    """The routes for the trace of a simulated cluster, which also has a report."""

    def __init__(self, cluster: SimCluster) -> None:
        super().__init__(cluster.environment)
        self._cluster = cluster

    @Operation(
        "get",
        f"{PREFIX}/report",
        media_type=TEXT,
        query=(Query("from", "The story from this event on; the newest events unless given"),),
        refusals=("422",),
    )
    async def report(self, request: Request) -> Response:
        """What happened, for people: the story, what unfinished transactions wait for, the fault
        rules and their hits.
        """
        first_event = number_of(request, "from", default=0, minimum=0, maximum=len(self._tracer))
        fault_states = [fault(armed_rule) for armed_rule in self._cluster.injector.rules()]
        return Response(
            await report(self._cluster, fault_states, first_event=first_event), media_type=TEXT
        )


class _ListenerResponse(StreamingResponse):
    """A stream that tells its end even if it never begins, because the listener has gone."""

    def __init__(
        self,
        content: AsyncIterator[bytes],
        *,
        on_end: Callable[[], None],
        media_type: str,
        headers: Mapping[str, str],
    ) -> None:
        super().__init__(content, media_type=media_type, headers=headers)
        self._on_end = on_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream until it ends or the listener goes."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._on_end()


class _Packer:
    """Makes the packed stream for one listener."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._told_node_count = 0

    def next_piece(self, cursor: int) -> Piece:
        """The next batches after a cursor, preceded by notes about lost events."""
        tracer = self._tracer
        oldest_event = _oldest_event(tracer)
        note_fields: dict[str, object] = {}
        if cursor < oldest_event:
            note_fields |= _lost_notice(cursor, oldest_event)
            cursor = oldest_event
        packed_parts: list[bytes] = []
        for first_position, event_count, rows in islice(
            tracer.batches(cursor), BATCHES_PER_TURN_MAX
        ):
            packed_parts += (_PAIR, _pack(first_position), rows)
            cursor = first_position + event_count
        if new_nodes := tracer.nodes[self._told_node_count :]:
            note_fields["nodes"] = new_nodes
            self._told_node_count += len(new_nodes)
        if note_fields:
            packed_parts.insert(0, _pack(note_fields))
        return cursor, b"".join(packed_parts)


def _oldest_event(tracer: Tracer) -> int:
    """Position of the oldest event that a listener may still receive."""
    return max(tracer.first_index, len(tracer) - EVENTS_BEHIND_MAX)


def _lost_notice(cursor: int, oldest_event: int) -> dict[str, int]:
    return {"lost": oldest_event - cursor, "next": oldest_event}


def _kind_and_node(event_line: bytes) -> tuple[bytes, int]:
    """Kind and node of an encoded event, whose columns are in the order of ``trace.Event``."""
    _, _, node_column, _, _, kind_column, *_ = event_line.split(b',"', 6)
    return kind_column.split(b'"', 3)[2], int(node_column[len(b'n":') :])


def _is_wanted(
    event_kind: str, node_name: str, wanted_kinds: frozenset[str], wanted_nodes: frozenset[str]
) -> bool:
    """Whether an event passes; without names every event does. The number of names is no cost."""
    return (not wanted_kinds or not wanted_kinds.isdisjoint(_with_parents(event_kind, "."))) and (
        not wanted_nodes or not wanted_nodes.isdisjoint(_with_parents(node_name, "/"))
    )


def _with_parents(name: str, separator: str) -> Iterator[str]:
    """A name and what it is part of: ``fault.arm`` and ``fault``."""
    while name:
        yield name
        name = name.rpartition(separator)[0]


_KINDS_AND_PARENTS: Final = frozenset(
    name for known_kind in KINDS for name in _with_parents(known_kind, ".")
)

"""The trace through the control port: whole, or as it grows (Server-Sent Events).

A listener is a cursor into the trace, which is a ring: nothing is kept for it, so however slowly it
reads, brokers never wait and memory does not grow. It is sent the lines of the trace with the name
of the node in front; the lines are made once for all listeners. Once it is further behind than
``EVENTS_BEHIND_MAX`` it goes on with the newest events and learns how many it has lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import islice
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from txnsim.http.messages import fault
from txnsim.http.operation import PREFIX, Operation, Query
from txnsim.http.replies import RefusedError, as_json, body_of, digits_of, number_of
from txnsim.http.report import report
from txnsim.runtime.env import Environment
from txnsim.runtime.trace import TraceLevel
from txnsim.runtime.trace_kinds import KINDS
from txnsim.server.cluster import SimCluster

EVENTS_BEHIND_MAX: Final = 20_000
"""How far a listener may be behind before it loses events: a few seconds of a busy cluster."""
EVENTS_PER_TURN_MAX: Final = 500
"""How many events one listener is sent before the brokers get their turn."""
LISTENERS_MAX: Final = 32
PIECES_MAX: Final = 64
"""Pieces of the stream that are kept for other listeners: at most some 5 MB."""
LOOK_MS: Final = 25
"""Between two looks at the trace of one listener; of ten five times as long. So brokers spend about
the same on looks and on writes, however many listen.
"""
SILENCE_MS: Final = 15_000
"""After so long without an event a comment is sent, so that both ends notice a dead connection."""
CURSOR_MAX: Final = 2**63 - 1

EVENT_STREAM: Final = "text/event-stream"
TEXT: Final = "text/plain"
NDJSON: Final = "application/x-ndjson"


class TraceState(msgspec.Struct, frozen=True, kw_only=True):
    """What is recorded, and how much of it there is."""

    level: str
    """``off``, ``brief`` or ``full``."""
    first: int
    """Oldest event that is kept."""
    next: int
    """The number that the next event gets."""
    written: int
    """Bytes of memory that all events so far have taken."""
    kept: int
    """Bytes of memory of what is kept."""
    listeners: int


class SetTrace(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Record more or less from now on."""

    level: TraceLevel


TRACE: Final = Operation(
    method="get",
    path=f"{PREFIX}/trace",
    summary="The trace as JSON lines: header, events, trailer",
    media_type=NDJSON,
)
SET: Final = Operation(
    method="post",
    path=f"{PREFIX}/trace",
    summary="Record nothing, the important (brief) or everything (full) from now on",
    body=SetTrace,
    answer=TraceState,
    refusals=("422",),
)
STREAM: Final = Operation(
    method="get",
    path=f"{PREFIX}/events",
    summary="The trace as it grows, as Server-Sent Events; a slow reader loses events, and gets "
    "their number",
    media_type=EVENT_STREAM,
    query=(
        Query(
            "kind",
            "Only these kinds; fault stands for fault.arm and all others",
            "string",
            many=True,
        ),
        Query(
            "node", "Only these nodes; broker/1 stands for its logs as well", "string", many=True
        ),
        Query("from", "First event, as far as it is kept; only new ones unless given"),
    ),
    refusals=("409", "422", "503"),
)
REPORT: Final = Operation(
    method="get",
    path=f"{PREFIX}/report",
    summary="What happened, for people: the story, what unfinished transactions wait for, the "
    "fault rules and their hits",
    media_type=TEXT,
    query=(Query("from", "The story from this event on; the newest events unless given"),),
    refusals=("422",),
)
OF_EVERY_RUN: Final = (TRACE, SET, STREAM)
OPERATIONS: Final = (*OF_EVERY_RUN, REPORT)


class EventRoutes:
    """The routes over the trace of one run."""

    def __init__(self, environment: Environment, cluster: SimCluster | None = None) -> None:
        """No reader listens yet.

        Args:
            environment: The run's world.
            cluster: Whose report is answered; without one there is none.
        """
        self._environment = environment
        self._cluster = cluster
        self._tracer = environment.tracer
        self._listeners = 0
        self._names: list[bytes] = []
        """Of the nodes, as JSON."""
        self._pieces: dict[int, tuple[int, bytes]] = {}
        """Cursor -> the cursor behind it and what lies between, for who listens to everything."""
        self._is_closed = False

    def routes(self) -> list[Route]:
        """All of them; no report where there is no cluster."""
        routes = [
            TRACE.route(self.trace),
            SET.route(self.set_level),
            STREAM.route(self.stream),
        ]
        return routes if self._cluster is None else [*routes, REPORT.route(self.report)]

    def close(self) -> None:
        """The control port closes: streams end at their next look."""
        self._is_closed = True

    async def report(self, request: Request) -> Response:
        """What happened, for people."""
        since = number_of(request, "from", default=0, least=0, most=len(self._tracer))
        assert self._cluster is not None  # else there is no such route
        states = [fault(armed) for armed in self._cluster.injector.rules()]
        return Response(report(self._cluster, states, since=since), media_type=TEXT)

    async def trace(self, _request: Request) -> Response:
        """The trace as far as it is kept, as it is now; brokers get their turn after each piece."""
        return StreamingResponse(self._sent(self._tracer.pieces()), media_type=NDJSON)

    async def _sent(self, pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece
            await self._pause(0)

    async def set_level(self, request: Request) -> Response:
        """Record more or less."""
        self._tracer.level = (await body_of(request, SetTrace)).level
        return as_json(
            TraceState(
                level=self._tracer.level.value,
                first=self._tracer.first,
                next=len(self._tracer),
                written=self._tracer.written,
                kept=self._tracer.size,
                listeners=self._listeners,
            )
        )

    async def stream(self, request: Request) -> Response:
        """The trace as it grows."""
        if not self._tracer.on:
            raise RefusedError(
                409,
                f'nothing is recorded: POST {PREFIX}/trace {{"level": "brief"}}, or start with '
                "`--trace brief`",
            )
        if self._listeners >= LISTENERS_MAX:
            raise RefusedError(503, f"{LISTENERS_MAX} listeners are connected: close one of them")
        kinds = request.query_params.getlist("kind")
        for kind in kinds:
            if not any(_is_within(known, kind, ".") for known in KINDS):
                raise RefusedError(
                    422, f"kind {kind!r} is none of the trace's (docs/trace-kinds.md)"
                )
        nodes = request.query_params.getlist("node")
        cursor = number_of(
            request, "from", default=self._resumed(request), least=0, most=CURSOR_MAX
        )
        listener = self._listen(cursor, kinds, nodes)
        return StreamingResponse(
            listener, media_type=EVENT_STREAM, headers={"Cache-Control": "no-store"}
        )

    def _resumed(self, request: Request) -> int:
        """Where a listener goes on that was connected before, as browsers ask for it."""
        seen = digits_of(request.headers.get("last-event-id", ""))
        return len(self._tracer) if seen is None else seen + 1

    # One listener

    async def _listen(
        self, cursor: int, kinds: Sequence[str], nodes: Sequence[str]
    ) -> AsyncIterator[bytes]:
        clock = self._environment.clock
        self._listeners += 1
        try:
            yield b": connected\n\n"
            said_ms = clock.monotonic_ms()
            while not self._is_closed:
                cursor, piece = self._next_piece(cursor, kinds, nodes)
                if piece:
                    # A caller that does not read makes this wait, and no other reader.
                    yield piece
                    said_ms = clock.monotonic_ms()
                elif clock.monotonic_ms() - said_ms >= SILENCE_MS:
                    yield b": nothing new\n\n"
                    said_ms = clock.monotonic_ms()
                if cursor >= len(self._tracer):
                    await self._pause(LOOK_MS * max(1, self._listeners // 2))
                else:
                    await self._pause(0)
        finally:
            self._listeners -= 1

    def _next_piece(
        self, cursor: int, kinds: Sequence[str], nodes: Sequence[str]
    ) -> tuple[int, bytes]:
        """The next events from a cursor on, and the cursor behind them.

        Pages listen to all events, and look one after the other: what one of them was sent is kept
        for the others for a while, so that ten pages cost little more than one.
        """
        if kinds or nodes:
            return self._new_piece(cursor, kinds, nodes, EVENTS_PER_TURN_MAX)
        if cursor in self._pieces:
            return self._pieces[cursor]
        # Up to where somebody else goes on, to go on with the same pieces.
        ends = (end for end, _ in self._pieces.values())
        ahead = min((end for end in ends if end > cursor), default=CURSOR_MAX)
        found = self._new_piece(cursor, (), (), min(EVENTS_PER_TURN_MAX, ahead - cursor))
        if found[0] > cursor:
            self._pieces[cursor] = found
            if len(self._pieces) > PIECES_MAX:
                del self._pieces[next(iter(self._pieces))]
        return found

    def _new_piece(
        self, cursor: int, kinds: Sequence[str], nodes: Sequence[str], count: int
    ) -> tuple[int, bytes]:
        tracer = self._tracer
        end = len(tracer)
        oldest = max(tracer.first, end - EVENTS_BEHIND_MAX)
        pieces = []
        if cursor < oldest:
            lost = msgspec.json.encode({"lost": oldest - cursor, "next": oldest})
            pieces.append(b"event: lost\ndata: %b\n\n" % lost)
            cursor = oldest
        names = tracer.nodes
        while len(self._names) < len(names):
            self._names.append(msgspec.json.encode(names[len(self._names)]))
        for index, line in enumerate(islice(tracer.lines(cursor), count), cursor):
            kind, node = _kind_and_node(line)
            if (kinds or nodes) and not _is_wanted(kind.decode(), names[node], kinds, nodes):
                continue
            pieces.append(
                b'id: %d\nevent: %b\ndata: {"node":%b,%b\n\n'
                % (index, kind, self._names[node], line[1:])
            )
        return max(cursor, min(cursor + count, end)), b"".join(pieces)

    async def _pause(self, ms: int) -> None:
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timer = self._environment.clock.call_later(
            ms, lambda: None if over.done() else over.set_result(None)
        )
        try:
            await over
        finally:
            timer.cancel()


def _kind_and_node(line: bytes) -> tuple[bytes, int]:
    """Of an encoded event, whose columns stand in the order of ``trace.Event``."""
    _, _, node, _, _, kind, *_ = line.split(b',"', 6)
    return kind.split(b'"', 3)[2], int(node[len(b'n":') :])


def _is_wanted(kind: str, node: str, kinds: Sequence[str], nodes: Sequence[str]) -> bool:
    return (not kinds or any(_is_within(kind, wanted, ".") for wanted in kinds)) and (
        not nodes or any(_is_within(node, wanted, "/") for wanted in nodes)
    )


def _is_within(name: str, wanted: str, separator: str) -> bool:
    return name == wanted or name.startswith(wanted + separator)

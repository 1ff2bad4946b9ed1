"""The trace through the control port, whole and as it grows."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, contextmanager
from types import FrameType
from typing import Any

import httpx
import msgpack
import msgspec
import pytest
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Message

from tests.support.clusters import VirtualCluster, run_cluster
from tests.support.control_port import run_story
from tests.support.within_environment import within
from txnsim.client.producer import Producer
from txnsim.http import _events as events_module
from txnsim.http._events import (
    EVENTS_BEHIND_MAX,
    EVENTS_PER_TURN_MAX,
    LISTENERS_MAX,
    SILENCE_MS,
    EventRoutes,
    SimulatedTraceRoutes,
)
from txnsim.http.replies import RefusedError
from txnsim.runtime._trace_encodings import TraceRows
from txnsim.runtime.trace import TraceLevel, Tracer


@within(run_story)
async def test_the_trace_comes_as_json_lines(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    tracer = cluster.sim.environment.tracer
    tracer.level = TraceLevel.BRIEF
    tracer.emit("note", "test", data={"text": "here"})
    answer = await client.get("/api/v1/trace")
    assert answer.headers["content-type"].startswith("application/x-ndjson")
    lines = [msgspec.json.decode(line) for line in answer.text.splitlines()]
    assert lines[0]["k"] == "run"
    assert lines[-1]["k"] == "end"
    assert lines[-1]["events"] == len(lines) - 2 > 0


@within(run_cluster)
async def test_a_large_trace_comes_in_pieces_and_brokers_get_their_turn_after_each(
    cluster: VirtualCluster,
) -> None:
    routes = routes_of(cluster)
    for number in range(20_000):
        emit_note(cluster, str(number) + 100 * ".")
    tracer = cluster.env.tracer
    written_hash, turn_count = tracer.hash, 0

    async def take_turns() -> None:
        nonlocal turn_count
        while True:
            turn_count += 1
            emit_note(cluster, "meanwhile")
            await asyncio.sleep(0)

    response = await routes.trace(request())
    assert isinstance(response, StreamingResponse)
    other_turns_task = cluster.env.tasks.spawn(take_turns(), name="turns")
    chunks: list[bytes] = []
    turns_seen = []
    async with aclosing(response.body_iterator) as body:  # type: ignore[type-var]
        async for chunk in body:
            chunks.append(bytes(chunk))  # type: ignore[arg-type]
            turns_seen.append(turn_count)
    other_turns_task.cancel()
    assert max(map(len, chunks)) < 200_000
    assert len(chunks) > 20
    assert turns_seen == sorted(set(turns_seen)), "a turn after each piece"
    *events, trailer = [msgspec.json.decode(line) for line in b"".join(chunks).splitlines()][1:]
    assert trailer["hash"] == written_hash, "what happens meanwhile is not in it"
    assert [event["i"] for event in events] == list(range(trailer["events"]))


# As it grows


def request(query: str = "", **headers: str) -> Request:
    return Request(
        {
            "type": "http",
            "method": "GET",
            "path": "/api/v1/events",
            "query_string": query.encode(),
            "headers": [
                (header_name.replace("_", "-").encode(), header_value.encode())
                for header_name, header_value in headers.items()
            ],
        }
    )


async def events_from(
    routes: EventRoutes, query: str = "", **headers: str
) -> AsyncGenerator[bytes, None]:
    response = await routes.stream(request(query, **headers))
    assert isinstance(response, StreamingResponse)
    async with aclosing(response.body_iterator) as chunks:  # type: ignore[type-var]
        async for chunk in chunks:
            yield bytes(chunk)  # type: ignore[arg-type]


def events_of(chunk: bytes) -> list[tuple[str, Any]]:
    events = []
    for block in chunk.decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if line[0] != ":")
        if fields:
            events.append((fields["event"], msgspec.json.decode(fields["data"])))
    return events


async def events_heard(stream: AsyncIterator[bytes], count: int) -> list[tuple[str, Any]]:
    events: list[tuple[str, Any]] = []
    while len(events) < count:
        events += events_of(await anext(stream))
    return events


def routes_of(cluster: VirtualCluster, trace_level: TraceLevel = TraceLevel.BRIEF) -> EventRoutes:
    cluster.sim.environment.tracer.level = trace_level
    return SimulatedTraceRoutes(cluster.sim)


def tracer_lines(cluster: VirtualCluster, from_index: int) -> list[bytes]:
    return list(cluster.sim.environment.tracer.lines(from_index))


def emit_note(cluster: VirtualCluster, text: str, node_name: str = "test") -> int:
    return cluster.sim.environment.tracer.emit("note", node_name, data={"text": text})


@within(run_cluster)
async def test_a_listener_hears_what_happens_from_now_on(cluster: VirtualCluster) -> None:
    routes = routes_of(cluster)
    emit_note(cluster, "before")
    async with aclosing(events_from(routes)) as stream:
        assert await anext(stream) == b": connected\n\n"
        event_id = emit_note(cluster, "now")
        ((event_kind, event),) = await events_heard(stream, 1)
        assert event_kind == "note"
        assert (event["i"], event["node"], event["d"]) == (event_id, "test", {"text": "now"})
        (line,) = tracer_lines(cluster, event_id)
        assert event == {"node": "test", **msgspec.json.decode(line)}, "the line as it was encoded"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("kind=note", ["one", "two", "three"]),
        ("kind=fault&kind=note", ["one", "two", "three"]),
        ("node=broker/1", ["one", "two"]),
        ("node=broker/1/txn/7", ["two"]),
        ("node=broker/1&node=broker/11", ["one", "two", "three"]),
    ],
)
@within(run_cluster)
async def test_a_listener_chooses_kinds_and_nodes(
    cluster: VirtualCluster, query: str, expected: list[str]
) -> None:
    routes = routes_of(cluster)
    cluster.sim.environment.tracer.emit("fault.arm", "elsewhere", data={})
    emit_note(cluster, "one", "broker/1")
    emit_note(cluster, "two", "broker/1/txn/7")
    emit_note(cluster, "three", "broker/11")
    async with aclosing(events_from(routes, f"{query}&from=0")) as stream:
        await anext(stream)
        events = await events_heard(stream, len(expected))
        assert [
            event["d"]["text"] for event_kind, event in events if event_kind == "note"
        ] == expected


@within(run_cluster)
async def test_ten_thousand_names_make_an_event_no_dearer(cluster: VirtualCluster) -> None:
    call_counts = []
    for name_count in (1, 10_000):
        routes = routes_of(cluster)
        query = "".join(f"&node=x{number}" for number in range(name_count))
        async with aclosing(events_from(routes, f"node=wanted&kind=note{query}")) as stream:
            await anext(stream)
            for _ in range(200):
                emit_note(cluster, "other", "broker/1/txn/7")
            emit_note(cluster, "here", "wanted")
            with counted_calls() as calls:
                ((_, event),) = await events_heard(stream, 1)
        assert event["node"] == "wanted"
        call_counts.append(calls[events_module.__file__])
    assert 200 < call_counts[0] <= call_counts[1] < 1.5 * call_counts[0], call_counts


@contextmanager
def counted_calls() -> Iterator[Counter[str]]:
    """How often functions and generators are entered or resumed, by the file of their code."""
    calls: Counter[str] = Counter()

    def count_call(frame: FrameType, event: str, _arg: object) -> None:
        if event == "call":
            calls[frame.f_code.co_filename] += 1

    profile_before = sys.getprofile()
    sys.setprofile(count_call)
    try:
        yield calls
    finally:
        sys.setprofile(profile_before)


class Page:
    """Decodes the packed stream of events as the page does (page/static/rows.js)."""

    def __init__(self, routes: EventRoutes) -> None:
        self.routes = routes
        self.events: list[dict[str, Any]] = []
        self.lost = 0
        self._start_ns: int | None = None
        self._nodes: list[str] = []

    async def hear(self, query: str, until: int) -> None:
        """Read the stream until the event at position ``until`` has come."""
        self._nodes = []  # a stream tells them all
        response = await self.routes.packed(request(query))
        assert isinstance(response, StreamingResponse)
        assert response.media_type == "application/vnd.msgpack"
        async with aclosing(response.body_iterator) as chunks:  # type: ignore[type-var]
            async for chunk in chunks:
                for msgpack_value in msgpack_values(bytes(chunk)):  # type: ignore[arg-type]
                    self._take_events(msgpack_value)
                if self.events and self.events[-1]["i"] >= until:
                    return

    def _take_events(self, value: Any) -> None:
        if isinstance(value, dict):
            self._start_ns = value.get("start_ns", self._start_ns)
            self._nodes += value.get("nodes", ())
            self.lost += value.get("lost", 0)
            return
        first_id, rows = value
        packed_rows = msgspec.msgpack.encode([row[:7] for row in rows])
        clocks = [row[7:] for row in rows]
        lines = TraceRows(self._start_ns).lines(packed_rows, first_id).splitlines()
        for line, clock in zip(lines, clocks, strict=True):
            event = msgspec.json.decode(line)
            if clock:
                (event["l"],) = clock
            self.events.append({"node": self._nodes[event["n"]], **event})


def msgpack_values(chunk: bytes) -> list[Any]:
    unpacker = msgpack.Unpacker(strict_map_key=False)
    unpacker.feed(chunk)
    return list(unpacker)


@pytest.mark.parametrize("ring_bytes", [None, 1 << 20])
@within(run_cluster)
async def test_a_page_makes_the_lines_of_the_trace_of_what_it_is_sent(
    cluster: VirtualCluster, ring_bytes: int | None
) -> None:
    now_us = cluster.env.clock.monotonic_us
    tracer = Tracer(now_us, start_ns=None if ring_bytes is None else 5_000, ring_bytes=ring_bytes)
    tracer.level = TraceLevel.FULL
    cluster.env.tracer = tracer
    routes = EventRoutes(cluster.env)
    event_before = -1
    for number in range(700):
        tx = ("", "app/7:1", ("app", 7, 1))[number % 3]
        event_before = tracer.emit(
            "note",
            f"node/{number // 100}",
            parents=(event_before, event_before - 300),
            tx=tx,
            data={"text": str(number)} if number % 5 else None,
            importance=2 if number % 7 else None,
        )
    page = Page(routes)
    await page.hear("from=10", until=600)
    tracer.emit("note", "node/new")
    await page.hear(f"from={page.events[-1]['i'] + 1}", until=700)
    names = tracer.nodes
    traced_events = [msgspec.json.decode(line) for line in tracer.lines(0)]
    first_id = page.events[0]["i"]
    assert first_id <= 10, "a batch is sent whole"
    assert page.events == [
        {"node": names[event["n"]], **event} for event in traced_events[first_id:]
    ]


@within(run_cluster)
async def test_a_slow_page_is_told_how_many_events_it_has_lost(cluster: VirtualCluster) -> None:
    routes = routes_of(cluster)
    for number in range(EVENTS_BEHIND_MAX + 7):
        emit_note(cluster, str(number))
    page = Page(routes)
    oldest_index = len(cluster.sim.environment.tracer) - EVENTS_BEHIND_MAX
    await page.hear("from=0", until=oldest_index)
    assert page.lost == oldest_index
    assert page.events[0]["i"] <= oldest_index


@within(run_cluster)
async def test_a_page_in_a_silent_cluster_hears_that_the_stream_lives(
    cluster: VirtualCluster,
) -> None:
    response = await routes_of(cluster).packed(request())
    assert isinstance(response, StreamingResponse)
    async with aclosing(response.body_iterator) as chunks:  # type: ignore[type-var]
        pieces_read = [bytes(await anext(chunks)) for _ in range(3)]  # type: ignore[arg-type,call-overload]
    assert msgpack_values(b"".join(pieces_read))[-1] == {}


@within(run_cluster)
async def test_a_listener_goes_on_where_it_was_cut_off(cluster: VirtualCluster) -> None:
    routes = routes_of(cluster)
    first_event = emit_note(cluster, "first")
    emit_note(cluster, "second")
    async with aclosing(events_from(routes, last_event_id=str(first_event))) as stream:
        await anext(stream)
        assert [event["d"]["text"] for _, event in await events_heard(stream, 1)] == ["second"]


@within(run_cluster)
async def test_a_slow_listener_is_told_how_many_events_it_has_lost(cluster: VirtualCluster) -> None:
    routes = routes_of(cluster)
    async with aclosing(events_from(routes)) as stream:
        await anext(stream)
        for number in range(EVENTS_BEHIND_MAX + 7):
            emit_note(cluster, str(number))
        (event_kind, loss_notice), *events_after = await events_heard(stream, 2)
        assert (event_kind, loss_notice["lost"]) == ("lost", 7)
        assert events_after[0][1]["i"] == loss_notice["next"]
        assert len(events_after) <= EVENTS_PER_TURN_MAX, "brokers get their turn in between"
        events_after += await events_heard(stream, EVENTS_BEHIND_MAX - len(events_after))
        assert events_after[-1][1]["d"] == {"text": str(EVENTS_BEHIND_MAX + 6)}


@within(run_cluster)
async def test_silence_is_broken_by_a_comment(cluster: VirtualCluster) -> None:
    routes = routes_of(cluster)
    async with aclosing(events_from(routes, "kind=note")) as stream:
        await anext(stream)
        before_ms = cluster.env.clock.monotonic_ms()
        assert await anext(stream) == b": nothing new\n\n"
        assert cluster.env.clock.monotonic_ms() - before_ms >= SILENCE_MS


@within(run_cluster)
async def test_streams_end_with_the_control_port(cluster: VirtualCluster) -> None:
    routes = routes_of(cluster)
    async with aclosing(events_from(routes, "kind=note")) as stream:
        await anext(stream)
        routes.close()
        assert [chunk async for chunk in stream] == []


@pytest.mark.parametrize(
    ("query", "status"), [("kind=nothing", 422), ("kind=faul", 422), ("from=-1", 422)]
)
@within(run_cluster)
async def test_a_listener_that_asks_for_what_is_not_there_is_refused(
    cluster: VirtualCluster, query: str, status: int
) -> None:
    with pytest.raises(RefusedError) as error_info:
        await routes_of(cluster).stream(request(query))
    assert error_info.value.status == status


@within(run_cluster)
async def test_only_so_many_may_listen(cluster: VirtualCluster) -> None:
    routes = routes_of(cluster)
    streams = [events_from(routes) for _ in range(LISTENERS_MAX)]
    for stream in streams:
        await anext(stream)
    with pytest.raises(RefusedError, match="close one of them"):
        await routes.stream(request())
    for stream in streams:
        await stream.aclose()
    async with aclosing(events_from(routes)) as stream:
        await anext(stream)


@within(run_cluster)
async def test_who_is_admitted_counts_before_anything_is_sent(cluster: VirtualCluster) -> None:
    async def disconnect() -> Message:
        return {"type": "http.disconnect"}

    async def send_nowhere(_message: Message) -> None: ...

    routes = routes_of(cluster)
    responses = [await routes.stream(request()) for _ in range(LISTENERS_MAX - 1)]
    responses.append(await routes.packed(request()))
    for route in (routes.stream, routes.packed):
        with pytest.raises(RefusedError, match="close one of them"):
            await route(request())
    for response in responses:
        await response(request().scope, disconnect, send_nowhere)
    for _ in range(LISTENERS_MAX):
        await routes.stream(request())
    with pytest.raises(RefusedError, match="close one of them"):
        await routes.stream(request())


@within(run_story)
async def test_recording_is_switched_on_while_the_cluster_runs(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    refusal_answer = await client.get("/api/v1/events")
    assert refusal_answer.status_code == 409
    assert "POST /api/v1/trace" in refusal_answer.json()["error"]
    assert (await client.post("/api/v1/trace", json={"level": "loud"})).status_code == 422
    state = (await client.post("/api/v1/trace", json={"level": "full"})).json()
    assert (state["level"], state["listeners"]) == ("full", 0)
    async with cluster.client() as app_cluster, Producer(app_cluster) as producer:
        await producer.send("orders", 0, b"v")
    later_state = (await client.post("/api/v1/trace", json={"level": "off"})).json()
    assert later_state["next"] > state["next"]
    await asyncio.sleep(0)


@within(run_story)
async def test_what_a_user_does_through_the_control_port_is_an_input_and_a_cause(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    tracer = cluster.env.tracer
    tracer.level = TraceLevel.BRIEF
    event_count_before = len(tracer)
    rule = {"id": "f", "point": "client.request", "api": "EndTxn", "action": {"do": "hold"}}
    assert (await client.post("/api/v1/faults", json=rule)).status_code == 201
    assert (await client.post("/api/v1/faults/f/release")).status_code == 200
    assert (await client.delete("/api/v1/faults/f")).status_code == 200
    assert (await client.delete("/api/v1/faults")).status_code == 200
    topic = {"name": "more", "partitions": 1, "configs": {"cleanup.policy": "compact"}}
    assert (await client.post("/api/v1/topics", json=topic)).status_code == 201
    leader = cluster.sim.metadata.image.topics["orders"].partitions[0].leader
    other_broker = next(broker_id for broker_id in cluster.sim.brokers if broker_id != leader)
    move = {"topic": "orders", "partition": 0, "leader": other_broker}
    assert (await client.post("/api/v1/leaders", json=move)).status_code == 200
    elect = {"topic": "orders", "partition": 0, "type": "preferred"}
    assert (await client.post("/api/v1/elections", json=elect)).status_code == 200
    assert (await client.delete("/api/v1/topics/more")).status_code == 200
    events: list[Any] = list(tracer.events(event_count_before))
    inputs = {event.i: event for event in events if event.k == "input"}
    assert [input_event.d["do"] for input_event in inputs.values()] == [
        *("arm-fault", "release-fault", "disarm-fault", "disarm-faults", "create-topic"),
        *("move-leader", "elect-leader", "delete-topic"),
    ]
    armed, *_, create_event, _, _, _ = inputs.values()
    assert armed.d["args"]["rule"]["action"] == {"do": "hold"}
    assert create_event.d["args"]["configs"] == {"cleanup.policy": "compact"}
    assert all(input_event.p == () for input_event in inputs.values())
    due = {
        (inputs[cause].d["do"], event.k) for event in events for cause in event.p if cause in inputs
    }
    assert {("arm-fault", "fault.arm"), ("disarm-fault", "fault.release")} <= due
    assert {("create-topic", "node.role"), ("move-leader", "node.role")} <= due
    assert ("elect-leader", "node.role") in due

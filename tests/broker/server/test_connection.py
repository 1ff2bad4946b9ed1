"""One connection: frames good and bad, order, faults, and that no neighbour is ever disturbed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.support.clusters import VirtualCluster, run_cluster
from tests.support.wires import API_VERSIONS, METADATA, Wire
from tests.support.within import within
from txnsim.api.registry import ADVERTISED, HANDLERS, SHIPPED
from txnsim.api.request import ApiTable, Request, no_subject
from txnsim.client.fetching import fetch
from txnsim.errors import ErrorCode
from txnsim.faults.actions import Delay, Drop, Fail, Hold
from txnsim.faults.plan import Action
from txnsim.faults.points import FaultPoint
from txnsim.runtime.trace import TraceLevel
from txnsim.server._listener import Door
from txnsim.types import IsolationLevel, TopicPartition

E = ErrorCode
UNKNOWN = TopicPartition("no-such-topic", 0)
REQUEST, RESPONSE = FaultPoint.CLIENT_REQUEST, FaultPoint.CLIENT_RESPONSE

Story = Callable[[VirtualCluster, Wire], Awaitable[None]]


def run(story: Story, *, told_on: Any = run_cluster, **changes: Any) -> None:
    """Tell a story with one connection to the leader of orders-0; whatever happens to it, a
    neighbour that was there before is served as before.
    """

    async def main(cluster: VirtualCluster) -> None:
        neighbour = await open_wire(cluster, client_id="neighbour")
        wire = await open_wire(cluster)
        await story(cluster, wire)
        neighbour.send(neighbour.metadata())
        assert (await neighbour.answer())[0] == 1
        await neighbour.close()
        await wire.close()

    told_on(main, **changes)


async def open_wire(cluster: VirtualCluster, *, client_id: str = "wire") -> Wire:
    return await Wire.open(*cluster.address(first()), client_id=client_id)


def first() -> TopicPartition:
    return TopicPartition("orders", 0)


async def appended(cluster: VirtualCluster) -> int:
    """How many records orders-0 has, asked over the wire."""
    async with cluster.client("counter") as client:
        result = await fetch(
            client, "orders", 0, 0, isolation=IsolationLevel.READ_UNCOMMITTED, max_wait_ms=0
        )
        return len(result.records)


# Frames


@within(run)
async def test_a_request_may_come_byte_by_byte(cluster: VirtualCluster, wire: Wire, /) -> None:
    for byte in wire.metadata():
        wire.send(bytes([byte]))
        await asyncio.sleep(0.001)
    assert (await wire.answer())[0] == 1


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(lambda wire: (2_000).to_bytes(4, "big"), id="oversized"),
        pytest.param(lambda wire: b"\xff\xff\xff\xff", id="negative size"),
        pytest.param(lambda wire: b"\x00\x00\x00\x02\x00\x03", id="shorter than a header"),
        pytest.param(lambda wire: b"GET / HTTP/1.1\r\n\r\n", id="another protocol"),
        pytest.param(lambda wire: raw(999, 0), id="unknown API"),
        pytest.param(lambda wire: raw(METADATA, 99), id="version from the future"),
        pytest.param(lambda wire: raw(0, 2), id="version no longer served"),
        pytest.param(lambda wire: raw(METADATA, 1, b"\x7f\xff\xff\xff"), id="absurd length"),
        pytest.param(lambda wire: raw(26, 5), id="no body"),
    ],
)
@within(run, socket_request_max_bytes=1_000)
async def test_a_bad_frame_closes_its_connection_and_no_other(
    cluster: VirtualCluster, wire: Wire, /, bad: Callable[[Wire], bytes]
) -> None:
    wire.send(bad(wire))
    assert await wire.closed()


def raw(api_key: int, api_version: int, body: bytes = b"") -> bytes:
    head = api_key.to_bytes(2, "big") + api_version.to_bytes(2, "big") + bytes(4) + b"\xff\xff"
    return (len(head) + len(body)).to_bytes(4, "big") + head + body


@within(run)
async def test_a_frame_that_is_torn_off_is_forgotten(
    cluster: VirtualCluster, wire: Wire, /
) -> None:
    wire.send(wire.metadata()[:-3])
    await wire.close()


@within(run)
async def test_what_was_asked_before_a_bad_frame_is_answered(
    cluster: VirtualCluster, wire: Wire, /
) -> None:
    wire.send(wire.metadata() + raw(999, 0))
    assert (await wire.answer())[0] == 1
    assert await wire.closed()


@pytest.mark.parametrize("body", [b"\x00", b"\x00whatever a newer client says"])
@within(run)
async def test_api_versions_of_the_future_is_answered_in_version_0(
    cluster: VirtualCluster, wire: Wire, /, body: bytes
) -> None:
    wire.expect(API_VERSIONS, 0)
    head = bytes((0, API_VERSIONS, 0, 99)) + (1).to_bytes(4, "big") + b"\xff\xff"
    wire.send((len(head) + len(body)).to_bytes(4, "big") + head + body)
    _, message = await wire.answer()
    assert message.error_code == E.unsupported_version
    found = {row.api_key: (row.min_version, row.max_version) for row in message.api_keys}
    assert found[API_VERSIONS] == ADVERTISED[API_VERSIONS]
    wire.send(wire.metadata())
    assert (await wire.answer())[0] == 2, "the connection goes on"


# Order


@within(run)
async def test_pipelined_requests_are_answered_in_order(
    cluster: VirtualCluster, wire: Wire, /
) -> None:
    wire.send(b"".join(wire.metadata() for _ in range(50)))
    assert [(await wire.answer())[0] for _ in range(50)] == list(range(1, 51))


@within(run)
async def test_a_request_that_waits_keeps_the_later_ones_of_its_connection_waiting(
    cluster: VirtualCluster, wire: Wire, /
) -> None:
    cluster.arm(Hold(), REQUEST, client_id="wire", limit=1)
    wire.send(wire.produce(first()) + wire.metadata() + wire.produce(first()))
    await cluster.struck()
    assert await wire.silent_for(60)
    cluster.sim.injector.release("f")
    assert [(await wire.answer())[0] for _ in range(3)] == [1, 2, 3]
    assert await appended(cluster) == 2


# Connections that end


@within(run)
async def test_a_held_request_outlives_its_connection(
    cluster: VirtualCluster, wire: Wire, /
) -> None:
    """What has been read belongs to the broker: it runs on release, its answer is thrown away."""
    cluster.arm(Hold(), REQUEST, client_id="wire", limit=1)
    wire.send(wire.produce(first()) + wire.produce(first()))
    await cluster.struck()
    await wire.close()
    await asyncio.sleep(1)
    assert await appended(cluster) == 0
    cluster.sim.injector.release("f")
    await asyncio.sleep(1)
    assert await appended(cluster) == 1, "what only waited in the buffer is forgotten"


@within(run)
async def test_a_connection_may_end_while_its_answer_is_held(
    cluster: VirtualCluster, wire: Wire, /
) -> None:
    cluster.arm(Hold(), RESPONSE, client_id="wire")
    wire.send(wire.produce(first()))
    await cluster.struck()
    await wire.close()
    await asyncio.sleep(1)
    cluster.sim.injector.disarm("f")
    await asyncio.sleep(1)
    assert await appended(cluster) == 1


# acks=0


@within(run)
async def test_acks_0_is_never_answered_and_the_connection_goes_on(
    cluster: VirtualCluster, wire: Wire, /
) -> None:
    wire.send(wire.produce(first(), acks=0) + wire.metadata())
    assert (await wire.answer())[0] == 2
    assert await appended(cluster) == 1


@within(run, auto_create_topics_enable=False)
async def test_acks_0_that_fails_closes_the_connection(
    cluster: VirtualCluster, wire: Wire, /
) -> None:
    wire.send(wire.metadata() + wire.produce(UNKNOWN, acks=0) + wire.metadata())
    assert (await wire.answer())[0] == 1
    assert await wire.closed()


# Faults


@pytest.mark.parametrize(
    ("point", "action", "records", "answered"),
    [
        (REQUEST, Delay(delay_ms=5_000), 1, E.none),
        (REQUEST, Fail(error="NOT_LEADER_OR_FOLLOWER"), 0, E.not_leader_or_follower),
        (REQUEST, Drop(), 0, None),
        (RESPONSE, Delay(delay_ms=5_000), 1, E.none),
        (RESPONSE, Fail(error="REQUEST_TIMED_OUT"), 1, E.request_timed_out),
        (RESPONSE, Drop(), 1, None),
    ],
)
@within(run)
async def test_a_fault_strikes_the_request_before_or_after_its_effect(
    cluster: VirtualCluster,
    wire: Wire,
    /,
    point: FaultPoint,
    action: Action,
    records: int,
    answered: ErrorCode | None,
) -> None:
    cluster.arm(action, point, client_id="wire", api="Produce", limit=1)
    started_ms = cluster.env.clock.monotonic_ms()
    wire.send(wire.produce(first()) + wire.metadata())
    if answered is None:
        assert await wire.silent_for(60), "later requests of the connection wait for ever"
    else:
        _, message = await wire.answer()
        assert message.responses[0].partition_responses[0].error_code == answered
        took_ms = cluster.env.clock.monotonic_ms() - started_ms
        assert (took_ms >= 5_000) == isinstance(action, Delay)
        assert (await wire.answer())[0] == 2
    assert await appended(cluster) == records


@pytest.mark.parametrize(("point", "before"), [(REQUEST, 0), (RESPONSE, 1)])
@within(run)
async def test_a_hold_strikes_before_or_after_the_effect(
    cluster: VirtualCluster, wire: Wire, /, point: FaultPoint, before: int
) -> None:
    cluster.arm(Hold(), point, client_id="wire")
    wire.send(wire.produce(first()))
    await cluster.struck()
    assert await appended(cluster) == before
    cluster.sim.injector.disarm("f")
    assert (await wire.answer())[0] == 1
    assert await appended(cluster) == 1


@within(run)
async def test_a_fault_of_one_client_leaves_the_others_alone(
    cluster: VirtualCluster, wire: Wire, /
) -> None:
    cluster.arm(Drop(), REQUEST, client_id="somebody else")
    wire.send(wire.produce(first()))
    assert (await wire.answer())[0] == 1
    assert await appended(cluster) == 1


# Backpressure


@within(run, connection_queue_bytes=100_000)
async def test_a_client_that_sends_more_than_is_handled_is_not_read_for_a_while(
    cluster: VirtualCluster, wire: Wire, /
) -> None:
    cluster.arm(Hold(), REQUEST, client_id="wire", limit=1)
    wire.writer.transport.set_write_buffer_limits(high=50_000)
    frames = [wire.produce(first(), value=bytes(10_000)) for _ in range(100)]
    sent = 0
    for frame in frames:
        wire.send(frame)
        sent += 1
        try:
            async with asyncio.timeout(1):
                await wire.writer.drain()
        except TimeoutError:
            break
    assert sent < len(frames), "the writer had to wait: nobody reads any more"
    for frame in frames[sent:]:
        wire.send(frame)
    cluster.sim.injector.release("f")
    assert [(await wire.answer())[0] for _ in frames] == list(range(1, 101))
    assert await appended(cluster) > 0


# Bugs


def test_a_handler_that_fails_is_answered_and_its_connection_goes_on() -> None:
    async def fail(_request: Request) -> object:
        raise ZeroDivisionError("a bug")

    broken = HANDLERS[0].but(handle=fail, subject=no_subject)
    apis = ApiTable(
        listener=SHIPPED.listener,
        handlers={**HANDLERS, 0: broken},
        accepted=SHIPPED.accepted,
        advertised=SHIPPED.advertised,
    )

    async def story(cluster: VirtualCluster, _wire: Wire) -> None:
        door = await cluster.sim.listeners[0].bind(Door(host="127.0.0.1", port=0, apis=apis))
        wire = await Wire.open(door.host, door.port)
        wire.send(wire.produce(first()) + wire.metadata())
        _, message = await wire.answer()
        assert message.responses[0].partition_responses[0].error_code == E.unknown_server_error
        assert (await wire.answer())[0] == 2
        await wire.close()

    run(story)


# Trace


@within(run, trace_level=TraceLevel.BRIEF)
async def test_why_a_connection_is_closed_is_in_the_trace(
    cluster: VirtualCluster, wire: Wire, /
) -> None:
    wire.send(raw(999, 0))
    assert await wire.closed()
    found: list[Any] = list(cluster.env.tracer.events())
    (refused,) = (one for one in found if one.k == "conn.refuse")
    assert "999" in refused.d["reason"]


@within(run, trace_level=TraceLevel.FULL)
async def test_connections_and_requests_are_in_the_trace(
    cluster: VirtualCluster, wire: Wire, /
) -> None:
    wire.send(wire.produce(first()))
    await wire.answer()
    await wire.close()
    await asyncio.sleep(1)
    events: list[Any] = list(cluster.env.tracer.events())
    kinds = [event.k for event in events]
    assert {"conn.open", "msg.recv", "log.append", "conn.close"} <= set(kinds)
    (cause,) = events[kinds.index("log.append")].p
    received = next(event for event in events if event.i == cause)
    assert (received.k, received.d["api"]) == ("msg.recv", "Produce"), "the request is the cause"
    answered = next(event for event in events if event.p[:1] == (cause,) and event.k[:3] == "msg")
    assert (answered.k, answered.d["response"]) == ("msg.send", True)
    assert "error" not in answered.d
    assert answered.d["correlation"] == received.d["correlation"]
    assert received.d["summary"] == str(first())
    assert received.d["bytes"] > answered.d["bytes"] > 0
    assert received.p == (), "a foreign client's request is a root"
    assert "client/wire" in cluster.env.tracer.nodes


@within(run, trace_level=TraceLevel.BRIEF)
async def test_brief_tells_of_answers_only_where_they_carry_an_error(
    cluster: VirtualCluster, wire: Wire, /
) -> None:
    wire.send(wire.produce(first()))
    await wire.answer()
    wire.send(wire.produce(TopicPartition("nowhere", 0)))
    await wire.answer()
    events: list[Any] = list(cluster.env.tracer.events())
    (answered,) = [one for one in events if one.k == "msg.send"]
    assert answered.d["error"] == "UNKNOWN_TOPIC_OR_PARTITION"
    (asked,) = [one for one in events if one.i == answered.p[-1]]
    assert (asked.k, asked.d["correlation"]) == ("msg.recv", answered.d["correlation"])


@pytest.mark.parametrize("action", [Fail(error="INVALID_REQUEST"), Hold()])
@within(run, trace_level=TraceLevel.BRIEF)
async def test_a_rule_that_is_armed_while_a_traced_request_waits_strikes_its_answer(
    cluster: VirtualCluster,
    wire: Wire,
    /,
    action: Action,
) -> None:
    tracer = cluster.env.tracer
    wire.send(wire.produce(first(), acks=-1))
    while not any(one.k == "log.append" for one in tracer.events()):  # noqa: ASYNC110 - no event is set
        await asyncio.sleep(0.000_01)
    cluster.arm(action, RESPONSE, client_id="wire")
    if isinstance(action, Hold):
        await asyncio.sleep(1)
        assert [one.k for one in tracer.events()].count("msg.hold") == 1
        cluster.sim.injector.disarm("f")
    assert (await wire.answer())[0] == 1
    events: list[Any] = list(tracer.events())
    (answered,) = [one for one in events if one.k == "msg.send" and "error" in one.d] or [None]
    assert (answered is None) == isinstance(action, Hold)


@within(run, trace_level=TraceLevel.FULL)
async def test_the_trace_has_the_errors_of_an_answer_and_no_answer_where_none_is_wanted(
    cluster: VirtualCluster, wire: Wire, /
) -> None:
    wire.send(wire.produce(TopicPartition("nowhere", 0)))
    await wire.answer()
    wire.send(wire.produce(first(), acks=0))
    wire.send(wire.metadata())
    await wire.answer()
    events: list[Any] = list(cluster.env.tracer.events())
    asked = [one.d["api"] for one in events if one.k == "msg.recv" and "response" not in one.d]
    answers = [
        (one.d["api"], one.d.get("error", ""))
        for one in events
        if one.k == "msg.send" and one.d["peer"] == "client/wire"
    ]
    assert asked[-3:] == ["Produce", "Produce", "Metadata"]
    assert answers == [("Produce", "UNKNOWN_TOPIC_OR_PARTITION"), ("Metadata", "")]

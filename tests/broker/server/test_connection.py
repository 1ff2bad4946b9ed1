"""A connection: frames good and bad, order, bounds, and what the request log says."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from types import SimpleNamespace
from typing import Any
from unittest.mock import create_autospec

import pytest
import structlog
from structlog.contextvars import merge_contextvars
from structlog.testing import LogCapture

from tests.support.clusters import VirtualCluster, begin_transaction, run_cluster
from tests.support.raw_connection import API_VERSIONS, METADATA, WireClient
from tests.support.within_environment import within
from txnsim.api.registry import ADVERTISED, HANDLERS, SHIPPED
from txnsim.api.request import ApiTable, NoResponse, Request, no_subject
from txnsim.client.admin import Admin
from txnsim.client.fetching import fetch
from txnsim.errors import ErrorCode
from txnsim.faults.actions import Delay, Drop, DropAnswer, Fail, Hold
from txnsim.faults.plan import Action
from txnsim.faults.points import FaultPoint
from txnsim.faults.subjects import Subject
from txnsim.runtime.loop_turns import READ_BYTES, Turns
from txnsim.runtime.trace import TraceLevel
from txnsim.server._connection import FRAME_BYTES, LARGE_BYTES, Intake
from txnsim.server._listener import Endpoint
from txnsim.server._outbox import (
    PART_BYTES,
    PARTS_PER_TURN,
    UNJOINED_FROM_BYTES,
    AnswerSender,
    HeldBytes,
    Outbox,
    ParkedAnswers,
)
from txnsim.server.request_trace import SUMMARY_PARTITIONS_MAX, summary_of, tx_of
from txnsim.types import IsolationLevel, TopicPartition

# One connection: frames good and bad, order, faults, and that no neighbour is ever disturbed.


E = ErrorCode
UNKNOWN = TopicPartition("no-such-topic", 0)
REQUEST, RESPONSE = FaultPoint.CLIENT_REQUEST, FaultPoint.CLIENT_RESPONSE

Story = Callable[[VirtualCluster, WireClient], Awaitable[None]]


def run(story: Story, *, told_on: Any = run_cluster, **config_changes: Any) -> None:
    """Tell a story with one connection to the leader of orders-0; whatever happens to it, a
    neighbour that was there before is served as before.
    """

    async def main(cluster: VirtualCluster) -> None:
        neighbouring_client = await open_wire(cluster, client_id="neighbour")
        wire = await open_wire(cluster)
        await story(cluster, wire)
        neighbouring_client.send(neighbouring_client.metadata())
        assert (await neighbouring_client.answer())[0] == 1
        await neighbouring_client.close()
        await wire.close()

    told_on(main, **config_changes)


async def open_wire(cluster: VirtualCluster, *, client_id: str = "wire") -> WireClient:
    return await WireClient.open(*cluster.address(first_partition()), client_id=client_id)


def first_partition() -> TopicPartition:
    return TopicPartition("orders", 0)


async def count_records(cluster: VirtualCluster) -> int:
    """How many records orders-0 has, asked over the wire."""
    async with cluster.client("counter") as client:
        result = await fetch(
            client, "orders", 0, 0, isolation=IsolationLevel.READ_UNCOMMITTED, max_wait_ms=0
        )
        return len(result.records)


# Frames


@within(run)
async def test_a_request_may_come_byte_by_byte(
    cluster: VirtualCluster, wire: WireClient, /
) -> None:
    for byte in wire.metadata():
        wire.send(bytes([byte]))
        await asyncio.sleep(0.001)
    assert (await wire.answer())[0] == 1


@pytest.mark.parametrize(
    "bad_frame",
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
    cluster: VirtualCluster, wire: WireClient, /, bad_frame: Callable[[WireClient], bytes]
) -> None:
    wire.send(bad_frame(wire))
    assert await wire.is_closed_by_broker()


def raw(api_key: int, api_version: int, body: bytes = b"") -> bytes:
    head = api_key.to_bytes(2, "big") + api_version.to_bytes(2, "big") + bytes(4) + b"\xff\xff"
    return (len(head) + len(body)).to_bytes(4, "big") + head + body


@within(run)
async def test_a_frame_that_is_torn_off_is_forgotten(
    cluster: VirtualCluster, wire: WireClient, /
) -> None:
    wire.send(wire.metadata()[:-3])
    await wire.close()


@within(run)
async def test_what_was_asked_before_a_bad_frame_is_answered(
    cluster: VirtualCluster, wire: WireClient, /
) -> None:
    wire.send(wire.metadata() + raw(999, 0))
    assert (await wire.answer())[0] == 1
    assert await wire.is_closed_by_broker()


@pytest.mark.parametrize("body", [b"\x00", b"\x00whatever a newer client says"])
@within(run)
async def test_api_versions_of_the_future_is_answered_in_version_0(
    cluster: VirtualCluster, wire: WireClient, /, body: bytes
) -> None:
    wire.expect(API_VERSIONS, 0)
    head = bytes((0, API_VERSIONS, 0, 99)) + (1).to_bytes(4, "big") + b"\xff\xff"
    wire.send((len(head) + len(body)).to_bytes(4, "big") + head + body)
    _, message = await wire.answer()
    assert message.error_code == E.unsupported_version
    version_ranges = {row.api_key: (row.min_version, row.max_version) for row in message.api_keys}
    assert version_ranges[API_VERSIONS] == ADVERTISED[API_VERSIONS]
    wire.send(wire.metadata())
    assert (await wire.answer())[0] == 2, "the connection goes on"


# Order


@within(run)
async def test_pipelined_requests_are_answered_in_order(
    cluster: VirtualCluster, wire: WireClient, /
) -> None:
    wire.send(b"".join(wire.metadata() for _ in range(50)))
    assert [(await wire.answer())[0] for _ in range(50)] == list(range(1, 51))


@within(run)
async def test_a_request_that_waits_keeps_the_later_ones_of_its_connection_waiting(
    cluster: VirtualCluster, wire: WireClient, /
) -> None:
    cluster.arm(Hold(), REQUEST, client_id="wire", limit=1)
    wire.send(wire.produce(first_partition()) + wire.metadata() + wire.produce(first_partition()))
    await cluster.wait_until_struck()
    assert await wire.silent_for(60)
    cluster.sim.injector.release("f")
    assert [(await wire.answer())[0] for _ in range(3)] == [1, 2, 3]
    assert await count_records(cluster) == 2


# Connections that end


@within(run)
async def test_a_held_request_outlives_its_connection(
    cluster: VirtualCluster, wire: WireClient, /
) -> None:
    """What has been read belongs to the broker: it runs on release, its answer is thrown away."""
    cluster.arm(Hold(), REQUEST, client_id="wire", limit=1)
    wire.send(wire.produce(first_partition()) + wire.produce(first_partition()))
    await cluster.wait_until_struck()
    await wire.close()
    await asyncio.sleep(1)
    assert await count_records(cluster) == 0
    cluster.sim.injector.release("f")
    await asyncio.sleep(1)
    assert await count_records(cluster) == 1, "what only waited in the buffer is forgotten"


@within(run)
async def test_a_connection_may_end_while_its_answer_is_held(
    cluster: VirtualCluster, wire: WireClient, /
) -> None:
    cluster.arm(Hold(), RESPONSE, client_id="wire")
    wire.send(wire.produce(first_partition()))
    await cluster.wait_until_struck()
    await wire.close()
    await asyncio.sleep(1)
    cluster.sim.injector.disarm("f")
    await asyncio.sleep(1)
    assert await count_records(cluster) == 1


# acks=0


@within(run)
async def test_acks_0_is_never_answered_and_the_connection_goes_on(
    cluster: VirtualCluster, wire: WireClient, /
) -> None:
    wire.send(wire.produce(first_partition(), acks=0) + wire.metadata())
    assert (await wire.answer())[0] == 2
    assert await count_records(cluster) == 1


@within(run, auto_create_topics_enable=False)
async def test_acks_0_that_fails_closes_the_connection(
    cluster: VirtualCluster, wire: WireClient, /
) -> None:
    wire.send(wire.metadata() + wire.produce(UNKNOWN, acks=0) + wire.metadata())
    assert (await wire.answer())[0] == 1
    assert await wire.is_closed_by_broker()


# Faults


@pytest.mark.parametrize(
    ("point", "action", "record_count", "answer_error"),
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
    wire: WireClient,
    /,
    point: FaultPoint,
    action: Action,
    record_count: int,
    answer_error: ErrorCode | None,
) -> None:
    cluster.arm(action, point, client_id="wire", api="Produce", limit=1)
    started_ms = cluster.env.clock.monotonic_ms()
    wire.send(wire.produce(first_partition()) + wire.metadata())
    if answer_error is None:
        assert await wire.silent_for(60), "later requests of the connection wait for ever"
    else:
        _, message = await wire.answer()
        assert message.responses[0].partition_responses[0].error_code == answer_error
        took_ms = cluster.env.clock.monotonic_ms() - started_ms
        assert (took_ms >= 5_000) == isinstance(action, Delay)
        assert (await wire.answer())[0] == 2
    assert await count_records(cluster) == record_count


@pytest.mark.parametrize(("point", "record_count_before"), [(REQUEST, 0), (RESPONSE, 1)])
@within(run)
async def test_a_hold_strikes_before_or_after_the_effect(
    cluster: VirtualCluster, wire: WireClient, /, point: FaultPoint, record_count_before: int
) -> None:
    cluster.arm(Hold(), point, client_id="wire")
    wire.send(wire.produce(first_partition()))
    await cluster.wait_until_struck()
    assert await count_records(cluster) == record_count_before
    cluster.sim.injector.disarm("f")
    assert (await wire.answer())[0] == 1
    assert await count_records(cluster) == 1


@within(run)
async def test_a_fault_of_one_client_leaves_the_others_alone(
    cluster: VirtualCluster, wire: WireClient, /
) -> None:
    cluster.arm(Drop(), REQUEST, client_id="somebody else")
    wire.send(wire.produce(first_partition()))
    assert (await wire.answer())[0] == 1
    assert await count_records(cluster) == 1


# Backpressure


@within(run, connection_queue_bytes=100_000)
async def test_a_client_that_sends_more_than_is_handled_is_not_read_for_a_while(
    cluster: VirtualCluster, wire: WireClient, /
) -> None:
    cluster.arm(Hold(), REQUEST, client_id="wire", limit=1)
    wire.writer.transport.set_write_buffer_limits(high=50_000)
    frames = [wire.produce(first_partition(), value=bytes(10_000)) for _ in range(100)]
    sent_count = 0
    for frame in frames:
        wire.send(frame)
        sent_count += 1
        try:
            async with asyncio.timeout(1):
                await wire.writer.drain()
        except TimeoutError:
            break
    assert sent_count < len(frames), "the writer had to wait: nobody reads any more"
    for frame in frames[sent_count:]:
        wire.send(frame)
    cluster.sim.injector.release("f")
    assert [(await wire.answer())[0] for _ in frames] == list(range(1, 101))
    assert await count_records(cluster) > 0


# Bugs


def test_a_handler_that_fails_is_answered_and_its_connection_goes_on() -> None:
    async def fail(_request: Request) -> object:
        raise ZeroDivisionError("a bug")

    broken_handler = HANDLERS[0].with_parts(handle=fail, subject=no_subject)
    apis = ApiTable(
        listener=SHIPPED.listener,
        handlers={**HANDLERS, 0: broken_handler},
        accepted=SHIPPED.accepted,
        advertised=SHIPPED.advertised,
    )

    async def story(cluster: VirtualCluster, _wire: WireClient) -> None:
        endpoint = await cluster.sim.listeners[0].bind(
            Endpoint(host="127.0.0.1", port=0, apis=apis)
        )
        wire = await WireClient.open(endpoint.host, endpoint.port)
        wire.send(wire.produce(first_partition()) + wire.metadata())
        _, message = await wire.answer()
        assert message.responses[0].partition_responses[0].error_code == E.unknown_server_error
        assert (await wire.answer())[0] == 2
        await wire.close()

    run(story)


# Trace


@within(run, trace_level=TraceLevel.BRIEF)
async def test_why_a_connection_is_closed_is_in_the_trace(
    cluster: VirtualCluster, wire: WireClient, /
) -> None:
    wire.send(raw(999, 0))
    assert await wire.is_closed_by_broker()
    events: list[Any] = list(cluster.env.tracer.events())
    (refuse_event,) = (event for event in events if event.k == "conn.refuse")
    assert "999" in refuse_event.d["reason"]


@within(run, trace_level=TraceLevel.FULL)
async def test_connections_and_requests_are_in_the_trace(
    cluster: VirtualCluster, wire: WireClient, /
) -> None:
    wire.send(wire.produce(first_partition()))
    await wire.answer()
    await wire.close()
    await asyncio.sleep(1)
    events: list[Any] = list(cluster.env.tracer.events())
    kinds = [event.k for event in events]
    assert {"conn.open", "msg.recv", "log.append", "conn.close"} <= set(kinds)
    (cause,) = events[kinds.index("log.append")].p
    receive_event = next(event for event in events if event.i == cause)
    assert (receive_event.k, receive_event.d["api"]) == ("msg.recv", "Produce"), (
        "the request is the cause"
    )
    answer_event = next(
        event for event in events if event.p[:1] == (cause,) and event.k[:3] == "msg"
    )
    assert (answer_event.k, answer_event.d["response"]) == ("msg.send", True)
    assert "error" not in answer_event.d
    assert answer_event.d["correlation"] == receive_event.d["correlation"]
    assert receive_event.d["summary"] == str(first_partition())
    assert receive_event.d["bytes"] > answer_event.d["bytes"] > 0
    assert receive_event.p == (), "a foreign client's request is a root"
    assert "client/wire" in cluster.env.tracer.nodes


@within(run, trace_level=TraceLevel.BRIEF)
async def test_brief_tells_of_answers_only_where_they_carry_an_error(
    cluster: VirtualCluster, wire: WireClient, /
) -> None:
    wire.send(wire.produce(first_partition()))
    await wire.answer()
    wire.send(wire.produce(TopicPartition("nowhere", 0)))
    await wire.answer()
    events: list[Any] = list(cluster.env.tracer.events())
    (answer_event,) = [event for event in events if event.k == "msg.send"]
    assert answer_event.d["error"] == "UNKNOWN_TOPIC_OR_PARTITION"
    (request_event,) = [event for event in events if event.i == answer_event.p[-1]]
    assert (request_event.k, request_event.d["correlation"]) == (
        "msg.recv",
        answer_event.d["correlation"],
    )


@pytest.mark.parametrize("action", [Fail(error="INVALID_REQUEST"), Hold()])
@within(run, trace_level=TraceLevel.BRIEF)
async def test_a_rule_that_is_armed_while_a_traced_request_waits_strikes_its_answer(
    cluster: VirtualCluster,
    wire: WireClient,
    /,
    action: Action,
) -> None:
    tracer = cluster.env.tracer
    wire.send(wire.produce(first_partition(), acks=-1))
    while not any(event.k == "log.append" for event in tracer.events()):  # noqa: ASYNC110 - no event is set
        await asyncio.sleep(0.000_01)
    cluster.arm(action, RESPONSE, client_id="wire")
    if isinstance(action, Hold):
        await asyncio.sleep(1)
        assert [event.k for event in tracer.events()].count("msg.hold") == 1
        cluster.sim.injector.disarm("f")
    assert (await wire.answer())[0] == 1
    events: list[Any] = list(tracer.events())
    (answer_event,) = [
        event for event in events if event.k == "msg.send" and "error" in event.d
    ] or [None]
    assert (answer_event is None) == isinstance(action, Hold)


@within(run, trace_level=TraceLevel.FULL)
async def test_the_trace_has_the_errors_of_an_answer_and_no_answer_where_none_is_wanted(
    cluster: VirtualCluster, wire: WireClient, /
) -> None:
    wire.send(wire.produce(TopicPartition("nowhere", 0)))
    await wire.answer()
    wire.send(wire.produce(first_partition(), acks=0))
    wire.send(wire.metadata())
    await wire.answer()
    events: list[Any] = list(cluster.env.tracer.events())
    apis_asked = [
        event.d["api"] for event in events if event.k == "msg.recv" and "response" not in event.d
    ]
    answers = [
        (event.d["api"], event.d.get("error", ""))
        for event in events
        if event.k == "msg.send" and event.d["peer"] == "client/wire"
    ]
    assert apis_asked[-3:] == ["Produce", "Produce", "Metadata"]
    assert answers == [("Produce", "UNKNOWN_TOPIC_OR_PARTITION"), ("Metadata", "")]


# ``request_log``: What is logged of requests and connections, and what is bound while a request is
# handled.


Lines = list[Mapping[str, Any]]


def logs_of(
    story: Callable[[VirtualCluster], Awaitable[None]], *, logs_requests: bool = True
) -> Lines:

    async def main(cluster: VirtualCluster) -> None:
        for listener in cluster.sim.listeners:
            listener.logs_requests = logs_requests
        await story(cluster)

    capture = LogCapture()
    config_before = structlog.get_config()
    structlog.configure(
        processors=[merge_contextvars, capture],
        # Whatever level somebody else has left.
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
    )
    try:
        run_cluster(main, brokers=1)
    finally:
        structlog.configure(**config_before)
    return list(capture.entries)


def matching_lines(lines: Lines, event: str, **values: Any) -> Lines:
    """Return the log lines of this event whose fields have these values."""
    return [
        line
        for line in lines
        if line["event"] == event and all(line.get(key) == value for key, value in values.items())
    ]


async def a_transaction(cluster: VirtualCluster) -> None:
    async with cluster.client("shop") as client, await begin_transaction(client, "tx") as producer:
        await producer.send("orders", 0, b"v")
        await producer.commit()


def test_a_request_is_logged_with_connection_client_transaction_and_correlation() -> None:
    lines = logs_of(a_transaction)
    (receive_line,) = matching_lines(lines, "request.received", api="EndTxn")
    assert receive_line["log_level"] == "debug"
    assert receive_line["client_id"] == "shop"
    assert receive_line["transactional_id"] == "tx"
    assert receive_line["version"] == 5
    assert receive_line["broker"] == 1
    assert receive_line["principal"] == "User:ANONYMOUS"
    own_address, peer, number = receive_line["connection"].split("-")
    assert own_address.startswith("127.0.0.1:")
    assert peer != own_address
    assert int(number) >= 0
    (answer_line,) = matching_lines(lines, "request.answered", api="EndTxn")
    assert answer_line["correlation_id"] == receive_line["correlation_id"]
    assert answer_line["connection"] == receive_line["connection"]
    assert answer_line["ms"] >= 0
    assert "errors" not in answer_line
    (metadata_line,) = matching_lines(lines, "request.answered", api="Metadata")[:1]
    assert "transactional_id" not in metadata_line, "it is about none"


def test_a_connection_is_logged_when_it_opens_and_closes() -> None:
    lines = logs_of(a_transaction)
    opened_lines, closed_lines = (
        matching_lines(lines, "connection.opened"),
        matching_lines(lines, "connection.closed"),
    )
    assert len(opened_lines) >= 2
    assert {line["connection"] for line in closed_lines} <= {
        line["connection"] for line in opened_lines
    }
    assert len({line["connection"] for line in opened_lines}) == len(opened_lines)


def test_nothing_is_logged_or_bound_unless_somebody_wants_it() -> None:
    assert logs_of(a_transaction, logs_requests=False) == []


def test_errors_are_told_by_their_names_once_each() -> None:
    async def story(cluster: VirtualCluster) -> None:
        async with cluster.client() as client:
            await Admin(client).describe_transactions(["nobody", "somebody"])

    (answer_line, *_) = matching_lines(
        logs_of(story), "request.answered", api="DescribeTransactions"
    )
    assert answer_line["errors"] in (
        ["TRANSACTIONAL_ID_NOT_FOUND"],
        ["COORDINATOR_LOAD_IN_PROGRESS"],
    )


@pytest.mark.parametrize("error", [ErrorCode.not_coordinator, ErrorCode.concurrent_transactions])
def test_the_error_of_an_answer_that_was_encoded_before_is_told(error: ErrorCode) -> None:
    async def story(cluster: VirtualCluster) -> None:
        cluster.arm(
            Fail(error=error.name.upper()), FaultPoint.CLIENT_REQUEST, api="EndTxn", limit=1
        )
        await a_transaction(cluster)

    first_answer, second_answer = matching_lines(logs_of(story), "request.answered", api="EndTxn")
    assert first_answer["errors"] == [error.name.upper()]
    assert "errors" not in second_answer


def test_a_request_without_an_answer_says_so() -> None:
    async def story(cluster: VirtualCluster) -> None:
        (broker,) = cluster.sim.metadata.image.brokers.values()
        wire = await WireClient.open(broker.host, broker.port)
        wire.send(wire.produce(TopicPartition("orders", 0), acks=0))
        wire.send(wire.metadata())
        await wire.answer()
        await wire.close()

    (answer_line,) = matching_lines(logs_of(story), "request.answered", api="Produce")
    assert answer_line["answer"] == NoResponse.NONE.name.lower()


def test_what_was_lost_by_a_fault_is_no_answer() -> None:
    async def story(cluster: VirtualCluster) -> None:
        cluster.arm(DropAnswer(), FaultPoint.CLIENT_REQUEST, api="EndTxn", limit=1)
        async with cluster.client(request_timeout_ms=500) as client:
            producer = await begin_transaction(client, "tx")
            await producer.send("orders", 0, b"v")
            await producer.commit()
            await producer.close()

    first_answer, second_answer = matching_lines(logs_of(story), "request.answered", api="EndTxn")
    assert first_answer["answer"] == NoResponse.NEVER.name.lower()
    assert "answer" not in second_answer


def test_requests_that_wait_side_by_side_do_not_share_what_is_bound() -> None:
    async def story(cluster: VirtualCluster) -> None:
        cluster.arm(Delay(delay_ms=50), FaultPoint.CLIENT_REQUEST, api="Metadata")
        (broker,) = cluster.sim.metadata.image.brokers.values()
        wires = [
            await WireClient.open(broker.host, broker.port, client_id=client_id)
            for client_id in ("one", "two")
        ]
        for wire in wires:
            wire.send(wire.metadata())
        for wire in wires:
            await wire.answer()
            await wire.close()

    lines = logs_of(story)
    names = [line["client_id"] for line in lines if line["event"].startswith("request.")]
    assert len(names) == 4
    assert set(names[:2]) == {"one", "two"}, "both wait at the same time"
    for client_id in ("one", "two"):
        (receive_line,) = matching_lines(lines, "request.received", client_id=client_id)
        (answer_line,) = matching_lines(lines, "request.answered", client_id=client_id)
        assert answer_line["connection"] == receive_line["connection"]
    assert not any(
        "client_id" in matching_line for matching_line in matching_lines(lines, "connection.closed")
    )


def test_who_sends_no_kafka_is_warned_of_at_any_level() -> None:
    async def story(cluster: VirtualCluster) -> None:
        (broker,) = cluster.sim.metadata.image.brokers.values()
        wire = await WireClient.open(broker.host, broker.port)
        wire.send(b"GET / HTTP/1.1\r\n\r\n")
        assert await wire.is_closed_by_broker()
        await wire.close()

    (line,) = logs_of(story, logs_requests=False)
    assert line["log_level"] == "warning"
    assert line["event"] == "connection closed: bad request"
    assert "-" in line["connection"]
    assert line["reason"]


def test_a_transaction_that_took_too_long_is_news() -> None:
    async def story(cluster: VirtualCluster) -> None:
        async with cluster.client() as client, await begin_transaction(client, "tx") as producer:
            await producer.send("orders", 0, b"v")
            cluster.advance(120_000)

    (line,) = matching_lines(logs_of(story, logs_requests=False), "txn.timed_out")
    assert (line["log_level"], line["transactional_id"]) == ("info", "tx")
    assert line["node"].startswith("broker/1/")


# Large answers leave in parts; what nobody reads is bounded for all connections together.


def parts_of(*pieces: bytes) -> list[bytes]:
    parked_answers = ParkedAnswers()
    parked_answers.add(pieces)
    parts = []
    while parked_answers:
        parts.append(b"".join(parked_answers.next_part()))
    return parts


@pytest.mark.parametrize(
    "sizes",
    [
        (1,),
        (PART_BYTES,),
        (PART_BYTES + 1,),
        (PART_BYTES - 1, 2, 3 * PART_BYTES, 1),
        (10,) * 100_000,
        (5 * PART_BYTES,),
    ],
)
def test_parts_are_all_of_it_in_order_and_none_is_too_large(sizes: tuple[int, ...]) -> None:
    pieces = [bytes([piece_number % 251]) * size for piece_number, size in enumerate(sizes)]
    parts = parts_of(*pieces)
    assert b"".join(parts) == b"".join(pieces)
    assert all(len(response_part) == PART_BYTES for response_part in parts[:-1])
    assert 0 < len(parts[-1]) <= PART_BYTES


def test_a_large_piece_is_not_copied() -> None:
    parked_answers = ParkedAnswers()
    batch = bytes(3 * PART_BYTES)
    parked_answers.add([batch])
    (response_part,) = parked_answers.next_part()
    assert isinstance(response_part, memoryview)
    assert response_part.obj is batch
    assert sum(map(len, parked_answers.remaining_pieces())) == 2 * PART_BYTES


@pytest.mark.parametrize(("size", "is_joined"), [(16_000, False), (100, True)])
def test_pieces_of_a_part_are_joined_where_they_are_small(*, size: int, is_joined: bool) -> None:
    parked_answers = ParkedAnswers()
    parked_answers.add([bytes(size)] * (2 * PART_BYTES // size))
    assert (len(parked_answers.next_part()) == 1) is is_joined


class Reader:
    def __init__(self) -> None:
        self.given_up = 0

    def give_up(self) -> None:
        self.given_up += 1


def test_who_holds_most_is_given_up_when_all_of_them_hold_too_much() -> None:
    held_bytes = HeldBytes(100)
    small_reader, large_reader, newest_reader = Reader(), Reader(), Reader()
    held_bytes.set_held_bytes(small_reader, 20)
    held_bytes.set_held_bytes(large_reader, 60)
    held_bytes.set_held_bytes(large_reader, 70)
    assert held_bytes.total == 90
    held_bytes.set_held_bytes(newest_reader, 11)
    assert (small_reader.given_up, large_reader.given_up, newest_reader.given_up) == (0, 1, 0)
    assert held_bytes.total == 31
    held_bytes.forget(small_reader)
    held_bytes.forget(small_reader)
    assert held_bytes.total == 11


@pytest.mark.parametrize("is_paused", [False, True])
def test_a_large_answer_leaves_in_turns_of_its_own(*, is_paused: bool) -> None:
    calls: list[str] = []
    listener = create_autospec(AnswerSender, instance=True)
    listener.is_open, listener.unread = True, HeldBytes(1)
    outbox = Outbox(
        listener, on_room=lambda: calls.append("turn"), on_excess=lambda: calls.append("end")
    )
    transport = outbox.transport = create_autospec(asyncio.Transport, instance=True)
    outbox.is_paused = is_paused
    outbox.put_pieces(b"head", [bytes(20 * PART_BYTES)], 20 * PART_BYTES, is_stored=False)
    outbox.flush()
    assert not transport.writelines.called, "many at once would hold up the loop"
    # Who does not read at all holds too much.
    assert calls == (["end"] if is_paused else ["turn"])
    outbox.send_parts()
    assert transport.writelines.call_count == (0 if is_paused else PARTS_PER_TURN)


def test_a_large_answer_in_large_pieces_is_not_copied_and_counts() -> None:
    listener = create_autospec(AnswerSender, instance=True)
    listener.is_open, listener.unread = True, HeldBytes(1)
    given_up: list[str] = []
    outbox = Outbox(listener, on_room=list, on_excess=lambda: given_up.append("end"))
    transport = outbox.transport = create_autospec(asyncio.Transport, instance=True)
    pieces = [bytes(UNJOINED_FROM_BYTES), bytes(UNJOINED_FROM_BYTES)]
    pieces_bytes = sum(map(len, pieces))
    outbox.put_pieces(b"head", pieces, pieces_bytes, is_stored=False)
    outbox.flush()
    (written_buffers,) = transport.writelines.call_args.args
    assert [id(buffer) for buffer in written_buffers[1:]] == [id(piece) for piece in pieces]
    outbox.is_paused = True
    for _ in range(3):
        outbox.put_pieces(b"head", pieces, pieces_bytes, is_stored=False)
    outbox.flush()
    assert given_up, "what waits and is no record counts, in pieces or not"


def frame_of_size(size: int) -> bytes:
    return size.to_bytes(4, "big") + bytes(size)


def test_nothing_that_is_forgotten_counts() -> None:
    intake = Intake(1_000)
    intake.frames.append(b"x")
    intake.queued_bytes = 1 + FRAME_BYTES
    intake.forget()
    assert (len(intake.frames), intake.queued_bytes) == (0, 0)


def test_what_is_there_of_a_frame_goes_with_its_connection() -> None:
    intake = Intake(1_000)
    intake.frames.extend(intake.reader.receive_data(frame_of_size(1) + frame_of_size(900)[:800]))
    intake.close()
    assert (len(intake.frames), intake.queued_bytes, intake.reader.buffered_bytes) == (0, 0, 0)


async def test_large_frames_of_connections_that_go_at_once_are_freed_one_by_one() -> None:
    turns = Turns(asyncio.get_running_loop())
    line = [Intake(1 << 20) for _ in range(3)]
    for size, intake in zip((800, LARGE_BYTES + 1, LARGE_BYTES + 1), line, strict=True):
        intake.frames.extend(
            intake.reader.receive_data(frame_of_size(1) + frame_of_size(1 << 20)[: 4 + size])
        )
        intake.close_by_turns(turns.reads)
    assert [len(intake.frames) for intake in line] == [0, 0, 0]
    holds_bytes = []
    for _ in range(3):
        holds_bytes.append([intake.reader.buffered_bytes > 0 for intake in line])
        await asyncio.sleep(0)
    assert holds_bytes == [[False, True, True], [False, False, True], [False, False, False]]


def test_reading_stops_above_the_limit_and_goes_on_at_half_of_it() -> None:
    transport = create_autospec(asyncio.Transport, instance=True)
    transport.is_closing.return_value = False
    intake = Intake(1_000)
    paused = []
    for waiting_bytes in (100, 101, 51, 50, 0):
        intake.queued_bytes = waiting_bytes
        intake.keep_within(100, transport)
        paused.append(intake.is_paused)
    assert paused == [False, True, True, False, False]
    assert transport.pause_reading.call_count == transport.resume_reading.call_count == 1


def test_a_socket_that_closes_is_left_alone() -> None:
    transport = create_autospec(asyncio.Transport, instance=True)
    transport.is_closing.return_value = True
    intake = Intake(1_000)
    intake.frames.append(bytes(10))
    intake.queued_bytes = 10
    for other_transport in (transport, None):
        intake.keep_within(0, other_transport)
    assert not intake.is_paused
    assert not transport.pause_reading.called


async def test_of_large_requests_one_is_read_in_each_turn() -> None:
    """This holds also if an earlier request makes it wait, or if its connection closes."""
    turns = Turns(asyncio.get_running_loop())
    line = []
    for _ in range(4):
        transport = create_autospec(asyncio.Transport, instance=True)
        transport.is_closing.return_value = False
        line.append((Intake(1_000), transport))
    for intake, transport in line:
        intake.read_by_turns(READ_BYTES - 1 if intake is line[0][0] else 1, turns.reads, transport)
        intake.read_by_turns(1, turns.reads, transport)
    assert [transport.pause_reading.call_count for _, transport in line] == [1, 1, 1, 1]
    line[1][0].queued_bytes = 200
    line[1][0].keep_within(100, line[1][1])
    line[2][1].is_closing.return_value = True
    resumed = []
    for _ in range(4):
        await asyncio.sleep(0)
        resumed.append([transport.resume_reading.call_count for _, transport in line])
    assert resumed == [[1, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 1]]
    line[1][0].queued_bytes = 0
    line[1][0].keep_within(100, line[1][1])
    assert line[1][1].resume_reading.call_count == line[1][1].pause_reading.call_count == 1
    assert not turns.reads.have_read(1)


# What a request is about, in one line.


TWO = (TopicPartition("t", 0), TopicPartition("u", 1))
MANY = tuple(
    TopicPartition("t", summary_partition_index)
    for summary_partition_index in range(SUMMARY_PARTITIONS_MAX + 2)
)


@pytest.mark.parametrize(
    ("subject", "line"),
    [
        (Subject(), ""),
        (Subject(transactional_id="app", producer_id=7, committed=True), "app producer 7 commit"),
        (Subject(committed=False, partitions=TWO), "abort t-0 u-1"),
        (Subject(partitions=MANY), "t-0 t-1 t-2 t-3 t-4 t-5 t-6 t-7 and 2 more"),
        (Subject(transactional_id="app", other_subjects=(Subject(),)), "app and 1 more like it"),
    ],
)
def test_a_summary_is_a_line(subject: Subject, line: str) -> None:
    assert summary_of(subject) == line


@pytest.mark.parametrize(
    ("subject", "message", "name"),
    [
        (Subject(), SimpleNamespace(producer_id=7, producer_epoch=0), ""),
        (Subject(transactional_id="app"), SimpleNamespace(), "app"),
        (
            Subject(transactional_id="app"),
            SimpleNamespace(producer_id=-1, producer_epoch=-1),
            "app",
        ),
        (
            Subject(transactional_id="app"),
            SimpleNamespace(producer_id=7, producer_epoch=3),
            "app/7:3",
        ),
        (
            Subject(transactional_id="app", producer_id=7),
            SimpleNamespace(producer_epoch=3),
            "app/7:3",
        ),
    ],
)
def test_a_transaction_is_named_as_far_as_the_request_tells_it(
    subject: Subject, message: object, name: str
) -> None:
    assert tx_of(subject, message) == name

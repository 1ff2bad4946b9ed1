"""What is logged of requests and connections, and what is bound while a request is handled."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest
import structlog
from structlog.contextvars import merge_contextvars
from structlog.testing import LogCapture

from tests.support.clusters import VirtualCluster, run_cluster
from tests.support.wires import Wire
from txnsim.api.request import NoResponse
from txnsim.client.admin import Admin
from txnsim.client.producer import Producer
from txnsim.errors import ErrorCode
from txnsim.faults.actions import Delay, DropAnswer, Fail
from txnsim.faults.points import FaultPoint
from txnsim.types import TopicPartition

Lines = list[Mapping[str, Any]]


def logs_of(story: Callable[[VirtualCluster], Awaitable[None]], *, wanted: bool = True) -> Lines:
    """What is logged while a story is told."""

    async def main(cluster: VirtualCluster) -> None:
        for listener in cluster.sim.listeners:
            listener.logs_requests = wanted
        await story(cluster)

    capture = LogCapture()
    before = structlog.get_config()
    structlog.configure(
        processors=[merge_contextvars, capture],
        # Whatever level somebody else has left.
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
    )
    try:
        run_cluster(main, brokers=1)
    finally:
        structlog.configure(**before)
    return list(capture.entries)


def of(lines: Lines, event: str, **values: Any) -> Lines:
    """The lines of that event which have these values."""
    return [
        line
        for line in lines
        if line["event"] == event and all(line.get(key) == value for key, value in values.items())
    ]


async def a_transaction(cluster: VirtualCluster) -> None:
    async with cluster.client("shop") as client, Producer(client, transactional_id="tx") as one:
        await one.init_transactions()
        one.begin()
        await one.send("orders", 0, b"v")
        await one.commit()


def test_a_request_is_logged_with_connection_client_transaction_and_correlation() -> None:
    lines = logs_of(a_transaction)
    (received,) = of(lines, "request.received", api="EndTxn")
    assert received["log_level"] == "debug"
    assert received["client_id"] == "shop"
    assert received["transactional_id"] == "tx"
    assert received["version"] == 5
    assert received["broker"] == 1
    assert received["principal"] == "User:ANONYMOUS"
    own, peer, number = received["connection"].split("-")
    assert own.startswith("127.0.0.1:")
    assert peer != own
    assert int(number) >= 0
    (answered,) = of(lines, "request.answered", api="EndTxn")
    assert answered["correlation_id"] == received["correlation_id"]
    assert answered["connection"] == received["connection"]
    assert answered["ms"] >= 0
    assert "errors" not in answered
    (listed,) = of(lines, "request.answered", api="Metadata")[:1]
    assert "transactional_id" not in listed, "it is about none"


def test_a_connection_is_logged_when_it_opens_and_closes() -> None:
    lines = logs_of(a_transaction)
    opened, closed = of(lines, "connection.opened"), of(lines, "connection.closed")
    assert len(opened) >= 2
    assert {line["connection"] for line in closed} <= {line["connection"] for line in opened}
    assert len({line["connection"] for line in opened}) == len(opened)


def test_nothing_is_logged_or_bound_unless_somebody_wants_it() -> None:
    assert logs_of(a_transaction, wanted=False) == []


def test_errors_are_told_by_their_names_once_each() -> None:
    async def story(cluster: VirtualCluster) -> None:
        async with cluster.client() as client:
            await Admin(client).describe_transactions(["nobody", "somebody"])

    (answered, *_) = of(logs_of(story), "request.answered", api="DescribeTransactions")
    assert answered["errors"] in (["TRANSACTIONAL_ID_NOT_FOUND"], ["COORDINATOR_LOAD_IN_PROGRESS"])


@pytest.mark.parametrize("error", [ErrorCode.not_coordinator, ErrorCode.concurrent_transactions])
def test_the_error_of_an_answer_that_was_encoded_before_is_told(error: ErrorCode) -> None:
    async def story(cluster: VirtualCluster) -> None:
        cluster.arm(
            Fail(error=error.name.upper()), FaultPoint.CLIENT_REQUEST, api="EndTxn", limit=1
        )
        await a_transaction(cluster)

    first, second = of(logs_of(story), "request.answered", api="EndTxn")
    assert first["errors"] == [error.name.upper()]
    assert "errors" not in second


def test_a_request_without_an_answer_says_so() -> None:
    async def story(cluster: VirtualCluster) -> None:
        (broker,) = cluster.sim.metadata.image.brokers.values()
        wire = await Wire.open(broker.host, broker.port)
        wire.send(wire.produce(TopicPartition("orders", 0), acks=0))
        wire.send(wire.metadata())
        await wire.answer()
        await wire.close()

    (answered,) = of(logs_of(story), "request.answered", api="Produce")
    assert answered["answer"] == NoResponse.NONE.name.lower()


def test_what_was_lost_by_a_fault_is_no_answer() -> None:
    async def story(cluster: VirtualCluster) -> None:
        cluster.arm(DropAnswer(), FaultPoint.CLIENT_REQUEST, api="EndTxn", limit=1)
        async with cluster.client(request_timeout_ms=500) as client:
            producer = Producer(client, transactional_id="tx")
            await producer.init_transactions()
            producer.begin()
            await producer.send("orders", 0, b"v")
            await producer.commit()
            await producer.close()

    first, second = of(logs_of(story), "request.answered", api="EndTxn")
    assert first["answer"] == NoResponse.NEVER.name.lower()
    assert "answer" not in second


def test_requests_that_wait_side_by_side_do_not_share_what_is_bound() -> None:
    async def story(cluster: VirtualCluster) -> None:
        cluster.arm(Delay(delay_ms=50), FaultPoint.CLIENT_REQUEST, api="Metadata")
        (broker,) = cluster.sim.metadata.image.brokers.values()
        wires = [
            await Wire.open(broker.host, broker.port, client_id=name) for name in ("one", "two")
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
        (received,) = of(lines, "request.received", client_id=client_id)
        (answered,) = of(lines, "request.answered", client_id=client_id)
        assert answered["connection"] == received["connection"]
    assert not any("client_id" in line for line in of(lines, "connection.closed"))


def test_who_sends_no_kafka_is_warned_of_at_any_level() -> None:
    async def story(cluster: VirtualCluster) -> None:
        (broker,) = cluster.sim.metadata.image.brokers.values()
        wire = await Wire.open(broker.host, broker.port)
        wire.send(b"GET / HTTP/1.1\r\n\r\n")
        assert await wire.closed()
        await wire.close()

    (line,) = logs_of(story, wanted=False)
    assert line["log_level"] == "warning"
    assert line["event"] == "connection closed: bad request"
    assert "-" in line["connection"]
    assert line["reason"]


def test_a_transaction_that_took_too_long_is_news() -> None:
    async def story(cluster: VirtualCluster) -> None:
        async with cluster.client() as client, Producer(client, transactional_id="tx") as one:
            await one.init_transactions()
            one.begin()
            await one.send("orders", 0, b"v")
            cluster.advance(120_000)

    (line,) = of(logs_of(story, wanted=False), "txn.timed_out")
    assert (line["log_level"], line["transactional_id"]) == ("info", "tx")
    assert line["node"].startswith("broker/1/")

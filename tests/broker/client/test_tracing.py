"""A client's calls in the trace: roots, with what they came to."""

from __future__ import annotations

from typing import Any, cast

import pytest

from txnsim.client.errors import ClientError
from txnsim.client.isolation import ConsumedRecord
from txnsim.client.tracing import TEXT_MAX, ClientTrace, current_call
from txnsim.errors import ErrorCode
from txnsim.runtime.trace import Event, TraceLevel, Tracer
from txnsim.types import TopicPartition

PLACE = TopicPartition("t", 0)
LINE = "('127.0.0.1', 4)"


def traced(level: TraceLevel = TraceLevel.FULL) -> tuple[Tracer, ClientTrace]:
    tracer = Tracer(lambda: 0, level=level, strict=True)
    return tracer, ClientTrace(tracer, "app")


def data(event: Event) -> dict[str, Any]:
    return cast(dict[str, Any], event.d)


def record(value: bytes | None) -> ConsumedRecord:
    return ConsumedRecord(
        partition=PLACE, offset=3, timestamp_ms=0, key=b"\xff", value=value, headers=(),
        producer_id=7, producer_epoch=0, transactional=True,
    )  # fmt: skip


def test_a_call_is_a_root_and_its_result_is_due_to_the_last_answer() -> None:
    tracer, trace = traced()
    tracer.caused_by(tracer.emit("note", "x"))
    with trace.call("commit", id="app", group=None) as call:
        assert call is current_call()
        sent = trace.sent(LINE, "broker/1", 26, 5, 9, 80)
        assert tracer.take((LINE, 9, False)) == sent
        answer = tracer.emit("msg.send", "broker/1")
        tracer.post((LINE, 9, True), answer)
        trace.received(LINE, "broker/1", 26, 5, 9, 20, sent=sent, call=call)
        trace.delivered(PLACE, [record(b"v" * 200), record(None)])
    _, asked, request, answered, got, *delivered, result = tracer.events()
    assert (asked.k, asked.p, data(asked)) == (
        "client.call", (), {"call": "commit", "args": {"id": "app"}}
    )  # fmt: skip
    assert (request.p, data(request)["api"], data(request)["bytes"]) == ((asked.i,), "EndTxn", 80)
    assert got.p == (answered.i, sent)
    assert [(one.k, one.p) for one in (*delivered, result)] == [
        ("client.deliver", (got.i, asked.i)),
        ("client.deliver", (got.i, asked.i)),
        ("client.result", (got.i, asked.i)),
    ]
    assert data(delivered[0])["value"] == "v" * TEXT_MAX
    assert (data(delivered[1])["value"], data(delivered[1])["key"]) == (None, "\\xff")
    assert {tracer.nodes[one.n] for one in (asked, request, result)} == {"client/app"}
    assert current_call() is None


def test_at_brief_the_broker_stands_for_the_messages() -> None:
    tracer, trace = traced(TraceLevel.BRIEF)
    with trace.call("commit") as call:
        assert call is not None
        assert trace.sent(LINE, "broker/1", 26, 5, 9, 80) == call.event
        trace.received(LINE, "broker/1", 26, 5, 9, 20, sent=call.event, call=call)
    assert [event.k for event in tracer.events()] == ["client.call", "client.result"]


def test_a_call_within_a_call_is_part_of_it() -> None:
    tracer, trace = traced()
    with trace.call("outer"), trace.call("inner") as inner:
        assert inner is None
    assert [data(event)["call"] for event in tracer.events()] == ["outer", "outer"]


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (ClientError("no", error=ErrorCode.invalid_txn_state), "INVALID_TXN_STATE"),
        (ClientError("no"), "ClientError"),
    ],
)
def test_a_failure_is_traced_by_its_name(error: ClientError, shown: str) -> None:
    tracer, trace = traced()
    with pytest.raises(ClientError), trace.call("commit"):
        raise error
    *_, result = tracer.events()
    assert data(result) == {"call": "commit", "error": shown}


def test_records_outside_of_a_call_are_due_to_what_happens_now() -> None:
    tracer, trace = traced()
    now = tracer.emit("note", "x")
    tracer.caused_by(now)
    trace.delivered(PLACE, [record(b"a")])
    assert list(tracer.events())[-1].p == (now,)


@pytest.mark.parametrize("tracer", [None, Tracer(lambda: 0)])
def test_without_a_trace_no_event_is_made(tracer: Tracer | None) -> None:
    trace = ClientTrace(tracer, "app")
    with trace.call("commit") as call:
        trace.delivered(PLACE, [record(b"a")])
    assert (call, trace.on, trace.node) == (None, False, "client/app")


def test_of_many_unread_messages_the_newest_are_kept() -> None:
    tracer, _ = traced()
    for number in range(5_000):
        tracer.post((LINE, number, False), number)
    assert tracer.take((LINE, 0, False)) == -1
    assert tracer.take((LINE, 4_999, False)) == 4_999

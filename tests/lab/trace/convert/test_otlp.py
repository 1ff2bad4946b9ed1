from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.traces import recording_of_run
from txnsim.runtime.trace import TraceLevel
from txnsim_lab.trace.convert.otlp import ERROR, convert


def spans(trace_level: TraceLevel = TraceLevel.BRIEF) -> list[dict[str, Any]]:
    resource_spans = json.loads(convert(recording_of_run(trace_level=trace_level)))["resourceSpans"]
    return [
        span
        for resource_span in resource_spans
        for scope in resource_span["scopeSpans"]
        for span in scope["spans"]
    ]


def test_opentelemetrys_own_messages_read_it() -> None:
    trace = pytest.importorskip(
        "opentelemetry.proto.collector.trace.v1.trace_service_pb2",
        reason="the dependency group dev has opentelemetry-proto: pip install --group dev",
    )
    json_format = pytest.importorskip("google.protobuf.json_format")
    read = json_format.Parse(convert(recording_of_run()), trace.ExportTraceServiceRequest())
    count = sum(
        len(scope.spans)
        for resource_span in read.resource_spans
        for scope in resource_span.scope_spans
    )
    assert count == len(spans())


def test_a_transaction_is_a_span_with_its_states_as_children() -> None:
    all_spans = spans()
    transaction_span = next(span for span in all_spans if span["name"] == "transaction app")
    children = [
        span for span in all_spans if span.get("parentSpanId") == transaction_span["spanId"]
    ]
    assert [span["name"] for span in children] == ["Ongoing", "PrepareAbort"]
    assert {span["traceId"] for span in children} == {transaction_span["traceId"]}
    assert "marker.owed" in {event["name"] for event in transaction_span["events"]}
    assert int(transaction_span["startTimeUnixNano"]) > 1_699_999_999 * 10**9
    assert children[0]["endTimeUnixNano"] == children[1]["startTimeUnixNano"]


def test_calls_and_requests_are_spans_and_errors_are_statuses() -> None:
    all_spans = spans(TraceLevel.FULL)  # at brief, an answer without an error goes without saying
    assert {"begin", "abort", "EndTxn", "Produce"} <= {span["name"] for span in all_spans}
    refused_spans = [span for span in all_spans if span.get("status", {}).get("code") == ERROR]
    assert "CONCURRENT_TRANSACTIONS" in {span["status"]["message"] for span in refused_spans}


def test_ids_are_unique_and_the_same_each_time() -> None:
    ids = [span["spanId"] for span in spans()]
    assert len(ids) == len(set(ids))
    assert ids == [span["spanId"] for span in spans()]

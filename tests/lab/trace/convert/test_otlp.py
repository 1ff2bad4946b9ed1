from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.traces import told_run
from txnsim.runtime.trace import TraceLevel
from txnsim_lab.trace.convert.otlp import ERROR, convert


def spans(level: TraceLevel = TraceLevel.BRIEF) -> list[dict[str, Any]]:
    found = json.loads(convert(told_run(level=level)))["resourceSpans"]
    return [span for one in found for scope in one["scopeSpans"] for span in scope["spans"]]


def test_opentelemetrys_own_messages_read_it() -> None:
    trace = pytest.importorskip(
        "opentelemetry.proto.collector.trace.v1.trace_service_pb2",
        reason="the dependency group dev has opentelemetry-proto: pip install --group dev",
    )
    json_format = pytest.importorskip("google.protobuf.json_format")
    read = json_format.Parse(convert(told_run()), trace.ExportTraceServiceRequest())
    count = sum(len(scope.spans) for one in read.resource_spans for scope in one.scope_spans)
    assert count == len(spans())


def test_a_transaction_is_a_span_with_its_states_as_children() -> None:
    found = spans()
    whole = next(span for span in found if span["name"] == "transaction app")
    children = [span for span in found if span.get("parentSpanId") == whole["spanId"]]
    assert [span["name"] for span in children] == ["Ongoing", "PrepareAbort"]
    assert {span["traceId"] for span in children} == {whole["traceId"]}
    assert "marker.owed" in {event["name"] for event in whole["events"]}
    assert int(whole["startTimeUnixNano"]) > 1_699_999_999 * 10**9
    assert children[0]["endTimeUnixNano"] == children[1]["startTimeUnixNano"]


def test_calls_and_requests_are_spans_and_errors_are_statuses() -> None:
    found = spans(TraceLevel.FULL)  # at brief, an answer without an error goes without saying
    assert {"begin", "abort", "EndTxn", "Produce"} <= {span["name"] for span in found}
    refused = [span for span in found if span.get("status", {}).get("code") == ERROR]
    assert "CONCURRENT_TRANSACTIONS" in {span["status"]["message"] for span in refused}


def test_ids_are_unique_and_the_same_each_time() -> None:
    ids = [span["spanId"] for span in spans()]
    assert len(ids) == len(set(ids))
    assert ids == [span["spanId"] for span in spans()]

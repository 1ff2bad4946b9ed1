"""OpenTelemetry's JSON (OTLP, one ``ExportTraceServiceRequest``): transactions, calls and requests
as spans, for Jaeger and others.

A transaction is an OTLP trace: its span lasts from Ongoing to its end, with a child span per state
and an event for everything that happened to it. A call of our client and a request to a broker are
spans too. Ids are derived from the trace's hash, so that a file always gets the same ids.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from txnsim.runtime.trace import Event
from txnsim.trace.story import transactional_id_of
from txnsim.trace.trace_file import Recording
from txnsim_lab.trace.cause_chains import by_position
from txnsim_lab.trace.convert.chrome import ENDED_STATES
from txnsim_lab.trace.state import state_at

INTERNAL: Final = 1
SERVER: Final = 2
CLIENT: Final = 3
"""Number of the span kind CLIENT in OTLP."""
ERROR: Final = 2
"""Number of the status code ERROR in OTLP."""

Row = dict[str, Any]


def convert(recording: Recording) -> str:
    """The trace as JSON text."""
    spans_by_node: dict[str, list[Row]] = {}
    for node, span in (*_transaction_spans(recording), *_exchange_spans(recording)):
        spans_by_node.setdefault("/".join(node.split("/")[:2]), []).append(span)
    version = str(recording.header.get("sim", ""))
    scope_fields = {"name": "txnsim", "version": version}
    return msgspec.json.encode(
        {
            "resourceSpans": [
                {
                    "resource": {"attributes": [_make_attribute("service.name", name)]},
                    "scopeSpans": [{"scope": scope_fields, "spans": node_spans}],
                }
                for name, node_spans in spans_by_node.items()
            ]
        }
    ).decode()


def _transaction_spans(recording: Recording) -> Iterator[tuple[str, Row]]:
    open_transactions: dict[str, list[Event]] = {}
    transaction_events: dict[str, list[Event]] = {}
    for event in recording.events:
        transactional_id = transactional_id_of(event.tx)
        if not transactional_id:
            continue
        state = event.d.get("state") if isinstance(event.d, Mapping) else None
        if event.k == "txn.complete":
            if state not in ENDED_STATES:
                open_transactions.setdefault(transactional_id, []).append(event)
            elif transactional_id in open_transactions:
                transitions = open_transactions.pop(transactional_id)
                yield from _spans_of_transaction(
                    recording,
                    transactional_id,
                    transitions,
                    transaction_events.pop(transactional_id, []),
                    event.t,
                )
        elif transactional_id in open_transactions:
            transaction_events.setdefault(transactional_id, []).append(event)
    end_us = recording.events[-1].t if recording.events else 0
    for transactional_id, transitions in open_transactions.items():
        yield from _spans_of_transaction(
            recording,
            transactional_id,
            transitions,
            transaction_events.get(transactional_id, []),
            end_us,
        )


def _spans_of_transaction(
    recording: Recording,
    transactional_id: str,
    transitions: list[Event],
    events: list[Event],
    end_us: int,
) -> Iterator[tuple[str, Row]]:
    first_event = transitions[0]
    node = recording.nodes[first_event.n]
    transaction_span = _make_span(
        recording,
        f"transaction {transactional_id}",
        first_event,
        end_us,
        span_kind=INTERNAL,
        root_event=first_event,
    )
    transaction_span["attributes"].append(
        _make_attribute("messaging.kafka.transactional_id", transactional_id)
    )
    transaction_span["events"] = [
        {
            "timeUnixNano": _unix_nanos(recording, event.t),
            "name": event.k,
            "attributes": _attributes_of(event),
        }
        for event in events
    ]
    yield node, transaction_span
    for index, transition_event in enumerate(transitions):
        until_us = transitions[index + 1].t if index + 1 < len(transitions) else end_us
        assert isinstance(transition_event.d, Mapping), "only moves with a payload are kept"
        state_span = _make_span(
            recording,
            str(transition_event.d["state"]),
            transition_event,
            until_us,
            span_kind=INTERNAL,
            root_event=first_event,
            id_suffix="state",
        )
        state_span["parentSpanId"] = transaction_span["spanId"]
        yield node, state_span


def _exchange_spans(recording: Recording) -> Iterator[tuple[str, Row]]:
    """Calls of clients and requests to brokers, with their answers, as spans."""
    events = by_position(recording.events)
    for event in recording.events:
        fields = event.d if isinstance(event.d, Mapping) else {}
        opening_event = events.get(event.p[-1]) if event.p else None
        if opening_event is None:
            continue
        request_fields = opening_event.d if isinstance(opening_event.d, Mapping) else {}
        root_event = opening_event
        while root_event.p and root_event.p[0] in events:
            root_event = events[root_event.p[0]]
        if event.k == "client.result" and opening_event.k == "client.call":
            span = _make_span(
                recording,
                str(request_fields.get("call")),
                opening_event,
                event.t,
                span_kind=CLIENT,
                root_event=root_event,
            )
        elif event.k == "msg.send" and fields.get("response") and opening_event.k == "msg.recv":
            span = _make_span(
                recording,
                str(request_fields.get("api")),
                opening_event,
                event.t,
                span_kind=SERVER,
                root_event=root_event,
            )
        else:
            continue
        if fields.get("error"):
            span["status"] = {"code": ERROR, "message": str(fields["error"])}
        yield recording.nodes[opening_event.n], span


def _make_span(
    recording: Recording,
    span_name: str,
    opening_event: Event,
    end_us: int,
    *,
    span_kind: int,
    root_event: Event,
    id_suffix: str = "",
) -> Row:
    return {
        "traceId": _hash_id(recording, f"trace {root_event.i}", 16),
        "spanId": _hash_id(recording, f"span {opening_event.i} {id_suffix}", 8),
        "name": span_name,
        "kind": span_kind,
        "startTimeUnixNano": _unix_nanos(recording, opening_event.t),
        "endTimeUnixNano": _unix_nanos(recording, end_us),
        "attributes": _attributes_of(opening_event),
    }


def _attributes_of(event: Event) -> list[Row]:
    fields = event.d if isinstance(event.d, Mapping) else {}
    attributes = [_make_attribute("txnsim.event", event.i)]
    for field_name, field_value in fields.items():
        plain_value = (
            field_value
            if isinstance(field_value, (str, int))
            else msgspec.json.encode(field_value).decode()
        )
        attributes.append(_make_attribute(f"txnsim.{field_name}", plain_value))
    return attributes


def _make_attribute(name: str, value: str | int) -> Row:
    if isinstance(value, bool):
        return {"key": name, "value": {"boolValue": value}}
    if isinstance(value, int):
        return {"key": name, "value": {"intValue": str(value)}}
    return {"key": name, "value": {"stringValue": value}}


def _hash_id(recording: Recording, id_text: str, size_bytes: int) -> str:
    seed = f"{recording.trailer.get('hash')} {recording.header.get('seed')} {id_text}"
    return hashlib.sha256(seed.encode()).digest()[:size_bytes].hex()


def _unix_nanos(recording: Recording, at_us: int) -> str:
    return str((_wall_ms(recording) * 1000 + at_us) * 1000)


def _wall_ms(recording: Recording) -> int:
    """Wall clock time at the start of the trace, from its first input."""
    for event in recording.events:
        if event.k == "input":
            return state_at([event], recording.nodes).wall_ms
    return 0

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
from txnsim.trace.story import id_of
from txnsim.trace.trace_file import Recording
from txnsim_lab.trace.cause_chains import by_position
from txnsim_lab.trace.convert.chrome import ENDED
from txnsim_lab.trace.state import state_at

INTERNAL: Final = 1
SERVER: Final = 2
CLIENT: Final = 3
"""Number of the span kind CLIENT in OTLP."""
ERROR: Final = 2
"""Number of the status code ERROR in OTLP."""

Row = dict[str, Any]


def convert(run: Recording) -> str:
    """The trace as JSON text."""
    spans: dict[str, list[Row]] = {}
    for node, span in (*_transactions(run), *_exchanges(run)):
        spans.setdefault("/".join(node.split("/")[:2]), []).append(span)
    version = str(run.header.get("sim", ""))
    scope = {"name": "txnsim", "version": version}
    return msgspec.json.encode(
        {
            "resourceSpans": [
                {
                    "resource": {"attributes": [_attribute("service.name", name)]},
                    "scopeSpans": [{"scope": scope, "spans": node_spans}],
                }
                for name, node_spans in spans.items()
            ]
        }
    ).decode()


def _transactions(run: Recording) -> Iterator[tuple[str, Row]]:
    open_ones: dict[str, list[Event]] = {}
    events: dict[str, list[Event]] = {}
    for event in run.events:
        name = id_of(event.tx)
        if not name:
            continue
        state = event.d.get("state") if isinstance(event.d, Mapping) else None
        if event.k == "txn.complete":
            if state not in ENDED:
                open_ones.setdefault(name, []).append(event)
            elif name in open_ones:
                moves = open_ones.pop(name)
                yield from _transaction(run, name, moves, events.pop(name, []), event.t)
        elif name in open_ones:
            events.setdefault(name, []).append(event)
    end = run.events[-1].t if run.events else 0
    for name, moves in open_ones.items():
        yield from _transaction(run, name, moves, events.get(name, []), end)


def _transaction(
    run: Recording, name: str, moves: list[Event], events: list[Event], end: int
) -> Iterator[tuple[str, Row]]:
    first_move = moves[0]
    node = run.nodes[first_move.n]
    whole = _span(run, f"transaction {name}", first_move, end, kind=INTERNAL, trace=first_move)
    whole["attributes"].append(_attribute("messaging.kafka.transactional_id", name))
    whole["events"] = [
        {"timeUnixNano": _nanos(run, event.t), "name": event.k, "attributes": _attributes(event)}
        for event in events
    ]
    yield node, whole
    for index, move in enumerate(moves):
        until = moves[index + 1].t if index + 1 < len(moves) else end
        assert isinstance(move.d, Mapping), "only moves with a payload are kept"
        state = _span(
            run, str(move.d["state"]), move, until, kind=INTERNAL, trace=first_move, suffix="state"
        )
        state["parentSpanId"] = whole["spanId"]
        yield node, state


def _exchanges(run: Recording) -> Iterator[tuple[str, Row]]:
    """Calls of clients and requests to brokers, with their answers, as spans."""
    events = by_position(run.events)
    for event in run.events:
        data = event.d if isinstance(event.d, Mapping) else {}
        begun = events.get(event.p[-1]) if event.p else None
        if begun is None:
            continue
        request = begun.d if isinstance(begun.d, Mapping) else {}
        root = begun
        while root.p and root.p[0] in events:
            root = events[root.p[0]]
        if event.k == "client.result" and begun.k == "client.call":
            span = _span(run, str(request.get("call")), begun, event.t, kind=CLIENT, trace=root)
        elif event.k == "msg.send" and data.get("response") and begun.k == "msg.recv":
            span = _span(run, str(request.get("api")), begun, event.t, kind=SERVER, trace=root)
        else:
            continue
        if data.get("error"):
            span["status"] = {"code": ERROR, "message": str(data["error"])}
        yield run.nodes[begun.n], span


def _span(
    run: Recording, name: str, begun: Event, end: int, *, kind: int, trace: Event, suffix: str = ""
) -> Row:
    return {
        "traceId": _id(run, f"trace {trace.i}", 16),
        "spanId": _id(run, f"span {begun.i} {suffix}", 8),
        "name": name,
        "kind": kind,
        "startTimeUnixNano": _nanos(run, begun.t),
        "endTimeUnixNano": _nanos(run, end),
        "attributes": _attributes(begun),
    }


def _attributes(event: Event) -> list[Row]:
    data = event.d if isinstance(event.d, Mapping) else {}
    attributes = [_attribute("txnsim.event", event.i)]
    for name, value in data.items():
        plain = value if isinstance(value, (str, int)) else msgspec.json.encode(value).decode()
        attributes.append(_attribute(f"txnsim.{name}", plain))
    return attributes


def _attribute(name: str, value: str | int) -> Row:
    if isinstance(value, bool):
        return {"key": name, "value": {"boolValue": value}}
    if isinstance(value, int):
        return {"key": name, "value": {"intValue": str(value)}}
    return {"key": name, "value": {"stringValue": value}}


def _id(run: Recording, what: str, size: int) -> str:
    seed = f"{run.trailer.get('hash')} {run.header.get('seed')} {what}"
    return hashlib.sha256(seed.encode()).digest()[:size].hex()


def _nanos(run: Recording, at_us: int) -> str:
    return str((_wall_ms(run) * 1000 + at_us) * 1000)


def _wall_ms(run: Recording) -> int:
    """Wall clock time at the start of the trace, from its first input."""
    for event in run.events:
        if event.k == "input":
            return state_at([event], run.nodes).wall_ms
    return 0

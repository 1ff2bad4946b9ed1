"""The OpenAPI document of the control port, made from its messages."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from sim.faults.plan import FaultRule
from sim.http.messages import (
    Advance,
    BrokerView,
    ClockState,
    Elect,
    Fault,
    Health,
    Isolate,
    Kill,
    MoveLeader,
    PartitionView,
    Problem,
    Released,
    Start,
    TopicView,
)

_TYPES: Final = (
    *(FaultRule, Health, ClockState, Advance, Fault, Released, Problem),
    *(BrokerView, Start, Kill, Isolate, TopicView, MoveLeader, PartitionView, Elect),
)


class _Operation(msgspec.Struct, frozen=True, kw_only=True):
    method: str
    path: str
    summary: str
    answer: type | None
    status: str = "200"
    body: type | None = None
    is_list: bool = False
    """The answer is an array of it."""
    body_is_optional: bool = False
    query: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()


_OPERATIONS: Final = (
    _Operation(method="get", path="/healthz", summary="The cluster answers", answer=Health),
    _Operation(method="get", path="/metrics", summary="Metrics for Prometheus", answer=None),
    _Operation(
        method="get",
        path="/api/v1/trace",
        summary="The trace as JSON lines: header, events, trailer (serve --trace brief or full)",
        answer=None,
    ),
    _Operation(method="get", path="/api/v1/clock", summary="The cluster clock", answer=ClockState),
    _Operation(
        method="post",
        path="/api/v1/clock",
        summary="Advance the cluster clock",
        body=Advance,
        answer=ClockState,
        refusals=("422",),
    ),
    _Operation(
        method="get",
        path="/api/v1/faults",
        summary="Every fault rule in force",
        answer=Fault,
        is_list=True,
    ),
    _Operation(
        method="post",
        path="/api/v1/faults",
        summary="Put a fault rule in force",
        body=FaultRule,
        answer=Fault,
        status="201",
        refusals=("409", "422"),
    ),
    _Operation(
        method="get",
        path="/api/v1/faults/{id}",
        summary="One rule and what has come of it",
        answer=Fault,
        refusals=("404",),
    ),
    _Operation(
        method="delete",
        path="/api/v1/faults/{id}",
        summary="Take a rule back; what it holds goes on",
        answer=Fault,
        refusals=("404",),
    ),
    _Operation(
        method="post",
        path="/api/v1/faults/{id}/release",
        summary="Let go what a rule holds; it stays in force",
        answer=Released,
        refusals=("404",),
    ),
    _Operation(
        method="get",
        path="/api/v1/faults/{id}/wait",
        summary="Answer once the rule has struck so many times",
        answer=Fault,
        query=("struck", "timeout_ms"),
        refusals=("404", "408", "422"),
    ),
    _Operation(
        method="get",
        path="/api/v1/brokers",
        summary="Every broker, whether it runs or not",
        answer=BrokerView,
        is_list=True,
    ),
    _Operation(
        method="get",
        path="/api/v1/brokers/{id}",
        summary="One broker",
        answer=BrokerView,
        refusals=("404",),
    ),
    _Operation(
        method="post",
        path="/api/v1/brokers/{id}/stop",
        summary="Stop a broker in good order: its leaders move away first. 202: it takes longer "
        "than wait_ms",
        answer=BrokerView,
        query=("wait_ms",),
        refusals=("404", "409", "422"),
    ),
    _Operation(
        method="post",
        path="/api/v1/brokers/{id}/start",
        summary="Start a broker that is down, on its port and its disk. 202: it takes longer than "
        "wait_ms",
        body=Start,
        body_is_optional=True,
        answer=BrokerView,
        query=("wait_ms",),
        refusals=("404", "409", "422"),
    ),
    _Operation(
        method="post",
        path="/api/v1/brokers/{id}/kill",
        summary="End a broker at once; the controller notices when its session ends",
        body=Kill,
        body_is_optional=True,
        answer=BrokerView,
        refusals=("404", "409", "422"),
    ),
    _Operation(
        method="post",
        path="/api/v1/brokers/{id}/isolate",
        summary="Cut a broker off from the controller and from the other brokers",
        body=Isolate,
        body_is_optional=True,
        answer=BrokerView,
        refusals=("404", "422"),
    ),
    _Operation(
        method="post",
        path="/api/v1/brokers/{id}/heal",
        summary="Undo an isolation",
        answer=BrokerView,
        refusals=("404",),
    ),
    _Operation(
        method="get",
        path="/api/v1/topics",
        summary="Every topic with leaders, ISR, ELR and epochs, as the controller has it",
        answer=TopicView,
        is_list=True,
    ),
    _Operation(
        method="post",
        path="/api/v1/leaders",
        summary="Hand a partition to another in-sync replica, under the next leader epoch",
        body=MoveLeader,
        answer=PartitionView,
        refusals=("404", "409", "422"),
    ),
    _Operation(
        method="post",
        path="/api/v1/elections",
        summary="Elect a leader as ElectLeaders does: the preferred replica, or any (unclean)",
        body=Elect,
        answer=PartitionView,
        refusals=("404", "409", "422"),
    ),
)


def document() -> dict[str, Any]:
    """The document, ready to be encoded as JSON."""
    _, components = msgspec.json.schema_components(
        _TYPES, ref_template="#/components/schemas/{name}"
    )
    paths: dict[str, dict[str, Any]] = {}
    for operation in _OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "txnsim control port",
            "version": "1",
            "description": "Clock, faults, brokers, leaders, health and metrics of a simulated "
            "Kafka cluster.",
        },
        "paths": paths,
        "components": {"schemas": components},
    }


def _operation(operation: _Operation) -> dict[str, Any]:
    described: dict[str, Any] = {"summary": operation.summary, "responses": {}}
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "query", "schema": {"type": "integer"}} for name in operation.query
    ]
    if "{id}" in operation.path:
        parameters.append(
            {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}
        )
    if parameters:
        described["parameters"] = parameters
    if operation.body is not None:
        described["requestBody"] = {
            "required": not operation.body_is_optional,
            "content": _content(operation.body),
        }
    if operation.answer is None:
        content: dict[str, Any] = {"text/plain": {"schema": {"type": "string"}}}
    else:
        content = _content(operation.answer, is_list=operation.is_list)
    described["responses"][operation.status] = {
        "description": operation.summary,
        "content": content,
    }
    for status in operation.refusals:
        described["responses"][status] = {"description": "Refused", "content": _content(Problem)}
    return described


def _content(kind: type, *, is_list: bool = False) -> dict[str, Any]:
    reference: dict[str, Any] = {"$ref": f"#/components/schemas/{kind.__name__}"}
    schema = {"type": "array", "items": reference} if is_list else reference
    return {"application/json": {"schema": schema}}

"""The OpenAPI document of the control port, made from its messages."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from sim.faults.plan import FaultRule
from sim.http.messages import Advance, ClockState, Fault, Health, Problem, Released

_TYPES: Final = (FaultRule, Health, ClockState, Advance, Fault, Released, Problem)


class _Operation(msgspec.Struct, frozen=True, kw_only=True):
    method: str
    path: str
    summary: str
    answer: type | None
    status: str = "200"
    body: type | None = None
    is_list: bool = False
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
            "description": "Clock, faults, health and metrics of a simulated Kafka cluster.",
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
        described["requestBody"] = {"required": True, "content": _content(operation.body)}
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

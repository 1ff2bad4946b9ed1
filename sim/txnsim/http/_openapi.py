"""The OpenAPI document of the control port, generated from its operations and their messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from txnsim.http._events import STREAMS
from txnsim.http._guard import OPEN_PATHS
from txnsim.http.messages import Problem
from txnsim.http.operation import JSON, Message, Operation, Query
from txnsim.text import with_clean_descriptions

GUARDED: Final = ("400", "401", "403")
"""Statuses with which the guard refuses any request; 400 also stands for numbers that are too
long.
"""
NO_CONTENT: Final = "204"

References = Mapping[Message, dict[str, Any]]
"""A message -> the reference to its schema."""


def document(
    operations: Sequence[Operation],
    *,
    refusals: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> dict[str, Any]:
    """The document, ready to be encoded as JSON."""
    message_types = {
        message_type
        for described_operation in operations
        for message_type in (described_operation.body, described_operation.answer)
        if message_type is not None
    }
    types = sorted((*message_types, Problem), key=str)
    schemas, components = msgspec.json.schema_components(
        types, ref_template="#/components/schemas/{name}"
    )
    components = with_clean_descriptions(components)
    references = dict(zip(types, schemas, strict=True))
    operations_by_path: dict[str, dict[str, Any]] = {}
    for operation in operations:
        if operation.body is not None:
            path_refusals = next(
                (
                    prefix_refusals
                    for path, prefix_refusals in refusals.items()
                    if operation.path.startswith(path)
                ),
                (),
            )
            operation = replace(operation, refusals=(*operation.refusals, *path_refusals))
        operations_by_path.setdefault(operation.path, {})[operation.method] = _operation_object(
            operation, references
        )
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "txnsim control port",
            "version": "1",
            "description": "Brokers, topics, transactions, faults, clock, scenarios and events of "
            "a simulated Kafka cluster. The guide is docs/control-api.md.",
        },
        "paths": operations_by_path,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "Wanted where the port is bound anywhere but to loopback, or "
                    "where TXNSIM_TOKEN is set",
                }
            },
        },
    }


def _operation_object(operation: Operation, references: References) -> dict[str, Any]:
    def content_of(message_type: Message) -> dict[str, Any]:
        return {JSON: {"schema": references[message_type]}}

    operation_object: dict[str, Any] = {"summary": operation.summary, "responses": {}}
    parameters = [
        {"name": parameter_name, "in": "path", "required": True, "schema": {"type": "string"}}
        for parameter_name in operation.parameters
    ]
    parameters += [_query_object(query) for query in operation.query]
    if parameters:
        operation_object["parameters"] = parameters
    if operation.body is not None:
        operation_object["requestBody"] = {
            "required": not operation.has_optional_body,
            "content": content_of(operation.body),
        }
    if operation.status == NO_CONTENT:
        content: dict[str, Any] = {}
    elif operation.answer is None:
        # Of a stream of events a schema may mean the whole or each of them: none says either.
        schema = {} if operation.media_type in STREAMS else {"type": "string"}
        content = {operation.media_type: {"schema": schema}}
    else:
        content = content_of(operation.answer)
    responses = operation_object["responses"]
    responses[operation.status] = {"description": operation.summary}
    if content:
        responses[operation.status]["content"] = content
    for status in operation.also:
        responses[status] = {"description": operation.summary, "content": content}
    if operation.may_take_longer:
        responses["202"] = {
            "description": "It takes longer than wait_ms: the state so far; the work goes on",
            "content": content,
        }
    if operation.path not in OPEN_PATHS:
        operation_object["security"] = [{}, {"token": []}]
    for status in (*GUARDED, *operation.refusals):
        if status == "401" and operation.path in OPEN_PATHS:
            continue
        responses[status] = {"description": "Refused", "content": content_of(Problem)}
    return operation_object


def _query_object(query: Query) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": query.kind}
    if query.many:
        schema = {"type": "array", "items": schema}
    return {
        "name": query.name,
        "in": "query",
        "description": query.summary,
        "required": False,
        "schema": schema,
    }

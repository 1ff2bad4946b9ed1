"""A control port for a target that is not a simulated cluster and supports a part of the
operations: faults, events and assertions.

Unsupported operations are not in its OpenAPI document, and are answered 501 with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import cached_property
from typing import Any, ClassVar, Protocol

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from txnsim.client.cluster import Cluster
from txnsim.client.connection import ClientSettings
from txnsim.faults.meanings import CLUSTER_ACTIONS, TAKES, name_of
from txnsim.faults.points import FaultPoint
from txnsim.http import _app as app
from txnsim.http import _openapi as openapi
from txnsim.http._assertions import AssertionRoutes
from txnsim.http._events import EventRoutes
from txnsim.http._faults import FaultRoutes, FaultTarget
from txnsim.http._guard import AccessRules
from txnsim.http._overview import OverviewRoutes
from txnsim.http.messages import Health
from txnsim.http.operation import JSON, PREFIX, Noun, Operation
from txnsim.http.replies import RefusedError
from txnsim.http.wire_noun import WireNoun
from txnsim.types import TopicPartition


class PartialTarget(FaultTarget, Protocol):
    """The cluster or proxy behind a partial control port."""

    @property
    def bootstrap(self) -> str:
        """The bootstrap servers for clients."""

    def outside(self, settings: ClientSettings) -> Cluster:
        """A client of the cluster, not connected yet."""


class PartialApi(Noun):
    """The routes for a partial target. A subclass adds its own operations."""

    WIRE_NOUNS: ClassVar[tuple[type[WireNoun], ...]] = ()
    """Further nouns whose operations use a client over the wire."""

    def __init__(self, target: PartialTarget, points: Collection[FaultPoint]) -> None:
        """Args: asked: The target of the port. points: The fault points that the target has."""
        self._target = target
        self._points = points
        self._events = EventRoutes(target.environment)

    @classmethod
    def every_operation(cls) -> tuple[Operation, ...]:
        """The operations of this port, and those that every control port has."""
        nouns: tuple[type[Noun], ...] = (
            *(FaultRoutes, EventRoutes),
            *cls.WIRE_NOUNS,
            AssertionRoutes,
        )
        return (
            *cls.operations(),
            *(operation for noun in nouns for operation in noun.operations()),
        )

    def app(self, access_rules: AccessRules | None = None) -> Starlette:
        """The ASGI application; the arguments are those of ``ControlApi.app``."""
        target = self._target
        wire_nouns = (
            noun(
                target.environment,
                outside=target.outside,
                place_of=TopicPartition,
                bootstrap=lambda: target.bootstrap,
            )
            for noun in (*self.WIRE_NOUNS, AssertionRoutes)
        )
        nouns: tuple[Noun, ...] = (self, FaultRoutes(target), self._events, *wire_nouns)
        supported_operations = self.every_operation()
        return app.application(
            Route("/openapi.json", self.openapi),
            *(route for noun in nouns for route in noun.routes()),
            # Behind those that are there: whatever else a simulated cluster can be asked.
            *(
                self._refusing_route(operation)
                for operation in app.OPERATIONS
                if operation not in supported_operations
            ),
            access_rules=access_rules or AccessRules(),
        )

    def close(self) -> None:
        """End all streams, because the control port closes."""
        self._events.close()

    async def openapi(self, _request: Request) -> Response:
        """The OpenAPI document."""
        return Response(self._encoded_document, media_type=JSON)

    @cached_property
    def _encoded_document(self) -> bytes:
        return msgspec.json.encode(self.document())

    @OverviewRoutes.health.operation
    async def health(self, _request: Request) -> Health:
        """The cluster answers."""
        return Health(status="ok", brokers=self.brokers(), bootstrap=self._target.bootstrap)

    def brokers(self) -> int:
        """Number of brokers, for the health check."""
        raise NotImplementedError

    def why_not(self, path: str) -> str:
        """The reason in the answer 501 for operations on this path."""
        raise NotImplementedError

    def _refusing_route(self, operation: Operation) -> Route:
        """A route that answers why the operation is not supported."""
        refusal_reason = self.why_not(operation.path)

        async def refuse(_request: Request) -> Response:
            raise RefusedError(501, refusal_reason)

        path = re.sub(r"{(\w+)}$", r"{\1:path}", operation.path)
        return Route(path, refuse, methods=[operation.method.upper()])

    def document(self) -> dict[str, Any]:
        """The OpenAPI document: its operations, and the fault rules that can strike there."""
        openapi_document = openapi.document(
            self.every_operation(), refusals={f"{PREFIX}/faults": ("501",)}
        )
        schemas = openapi_document["components"]["schemas"]
        schemas["FaultPoint"]["enum"] = sorted(self._points)
        schemas["FaultPoint"]["description"] = "Where requests, answers and connections pass."
        action_names = {
            name_of(action_schema)
            for point in self._points
            for action_schema in TAKES[FaultPoint(point)]
        }
        action_schema = schemas["FaultRule"]["properties"]["action"]
        action_schemas: Mapping[str, str] = action_schema["discriminator"]["mapping"]
        action_schema["discriminator"]["mapping"] = {
            action_name: schema_path
            for action_name, schema_path in action_schemas.items()
            if action_name in action_names
        }
        allowed_schemas = set(action_schema["discriminator"]["mapping"].values())
        action_schema["anyOf"] = [
            alternative
            for alternative in action_schema["anyOf"]
            if alternative["$ref"] in allowed_schemas
        ]
        for action_class in CLUSTER_ACTIONS:
            schemas.pop(action_class.__name__, None)
        return openapi_document

"""The control port as one application: the routes of every noun over one cluster.

Changes use the same interfaces as scenarios: the clock, the injector and the cluster. Each
neighbouring module has one noun: its messages, operations and answers.
"""

from __future__ import annotations

from functools import cache
from typing import Final

import msgspec
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route

from txnsim.http._assertions import AssertionRoutes
from txnsim.http._brokers_and_clock import BrokerRoutes, ClockRoutes
from txnsim.http._events import SimulatedTraceRoutes
from txnsim.http._faults import FaultRoutes
from txnsim.http._guard import AccessGuard, AccessRules
from txnsim.http._log_dirs import LogDirArchiveRoutes
from txnsim.http._openapi import document
from txnsim.http._overview import OverviewRoutes
from txnsim.http._pages import PageLoginRoutes
from txnsim.http._repairs import RepairRoutes
from txnsim.http._reset import SnapshotRoutes
from txnsim.http._topics import TopicRoutes
from txnsim.http._transactions import TransactionRoutes
from txnsim.http._verdict import VerdictRoutes
from txnsim.http.messages import Problem
from txnsim.http.operation import JSON, Noun
from txnsim.http.replies import RefusedError, as_json, refusal_response
from txnsim.on_demand_imports import offered
from txnsim.server.cluster import SimCluster
from txnsim.server.views.cluster_facts import ClusterFactsReader

_CLUSTER_NOUNS: Final[tuple[type[Noun], ...]] = (
    OverviewRoutes,
    ClockRoutes,
    FaultRoutes,
    BrokerRoutes,
    LogDirArchiveRoutes,
    TopicRoutes,
    TransactionRoutes,
    VerdictRoutes,
    RepairRoutes,
    SimulatedTraceRoutes,
    SnapshotRoutes,
    AssertionRoutes,
    PageLoginRoutes,
    *(noun for extension in offered("http.control_port") for noun in extension.NOUNS),
)
OPERATIONS: Final = tuple(operation for noun in _CLUSTER_NOUNS for operation in noun.operations())
"""All operations of the control port, except the description itself."""

INDEX_PATHS: Final = ("/api", "/api/", "/api/v1", "/api/v1/", "/docs", "/docs/")
"""Paths where people look for the index."""


async def no_such_path(request: Request, _error: Exception) -> Response:
    """Answer 404 for an unknown path."""
    requested_path = request.scope["path"]
    return as_json(
        Problem(error=f"there is no {requested_path}; GET /openapi.json lists all"), status=404
    )


async def no_such_method(request: Request, _error: Exception) -> Response:
    """Answer 405 with the methods that the path has."""
    routes = [route for route in request.app.routes if isinstance(route, Route)]
    route_path = next(
        route.path for route in routes if route.matches(request.scope)[0] is not Match.NONE
    )
    path_methods = sorted(
        {method for route in routes if route.path == route_path for method in route.methods or ()}
    )
    allowed_methods = ", ".join(path_methods)
    answer = as_json(Problem(error=f"{request.scope['path']} knows {allowed_methods}"), status=405)
    answer.headers["Allow"] = allowed_methods
    return answer


def application(*routes: Route, access_rules: AccessRules) -> Starlette:
    """The routes as an application, with the answers to unknown paths and methods."""
    return Starlette(
        routes=list(routes),
        middleware=[Middleware(AccessGuard, access_rules=access_rules)],
        exception_handlers={RefusedError: refusal_response, 404: no_such_path, 405: no_such_method},
    )


@cache
def _description() -> bytes:
    """The OpenAPI document, built on first use; it would take a tenth of the start."""
    return msgspec.json.encode(document(OPERATIONS))


class ControlApi:
    """The routes over one cluster."""

    def __init__(self, cluster: SimCluster, fork_server: object = None) -> None:
        """Args: cluster: The cluster of the control port. fork_server: The process that the lab's
        runs are forked from, if it is already running.
        """
        self._cluster = cluster
        self._events = SimulatedTraceRoutes(cluster)
        self._lab_routes = [
            lab_extension.LabRoutes(cluster, fork_server)
            for lab_extension in offered("http.control_port")
        ]
        self._index_page = msgspec.json.format(
            msgspec.json.encode(
                {
                    "what": "the control port of txnsim, a simulated Kafka cluster",
                    "page": "/",
                    "openapi": "/openapi.json",
                    "operations": {
                        f"{operation.method.upper()} {operation.path}": operation.summary
                        for operation in OPERATIONS
                    },
                }
            )
        )

    def app(self, access_rules: AccessRules | None = None) -> Starlette:
        """The ASGI application.

        Args:
            access_rules: Rules for callers; by default they must use a loopback name.
        """
        cluster = self._cluster
        access_rules = access_rules or AccessRules()
        facts_reader = ClusterFactsReader(cluster)
        all_nouns = (
            OverviewRoutes(cluster),
            ClockRoutes(cluster),
            FaultRoutes(cluster),
            BrokerRoutes(cluster),
            LogDirArchiveRoutes(cluster),
            TopicRoutes(cluster),
            TransactionRoutes(cluster, facts_reader),
            VerdictRoutes(
                cluster,
                facts_reader,
                *(lab_routes.traced for lab_routes in self._lab_routes),
            ),
            RepairRoutes(cluster),
            self._events,
            SnapshotRoutes(cluster),
            AssertionRoutes.of_simulated(cluster),
            PageLoginRoutes(access_rules),
            *(noun for lab_routes in self._lab_routes for noun in lab_routes.nouns()),
        )
        return application(
            Route("/openapi.json", self.openapi),
            *(Route(path, self.index) for path in INDEX_PATHS),
            *(route for noun in all_nouns for route in noun.routes()),
            access_rules=access_rules,
        )

    def warm_up(self) -> None:
        """Prepare what the page will need: its files, and the process that runs are forked from."""
        for lab_routes in self._lab_routes:
            lab_routes.warm_up()

    def close(self) -> None:
        """End all streams, because the control port closes."""
        self._events.close()
        for lab_routes in self._lab_routes:
            lab_routes.close()

    async def index(self, _request: Request) -> Response:
        """Every operation with its summary."""
        return Response(self._index_page, media_type=JSON)

    async def openapi(self, _request: Request) -> Response:
        """The OpenAPI document."""
        return Response(_description(), media_type=JSON)

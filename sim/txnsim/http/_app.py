"""The control port as one application: the routes of every noun over one cluster.

Every change goes through what scenarios use: the clock, the injector and the
cluster. Each module beside this one has one noun: its messages, its operations, its answers.
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
from txnsim.http._brokers_and_clock import ClockRoutes, LifeRoutes
from txnsim.http._events import ReportedRoutes
from txnsim.http._faults import FaultRoutes
from txnsim.http._guard import AccessGuard, AccessRules
from txnsim.http._log_dirs import LogDirRoutes
from txnsim.http._openapi import document
from txnsim.http._overview import LookRoutes
from txnsim.http._pages import PageRoutes
from txnsim.http._repairs import RepairRoutes
from txnsim.http._reset import RoundRoutes
from txnsim.http._topics import TopicRoutes
from txnsim.http._transactions import TransactionRoutes
from txnsim.http.messages import Problem
from txnsim.http.operation import JSON, Noun
from txnsim.http.replies import RefusedError, as_json, refusal_response
from txnsim.on_demand_imports import offered
from txnsim.server.cluster import SimCluster

_NOUNS: Final[tuple[type[Noun], ...]] = (
    LookRoutes,
    ClockRoutes,
    FaultRoutes,
    LifeRoutes,
    LogDirRoutes,
    TopicRoutes,
    TransactionRoutes,
    RepairRoutes,
    ReportedRoutes,
    RoundRoutes,
    AssertionRoutes,
    PageRoutes,
    *(noun for extension in offered("http.control_port") for noun in extension.NOUNS),
)
OPERATIONS: Final = tuple(operation for noun in _NOUNS for operation in noun.operations())
"""All operations of the control port, except the description itself."""

INDEX_PATHS: Final = ("/api", "/api/", "/api/v1", "/api/v1/", "/docs", "/docs/")
"""Where people look for what there is."""


async def no_such_path(request: Request, _error: Exception) -> Response:
    """Answer 404 for an unknown path."""
    path = request.scope["path"]
    return as_json(Problem(error=f"there is no {path}; GET /openapi.json lists all"), status=404)


async def no_such_method(request: Request, _error: Exception) -> Response:
    """What is answered where a path has other methods: their names."""
    routes = [route for route in request.app.routes if isinstance(route, Route)]
    path = next(route.path for route in routes if route.matches(request.scope)[0] is not Match.NONE)
    methods_there = sorted(
        {method for route in routes if route.path == path for method in route.methods or ()}
    )
    allowed = ", ".join(methods_there)
    answer = as_json(Problem(error=f"{request.scope['path']} knows {allowed}"), status=405)
    answer.headers["Allow"] = allowed
    return answer


def application(*routes: Route, access_rules: AccessRules) -> Starlette:
    """Routes as an application, with what every control port answers to what it does not know."""
    return Starlette(
        routes=list(routes),
        middleware=[Middleware(AccessGuard, access_rules=access_rules)],
        exception_handlers={RefusedError: refusal_response, 404: no_such_path, 405: no_such_method},
    )


@cache
def _description() -> bytes:
    """The OpenAPI document, made when it is first asked for: a tenth of the start otherwise."""
    return msgspec.json.encode(document(OPERATIONS))


class ControlApi:
    """The routes over one cluster."""

    def __init__(self, cluster: SimCluster, fork_server: object = None) -> None:
        """Args:
        cluster: Whose control port it is.
        fork_server: The lab's helper of driven runs, if it was forked already.
        """
        self._cluster = cluster
        self._events = ReportedRoutes(cluster)
        self._added = [
            offer.LabRoutes(cluster, fork_server) for offer in offered("http.control_port")
        ]
        self._index = msgspec.json.format(
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
            access_rules: What is asked of callers; unless given, that they call by a name of
                loopback.
        """
        cluster = self._cluster
        access_rules = access_rules or AccessRules()
        nouns = (
            LookRoutes(cluster),
            ClockRoutes(cluster),
            FaultRoutes(cluster),
            LifeRoutes(cluster),
            LogDirRoutes(cluster),
            TopicRoutes(cluster),
            TransactionRoutes(cluster),
            RepairRoutes(cluster),
            self._events,
            RoundRoutes(cluster),
            AssertionRoutes.of_simulated(cluster),
            PageRoutes(access_rules),
            *(noun for added in self._added for noun in added.nouns()),
        )
        return application(
            Route("/openapi.json", self.openapi),
            *(Route(path, self.index) for path in INDEX_PATHS),
            *(route for noun in nouns for route in noun.routes()),
            access_rules=access_rules,
        )

    def warm_up(self) -> None:
        """Make ready what the page will ask for: its files, and the helper of driven runs."""
        for added in self._added:
            added.warm_up()

    def close(self) -> None:
        """The control port closes: what streams comes to its end."""
        self._events.close()
        for added in self._added:
            added.close()

    async def index(self, _request: Request) -> Response:
        """Every operation with its line."""
        return Response(self._index, media_type=JSON)

    async def openapi(self, _request: Request) -> Response:
        """The description of this API."""
        return Response(_description(), media_type=JSON)

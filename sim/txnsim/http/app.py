"""The control port as one application: the routes of every noun over one cluster.

Every change goes through the same doors that scenarios use: the clock, the injector and the
cluster. Each module beside this one has one noun: its messages, its operations, its answers.
"""

from __future__ import annotations

import msgspec
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route

from txnsim.http.clock import ClockRoutes
from txnsim.http.events import EventRoutes
from txnsim.http.faults import FaultRoutes
from txnsim.http.guard import Doorkeeper, Guard
from txnsim.http.judging import JudgingRoutes
from txnsim.http.life import LifeRoutes
from txnsim.http.log_dirs import LogDirRoutes
from txnsim.http.messages import Problem
from txnsim.http.openapi import document
from txnsim.http.operation import JSON
from txnsim.http.overview import LookRoutes
from txnsim.http.pages import PageRoutes
from txnsim.http.replies import RefusedError, as_json, refused
from txnsim.http.reset import RoundRoutes
from txnsim.http.scenarios import ScenarioRoutes
from txnsim.http.topics import TopicRoutes
from txnsim.http.transactions import TransactionRoutes
from txnsim.server.cluster import SimCluster


async def no_such_path(request: Request, _error: Exception) -> Response:
    """What is answered where there is no such path."""
    path = request.url.path
    return as_json(Problem(error=f"there is no {path}; GET /openapi.json lists all"), status=404)


async def no_such_method(request: Request, _error: Exception) -> Response:
    """What is answered where a path has other methods: their names."""
    routes = [route for route in request.app.routes if isinstance(route, Route)]
    path = next(one.path for one in routes if one.matches(request.scope)[0] is not Match.NONE)
    known = sorted({method for one in routes if one.path == path for method in one.methods or ()})
    allowed = ", ".join(known)
    answer = as_json(Problem(error=f"{request.url.path} knows {allowed}"), status=405)
    answer.headers["Allow"] = allowed
    return answer


class ControlApi:
    """The routes over one cluster."""

    def __init__(self, cluster: SimCluster) -> None:
        self._cluster = cluster
        self._events = EventRoutes(cluster)
        self._scenarios = ScenarioRoutes(cluster)
        self._openapi = msgspec.json.encode(document())

    def app(self, doorkeeper: Doorkeeper | None = None) -> Starlette:
        """The ASGI application.

        Args:
            doorkeeper: What is asked of callers; unless given, that they call by a name of
                loopback.
        """
        cluster = self._cluster
        doorkeeper = doorkeeper or Doorkeeper()
        nouns = (
            LookRoutes(cluster),
            ClockRoutes(cluster),
            FaultRoutes(cluster),
            LifeRoutes(cluster),
            LogDirRoutes(cluster),
            TopicRoutes(cluster),
            TransactionRoutes(cluster),
            self._events,
            RoundRoutes(cluster),
            JudgingRoutes(cluster),
            self._scenarios,
            PageRoutes(doorkeeper),
        )
        return Starlette(
            routes=[
                Route("/openapi.json", self.openapi),
                *(route for noun in nouns for route in noun.routes()),
            ],
            middleware=[Middleware(Guard, doorkeeper=doorkeeper)],
            exception_handlers={RefusedError: refused, 404: no_such_path, 405: no_such_method},
        )

    def close(self) -> None:
        """The control port closes: what streams comes to its end."""
        self._events.close()
        self._scenarios.close()

    async def openapi(self, _request: Request) -> Response:
        """The description of this API."""
        return Response(self._openapi, media_type=JSON)

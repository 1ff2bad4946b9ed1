"""The control port as one application: the routes of every noun over one cluster.

Every change goes through the same doors that scenarios use: the clock, the injector and the
cluster. Each module beside this one has one noun: its messages, its operations, its answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from txnsim.http.clock import ClockRoutes
from txnsim.http.events import EventRoutes
from txnsim.http.faults import FaultRoutes
from txnsim.http.judging import JudgingRoutes
from txnsim.http.life import LifeRoutes
from txnsim.http.log_dirs import LogDirRoutes
from txnsim.http.looks import LookRoutes
from txnsim.http.openapi import document
from txnsim.http.operation import JSON
from txnsim.http.replies import RefusedError, refused
from txnsim.http.rounds import RoundRoutes
from txnsim.http.scenarios import ScenarioRoutes
from txnsim.http.topics import TopicRoutes
from txnsim.http.transactions import TransactionRoutes
from txnsim.server.cluster import SimCluster

LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "[::1]")
ANY_NAME: Final = ("*",)


class ControlApi:
    """The routes over one cluster."""

    def __init__(self, cluster: SimCluster) -> None:
        self._cluster = cluster
        self._events = EventRoutes(cluster)
        self._scenarios = ScenarioRoutes(cluster)
        self._openapi = msgspec.json.encode(document())

    def app(self, allowed_hosts: Sequence[str] = LOOPBACK_NAMES) -> Starlette:
        """The ASGI application.

        Args:
            allowed_hosts: The names by which it may be called.
        """
        cluster = self._cluster
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
        )
        return Starlette(
            routes=[
                Route("/openapi.json", self.openapi),
                *(route for noun in nouns for route in noun.routes()),
            ],
            # Loopback names only: a page in a browser must not reach the port through a name of its
            # own.
            middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=list(allowed_hosts))],
            exception_handlers={RefusedError: refused},
        )

    def close(self) -> None:
        """The control port closes: what streams comes to its end."""
        self._events.close()
        self._scenarios.close()

    async def openapi(self, _request: Request) -> Response:
        """The description of this API."""
        return Response(self._openapi, media_type=JSON)

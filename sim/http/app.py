"""The control port's answers. Every change goes through the same doors that scenarios use: the
clock, the injector and the cluster. Brokers and leaders are in ``http.life``.
"""

from __future__ import annotations

from typing import Final

import msgspec
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sim.faults.plan import FaultRule
from sim.http.life import LifeRoutes
from sim.http.messages import (
    Advance,
    ClockState,
    Health,
    Released,
    fault,
)
from sim.http.openapi import document
from sim.http.replies import RefusedError, as_json, body_of, number_of, refused
from sim.metrics.exposition import CONTENT_TYPE, exposition
from sim.server.cluster import SimCluster
from sim.server.readings import readings

ADVANCE_MS_MAX: Final = 10 * 366 * 86_400_000
"""Ten years: enough for every expiry, and far from the end of the clock."""
WAIT_MS_MAX: Final = 300_000


class ControlApi:
    """The routes over one cluster."""

    def __init__(self, cluster: SimCluster) -> None:
        self._cluster = cluster
        self._metrics = exposition(lambda: readings(cluster))
        self._openapi = msgspec.json.encode(document())

    def app(self) -> Starlette:
        """The ASGI application."""
        routes = [
            Route("/healthz", self.health),
            Route("/metrics", self.metrics),
            Route("/openapi.json", self.openapi),
            Route("/api/v1/trace", self.trace),
            Route("/api/v1/clock", self.clock, methods=["GET"]),
            Route("/api/v1/clock", self.advance, methods=["POST"]),
            Route("/api/v1/faults", self.faults, methods=["GET"]),
            Route("/api/v1/faults", self.arm, methods=["POST"]),
            Route("/api/v1/faults/{id}", self.fault, methods=["GET"]),
            Route("/api/v1/faults/{id}", self.disarm, methods=["DELETE"]),
            Route("/api/v1/faults/{id}/release", self.release, methods=["POST"]),
            Route("/api/v1/faults/{id}/wait", self.wait, methods=["GET"]),
            *LifeRoutes(self._cluster).routes(),
        ]
        return Starlette(
            routes=routes,
            # Loopback names only: a page in a browser must not reach the port through a name of its
            # own.
            middleware=[
                Middleware(TrustedHostMiddleware, allowed_hosts=["localhost", "127.0.0.1", "[::1]"])
            ],
            exception_handlers={RefusedError: refused},
        )

    # Looking

    async def health(self, _request: Request) -> Response:
        """The cluster answers."""
        cluster = self._cluster
        return as_json(
            Health(
                status="ok",
                brokers=len(cluster.brokers),
                bootstrap=cluster.bootstrap,
                kip_text_bootstrap=cluster.kip_text_bootstrap,
            )
        )

    async def metrics(self, _request: Request) -> Response:
        """Prometheus' text format."""
        return Response(self._metrics(), media_type=CONTENT_TYPE)

    async def openapi(self, _request: Request) -> Response:
        """The description of this API."""
        return Response(self._openapi, media_type="application/json")

    async def trace(self, _request: Request) -> Response:
        """The trace as far as it is kept, one JSON object a line: header, events, trailer."""
        lines: list[bytes] = []
        self._cluster.environment.tracer.export(lines.append)
        return Response(b"".join(lines), media_type="application/x-ndjson")

    # Clock

    async def clock(self, _request: Request) -> Response:
        """The cluster clock."""
        return as_json(self._clock_state())

    async def advance(self, request: Request) -> Response:
        """Move the cluster clock forward."""
        wanted = await body_of(request, Advance)
        if not 0 <= wanted.advance_ms <= ADVANCE_MS_MAX:
            raise RefusedError(
                422, f"advance_ms is {wanted.advance_ms}, expected 0 to {ADVANCE_MS_MAX}"
            )
        self._cluster.environment.clock.advance(wanted.advance_ms)
        return as_json(self._clock_state())

    def _clock_state(self) -> ClockState:
        clock = self._cluster.environment.clock
        return ClockState(now_ms=clock.now_ms(), advanced_ms=clock.advanced_ms)

    # Faults

    async def faults(self, _request: Request) -> Response:
        """Every rule in force."""
        return as_json([fault(armed) for armed in self._cluster.injector.rules()])

    async def arm(self, request: Request) -> Response:
        """Put a rule in force."""
        rule = await body_of(request, FaultRule)
        try:
            armed = self._cluster.injector.arm(rule)
        except ValueError as error:
            raise RefusedError(409, str(error)) from error
        return as_json(fault(armed), status=201)

    async def fault(self, request: Request) -> Response:
        """One rule and what has come of it."""
        armed = self._cluster.injector.get(self._known(request))
        assert armed is not None
        return as_json(fault(armed))

    async def disarm(self, request: Request) -> Response:
        """Take a rule back; what it holds goes on."""
        return as_json(fault(self._cluster.injector.disarm(self._known(request))))

    async def release(self, request: Request) -> Response:
        """Let go what a rule holds; it stays in force."""
        released = self._cluster.injector.release(self._known(request))
        return as_json(Released(released=released))

    async def wait(self, request: Request) -> Response:
        """Answer once a rule has struck so many times."""
        rule_id = self._known(request)
        count = number_of(request, "struck", default=1, least=1, most=1_000_000)
        timeout_ms = number_of(request, "timeout_ms", default=30_000, least=0, most=WAIT_MS_MAX)
        injector = self._cluster.injector
        try:
            await injector.wait_until_struck(rule_id, count=count, timeout_ms=timeout_ms)
        except (TimeoutError, LookupError) as error:
            raise RefusedError(408, str(error)) from error
        armed = injector.get(rule_id)
        if armed is None:
            raise RefusedError(404, f"rule {rule_id!r} was disarmed meanwhile")
        return as_json(fault(armed))

    def _known(self, request: Request) -> str:
        rule_id = str(request.path_params["id"])
        if self._cluster.injector.get(rule_id) is None:
            raise RefusedError(404, f"no rule {rule_id!r} is armed")
        return rule_id

"""The cluster clock through the control port."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sim.http.messages import Advance, ClockState
from sim.http.operation import PREFIX, Operation
from sim.http.replies import RefusedError, as_json, body_of
from sim.server.cluster import SimCluster

ADVANCE_MS_MAX: Final = 10 * 366 * 86_400_000
"""Ten years: enough for every expiry, and far from the end of the clock."""

READ: Final = Operation(
    method="get", path=f"{PREFIX}/clock", summary="The cluster clock", answer=ClockState
)
ADVANCE: Final = Operation(
    method="post",
    path=f"{PREFIX}/clock",
    summary="Advance the cluster clock",
    body=Advance,
    answer=ClockState,
    refusals=("422",),
)
OPERATIONS: Final = (READ, ADVANCE)


class ClockRoutes:
    """The routes over one cluster."""

    def __init__(self, cluster: SimCluster) -> None:
        self._cluster = cluster

    def routes(self) -> list[Route]:
        """All of them."""
        return [READ.route(self.read), ADVANCE.route(self.advance)]

    async def read(self, _request: Request) -> Response:
        """The cluster clock."""
        return as_json(self._state())

    async def advance(self, request: Request) -> Response:
        """Move the cluster clock forward."""
        wanted = await body_of(request, Advance)
        if not 0 <= wanted.advance_ms <= ADVANCE_MS_MAX:
            raise RefusedError(
                422, f"advance_ms is {wanted.advance_ms}, expected 0 to {ADVANCE_MS_MAX}"
            )
        self._cluster.environment.clock.advance(wanted.advance_ms)
        return as_json(self._state())

    def _state(self) -> ClockState:
        clock = self._cluster.environment.clock
        return ClockState(now_ms=clock.now_ms(), advanced_ms=clock.advanced_ms)

"""The control port of a fault proxy: what a proxy can do, by the same operations as a simulated
cluster's port. What it can't do is not in its OpenAPI document, and is answered 501 with the
reason.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from txnsim.faults.meanings import CLUSTER_ACTIONS, TAKES, name_of
from txnsim.faults.points import PEER, FaultPoint
from txnsim.http import app, openapi
from txnsim.http.assertions import AssertionRoutes
from txnsim.http.events import EventRoutes
from txnsim.http.faults import FaultRoutes
from txnsim.http.guard import AccessRules
from txnsim.http.messages import Health
from txnsim.http.operation import JSON, PREFIX, Noun, Operation
from txnsim.http.overview import LookRoutes
from txnsim.http.replies import RefusedError
from txnsim.types import TopicPartition
from txnsim_lab.http._judging import JudgingRoutes
from txnsim_lab.proxy.fault_proxy import FaultProxy
from txnsim_lab.proxy.meanings import CLIENT_POINTS


class DoorView(msgspec.Struct, frozen=True, kw_only=True):
    """A listening socket of the proxy, and the broker to which it leads."""

    node_id: int
    side: str
    """``client``, or ``peer``: brokers reach each other by it."""
    port: int
    upstream: str
    connections: int
    accepted: int
    """Connections so far."""


class ProxyView(msgspec.Struct, frozen=True, kw_only=True):
    """The proxy in short."""

    cluster_id: str | None
    upstream: str
    """The cluster's ``bootstrap.servers``."""
    bootstrap: str
    doors: tuple[DoorView, ...]
    faults: int
    """Rules in force."""


_REASONS: Final = {
    f"{PREFIX}/clock": "the clocks of that cluster are those of its machines: a proxy can't move "
    "them",
    f"{PREFIX}/brokers": "a proxy has no hands on brokers: use the cluster's own tools, or drop "
    "and hold what passes",
    f"{PREFIX}/transactions": "ask the cluster itself: txnsim txns --bootstrap-server …",
    f"{PREFIX}/topics": "ask the cluster itself, with kafka-topics.sh or an admin client",
    f"{PREFIX}/snapshots": "a proxy can't take a cluster back to what it was",
    f"{PREFIX}/reset": "a proxy can't take a cluster back to what it was; DELETE "
    f"{PREFIX}/faults takes the rules back",
    "/metrics": "ask the brokers for their metrics: a proxy has none of theirs",
}
_SIMULATED: Final = "only a simulated cluster can do that (txnsim serve)"


class ProxyApi(Noun):
    """The routes over one proxy."""

    def __init__(self, proxy: FaultProxy) -> None:
        self._proxy = proxy
        self._events = EventRoutes(proxy.environment)
        self._openapi = msgspec.json.encode(document(has_peers=bool(proxy.options.peers)))

    def app(self, access_rules: AccessRules | None = None) -> Starlette:
        """The ASGI application; the arguments are those of ``ControlApi.app``."""
        proxy = self._proxy
        judges, assertions = (
            kind(
                proxy.environment,
                outside=proxy.outside,
                place_of=TopicPartition,
                bootstrap=lambda: proxy.bootstrap,
            )
            for kind in (JudgingRoutes, AssertionRoutes)
        )
        known = [
            Route("/openapi.json", self.openapi),
            *self.routes(),
            *FaultRoutes(proxy).routes(),
            *self._events.routes(),
            *judges.routes(),
            *assertions.routes(),
        ]
        # Behind those that are there: whatever else a simulated cluster can be asked.
        missing = [_without(one) for one in app.OPERATIONS if one not in OPERATIONS]
        return app.application(*known, *missing, access_rules=access_rules or AccessRules())

    def close(self) -> None:
        """The control port closes: what streams comes to its end."""
        self._events.close()

    async def openapi(self, _request: Request) -> Response:
        """The description of this API."""
        return Response(self._openapi, media_type=JSON)

    @LookRoutes.health.operation
    async def health(self, _request: Request) -> Health:
        """The cluster answers."""
        doors = list(self._proxy.clients)
        return Health(status="ok", brokers=len(doors), bootstrap=self._proxy.bootstrap)

    @Operation("get", f"{PREFIX}/cluster")
    async def cluster(self, _request: Request) -> ProxyView:
        """The proxy in short: the cluster behind it, a door for each broker."""
        proxy = self._proxy
        return ProxyView(
            cluster_id=proxy.cluster_id,
            upstream=proxy.options.bootstrap,
            bootstrap=proxy.bootstrap,
            doors=tuple(
                DoorView(
                    node_id=door.node_id,
                    side="peer" if door.is_peer else "client",
                    port=door.port,
                    upstream=f"{door.upstream[0]}:{door.upstream[1]}",
                    connections=len(door.relays),
                    accepted=door.accepted,
                )
                for door in (*proxy.clients, *proxy.peers)
            ),
            faults=len(proxy.injector.rules()),
        )


OPERATIONS: Final = (
    *ProxyApi.operations(),
    *FaultRoutes.operations(),
    *EventRoutes.operations(),
    *JudgingRoutes.operations(),
    *AssertionRoutes.operations(),
)


def _without(operation: Operation) -> Route:
    """A route that explains why a proxy does not support the operation."""
    why = next(
        (reason for path, reason in _REASONS.items() if operation.path.startswith(path)),
        _SIMULATED,
    )

    async def refuse(_request: Request) -> Response:
        raise RefusedError(501, f"a fault proxy can't do this: {why}")

    path = re.sub(r"{(\w+)}$", r"{\1:path}", operation.path)
    return Route(path, refuse, methods=[operation.method.upper()])


def document(*, has_peers: bool) -> dict[str, Any]:
    """The OpenAPI document: the operations of a proxy, and rules that it can obey."""
    described = openapi.document(OPERATIONS, refusals={f"{PREFIX}/faults": ("501",)})
    described["info"]["title"] = "txnsim fault proxy control port"
    described["info"]["description"] = (
        "Faults between clients and brokers of any Kafka cluster. The guide is docs/proxy.md."
    )
    points = (*CLIENT_POINTS, *(PEER if has_peers else ()))
    schemas = described["components"]["schemas"]
    schemas["FaultPoint"]["enum"] = sorted(points)
    schemas["FaultPoint"]["description"] = "Where requests, answers and connections pass."
    taken = {name_of(action) for point in points for action in TAKES[FaultPoint(point)]}
    action = schemas["FaultRule"]["properties"]["action"]
    mapping: Mapping[str, str] = action["discriminator"]["mapping"]
    action["discriminator"]["mapping"] = {
        name: where for name, where in mapping.items() if name in taken
    }
    allowed = set(action["discriminator"]["mapping"].values())
    action["anyOf"] = [one for one in action["anyOf"] if one["$ref"] in allowed]
    for kind in CLUSTER_ACTIONS:
        schemas.pop(kind.__name__, None)
    return described

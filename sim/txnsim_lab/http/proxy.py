"""The control port of a fault proxy; operations that need a simulated cluster answer 501."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from starlette.requests import Request

from txnsim.faults.points import FaultPoint
from txnsim.http.operation import PREFIX, Operation
from txnsim.http.partial_port import PartialApi
from txnsim_lab.http._judging import JudgingRoutes
from txnsim_lab.proxy.fault_proxy import FaultProxy
from txnsim_lab.proxy.meanings import CLIENT_POINTS


class ListenerView(msgspec.Struct, frozen=True, kw_only=True):
    """A listening socket of the proxy, and the broker to which it leads."""

    node_id: int
    side: str
    """Who connects to it: ``client``, or ``peer`` for other brokers."""
    port: int
    upstream: str
    connections: int
    accepted: int
    """The number of connections so far."""


class ProxyView(msgspec.Struct, frozen=True, kw_only=True):
    """The proxy in short."""

    cluster_id: str | None
    upstream: str
    """The cluster's ``bootstrap.servers``."""
    bootstrap: str
    listeners: tuple[ListenerView, ...]
    faults: int
    """The number of rules in force."""


_UNSERVED_REASONS: Final = {
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
_ONLY_SIMULATED: Final = "only a simulated cluster can do that (txnsim serve)"


class ProxyApi(PartialApi):
    """The routes over one proxy."""

    WIRE_NOUNS = (JudgingRoutes,)

    def __init__(self, proxy: FaultProxy) -> None:
        super().__init__(
            proxy, (*CLIENT_POINTS, *(FaultPoint.of_peers() if proxy.options.peers else ()))
        )
        self._proxy = proxy

    def brokers(self) -> int:
        """The brokers that clients reach through the proxy."""
        return len(list(self._proxy.clients))

    def why_not(self, path: str) -> str:
        """The reason why a path is not served, by its beginning; for others: it needs a simulated
        cluster.
        """
        reasons = (
            reason
            for path_start, reason in _UNSERVED_REASONS.items()
            if path.startswith(path_start)
        )
        return f"a fault proxy can't do this: {next(reasons, _ONLY_SIMULATED)}"

    def document(self) -> dict[str, Any]:
        """The OpenAPI document of a proxy."""
        openapi_document = super().document()
        openapi_document["info"]["title"] = "txnsim fault proxy control port"
        openapi_document["info"]["description"] = (
            "Faults between clients and brokers of any Kafka cluster. The guide is docs/proxy.md."
        )
        return openapi_document

    @Operation("get", f"{PREFIX}/cluster")
    async def cluster(self, _request: Request) -> ProxyView:
        """Describe the proxy: the cluster behind it, a listener for each broker."""
        proxy = self._proxy
        return ProxyView(
            cluster_id=proxy.cluster_id,
            upstream=proxy.options.bootstrap,
            bootstrap=proxy.bootstrap,
            listeners=tuple(
                ListenerView(
                    node_id=listener.node_id,
                    side="peer" if listener.is_peer else "client",
                    port=listener.port,
                    upstream=f"{listener.upstream[0]}:{listener.upstream[1]}",
                    connections=len(listener.relays),
                    accepted=listener.accepted_count,
                )
                for listener in (*proxy.clients, *proxy.peers)
            ),
            faults=len(proxy.injector.rules()),
        )

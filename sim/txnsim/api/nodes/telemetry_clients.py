"""Clients that push metrics: what GetTelemetrySubscriptions and PushTelemetry know of each."""

from __future__ import annotations

from txnsim.api.request import Request
from txnsim.metadata.client_metrics import TelemetryClient


def client_of(request: Request) -> TelemetryClient:
    """The client that sent the request; it is forgotten when its connection ends."""
    link = request.link
    link.at_close(request.broker.client_metrics.disconnected)
    return TelemetryClient(
        connection=link,
        client_id=request.client_id or "",
        software_name=link.software_name,
        software_version=link.software_version,
        address=request.client_host.removeprefix("/"),
        port=link.port,
    )

"""GetTelemetrySubscriptions (key 71): which metrics a client is to push, and how often (KIP-714).

Version 1 (since 4.5) takes the client's instance id from the request's header (KIP-1313).
Answered everywhere, advertised only where the broker takes client metrics, as Apache Kafka does
with a metrics reporter that is a ClientTelemetryExporter (`client_telemetry_enable`). Kafka's
counterpart: ClientMetricsManager.processGetTelemetrySubscriptionRequest.
"""

from __future__ import annotations

from collections.abc import Generator
from datetime import timedelta
from typing import Final, TypeVar
from uuid import UUID

from txnsim.api.request import NO_THROTTLE, Reply, Request, refuse_at_top_level
from txnsim.errors import ErrorCode, Rejection
from txnsim.metadata.client_metrics import ACCEPTED, WEIGHT, TelemetryClient
from txnsim.wire.codec import run_to_end

T = TypeVar("T")

API_KEY: Final = 71
_ID_IN_HEADER_FROM: Final = 1
"""Version of both telemetry APIs from which the header has the id (KIP-1313)."""

refuse = refuse_at_top_level(
    client_instance_id=None,
    subscription_id=0,
    accepted_compression_types=(),
    push_interval=NO_THROTTLE,
    telemetry_max_bytes=0,
    delta_temporality=False,
    requested_metrics=(),
)


async def handle(request: Request) -> Reply:
    """Answer with the metrics that the client has to push."""
    broker = request.broker
    subscription = await run_in_slices(
        request,
        broker.client_metrics.get(
            instance_of(request),
            client_of(request),
            broker.image.client_metrics,
            now_ms=broker.environment.clock.monotonic_ms(),
        ),
    )
    if isinstance(subscription, Rejection):
        return refuse(request, subscription.error)
    return request.answer(
        error_code=ErrorCode.none,
        client_instance_id=subscription.instance_id,
        subscription_id=subscription.subscription_id,
        accepted_compression_types=ACCEPTED,
        push_interval=timedelta(milliseconds=subscription.interval_ms),
        telemetry_max_bytes=broker.client_metrics.max_bytes,
        delta_temporality=True,
        requested_metrics=subscription.metrics,
    )


def instance_of(request: Request) -> UUID | None:
    """The client's instance id: that of the message up to version 0, then its connection's."""
    if request.api_version < _ID_IN_HEADER_FROM:
        message_id: UUID | None = request.message.client_instance_id
        return message_id
    return request.link.client_instance_id


async def run_in_slices(request: Request, work_steps: Generator[int, None, T]) -> T:
    """Run steps, in slices if there are many subscriptions. A client that disconnects between
    slices is not recorded.
    """
    request.expect(WEIGHT * len(request.broker.image.client_metrics))
    if request.pace is None:
        return run_to_end(work_steps)
    request.pace.is_wanted = request.link.is_open
    return await request.pace.run(work_steps)


def client_of(request: Request) -> TelemetryClient:
    """The client that sent the request; it is forgotten when its connection closes."""
    link = request.link
    link.call_at_close(request.broker.client_metrics.forget_connection)
    return TelemetryClient(
        connection=link,
        client_id=request.client_id or "",
        software_name=link.software_name,
        software_version=link.software_version,
        address=request.client_host.removeprefix("/"),
        port=link.port,
    )

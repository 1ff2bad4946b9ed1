"""PushTelemetry (key 72): metrics of a client (KIP-714).

Version 1 (since 4.5) takes the client's instance id from the request's header (KIP-1313).
Answered everywhere, advertised only where the broker takes client metrics
(`client_telemetry_enable`). Kafka's counterpart: ClientMetricsManager.processPushTelemetryRequest.
"""

from __future__ import annotations

from typing import Final

from txnsim.api.nodes._get_telemetry_subscriptions import client_of, instance_of, run_in_slices
from txnsim.api.request import Reply, Request, refuse_at_top_level
from txnsim.errors import ErrorCode
from txnsim.metadata.client_metrics import MetricsPush

API_KEY: Final = 72

refuse = refuse_at_top_level()

DEVIATIONS: Final = (
    "What clients push (KIP-714) is decompressed, bounded and counted, but not read: bytes that "
    "are no OpenTelemetry metrics are taken too, as by a receiver that does not look at them.",
)


async def handle(request: Request) -> Reply:
    """Accept the pushed metrics."""
    broker, message = request.broker, request.message
    pushed_metrics = MetricsPush(
        instance_id=instance_of(request),
        subscription_id=message.subscription_id,
        is_last=message.terminating,
        compression=message.compression_type,
        metrics=bytes(message.metrics),
    )
    refusal = await run_in_slices(
        request,
        broker.client_metrics.push(
            pushed_metrics,
            client_of(request),
            broker.image.client_metrics,
            now_ms=broker.environment.clock.monotonic_ms(),
        ),
    )
    return request.answer(error_code=ErrorCode.none if refusal is None else refusal.error)

"""DescribeCluster (key 60): the brokers and the cluster id.

Versions: 1 endpoint types, 2 fenced brokers on request. Kafka's counterpart:
KafkaApis.handleDescribeCluster.
"""

from __future__ import annotations

from typing import Any, Final

from txnsim.api.request import CLUSTER_OPERATIONS, NOT_ASKED, Reply, Request
from txnsim.errors import ErrorCode
from txnsim.wire.codec import build

API_KEY: Final = 60

BROKERS: Final = 1
CONTROLLERS: Final = 2


async def handle(request: Request) -> Reply:
    """List the brokers."""
    endpoint_type = getattr(request.message, "endpoint_type", BROKERS)
    if endpoint_type == CONTROLLERS:
        return _answer(
            request,
            ErrorCode.mismatched_endpoint_type,
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of "
            "type CONTROLLER",
        )
    if endpoint_type != BROKERS:
        return _answer(
            request,
            ErrorCode.unsupported_endpoint_type,
            f"Unsupported endpoint type {endpoint_type}",
        )
    return _answer(request, ErrorCode.none, None)


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The answer with the error as its top-level error code."""
    return _answer(request, error, error.name)


def _answer(request: Request, error: ErrorCode, message: str | None) -> Reply:
    image = request.broker.image
    brokers = image.alive_brokers() if error is ErrorCode.none else ()
    lists_fenced = error is ErrorCode.none and getattr(
        request.message, "include_fenced_brokers", False
    )
    sorted_brokers = sorted(
        (*brokers, *(image.fenced_brokers() if lists_fenced else ())),
        key=lambda broker: broker.broker_id,
    )
    return request.answer(
        error_code=error,
        error_message=message,
        # The type of the endpoint that was reached, not of the one that was asked for.
        endpoint_type=BROKERS,
        cluster_id=image.cluster_id if error is ErrorCode.none else "",
        controller_id=brokers[0].broker_id if brokers else -1,
        brokers=tuple(_broker_row(request, broker) for broker in sorted_brokers),
        cluster_authorized_operations=CLUSTER_OPERATIONS
        if error is ErrorCode.none and request.message.include_cluster_authorized_operations
        else NOT_ASKED,
    )


def _broker_row(request: Request, broker: Any) -> Any:
    return build(
        request.schema.DescribeClusterBroker,
        broker_id=broker.broker_id,
        **request.address_of(broker),
        rack=broker.rack,
        is_fenced=not broker.alive,
    )

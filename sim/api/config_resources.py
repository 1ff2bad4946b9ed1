"""What DescribeConfigs and IncrementalAlterConfigs have in common: the resources that carry
configs.
"""

from __future__ import annotations

from enum import IntEnum

from sim.api.request import Request
from sim.cluster.controller import name_complaint
from sim.errors import ErrorCode, Rejection


class ResourceType(IntEnum):
    """Kinds of resources, as ConfigResource.Type numbers them."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


def resource_type(number: int) -> ResourceType:
    """The kind of that number."""
    try:
        return ResourceType(number)
    except ValueError:
        return ResourceType.UNKNOWN


def refusal(request: Request, kind: ResourceType, name: str) -> Rejection | None:
    """Why this resource can't be described or altered here; None where it can."""
    match kind:
        case ResourceType.TOPIC:
            complaint = name_complaint(name)
            if complaint is not None:
                return Rejection(
                    error=ErrorCode.invalid_topic_exception,
                    reason=f"Topic name is invalid: {complaint}",
                )
            if name not in request.broker.image.topics:
                return Rejection(
                    error=ErrorCode.unknown_topic_or_partition,
                    reason=f"The topic '{name}' does not exist.",
                )
            return None
        case ResourceType.BROKER:
            return _broker_refusal(request, name)
        case _:
            return Rejection(
                error=ErrorCode.invalid_request,
                reason=f"Unexpected resource type {kind.name} for resource {name}",
            )


def _broker_refusal(request: Request, name: str) -> Rejection | None:
    if not name:
        return None
    if not name.isascii() or not name.isdigit():
        return Rejection(
            error=ErrorCode.invalid_request,
            reason=f"Broker id must be an integer, but it is: {name}",
        )
    if int(name) not in request.broker.image.brokers:
        return Rejection(
            error=ErrorCode.invalid_request,
            reason=f"Unexpected broker id, expected {request.broker.broker_id} but received {name}",
        )
    return None

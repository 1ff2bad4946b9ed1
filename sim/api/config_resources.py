"""What DescribeConfigs and IncrementalAlterConfigs have in common: the resources that carry
configs.
"""

from __future__ import annotations

import re
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


def topic_refusal(request: Request, name: str) -> Rejection | None:
    """Why there are no configs of a topic of that name; None where there are."""
    complaint = name_complaint(name)
    if complaint is not None:
        return Rejection(
            error=ErrorCode.invalid_topic_exception, reason=f"Topic name is invalid: {complaint}"
        )
    if name not in request.broker.image.topics:
        return Rejection(
            error=ErrorCode.unknown_topic_or_partition,
            reason=f"The topic '{name}' does not exist.",
        )
    return None


def invalid(reason: str) -> Rejection:
    """INVALID_REQUEST with a text of its own."""
    return Rejection(error=ErrorCode.invalid_request, reason=reason)


def node_of(name: str) -> int | None:
    """The broker id that a resource's name says; None where it says none."""
    return int(name) if re.fullmatch(r"[+-]?[0-9]+", name) else None

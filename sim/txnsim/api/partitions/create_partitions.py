"""CreatePartitions (key 37): more partitions for topics that exist.

Versions: 2 is flexible, 3 adds throttling. ``count`` is the total. The new partitions have logs and
leaders before the answer is sent. Kafka's counterparts: ControllerApis.createPartitions,
ReplicationControlManager.createPartitions.
"""

from __future__ import annotations

from typing import Any, Final

from txnsim.api.deadlines import has_no_time
from txnsim.api.request import Reply, Request
from txnsim.controller import growth
from txnsim.errors import ErrorCode, Rejection
from txnsim.types import BrokerId

KEY: Final = 37
VERSIONS: Final = (0, 3)


async def handle(request: Request) -> Reply:
    """Grow each topic by itself, or only check it."""
    if has_no_time(request):
        return refuse(request, ErrorCode.request_timed_out)
    topics = request.message.topics
    names = [topic.name for topic in topics]
    # Topics that are named twice are refused ahead of everything else.
    twice = dict.fromkeys(name for name in names if names.count(name) > 1)
    duplicate = Rejection(error=ErrorCode.invalid_request, reason="Duplicate topic name.")
    results = [_result(request, name, duplicate) for name in twice]
    results += [
        _result(request, topic.name, _grow(request, topic))
        for topic in topics
        if topic.name not in twice
    ]
    return request.answer(results=tuple(results))


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error on every topic."""
    rejection = Rejection(error=error, reason="")
    return request.answer(
        results=tuple(_result(request, topic.name, rejection) for topic in request.message.topics)
    )


def _grow(request: Request, topic: Any) -> Rejection | None:
    metadata = request.broker.metadata
    assignments = (
        None
        if topic.assignments is None
        else tuple(tuple(map(BrokerId, one.broker_ids)) for one in topic.assignments)
    )
    grown = growth.grown_topic(
        metadata.image, topic.name, count=topic.count, assignments=assignments
    )
    if isinstance(grown, Rejection):
        return grown
    if not request.message.validate_only:
        metadata.publish(metadata.image.with_topic(grown))
    return None


def _result(request: Request, name: str, rejection: Rejection | None) -> Any:
    return request.schema.CreatePartitionsTopicResult(
        name=name,
        error_code=ErrorCode.none if rejection is None else rejection.error,
        error_message=None if rejection is None else rejection.reason or None,
    )

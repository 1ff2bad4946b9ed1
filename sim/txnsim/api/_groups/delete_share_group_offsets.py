"""DeleteShareGroupOffsets (key 92): delete the state of topics in a share group without members
(KIP-932).

Only version 0. Answered once the share coordinators of the partitions have answered. Kafka's
counterpart: KafkaApis.handleDeleteShareGroupOffsetsRequest.
"""

from __future__ import annotations

from typing import Any, Final

from txnsim.api._error_texts import reason_of, text_of
from txnsim.api._groups.share_group_heartbeat import has_share_groups
from txnsim.api.request import Reply, Request
from txnsim.errors import ErrorCode, Rejection
from txnsim.group.sharing.share_topics import TopicOutcome

API_KEY: Final = 92


async def handle(request: Request) -> Reply:
    """Delete the state of each topic."""
    if not has_share_groups(request):
        return refuse(request, ErrorCode.unsupported_version)
    message = request.message
    request.expect(len(message.topics) * 4)
    outcome = await request.broker.groups.delete_share_offsets(
        message.group_id, [topic.topic_name for topic in message.topics]
    )
    if isinstance(outcome, Rejection):
        return _failure(request, outcome.error, reason_of(outcome) or text_of(outcome.error))
    return request.answer(
        error_code=ErrorCode.none,
        error_message=None,
        responses=tuple(topic_of(request, topic) for topic in outcome),
    )


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error for the whole request."""
    return _failure(request, error, text_of(error))


def topic_of(request: Request, topic: TopicOutcome) -> Any:
    """A topic of the answer, with its error and error message."""
    outcome = topic.outcome
    return request.schema.DeleteShareGroupOffsetsResponseTopic(
        topic_name=topic.topic_name,
        topic_id=topic.topic_id,
        error_code=outcome.error,
        error_message=outcome.message or text_of(outcome.error),
    )


def _failure(request: Request, error: ErrorCode, message: str | None) -> Reply:
    return request.answer(error_code=error, error_message=message, responses=())

"""OffsetCommit (key 8): remember how far a group has consumed.

Versions: 2 to 4 carry a retention for these positions alone, 6 leader epochs, 7 an instance id
(KIP-345). From 9 on members of the consumer protocol (KIP-848) may use it, and a missing group has
an error of its own; 10 names topics by id. Kafka's counterpart:
KafkaApis.handleOffsetCommitRequest.
"""

from __future__ import annotations

from typing import Final

from txnsim.api._fault_subjects import subject_of_topics
from txnsim.api._groups.committed_positions import (
    build_answer,
    build_answer_in_slices,
    errors_of,
    same_error_for_all,
    split,
)
from txnsim.api.request import Reply, Request
from txnsim.errors import ErrorCode
from txnsim.group.offset_commands import CommitOffsets

API_KEY: Final = 8

subject = subject_of_topics

MISSING_GROUP_NAMED_FROM: Final = 9

_ENTITY: Final = "OffsetCommit"


async def handle(request: Request) -> Reply:
    """Commit the positions; answer once they are replicated."""
    message = request.message
    split_request = split(request.broker.image, message.topics)
    if not split_request.positions:
        return build_answer(request, split_request.results(()), entity_prefix=_ENTITY)
    retention = getattr(message, "retention_time", None)
    outcome = await request.broker.groups.commit(
        CommitOffsets(
            group_id=message.group_id,
            member_id=message.member_id,
            group_instance_id=getattr(message, "group_instance_id", None),
            generation=message.generation_id_or_member_epoch,
            positions=split_request.positions,
            retention_ms=-1 if retention is None else round(retention.total_seconds() * 1_000),
            names_missing_group=request.api_version >= MISSING_GROUP_NAMED_FROM,
            api_version=request.api_version,
        ),
        request.pace_of(len(split_request.positions)),
    )
    topic_errors = split_request.results(errors_of(outcome))
    if request.pace is not None:
        return await build_answer_in_slices(request, topic_errors, entity_prefix=_ENTITY)
    return build_answer(request, topic_errors, entity_prefix=_ENTITY)


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error on every partition."""
    return build_answer(
        request, same_error_for_all(request.message.topics, error), entity_prefix=_ENTITY
    )

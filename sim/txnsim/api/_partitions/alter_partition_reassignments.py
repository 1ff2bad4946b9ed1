"""AlterPartitionReassignments (key 45): move replicas to other brokers, or stop moving them
(KIP-455).

Versions: 1 can insist on as many replicas as before (KIP-860). An answer says that a reassignment
has begun; ListPartitionReassignments lists it while it goes on. Kafka's counterpart:
ReplicationControlManager.alterPartitionReassignments.
"""

from __future__ import annotations

from typing import Any, Final

from txnsim.api._fault_subjects import subject_of_topics
from txnsim.api._topics import answered_topics, each_partition, same_row_for_all
from txnsim.api.request import ELEMENTS_PER_CHANGE, Reply, Request, error_fields
from txnsim.controller.reassignments import cancel, reassign
from txnsim.errors import ErrorCode, Rejection
from txnsim.types import BrokerId, TopicPartition

API_KEY: Final = 45

subject = subject_of_topics

DEVIATIONS: Final = (
    "Replicas move at full speed: leader.replication.throttled.rate and its like (KIP-73) have no "
    "effect, though the topic configs that kafka-reassign-partitions sets are kept.",
)


async def handle(request: Request) -> Reply:
    """Begin or cancel the reassignment of each partition by itself."""
    message = request.message
    if not message.topics:
        # The controller does not look at it, so its answer has the defaults.
        return _answer(request, ErrorCode.none, "", [], may_change_factor=True)
    if request.has_no_time:
        return refuse(request, ErrorCode.request_timed_out)
    may_change_factor = getattr(message, "allow_replication_factor_change", True)

    def alter(topic: Any, partition: Any) -> Any:
        return _partition_row(
            request,
            partition,
            _alter(request, topic.name, partition, may_change_factor=may_change_factor),
        )

    topic_rows = await each_partition(request, alter, weight=ELEMENTS_PER_CHANGE)
    return _answer(request, ErrorCode.none, None, topic_rows, may_change_factor=may_change_factor)


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The answer with the error at the top level and on every partition."""
    rejection = Rejection(error=error, reason="")
    topic_rows = same_row_for_all(
        request.message.topics, lambda partition: _partition_row(request, partition, rejection)
    )
    return _answer(request, error, None, topic_rows, may_change_factor=True)


def _alter(
    request: Request, topic: str, reassignment: Any, *, may_change_factor: bool
) -> Rejection | None:
    metadata = request.broker.metadata
    topic_partition = TopicPartition(topic, reassignment.partition_index)
    if reassignment.replicas is None:
        outcome = cancel(metadata.image, topic_partition, metadata.settings)
    else:
        outcome = reassign(
            metadata.image,
            topic_partition,
            tuple(map(BrokerId, reassignment.replicas)),
            metadata.settings,
            may_change_factor=may_change_factor,
        )
    if isinstance(outcome, Rejection):
        return outcome
    metadata.publish(outcome)
    return None


def _partition_row(request: Request, partition: Any, rejection: Rejection | None) -> Any:
    return request.schema.ReassignablePartitionResponse(
        partition_index=partition.partition_index, **error_fields(rejection)
    )


def _answer(
    request: Request,
    error: ErrorCode,
    reason: str | None,
    topic_rows: list[tuple[Any, list[Any]]],
    *,
    may_change_factor: bool,
) -> Reply:
    return request.answer(
        allow_replication_factor_change=may_change_factor,
        error_code=error,
        error_message=reason,
        responses=answered_topics(request.schema.ReassignableTopicResponse, topic_rows),
    )

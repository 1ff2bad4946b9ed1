"""DeleteRecords (key 21): raise the log start offset.

Versions: 2 is flexible. Transactions stay open even if their first record is deleted. Kafka's
counterparts: KafkaApis.handleDeleteRecordsRequest, ReplicaManager.deleteRecords.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, assert_never

from txnsim.api._fault_subjects import subject_of_topics
from txnsim.api._topics import answered_topics
from txnsim.api.request import Reply, Request
from txnsim.errors import ErrorCode, Rejection
from txnsim.metadata.configs import TopicLookup
from txnsim.replication.deletions import LateDeletion, Outcome
from txnsim.types import INTERNAL_TOPICS, TopicPartition
from txnsim.wire.values import duration_ms

API_KEY: Final = 21

subject = subject_of_topics


async def handle(request: Request) -> Reply:
    """Delete the records below each offset, and wait until every live replica has done so."""
    outcome_by_partition: dict[TopicPartition, Outcome] = {}
    low_watermark_by_partition: dict[TopicPartition, int] = {}
    topics = request.message.topics
    request.expect(sum(len(topic.partitions) for topic in topics))
    for topic in topics:
        # A partition that is named twice counts once, as it was named last.
        for partition in {
            partition_row.partition_index: partition_row for partition_row in topic.partitions
        }.values():
            topic_partition = TopicPartition(topic.name, partition.partition_index)
            log_start = _delete(request, topic_partition, partition.offset)
            outcome_by_partition[topic_partition] = log_start
            if not isinstance(log_start, ErrorCode):
                low_watermark_by_partition[topic_partition] = log_start
            await request.note_done(1)
    timeout_ms = duration_ms(request.message.timeout)
    outcome_by_partition.update(
        await request.broker.deletions.wait(low_watermark_by_partition, timeout_ms=timeout_ms)
    )
    return _answer(request, outcome_by_partition)


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error on every partition."""
    return _answer(request, dict.fromkeys(subject(request).partitions, error))


def _mark_and_error(outcome: Outcome) -> tuple[int, ErrorCode]:
    """Low watermark and error of a partition; after a timeout DelayedDeleteRecords answers with
    both.
    """
    match outcome:
        case ErrorCode():
            return -1, outcome
        case LateDeletion():
            return outcome.low_watermark, ErrorCode.request_timed_out
        case int():
            return outcome, ErrorCode.none
        case _:
            assert_never(outcome)


def _answer(request: Request, outcome_by_partition: Mapping[TopicPartition, Outcome]) -> Reply:
    schema = request.schema
    topic_rows = []
    for topic in request.message.topics:
        partitions = []
        for index in dict.fromkeys(partition.partition_index for partition in topic.partitions):
            low_watermark, error = _mark_and_error(
                outcome_by_partition[TopicPartition(topic.name, index)]
            )
            partitions.append(
                schema.DeleteRecordsPartitionResult(
                    partition_index=index, low_watermark=low_watermark, error_code=error
                )
            )
        topic_rows.append((topic, partitions))
    return request.answer(topics=answered_topics(schema.DeleteRecordsTopicResult, topic_rows))


def _delete(
    request: Request, topic_partition: TopicPartition, first_kept_offset: int
) -> int | ErrorCode:
    """The log start after the deletion, or why nothing was deleted."""
    broker = request.broker
    if broker.image.partition(topic_partition) is None:
        return ErrorCode.unknown_topic_or_partition
    if topic_partition.topic in INTERNAL_TOPICS:
        return ErrorCode.invalid_topic_exception
    log = broker.replicas.leader_log(topic_partition)
    if isinstance(log, Rejection):
        return log.error
    lookup = TopicLookup(
        topic=broker.image.topics[topic_partition.topic].configs,
        image=broker.image,
        settings=broker.settings,
    )
    if "delete" not in lookup.text("cleanup.policy"):
        return ErrorCode.policy_violation
    log_start = broker.deletions.delete(log, first_kept_offset)
    return log_start.error if isinstance(log_start, Rejection) else log_start

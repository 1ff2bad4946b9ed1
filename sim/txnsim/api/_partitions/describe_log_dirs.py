"""DescribeLogDirs (key 35): sizes of the replicas on a broker.

Versions: 2 is flexible, 3 has a top-level error, 4 sizes of the disk (KIP-827), 5 cordoned
directories. The answer leaves out partitions that this broker does not host. Kafka's counterpart:
ReplicaManager.describeLogDirs.
"""

from __future__ import annotations

from typing import Any, Final

from txnsim.api._fault_subjects import subject_of_topics
from txnsim.api._topics import answered_topics, rows_by_topic
from txnsim.api.request import Reply, Request, refuse_at_top_level
from txnsim.broker.broker import Broker
from txnsim.errors import ErrorCode
from txnsim.types import TopicPartition
from txnsim.wire.codec import build

API_KEY: Final = 35

subject = subject_of_topics
refuse = refuse_at_top_level(results=())

DEVIATIONS: Final = (
    "DescribeLogDirs shows one directory per broker, which is its memory: no disk, so -1 for total "
    "and usable bytes. Records that were deleted no longer count; Apache Kafka counts them until "
    "their segment is removed.",
)


async def handle(request: Request) -> Reply:
    """Describe the one directory and the requested partitions in it; an offline directory has only
    an error.
    """
    schema = request.schema
    if request.broker.logs.has_failed:
        failed_directory = build(
            schema.DescribeLogDirsResult,
            error_code=ErrorCode.kafka_storage_error,
            log_dir=directory_of(request.broker),
            topics=(),
        )
        return request.answer(error_code=ErrorCode.none, results=(failed_directory,))
    hosted_logs = request.broker.replicas.hosted

    def describe(topic_partition: TopicPartition) -> tuple[TopicPartition, Any] | None:
        log = hosted_logs.get(topic_partition)
        if log is None:
            return None  # deleted in a break
        return topic_partition, schema.DescribeLogDirsPartition(
            partition_index=topic_partition.partition,
            partition_size=log.local.segments.size_bytes,
            offset_lag=0,
            is_future_key=False,
        )

    described_partitions = await request.map_each(describe, _hosted_partitions(request))
    topic_rows = rows_by_topic(
        partition_and_row
        for partition_and_row in described_partitions
        if partition_and_row is not None
    )
    directory_row = build(
        schema.DescribeLogDirsResult,
        error_code=ErrorCode.none,
        log_dir=directory_of(request.broker),
        topics=answered_topics(schema.DescribeLogDirsTopic, topic_rows.items()),
    )
    return request.answer(error_code=ErrorCode.none, results=(directory_row,))


def directory_of(broker: Broker) -> str:
    """The path of a broker's one directory."""
    return f"memory/broker-{broker.broker_id}"


def _hosted_partitions(request: Request) -> list[TopicPartition]:
    """The requested partitions that this broker hosts, each once."""
    hosted_logs = request.broker.replicas.hosted
    if request.message.topics is None:
        return list(hosted_logs)
    requested_partitions = (
        TopicPartition(topic.topic, index)
        for topic in request.message.topics
        for index in topic.partitions
    )
    return [
        topic_partition
        for topic_partition in dict.fromkeys(requested_partitions)
        if topic_partition in hosted_logs
    ]

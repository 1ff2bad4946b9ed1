"""AlterReplicaLogDirs (key 34): move replicas between the directories of a broker (KIP-113).

Versions: 2 is flexible. A broker has one directory here, so a replica is in the requested
directory, or there is no such directory. Kafka's counterparts:
KafkaApis.handleAlterReplicaLogDirsRequest, ReplicaManager.alterReplicaLogDirs.
"""

from __future__ import annotations

from typing import Final

from txnsim.api._partitions.describe_log_dirs import directory_of
from txnsim.api._topics import answered_topics, rows_by_topic
from txnsim.api.request import Reply, Request
from txnsim.errors import ErrorCode
from txnsim.faults.subjects import Subject
from txnsim.types import TopicPartition

API_KEY: Final = 34


async def handle(request: Request) -> Reply:
    """Answer each requested move of a replica with an error code of its own."""
    return _answer(
        request,
        {
            partition: _error_of_move(request, partition, directory_path)
            for partition, directory_path in _requested_moves(request)
        },
    )


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error on every partition."""
    return _answer(request, {partition: error for partition, _ in _requested_moves(request)})


def subject(request: Request) -> Subject:
    """The partitions that fault rules can name."""
    return Subject(partitions=tuple(partition for partition, _ in _requested_moves(request)))


def _requested_moves(request: Request) -> list[tuple[TopicPartition, str]]:
    """Partition and target directory; if a partition is named twice, the last one counts."""
    return list(
        {
            TopicPartition(topic.name, partition): directory.path
            for directory in request.message.dirs
            for topic in directory.topics
            for partition in topic.partitions
        }.items()
    )


def _error_of_move(request: Request, partition: TopicPartition, directory_path: str) -> ErrorCode:
    broker = request.broker
    if directory_path != directory_of(broker):
        return ErrorCode.log_dir_not_found
    image = broker.image.partition(partition)
    if image is None:
        return ErrorCode.unknown_topic_or_partition
    if broker.broker_id not in image.replicas:
        return ErrorCode.not_leader_or_follower
    return ErrorCode.none


def _answer(request: Request, error_by_partition: dict[TopicPartition, ErrorCode]) -> Reply:
    schema = request.schema
    row_class = schema.AlterReplicaLogDirPartitionResult
    topic_rows = rows_by_topic(
        (topic_partition, row_class(partition_index=topic_partition.partition, error_code=error))
        for topic_partition, error in error_by_partition.items()
    )
    return request.answer(
        results=answered_topics(
            schema.AlterReplicaLogDirTopicResult, topic_rows.items(), name_field="topic_name"
        )
    )

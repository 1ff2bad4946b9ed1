"""What followers, leaders and the controller say to each other about replicas, as Kafka's messages:
Fetch and ListOffsets of a follower, AlterPartition.

Part of ``api.peers.peer_codec``. Topics travel by id where Kafka has them so: what is decoded has
an empty name, and whoever receives it knows the topic by its id. A batch is described anew from its
header, as a broker that gets bytes has to.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any, Final, TypeVar

from txnsim.errors import ErrorCode
from txnsim.log.replicated import described
from txnsim.node.peers import ALTER_PARTITION, FETCH, LIST_OFFSETS
from txnsim.types import (
    AlteredPartition,
    AlterPartitionCommand,
    AlterPartitionReply,
    BrokerId,
    IsrChange,
    LeaderEpoch,
    ReplicaFetchCommand,
    ReplicaFetchedPartition,
    ReplicaFetchPartition,
    ReplicaFetchReply,
    ReplicaOffsetCommand,
    ReplicaOffsetReply,
    TopicPartition,
)
from txnsim.wire import codec
from txnsim.wire.batch import iter_batches

NO_THROTTLE_MS: Final = 0
RECOVERED: Final = 0
"""LeaderRecoveryState."""
UNNAMED: Final = ""

ValueT = TypeVar("ValueT")

# Fetch


def fetch_request(api_version: int, command: ReplicaFetchCommand) -> Any:
    """A follower's Fetch as a message."""
    schema = codec.request_schema(FETCH, api_version)
    return codec.build(
        schema.FetchRequest,
        cluster_id=None,
        replica_state=schema.ReplicaState(
            replica_id=command.replica_id, replica_epoch=command.replica_epoch
        ),
        max_wait=command.max_wait_ms,
        min_bytes=command.min_bytes,
        max_bytes=command.max_bytes,
        isolation_level=0,
        session_id=command.session_id,
        session_epoch=command.session_epoch,
        topics=tuple(
            schema.FetchTopic(
                topic_id=topic_id,
                partitions=tuple(
                    codec.build(
                        schema.FetchPartition,
                        partition=wanted.topic_partition.partition,
                        current_leader_epoch=wanted.current_leader_epoch,
                        fetch_offset=wanted.fetch_offset,
                        last_fetched_epoch=wanted.last_fetched_epoch,
                        log_start_offset=wanted.log_start_offset,
                        partition_max_bytes=wanted.max_bytes,
                        high_watermark=wanted.high_watermark,
                    )
                    for wanted in wanteds
                ),
            )
            for topic_id, wanteds in _by_id((one.topic_id, one) for one in command.partitions)
        ),
        forgotten_topics_data=tuple(
            schema.ForgottenTopic(
                topic_id=topic_id, partitions=tuple(one.partition for one in partitions)
            )
            for topic_id, partitions in _by_id(command.forgotten)
        ),
        rack_id="",
    )


def fetch_command(message: Any) -> ReplicaFetchCommand:
    """The inverse."""
    wait = message.max_wait
    return ReplicaFetchCommand(
        replica_id=BrokerId(message.replica_state.replica_id),
        replica_epoch=message.replica_state.replica_epoch,
        max_wait_ms=wait.days * 86_400_000 + wait.seconds * 1_000 + wait.microseconds // 1_000,
        min_bytes=message.min_bytes,
        max_bytes=message.max_bytes,
        session_id=message.session_id,
        session_epoch=message.session_epoch,
        partitions=tuple(
            ReplicaFetchPartition(
                topic_id=topic.topic_id,
                topic_partition=TopicPartition(UNNAMED, wanted.partition),
                current_leader_epoch=wanted.current_leader_epoch,
                fetch_offset=wanted.fetch_offset,
                last_fetched_epoch=wanted.last_fetched_epoch,
                log_start_offset=wanted.log_start_offset,
                high_watermark=wanted.high_watermark,
                max_bytes=wanted.partition_max_bytes,
            )
            for topic in message.topics
            for wanted in topic.partitions
        ),
        forgotten=tuple(
            (topic.topic_id, TopicPartition(UNNAMED, index))
            for topic in message.forgotten_topics_data
            for index in topic.partitions
        ),
    )


def fetch_response(api_version: int, reply: ReplicaFetchReply) -> Any:
    """The leader's answer as a message."""
    schema = codec.response_schema(FETCH, api_version)
    return codec.build(
        schema.FetchResponse,
        throttle_time=NO_THROTTLE_MS,
        error_code=ErrorCode(reply.error),
        session_id=reply.session_id,
        responses=tuple(
            schema.FetchableTopicResponse(
                topic_id=topic_id,
                partitions=tuple(_fetched_partition(schema, told) for told in tolds),
            )
            for topic_id, tolds in _by_id((one.topic_id, one) for one in reply.partitions)
        ),
    )


def _fetched_partition(schema: Any, told: ReplicaFetchedPartition) -> Any:
    tagged: dict[str, object] = {}
    if told.diverging is not None:
        epoch, end_offset = told.diverging
        tagged["diverging_epoch"] = schema.EpochEndOffset(epoch=epoch, end_offset=end_offset)
    if told.current_leader is not None:
        leader, leader_epoch = told.current_leader
        tagged["current_leader"] = schema.LeaderIdAndEpoch(
            leader_id=leader, leader_epoch=leader_epoch
        )
    return codec.build(
        schema.PartitionData,
        partition_index=told.topic_partition.partition,
        error_code=ErrorCode(told.error),
        high_watermark=told.high_watermark,
        last_stable_offset=told.last_stable_offset,
        log_start_offset=told.log_start_offset,
        aborted_transactions=None,
        records=b"".join([batch.data for batch in told.batches]),
        **tagged,
    )


def fetch_reply(message: Any) -> ReplicaFetchReply:
    """The inverse."""
    return ReplicaFetchReply(
        error=message.error_code,
        session_id=message.session_id,
        partitions=tuple(
            _told(topic.topic_id, data) for topic in message.responses for data in topic.partitions
        ),
    )


def _told(topic_id: uuid.UUID, data: Any) -> ReplicaFetchedPartition:
    diverging, leader = data.diverging_epoch, data.current_leader
    records = bytes(data.records or b"")
    return ReplicaFetchedPartition(
        topic_id=topic_id,
        topic_partition=TopicPartition(UNNAMED, data.partition_index),
        error=data.error_code,
        high_watermark=data.high_watermark,
        log_start_offset=data.log_start_offset,
        last_stable_offset=data.last_stable_offset,
        diverging=None if diverging.epoch < 0 else (diverging.epoch, diverging.end_offset),
        current_leader=None if leader.leader_id < 0 else (leader.leader_id, leader.leader_epoch),
        batches=tuple(
            described(records[position : position + header.size])
            for position, header in iter_batches(records)
        ),
    )


# ListOffsets


def offset_request(api_version: int, command: ReplicaOffsetCommand) -> Any:
    """A follower's question for an end of its leader's log as a message."""
    schema = codec.request_schema(LIST_OFFSETS, api_version)
    topic_partition = command.topic_partition
    return codec.build(
        schema.ListOffsetsRequest,
        replica_id=command.replica_id,
        isolation_level=0,
        topics=(
            schema.ListOffsetsTopic(
                name=topic_partition.topic,
                partitions=(
                    codec.build(
                        schema.ListOffsetsPartition,
                        partition_index=topic_partition.partition,
                        current_leader_epoch=command.current_leader_epoch,
                        timestamp=command.timestamp_ms,
                    ),
                ),
            ),
        ),
        timeout=0,
    )


def offset_command(message: Any) -> ReplicaOffsetCommand:
    """The inverse."""
    (topic,) = message.topics
    (partition,) = topic.partitions
    return ReplicaOffsetCommand(
        replica_id=BrokerId(message.replica_id),
        topic_partition=TopicPartition(topic.name, partition.partition_index),
        current_leader_epoch=partition.current_leader_epoch,
        timestamp_ms=partition.timestamp,
    )


def offset_response(api_version: int, reply: ReplicaOffsetReply) -> Any:
    """The leader's answer as a message."""
    schema = codec.response_schema(LIST_OFFSETS, api_version)
    return codec.build(
        schema.ListOffsetsResponse,
        throttle_time=NO_THROTTLE_MS,
        topics=(
            schema.ListOffsetsTopicResponse(
                name=reply.topic_partition.topic,
                partitions=(
                    codec.build(
                        schema.ListOffsetsPartitionResponse,
                        partition_index=reply.topic_partition.partition,
                        error_code=ErrorCode(reply.error),
                        timestamp=-1,
                        offset=reply.offset,
                        leader_epoch=-1,
                    ),
                ),
            ),
        ),
    )


def offset_reply(message: Any) -> ReplicaOffsetReply:
    """The inverse."""
    (topic,) = message.topics
    (partition,) = topic.partitions
    return ReplicaOffsetReply(
        topic_partition=TopicPartition(topic.name, partition.partition_index),
        error=partition.error_code,
        offset=partition.offset,
    )


# AlterPartition


def alter_request(api_version: int, command: AlterPartitionCommand) -> Any:
    """A leader's wish for other ISRs as a message."""
    schema = codec.request_schema(ALTER_PARTITION, api_version)
    return schema.AlterPartitionRequest(
        broker_id=command.broker_id,
        broker_epoch=command.broker_epoch,
        topics=tuple(
            schema.TopicData(
                topic_id=topic_id,
                partitions=tuple(
                    codec.build(
                        schema.PartitionData,
                        partition_index=change.topic_partition.partition,
                        leader_epoch=change.leader_epoch,
                        new_isr_with_epochs=tuple(
                            schema.BrokerState(broker_id=broker_id, broker_epoch=epoch)
                            for broker_id, epoch in change.new_isr
                        ),
                        leader_recovery_state=RECOVERED,
                        partition_epoch=change.partition_epoch,
                    )
                    for change in changes
                ),
            )
            for topic_id, changes in _by_id((one.topic_id, one) for one in command.partitions)
        ),
    )


def alter_command(message: Any) -> AlterPartitionCommand:
    """The inverse."""
    return AlterPartitionCommand(
        broker_id=BrokerId(message.broker_id),
        broker_epoch=message.broker_epoch,
        partitions=tuple(
            IsrChange(
                topic_id=topic.topic_id,
                topic_partition=TopicPartition(UNNAMED, partition.partition_index),
                leader_epoch=LeaderEpoch(partition.leader_epoch),
                new_isr=tuple(
                    (BrokerId(one.broker_id), one.broker_epoch)
                    for one in partition.new_isr_with_epochs
                ),
                partition_epoch=partition.partition_epoch,
            )
            for topic in message.topics
            for partition in topic.partitions
        ),
    )


def alter_response(api_version: int, reply: AlterPartitionReply) -> Any:
    """The controller's answer as a message."""
    schema = codec.response_schema(ALTER_PARTITION, api_version)
    return codec.build(
        schema.AlterPartitionResponse,
        throttle_time=NO_THROTTLE_MS,
        error_code=ErrorCode(reply.error),
        topics=tuple(
            schema.TopicData(
                topic_id=topic_id,
                partitions=tuple(
                    codec.build(
                        schema.PartitionData,
                        partition_index=altered.topic_partition.partition,
                        error_code=ErrorCode(altered.error),
                        leader_id=altered.leader,
                        leader_epoch=altered.leader_epoch,
                        isr=altered.isr,
                        leader_recovery_state=RECOVERED,
                        partition_epoch=altered.partition_epoch,
                    )
                    for altered in altereds
                ),
            )
            for topic_id, altereds in _by_id((one.topic_id, one) for one in reply.partitions)
        ),
    )


def alter_reply(message: Any) -> AlterPartitionReply:
    """The inverse."""
    return AlterPartitionReply(
        error=message.error_code,
        partitions=tuple(
            AlteredPartition(
                topic_id=topic.topic_id,
                topic_partition=TopicPartition(UNNAMED, partition.partition_index),
                error=partition.error_code,
                leader=BrokerId(partition.leader_id),
                leader_epoch=LeaderEpoch(partition.leader_epoch),
                isr=tuple(map(BrokerId, partition.isr)),
                partition_epoch=partition.partition_epoch,
            )
            for topic in message.topics
            for partition in topic.partitions
        ),
    )


def _by_id(
    pairs: Iterable[tuple[uuid.UUID, ValueT]],
) -> Iterable[tuple[uuid.UUID, list[ValueT]]]:
    """Values by topic id, in order of appearance."""
    topics: dict[uuid.UUID, list[ValueT]] = {}
    for topic_id, value in pairs:
        topics.setdefault(topic_id, []).append(value)
    return topics.items()

"""What followers, leaders and the controller say to each other about replicas, as Kafka's messages:
Fetch and ListOffsets of a follower, AlterPartition.

Topics travel by id where Kafka does so; then the decoded name is empty. A batch is described anew
from its header, as a broker that gets bytes has to.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from tests.support.peer_codec.shapes import (
    Index,
    OptionalTuple,
    PlainField,
    Shape,
    StructTuple,
    TopicGrouping,
    TopicIdField,
    error,
)
from txnsim.interbroker.replication import (
    AlteredPartition,
    AlterPartitionCommand,
    AlterPartitionReply,
    IsrChange,
    ReplicaFetchCommand,
    ReplicaFetchedPartition,
    ReplicaFetchPartition,
    ReplicaFetchReply,
    ReplicaOffsetCommand,
    ReplicaOffsetReply,
    ReplicatedBatch,
)
from txnsim.log.replicated import describe_batch
from txnsim.types import BrokerId, TopicPartition
from txnsim.wire import codec
from txnsim.wire.batch import iter_batches
from txnsim.wire.values import duration_ms

NO_THROTTLE_MS: Final = 0
RECOVERED: Final = 0
"""LeaderRecoveryState."""


def _records(batches: Iterable[ReplicatedBatch]) -> bytes:
    return b"".join([batch.batch_bytes for batch in batches])


def _batches(records: Any) -> tuple[ReplicatedBatch, ...]:
    batch_data = bytes(records or b"")
    return tuple(
        describe_batch(batch_data[position : position + header.size])
        for position, header in iter_batches(batch_data)
    )


class _FollowerState:
    """The follower's id or broker epoch, which Fetch nests in a message ReplicaState."""

    def __init__(self, theirs: str) -> None:
        self._theirs = theirs

    def write(self, schema: Any, value: Any, message: dict[str, Any]) -> None:
        state = message.get("replica_state") or schema.ReplicaState()
        values = {"replica_id": state.replica_id, "replica_epoch": state.replica_epoch}
        message["replica_state"] = schema.ReplicaState(**{**values, self._theirs: value})

    def read(self, message: Any, _topic: Any) -> Any:
        return getattr(message.replica_state, self._theirs)


FETCH_REQUEST: Final = Shape(
    ReplicaFetchCommand,
    "FetchRequest",
    *("min_bytes", "max_bytes", "session_id", "session_epoch"),
    replica_id=_FollowerState("replica_id"),
    replica_epoch=_FollowerState("replica_epoch"),
    max_wait_ms=PlainField("max_wait", from_wire=duration_ms),
    partitions=TopicGrouping(
        "topics",
        "FetchTopic",
        Shape(
            ReplicaFetchPartition,
            "FetchPartition",
            *("current_leader_epoch", "fetch_offset", "last_fetched_epoch", "log_start_offset"),
            "high_watermark",
            topic_id=TopicIdField(),
            topic_partition=Index("partition"),
            max_bytes="partition_max_bytes",
        ),
        by_id=True,
    ),
    forgotten_partitions=TopicGrouping("forgotten_topics_data", "ForgottenTopic", by_id=True),
    says={"cluster_id": None, "isolation_level": 0, "rack_id": ""},
)
FETCH_RESPONSE: Final = Shape(
    ReplicaFetchReply,
    "FetchResponse",
    "session_id",
    error=error(),
    partitions=TopicGrouping(
        "responses",
        "FetchableTopicResponse",
        Shape(
            ReplicaFetchedPartition,
            "PartitionData",
            *("high_watermark", "last_stable_offset", "log_start_offset"),
            topic_id=TopicIdField(),
            topic_partition=Index(),
            error=error(),
            diverging_epoch=OptionalTuple(
                "diverging_epoch",
                Shape(None, "EpochEndOffset", "epoch", "end_offset"),
            ),
            current_leader=OptionalTuple(
                "current_leader", Shape(None, "LeaderIdAndEpoch", "leader_id", "leader_epoch")
            ),
            batches=PlainField("records", to_wire=_records, from_wire=_batches),
            says={"aborted_transactions": None},
        ),
        by_id=True,
    ),
    says={"throttle_time": NO_THROTTLE_MS},
)
ALTER_REQUEST: Final = Shape(
    AlterPartitionCommand,
    "AlterPartitionRequest",
    *("broker_id", "broker_epoch"),
    partitions=TopicGrouping(
        "topics",
        "TopicData",
        Shape(
            IsrChange,
            "PartitionData",
            *("leader_epoch", "partition_epoch"),
            topic_id=TopicIdField(),
            topic_partition=Index(),
            new_isr=StructTuple(
                "new_isr_with_epochs", Shape(None, "BrokerState", "broker_id", "broker_epoch")
            ),
            says={"leader_recovery_state": RECOVERED},
        ),
        by_id=True,
    ),
)
ALTER_RESPONSE: Final = Shape(
    AlterPartitionReply,
    "AlterPartitionResponse",
    error=error(),
    partitions=TopicGrouping(
        "topics",
        "TopicData",
        Shape(
            AlteredPartition,
            "PartitionData",
            *("leader_epoch", "isr", "partition_epoch"),
            topic_id=TopicIdField(),
            topic_partition=Index(),
            error=error(),
            leader="leader_id",
            says={"leader_recovery_state": RECOVERED},
        ),
        by_id=True,
    ),
    says={"throttle_time": NO_THROTTLE_MS},
)


class OffsetRequest:
    """ListOffsets of a follower, which asks for one partition."""

    def to_message(self, schema: Any, command: ReplicaOffsetCommand) -> Any:
        """A command as a ListOffsets request."""
        topic_partition = command.topic_partition
        partition = codec.build(
            schema.ListOffsetsPartition,
            partition_index=topic_partition.partition,
            current_leader_epoch=command.current_leader_epoch,
            timestamp=command.timestamp_ms,
        )
        topic = schema.ListOffsetsTopic(name=topic_partition.topic, partitions=(partition,))
        return codec.build(
            schema.ListOffsetsRequest,
            replica_id=command.replica_id,
            isolation_level=0,
            topics=(topic,),
            timeout=0,
        )

    def from_message(self, message: Any) -> ReplicaOffsetCommand:
        """A ListOffsets request as a command."""
        (topic,) = message.topics
        (partition,) = topic.partitions
        return ReplicaOffsetCommand(
            replica_id=BrokerId(message.replica_id),
            topic_partition=TopicPartition(topic.name, partition.partition_index),
            current_leader_epoch=partition.current_leader_epoch,
            timestamp_ms=partition.timestamp,
        )


class OffsetResponse:
    """The response to a follower's ListOffsets."""

    def to_message(self, schema: Any, reply: ReplicaOffsetReply) -> Any:
        """A reply as a ListOffsets response."""
        partition = codec.build(
            schema.ListOffsetsPartitionResponse,
            partition_index=reply.topic_partition.partition,
            error_code=reply.error,
            timestamp=-1,
            offset=reply.offset,
            leader_epoch=-1,
        )
        topic = schema.ListOffsetsTopicResponse(
            name=reply.topic_partition.topic, partitions=(partition,)
        )
        return codec.build(
            schema.ListOffsetsResponse, throttle_time=NO_THROTTLE_MS, topics=(topic,)
        )

    def from_message(self, message: Any) -> ReplicaOffsetReply:
        """A ListOffsets response as a reply."""
        (topic,) = message.topics
        (partition,) = topic.partitions
        return ReplicaOffsetReply(
            topic_partition=TopicPartition(topic.name, partition.partition_index),
            error=partition.error_code,
            offset=partition.offset,
        )

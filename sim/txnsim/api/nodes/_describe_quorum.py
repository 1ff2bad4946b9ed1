"""DescribeQuorum (key 55): the voters and the followers of the metadata log (KIP-595).

Versions: 1 the times of the last fetches, 2 directory ids, error messages, addresses of the nodes
(KIP-853). Only partition 0 of ``__cluster_metadata`` has a quorum, and only when it is asked for
alone. Kafka's counterparts: KafkaRaftClient.handleDescribeQuorumRequest, RaftUtil.
"""

from __future__ import annotations

from typing import Any, Final

from txnsim.api._topics import answered_topics, same_row_for_all
from txnsim.api.request import Reply, Request
from txnsim.errors import ErrorCode
from txnsim.metadata.image import BrokerImage
from txnsim.wire.codec import build

API_KEY: Final = 55

METADATA_TOPIC: Final = "__cluster_metadata"
CONTROLLER_LISTENER: Final = "CONTROLLER"
LEADER_EPOCH: Final = 1
NOT_HOSTED: Final = "This server does not host this topic-partition."

DEVIATIONS: Final = (
    "The controller is no node that clients can reach: DescribeQuorum shows the first broker as "
    "the only voter, at its client address, the others as observers, and all as caught up.",
)


async def handle(request: Request) -> Reply:
    """Describe the quorum of the metadata log."""
    topics = request.message.topics
    requested_partitions = [
        (topic.topic_name, partition_row.partition_index)
        for topic in topics
        for partition_row in topic.partitions
    ]
    request.expect(len(requested_partitions))  # what is not hosted here has a row each
    if not topics:
        return _answer(request, error_code=ErrorCode.none, error_message="", topics=(), nodes=())
    if requested_partitions != [(METADATA_TOPIC, 0)] or len(topics) > 1:
        return _not_hosted(request)
    brokers = request.broker.image.alive_brokers()
    schema = request.schema
    partition = build(
        schema.PartitionData,
        partition_index=0,
        error_code=ErrorCode.none,
        error_message="",
        leader_id=brokers[0].broker_id,
        leader_epoch=LEADER_EPOCH,
        high_watermark=_log_end(request),
        current_voters=(_replica_row(request, brokers[0]),),
        observers=tuple(_replica_row(request, broker) for broker in brokers[1:]),
    )
    return _answer(
        request,
        error_code=ErrorCode.none,
        error_message="",
        topics=(schema.TopicData(topic_name=METADATA_TOPIC, partitions=(partition,)),),
        nodes=(_node_row(request, brokers[0]),) if hasattr(schema, "Node") else (),
    )


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The answer with the error as its top-level error code."""
    return _answer(request, error_code=error, error_message=None, topics=(), nodes=())


def _not_hosted(request: Request) -> Reply:
    schema = request.schema

    def row(partition: Any) -> Any:
        return build(
            schema.PartitionData,
            partition_index=partition.partition_index,
            error_code=ErrorCode.unknown_topic_or_partition,
            error_message=NOT_HOSTED,
            leader_id=0,
            leader_epoch=0,
            high_watermark=0,
            current_voters=(),
            observers=(),
        )

    topic_rows = same_row_for_all(request.message.topics, row)
    topics = answered_topics(schema.TopicData, topic_rows, name_field="topic_name")
    return _answer(request, error_code=ErrorCode.none, error_message="", topics=topics, nodes=())


def _answer(request: Request, **values: object) -> Any:
    """Build the answer, which has no throttle time."""
    return build(request.schema.DescribeQuorumResponse, **values)


def _log_end(request: Request) -> int:
    # An image at offset n is what the first n + 1 records of the log say.
    return request.broker.image.offset + 1


def _replica_row(request: Request, broker: BrokerImage) -> Any:
    now_ms = request.broker.environment.clock.now_ms()
    return build(
        request.schema.ReplicaState,
        replica_id=broker.broker_id,
        replica_directory_id=None,
        log_end_offset=_log_end(request),
        last_fetch_timestamp=now_ms,
        last_caught_up_timestamp=now_ms,
    )


def _node_row(request: Request, broker: BrokerImage) -> Any:
    schema = request.schema
    listener = schema.Listener(name=CONTROLLER_LISTENER, **request.address_of(broker))
    return schema.Node(node_id=broker.broker_id, listeners=(listener,))

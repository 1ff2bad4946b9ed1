"""WriteTxnMarkers (key 27): end a transaction on the partitions of this broker.

Sent by coordinators to partition leaders and by operators to repair a hanging transaction.
Versions: 1 is flexible, 2 carries the transaction version that makes leaders check epochs strictly
(KIP-1228). Kafka's counterpart: KafkaApis.handleWriteTxnMarkersRequest.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, Final

from txnsim.api._topics import answered_topics, rows_by_topic
from txnsim.api.request import NoResponse, Reply, Request
from txnsim.errors import ErrorCode
from txnsim.faults.subjects import Subject, subject_of
from txnsim.interbroker.transactions import TxnMarker, WriteTxnMarkersCommand, WriteTxnMarkersReply
from txnsim.types import ProducerId, TopicPartition

API_KEY: Final = 27

DEVIATIONS: Final = (
    "Where a marker has none of its partitions here and comes last behind markers that are "
    "written already, or names a partition twice, Apache Kafka never answers WriteTxnMarkers; so "
    "do we towards clients, while coordinators, who would wait for their request timeout, are "
    "answered.",
)


async def handle(request: Request) -> Reply:
    """Write the markers; answer once all of them are written."""
    reply = await request.broker.peer_requests.write_txn_markers(command_of(request.message))
    return NoResponse.NEVER if reply.is_forgotten else await answer_in_slices(request, reply)


def command_of(message: Any) -> WriteTxnMarkersCommand:
    """The command for a request; markers of v1 have no transaction version (KIP-1228)."""
    return WriteTxnMarkersCommand(
        markers=tuple(
            TxnMarker(
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                committed=marker.transaction_result,
                coordinator_epoch=marker.coordinator_epoch,
                transaction_version=getattr(marker, "transaction_version", 0),
                partitions=tuple(
                    TopicPartition(topic.name, index)
                    for topic in marker.topics
                    for index in topic.partition_indexes
                ),
            )
            for marker in message.markers
        )
    )


async def answer_in_slices(request: Request, reply: WriteTxnMarkersReply) -> Reply:
    """Build the answer; takes breaks in a large answer so that other requests run."""
    request.expect(sum(len(results) for _, results in reply.results))
    schema = request.schema
    markers = [
        _marker_row(
            schema, producer_id, await request.map_each(partial(_partition_row, schema), results)
        )
        for producer_id, results in reply.results
    ]
    return schema.WriteTxnMarkersResponse(markers=tuple(markers))


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error on every partition of every marker."""
    return answer_all(request, command_of(request.message), error)


def answer_all(request: Request, command: WriteTxnMarkersCommand, error: ErrorCode) -> Reply:
    """The error on every partition of every marker of a command."""
    schema = request.schema
    markers = [
        _marker_row(
            schema,
            marker.producer_id,
            [_partition_row(schema, (partition, error)) for partition in marker.partitions],
        )
        for marker in command.markers
    ]
    return schema.WriteTxnMarkersResponse(markers=tuple(markers))


def _partition_row(
    schema: Any, partition_and_error: tuple[TopicPartition, int]
) -> tuple[TopicPartition, Any]:
    topic_partition, error = partition_and_error
    return topic_partition, schema.WritableTxnMarkerPartitionResult(
        partition_index=topic_partition.partition, error_code=ErrorCode(error)
    )


def _marker_row(
    schema: Any, producer_id: ProducerId, partition_rows: Iterable[tuple[TopicPartition, Any]]
) -> Any:
    return schema.WritableTxnMarkerResult(
        producer_id=producer_id,
        topics=answered_topics(
            schema.WritableTxnMarkerTopicResult, rows_by_topic(partition_rows).items()
        ),
    )


def subject(request: Request) -> Subject:
    """For fault rules: the producer and partitions of each marker."""
    return subject_of(command_of(request.message))

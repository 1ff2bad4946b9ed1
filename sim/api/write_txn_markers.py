"""WriteTxnMarkers (key 27): end a transaction on the partitions of this broker.

Sent by coordinators to partition leaders and by operators to repair a hanging transaction.
Versions: 1 is flexible, 2 carries the transaction version that makes leaders check epochs strictly
(KIP-1228). Kafka's counterpart: KafkaApis.handleWriteTxnMarkersRequest.
"""

from __future__ import annotations

from typing import Final

from sim.api.request import Reply, Request
from sim.api.topics import by_topic
from sim.errors import ErrorCode
from sim.types import (
    CoordinatorEpoch,
    ProducerEpoch,
    ProducerId,
    Subject,
    TopicPartition,
    TxnMarker,
    WriteTxnMarkersCommand,
    WriteTxnMarkersReply,
)

KEY: Final = 27
VERSIONS: Final = (1, 2)

DEVIATIONS: Final = (
    "KIP-664 gives WriteTxnMarkers a tagged start offset and lets coordinator epoch -1 mark an "
    "operator's abort; Apache Kafka "
    "shipped neither, and so do we: the ordinary epoch checks apply.",
)


async def handle(request: Request) -> Reply:
    """Write the markers; answered when all of them are."""
    return _answer(request, await request.broker.write_txn_markers(_command(request)))


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error on every partition of every marker."""
    return _answer(
        request,
        WriteTxnMarkersReply(
            results=tuple(
                (marker.producer_id, tuple((partition, error) for partition in marker.partitions))
                for marker in _command(request).markers
            )
        ),
    )


def subject(request: Request) -> Subject:
    """The first marker's producer and partitions."""
    markers = _command(request).markers
    if not markers:
        return Subject()
    return Subject(
        producer_id=markers[0].producer_id,
        partitions=markers[0].partitions,
        committed=markers[0].committed,
    )


def _command(request: Request) -> WriteTxnMarkersCommand:
    return WriteTxnMarkersCommand(
        markers=tuple(
            TxnMarker(
                producer_id=ProducerId(marker.producer_id),
                producer_epoch=ProducerEpoch(marker.producer_epoch),
                committed=marker.transaction_result,
                coordinator_epoch=CoordinatorEpoch(marker.coordinator_epoch),
                transaction_version=getattr(marker, "transaction_version", 0),
                partitions=tuple(
                    TopicPartition(topic.name, index)
                    for topic in marker.topics
                    for index in topic.partition_indexes
                ),
            )
            for marker in request.message.markers
        )
    )


def _answer(request: Request, reply: WriteTxnMarkersReply) -> Reply:
    schema = request.schema
    return request.answer(
        markers=tuple(
            schema.WritableTxnMarkerResult(
                producer_id=producer_id,
                topics=tuple(
                    schema.WritableTxnMarkerTopicResult(
                        name=name,
                        partitions=tuple(
                            schema.WritableTxnMarkerPartitionResult(
                                partition_index=index, error_code=ErrorCode(error)
                            )
                            for index, error in partitions
                        ),
                    )
                    for name, partitions in by_topic(results).items()
                ),
            )
            for producer_id, results in reply.results
        )
    )

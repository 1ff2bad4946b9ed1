"""WriteTxnMarkers (key 27): end a transaction on the partitions of this broker.

Sent by coordinators to partition leaders and by operators to repair a hanging transaction.
Versions: 1 is flexible, 2 carries the transaction version that makes leaders check epochs strictly
(KIP-1228). Kafka's counterpart: KafkaApis.handleWriteTxnMarkersRequest.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from txnsim.api.peers.peer_codec import (
    marked_partition,
    write_markers_command,
    write_markers_response,
)
from txnsim.api.request import NoResponse, Reply, Request
from txnsim.api.topics import by_topic
from txnsim.errors import ErrorCode
from txnsim.faults.subjects import Subject, subject_of
from txnsim.interbroker.transactions import WriteTxnMarkersCommand, WriteTxnMarkersReply

KEY: Final = 27
VERSIONS: Final = (1, 2)

DEVIATIONS: Final = (
    "Where a marker has none of its partitions here and comes last behind markers that are "
    "written already, or names a partition twice, Apache Kafka never answers WriteTxnMarkers; so "
    "do we towards clients, while coordinators, who would wait for their request timeout, are "
    "answered.",
)


async def handle(request: Request) -> Reply:
    """Write the markers; answered when all of them are."""
    reply = await request.broker.write_txn_markers(write_markers_command(request.message))
    return NoResponse.NEVER if reply.is_forgotten else await answer_in_slices(request, reply)


async def answer_in_slices(request: Request, reply: WriteTxnMarkersReply) -> Reply:
    """The reply as a message; a large one is made with breaks."""
    request.expect(sum(len(results) for _, results in reply.results))
    schema = request.schema
    markers = []
    for producer_id, results in reply.results:
        made = await request.each(partial(marked_partition, schema), results)
        topics = by_topic((where, one) for (where, _), one in zip(results, made, strict=True))
        markers.append(
            schema.WritableTxnMarkerResult(
                producer_id=producer_id,
                topics=tuple(
                    schema.WritableTxnMarkerTopicResult(
                        name=name, partitions=tuple(one for _, one in partitions)
                    )
                    for name, partitions in topics.items()
                ),
            )
        )
    return schema.WriteTxnMarkersResponse(markers=tuple(markers))


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error on every partition of every marker."""
    return answer_all(request.api_version, write_markers_command(request.message), error)


def answer_all(api_version: int, command: WriteTxnMarkersCommand, error: ErrorCode) -> Reply:
    """The error on every partition of every marker of a command."""
    return write_markers_response(
        api_version,
        WriteTxnMarkersReply(
            results=tuple(
                (marker.producer_id, tuple((partition, error) for partition in marker.partitions))
                for marker in command.markers
            )
        ),
    )


def subject(request: Request) -> Subject:
    """Producer and partitions of each marker."""
    return subject_of(write_markers_command(request.message))

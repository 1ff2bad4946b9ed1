"""WriteTxnMarkers (key 27): end a transaction on the partitions of this broker.

Sent by coordinators to partition leaders and by operators to repair a hanging transaction.
Versions: 1 is flexible, 2 carries the transaction version that makes leaders check epochs strictly
(KIP-1228). Kafka's counterpart: KafkaApis.handleWriteTxnMarkersRequest.
"""

from __future__ import annotations

from typing import Final

from txnsim.api.peers.peer_codec import write_markers_command, write_markers_response
from txnsim.api.request import Answer, Reply, Request
from txnsim.errors import ErrorCode
from txnsim.runtime.peer_subject import subject_of
from txnsim.types import Subject, WriteTxnMarkersCommand, WriteTxnMarkersReply

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
    if reply.is_forgotten:
        return Answer.NEVER
    return write_markers_response(request.api_version, reply)


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

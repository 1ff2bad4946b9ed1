"""WriteTxnMarkers (key 27): end a transaction on the partitions of this broker.

Sent by coordinators to partition leaders and by operators to repair a hanging transaction.
Versions: 1 is flexible, 2 carries the transaction version that makes leaders check epochs strictly
(KIP-1228). Kafka's counterpart: KafkaApis.handleWriteTxnMarkersRequest.
"""

from __future__ import annotations

from typing import Final

from sim.api.peer_codec import write_markers_command, write_markers_response
from sim.api.request import Reply, Request
from sim.errors import ErrorCode
from sim.runtime.peer_subject import subject_of
from sim.types import Subject, WriteTxnMarkersReply

KEY: Final = 27
VERSIONS: Final = (1, 2)

DEVIATIONS: Final = (
    "KIP-664 gives WriteTxnMarkers a tagged start offset and lets coordinator epoch -1 mark an "
    "operator's abort; Apache Kafka "
    "shipped neither, and so do we: the ordinary epoch checks apply.",
)


async def handle(request: Request) -> Reply:
    """Write the markers; answered when all of them are."""
    reply = await request.broker.write_txn_markers(write_markers_command(request.message))
    return write_markers_response(request.api_version, reply)


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error on every partition of every marker."""
    return write_markers_response(
        request.api_version,
        WriteTxnMarkersReply(
            results=tuple(
                (marker.producer_id, tuple((partition, error) for partition in marker.partitions))
                for marker in write_markers_command(request.message).markers
            )
        ),
    )


def subject(request: Request) -> Subject:
    """Producer and partitions of each marker."""
    return subject_of(write_markers_command(request.message))

"""WriteTxnMarkers by the text of KIP-664: an operator names the transaction that is to be aborted.

In v1 each partition may give the offset at which the transaction started. Coordinator epoch -1 then
means that the marker is not from a coordinator: only the producer's exact epoch counts
(INVALID_PRODUCER_EPOCH), the transaction must have started at that offset (INVALID_TXN_STATE), and
the coordinator epoch that the partition knows stays (``log.leader_append.check_marker_of``). The
epoch is checked first. A start offset beside a coordinator's epoch is checked in addition to
Kafka's rules, and without one these are all there is.

A principal that may act as a broker may write markers; the right to alter the cluster, which Kafka
accepts as well, is not enough.

The layout of v1 differs from the one that Kafka ships, so a stock client that uses it fails. v2
(KIP-1228) is Kafka's.
"""

from __future__ import annotations

from typing import Any

from txnsim.api._access import FORBIDDEN
from txnsim.api._transactions import write_txn_markers
from txnsim.api.request import Reply, Request
from txnsim.errors import ErrorCode
from txnsim.faults.subjects import Subject, subject_of
from txnsim.interbroker.transactions import TxnMarker, WriteTxnMarkersCommand
from txnsim.security.acls import AclOperation, ResourceType
from txnsim.types import CoordinatorEpoch, ProducerEpoch, ProducerId, TopicPartition
from txnsim.wire import codec
from txnsim.wire.messages.write_txn_markers_kip_664 import WriteTxnMarkersRequest

OWN_VERSION = 1


def decode(header: codec.RequestHeader, frame: bytes) -> Any:
    """Decode the message; v1 has the layout of the text."""
    if header.api_version == OWN_VERSION:
        return codec.run_to_end(codec.decode_in_steps(header, frame, WriteTxnMarkersRequest))
    return codec.decode_request(header, frame)


async def handle(request: Request) -> Reply:
    """Write the markers; answer once all of them are written."""
    access = request.access
    if access is not None and not access.may_cluster(AclOperation.CLUSTER_ACTION):
        return refuse(request, FORBIDDEN[ResourceType.CLUSTER])
    reply = await request.broker.peer_requests.write_txn_markers(_command(request))
    return await write_txn_markers.answer_in_slices(request, reply)


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error on every partition of every marker."""
    return write_txn_markers.answer_all(request, _command(request), error)


def subject(request: Request) -> Subject:
    """For fault rules: the producer and partitions of each marker."""
    return subject_of(_command(request))


def _command(request: Request) -> WriteTxnMarkersCommand:
    message = request.message
    if request.api_version != OWN_VERSION:
        return write_txn_markers.command_of(message)
    return WriteTxnMarkersCommand(
        markers=tuple(
            split_marker for marker in message.markers for split_marker in _split_marker(marker)
        )
    )


def _split_marker(marker: Any) -> list[TxnMarker]:
    """One marker for all partitions with the same start offset; the answer is grouped by producer
    id.
    """
    partitions_by_start: dict[int, list[TopicPartition]] = {}
    for topic in marker.topics:
        for partition in topic.partitions:
            partitions_by_start.setdefault(partition.txn_start_offset, []).append(
                TopicPartition(topic.name, partition.partition_index)
            )
    return [
        TxnMarker(
            producer_id=ProducerId(marker.producer_id),
            producer_epoch=ProducerEpoch(marker.producer_epoch),
            committed=marker.transaction_result,
            coordinator_epoch=CoordinatorEpoch(marker.coordinator_epoch),
            transaction_version=0,
            partitions=tuple(partitions),
            start_offset=start_offset,
        )
        for start_offset, partitions in partitions_by_start.items()
    ]

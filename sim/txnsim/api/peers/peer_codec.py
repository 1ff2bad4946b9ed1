"""Requests between brokers as Kafka's messages and bytes.

The commands of ``txnsim.types`` travel on links in memory as objects. With this codec on a network
(``runtime.peer_links.PeerCodec``) they travel as the bodies that a real broker would send. Clients
may send two of these APIs as well: their handlers translate with the same functions. Partitions are
grouped by topic on the wire, in order of appearance, so that only grouped ones come back in the
order in which they were sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from txnsim.api.peers import peer_codec_life as life
from txnsim.api.peers import peer_codec_replication as replication
from txnsim.api.topics import by_topic
from txnsim.errors import ErrorCode, UnsupportedRequestError
from txnsim.node.peers import (
    ADD_PARTITIONS_TO_TXN,
    ALLOCATE_PRODUCER_IDS,
    ALTER_PARTITION,
    BROKER_HEARTBEAT,
    BROKER_REGISTRATION,
    FETCH,
    LIST_OFFSETS,
    WRITE_TXN_MARKERS,
)
from txnsim.types import (
    AddPartitionsToTxnCommand,
    AddPartitionsToTxnReply,
    AllocateProducerIdsCommand,
    AllocateProducerIdsReply,
    BrokerId,
    CoordinatorEpoch,
    ProducerEpoch,
    ProducerId,
    TopicPartition,
    TransactionalId,
    TxnMarker,
    TxnPartitions,
    WriteTxnMarkersCommand,
    WriteTxnMarkersReply,
)
from txnsim.wire import codec
from txnsim.wire.apis import api_name

NO_THROTTLE_MS: Final = 0

_EMPTY_HEAD: Final = bytes(5)
"""Correlation id 0 and no tagged fields: all these APIs are flexible in every version spoken."""


class KafkaPeerCodec:
    """``runtime.peer_links.PeerCodec`` in Kafka's encoding."""

    def encode_request(self, api_key: int, api_version: int, command: Any) -> bytes:
        """A command as a request body.

        Raises:
            UnsupportedRequestError: Brokers don't send this API or version.
        """
        return codec.encode_body(_api(api_key, api_version).to_request(api_version, command))

    def decode_request(self, api_key: int, api_version: int, body: bytes) -> Any:
        """The inverse.

        Raises:
            MalformedFrameError: The body is not what its API and version say.
            UnsupportedRequestError: Brokers don't send this API or version.
        """
        api = _api(api_key, api_version)
        header = codec.RequestHeader(api_key, api_version, 0, None, 0)
        return api.to_command(codec.decode_request(header, body))

    def encode_response(self, api_key: int, api_version: int, reply: Any) -> bytes:
        """A reply as a response body.

        Raises:
            UnsupportedRequestError: Brokers don't send this API or version.
        """
        return codec.encode_body(_api(api_key, api_version).to_response(api_version, reply))

    def decode_response(self, api_key: int, api_version: int, body: bytes) -> Any:
        """The inverse.

        Raises:
            MalformedFrameError: The body is not what its API and version say.
            UnsupportedRequestError: Brokers don't send this API or version.
        """
        api = _api(api_key, api_version)
        _, message = codec.read_response(api_key, api_version, _EMPTY_HEAD + body)
        return api.to_reply(message)


# AddPartitionsToTxn v4+ (KIP-890)


def add_partitions_command(message: Any) -> AddPartitionsToTxnCommand:
    """The command in a batched request."""
    return AddPartitionsToTxnCommand(
        transactions=tuple(
            TxnPartitions(
                transactional_id=TransactionalId(transaction.transactional_id),
                producer_id=ProducerId(transaction.producer_id),
                producer_epoch=ProducerEpoch(transaction.producer_epoch),
                verify_only=transaction.verify_only,
                partitions=partitions_of(transaction.topics),
            )
            for transaction in message.transactions
        )
    )


def add_partitions_response(api_version: int, reply: AddPartitionsToTxnReply) -> Any:
    """The reply as a message of that version."""
    schema = codec.response_schema(ADD_PARTITIONS_TO_TXN, api_version)
    return codec.build(
        schema.AddPartitionsToTxnResponse,
        throttle_time=NO_THROTTLE_MS,
        error_code=ErrorCode(reply.error),
        results_by_transaction=tuple(
            schema.AddPartitionsToTxnResult(
                transactional_id=transactional_id,
                topic_results=topic_results(schema, results),
            )
            for transactional_id, results in reply.results
        ),
    )


def partitions_of(topics: Iterable[Any]) -> tuple[TopicPartition, ...]:
    """Partitions of an AddPartitionsToTxn request of any version, flat."""
    return tuple(
        TopicPartition(topic.name, partition) for topic in topics for partition in topic.partitions
    )


def topic_results(schema: Any, results: Iterable[tuple[TopicPartition, int]]) -> tuple[Any, ...]:
    """Errors by partition as any version of the AddPartitionsToTxn response groups them."""
    return tuple(
        schema.AddPartitionsToTxnTopicResult(
            name=name,
            results_by_partition=tuple(
                schema.AddPartitionsToTxnPartitionResult(
                    partition_index=index, partition_error_code=error
                )
                for index, error in partitions
            ),
        )
        for name, partitions in by_topic(results).items()
    )


def _add_partitions_request(api_version: int, command: AddPartitionsToTxnCommand) -> Any:
    schema = codec.request_schema(ADD_PARTITIONS_TO_TXN, api_version)
    return schema.AddPartitionsToTxnRequest(
        transactions=tuple(
            schema.AddPartitionsToTxnTransaction(
                transactional_id=transaction.transactional_id,
                producer_id=transaction.producer_id,
                producer_epoch=transaction.producer_epoch,
                verify_only=transaction.verify_only,
                topics=tuple(
                    schema.AddPartitionsToTxnTopic(name=name, partitions=indexes)
                    for name, indexes in _indexes(transaction.partitions).items()
                ),
            )
            for transaction in command.transactions
        )
    )


def _add_partitions_reply(message: Any) -> AddPartitionsToTxnReply:
    return AddPartitionsToTxnReply(
        error=int(message.error_code),
        results=tuple(
            (
                TransactionalId(result.transactional_id),
                tuple(
                    (
                        TopicPartition(topic.name, partition.partition_index),
                        int(partition.partition_error_code),
                    )
                    for topic in result.topic_results
                    for partition in topic.results_by_partition
                ),
            )
            for result in message.results_by_transaction
        ),
    )


# WriteTxnMarkers


def write_markers_command(message: Any) -> WriteTxnMarkersCommand:
    """The command in a request; v1 knows no transaction version (KIP-1228)."""
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
            for marker in message.markers
        )
    )


def write_markers_response(api_version: int, reply: WriteTxnMarkersReply) -> Any:
    """The reply as a message of that version."""
    schema = codec.response_schema(WRITE_TXN_MARKERS, api_version)
    return schema.WriteTxnMarkersResponse(
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


def _write_markers_request(api_version: int, command: WriteTxnMarkersCommand) -> Any:
    schema = codec.request_schema(WRITE_TXN_MARKERS, api_version)
    return schema.WriteTxnMarkersRequest(
        markers=tuple(
            codec.build(
                schema.WritableTxnMarker,
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                transaction_result=marker.committed,
                coordinator_epoch=marker.coordinator_epoch,
                transaction_version=marker.transaction_version,
                topics=tuple(
                    schema.WritableTxnMarkerTopic(name=name, partition_indexes=indexes)
                    for name, indexes in _indexes(marker.partitions).items()
                ),
            )
            for marker in command.markers
        )
    )


def _write_markers_reply(message: Any) -> WriteTxnMarkersReply:
    return WriteTxnMarkersReply(
        results=tuple(
            (
                ProducerId(result.producer_id),
                tuple(
                    (
                        TopicPartition(topic.name, partition.partition_index),
                        int(partition.error_code),
                    )
                    for topic in result.topics
                    for partition in topic.partitions
                ),
            )
            for result in message.markers
        )
    )


# AllocateProducerIds


def _allocate_request(api_version: int, command: AllocateProducerIdsCommand) -> Any:
    return codec.build(
        codec.request_class(ALLOCATE_PRODUCER_IDS, api_version),
        broker_id=command.broker_id,
        broker_epoch=command.broker_epoch,
    )


def _allocate_command(message: Any) -> AllocateProducerIdsCommand:
    return AllocateProducerIdsCommand(
        broker_id=BrokerId(message.broker_id), broker_epoch=message.broker_epoch
    )


def _allocate_response(api_version: int, reply: AllocateProducerIdsReply) -> Any:
    return codec.build(
        codec.response_class(ALLOCATE_PRODUCER_IDS, api_version),
        throttle_time=NO_THROTTLE_MS,
        error_code=ErrorCode(reply.error),
        producer_id_start=reply.first,
        producer_id_len=reply.length,
    )


def _allocate_reply(message: Any) -> AllocateProducerIdsReply:
    return AllocateProducerIdsReply(
        error=int(message.error_code),
        first=message.producer_id_start,
        length=message.producer_id_len,
    )


# The table


class _PeerApi(msgspec.Struct, frozen=True, kw_only=True):
    """How one API is translated, both ways."""

    versions: tuple[int, int]
    to_request: Callable[[int, Any], Any]
    to_command: Callable[[Any], Any]
    to_response: Callable[[int, Any], Any]
    to_reply: Callable[[Any], Any]


_APIS: Final = {
    ADD_PARTITIONS_TO_TXN: _PeerApi(
        versions=(4, 5),
        to_request=_add_partitions_request,
        to_command=add_partitions_command,
        to_response=add_partitions_response,
        to_reply=_add_partitions_reply,
    ),
    WRITE_TXN_MARKERS: _PeerApi(
        versions=(1, 2),
        to_request=_write_markers_request,
        to_command=write_markers_command,
        to_response=write_markers_response,
        to_reply=_write_markers_reply,
    ),
    ALLOCATE_PRODUCER_IDS: _PeerApi(
        versions=(0, 0),
        to_request=_allocate_request,
        to_command=_allocate_command,
        to_response=_allocate_response,
        to_reply=_allocate_reply,
    ),
    BROKER_REGISTRATION: _PeerApi(
        versions=(4, 4),
        to_request=life.registration_request,
        to_command=life.registration_command,
        to_response=life.registration_response,
        to_reply=life.registration_reply,
    ),
    BROKER_HEARTBEAT: _PeerApi(
        versions=(1, 1),
        to_request=life.heartbeat_request,
        to_command=life.heartbeat_command,
        to_response=life.heartbeat_response,
        to_reply=life.heartbeat_reply,
    ),
    FETCH: _PeerApi(
        versions=(18, 18),
        to_request=replication.fetch_request,
        to_command=replication.fetch_command,
        to_response=replication.fetch_response,
        to_reply=replication.fetch_reply,
    ),
    LIST_OFFSETS: _PeerApi(
        versions=(10, 10),
        to_request=replication.offset_request,
        to_command=replication.offset_command,
        to_response=replication.offset_response,
        to_reply=replication.offset_reply,
    ),
    ALTER_PARTITION: _PeerApi(
        versions=(3, 3),
        to_request=replication.alter_request,
        to_command=replication.alter_command,
        to_response=replication.alter_response,
        to_reply=replication.alter_reply,
    ),
}


def _api(api_key: int, api_version: int) -> _PeerApi:
    api = _APIS.get(api_key)
    if api is None or not api.versions[0] <= api_version <= api.versions[1]:
        raise UnsupportedRequestError(
            f"brokers don't send each other {api_name(api_key)} v{api_version}"
        )
    return api


def _indexes(partitions: Iterable[TopicPartition]) -> dict[str, tuple[int, ...]]:
    """Partition indexes by topic, in order of appearance."""
    grouped = by_topic((partition, None) for partition in partitions)
    return {name: tuple(index for index, _ in pairs) for name, pairs in grouped.items()}

"""Requests between brokers as Kafka's messages and bytes.

The commands of ``txnsim.interbroker`` travel on links in memory as objects. This codec proves that
they hold what the bodies of a real broker hold, and no more.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

import msgspec

from tests.support.peer_codec import dead_letters, lifecycle, replication, share_state
from tests.support.peer_codec.shapes import (
    Index,
    PlainField,
    Shape,
    StructTuple,
    TopicGrouping,
    error,
)
from txnsim.errors import UnsupportedRequestError
from txnsim.interbroker.share_state import (
    DeleteShareState,
    InitializeShareState,
    ReadShareState,
    ShareState,
    ShareStateError,
    ShareStateSummary,
    WriteShareState,
)
from txnsim.interbroker.transactions import (
    AddPartitionsToTxnCommand,
    AddPartitionsToTxnReply,
    AllocateProducerIdsCommand,
    AllocateProducerIdsReply,
    TxnMarker,
    TxnPartitions,
    WriteTxnMarkersCommand,
    WriteTxnMarkersReply,
)
from txnsim.node.peers import (
    ADD_PARTITIONS_TO_TXN,
    ALLOCATE_PRODUCER_IDS,
    ALTER_PARTITION,
    BROKER_HEARTBEAT,
    BROKER_REGISTRATION,
    DELETE_SHARE_GROUP_STATE,
    FETCH,
    INITIALIZE_SHARE_GROUP_STATE,
    LIST_OFFSETS,
    PRODUCE,
    READ_SHARE_GROUP_STATE,
    READ_SHARE_GROUP_STATE_SUMMARY,
    WRITE_SHARE_GROUP_STATE,
    WRITE_TXN_MARKERS,
)
from txnsim.wire import codec
from txnsim.wire.apis import api_name

NO_THROTTLE_MS: Final = 0

_EMPTY_HEAD: Final = bytes(5)
"""Correlation id 0 and no tagged fields: all these APIs are flexible in every version spoken."""


class KafkaPeerCodec:
    """Commands and replies between brokers in Kafka's encoding."""

    def encode_request(self, api_key: int, api_version: int, command: Any) -> bytes:
        """A command as a request body.

        Raises:
            UnsupportedRequestError: Brokers don't send this API or version.
        """
        return codec.encode_body(
            _api(api_key, api_version).request.to_message(
                codec.request_schema(api_key, api_version), command
            )
        )

    def decode_request(self, api_key: int, api_version: int, body: bytes) -> Any:
        """The inverse.

        Raises:
            MalformedFrameError: The body is not what its API and version say.
            UnsupportedRequestError: Brokers don't send this API or version.
        """
        api = _api(api_key, api_version)
        header = codec.RequestHeader(api_key, api_version, 0, None, 0)
        return api.request.from_message(codec.decode_request(header, body))

    def encode_response(self, api_key: int, api_version: int, reply: Any) -> bytes:
        """A reply as a response body.

        Raises:
            UnsupportedRequestError: Brokers don't send this API or version.
        """
        return codec.encode_body(
            _api(api_key, api_version).response.to_message(
                codec.response_schema(api_key, api_version), reply
            )
        )

    def decode_response(self, api_key: int, api_version: int, body: bytes) -> Any:
        """The inverse.

        Raises:
            MalformedFrameError: The body is not what its API and version say.
            UnsupportedRequestError: Brokers don't send this API or version.
        """
        api = _api(api_key, api_version)
        _, message = codec.read_response(api_key, api_version, _EMPTY_HEAD + body)
        return api.response.from_message(message)


# AddPartitionsToTxn v4+ (KIP-890)

_ADD_PARTITIONS: Final = Shape(
    AddPartitionsToTxnCommand,
    "AddPartitionsToTxnRequest",
    transactions=StructTuple(
        "transactions",
        Shape(
            TxnPartitions,
            "AddPartitionsToTxnTransaction",
            *("transactional_id", "producer_id", "producer_epoch", "verify_only"),
            partitions=TopicGrouping("topics", "AddPartitionsToTxnTopic"),
        ),
    ),
)
_ADDED_PARTITIONS: Final = Shape(
    AddPartitionsToTxnReply,
    "AddPartitionsToTxnResponse",
    error=error(),
    results=StructTuple(
        "results_by_transaction",
        Shape(
            None,
            "AddPartitionsToTxnResult",
            "transactional_id",
            results=TopicGrouping(
                "topic_results",
                "AddPartitionsToTxnTopicResult",
                Shape(
                    None,
                    "AddPartitionsToTxnPartitionResult",
                    partition=Index(),
                    error=error("partition_error_code"),
                ),
                partitions="results_by_partition",
            ),
        ),
    ),
    says={"throttle_time": NO_THROTTLE_MS},
)


# WriteTxnMarkers; v1 has no transaction version (KIP-1228)

_MARKERS: Final = Shape(
    WriteTxnMarkersCommand,
    "WriteTxnMarkersRequest",
    markers=StructTuple(
        "markers",
        Shape(
            TxnMarker,
            "WritableTxnMarker",
            *("producer_id", "producer_epoch", "coordinator_epoch"),
            committed="transaction_result",
            transaction_version=PlainField("transaction_version", default=0),
            partitions=TopicGrouping(
                "topics", "WritableTxnMarkerTopic", partitions="partition_indexes"
            ),
        ),
    ),
)
_MARKED: Final = Shape(
    WriteTxnMarkersReply,
    "WriteTxnMarkersResponse",
    results=StructTuple(
        "markers",
        Shape(
            None,
            "WritableTxnMarkerResult",
            "producer_id",
            results=TopicGrouping(
                "topics",
                "WritableTxnMarkerTopicResult",
                Shape(None, "WritableTxnMarkerPartitionResult", partition=Index(), error=error()),
            ),
        ),
    ),
)


# The table


class _Translation(Protocol):
    def to_message(self, schema: Any, value: Any, /) -> Any: ...

    def from_message(self, message: Any, /) -> Any: ...


class _PeerApi(msgspec.Struct, frozen=True):
    """How one API is translated, both ways."""

    versions: tuple[int, int]
    request: _Translation
    response: _Translation


_APIS: Final = {
    ADD_PARTITIONS_TO_TXN: _PeerApi((4, 5), _ADD_PARTITIONS, _ADDED_PARTITIONS),
    WRITE_TXN_MARKERS: _PeerApi((1, 2), _MARKERS, _MARKED),
    ALLOCATE_PRODUCER_IDS: _PeerApi(
        (0, 0),
        Shape(
            AllocateProducerIdsCommand,
            "AllocateProducerIdsRequest",
            *("broker_id", "broker_epoch"),
        ),
        Shape(
            AllocateProducerIdsReply,
            "AllocateProducerIdsResponse",
            error=error(),
            first_producer_id="producer_id_start",
            producer_id_count="producer_id_len",
            says={"throttle_time": NO_THROTTLE_MS},
        ),
    ),
    BROKER_REGISTRATION: _PeerApi(
        (4, 4), lifecycle.Registration(), lifecycle.REGISTRATION_RESPONSE
    ),
    BROKER_HEARTBEAT: _PeerApi((2, 2), lifecycle.HEARTBEAT_REQUEST, lifecycle.HEARTBEAT_RESPONSE),
    FETCH: _PeerApi((18, 18), replication.FETCH_REQUEST, replication.FETCH_RESPONSE),
    PRODUCE: _PeerApi((13, 13), dead_letters.Request(), dead_letters.Response()),
    LIST_OFFSETS: _PeerApi((11, 11), replication.OffsetRequest(), replication.OffsetResponse()),
    ALTER_PARTITION: _PeerApi((3, 3), replication.ALTER_REQUEST, replication.ALTER_RESPONSE),
    INITIALIZE_SHARE_GROUP_STATE: _PeerApi(
        (0, 0),
        *share_state.request_and_response("Initialize", InitializeShareState, ShareStateError),
    ),
    READ_SHARE_GROUP_STATE: _PeerApi(
        (0, 0), *share_state.request_and_response("Read", ReadShareState, ShareState)
    ),
    WRITE_SHARE_GROUP_STATE: _PeerApi(
        (0, 1), *share_state.request_and_response("Write", WriteShareState, ShareStateError)
    ),
    DELETE_SHARE_GROUP_STATE: _PeerApi(
        (0, 0), *share_state.request_and_response("Delete", DeleteShareState, ShareStateError)
    ),
    READ_SHARE_GROUP_STATE_SUMMARY: _PeerApi(
        (0, 1), *share_state.request_and_response("Read Summary", ReadShareState, ShareStateSummary)
    ),
}


def _api(api_key: int, api_version: int) -> _PeerApi:
    api = _APIS.get(api_key)
    if api is None or not api.versions[0] <= api_version <= api.versions[1]:
        raise UnsupportedRequestError(
            f"brokers don't send each other {api_name(api_key)} v{api_version}"
        )
    return api

"""WriteTxnMarkers v0: the only version of brokers before Kafka 2.8, dropped by 4.0 (KIP-896).

It says what version 1 says, in the old encoding. An operator who ends a transaction on such a
broker has no other; our own brokers begin with version 1 in every release. Kafka's counterpart is
``WriteTxnMarkersRequest.json`` up to 3.9.
"""

from typing import Any, Final

from kio.schema.request_header.v1.header import RequestHeader
from kio.schema.response_header.v0.header import ResponseHeader

from txnsim.wire.declared import message

_API: Final = {"__version__": 0, "__api_key__": 27}
_REQUEST: Final = {**_API, "__header_schema__": RequestHeader}
_RESPONSE: Final = {**_API, "__header_schema__": ResponseHeader}

WritableTxnMarkerTopic: Final[Any] = message(
    "WritableTxnMarkerTopic",
    "The partitions of one topic.",
    "name string",
    "partition_indexes []int32 = ()",
    flexible=False,
    api=_REQUEST,
)
WritableTxnMarker: Final[Any] = message(
    "WritableTxnMarker",
    "The end of one producer's transaction.",
    "producer_id int64",
    "producer_epoch int16",
    "transaction_result bool",
    "topics []Topic",
    "coordinator_epoch int32",
    flexible=False,
    types={"Topic": WritableTxnMarkerTopic},
    api=_REQUEST,
)
WriteTxnMarkersRequest: Final[Any] = message(
    "WriteTxnMarkersRequest",
    "The markers to be written.",
    "markers []Marker",
    flexible=False,
    types={"Marker": WritableTxnMarker},
    api=_REQUEST,
)
WritableTxnMarkerPartitionResult: Final[Any] = message(
    "WritableTxnMarkerPartitionResult",
    "What became of it on one partition.",
    "partition_index int32",
    "error_code error_code",
    flexible=False,
    api=_RESPONSE,
)
WritableTxnMarkerTopicResult: Final[Any] = message(
    "WritableTxnMarkerTopicResult",
    "What became of it on one topic.",
    "name string",
    "partitions []Partition",
    flexible=False,
    types={"Partition": WritableTxnMarkerPartitionResult},
    api=_RESPONSE,
)
WritableTxnMarkerResult: Final[Any] = message(
    "WritableTxnMarkerResult",
    "What became of one marker.",
    "producer_id int64",
    "topics []Topic",
    flexible=False,
    types={"Topic": WritableTxnMarkerTopicResult},
    api=_RESPONSE,
)
WriteTxnMarkersResponse: Final[Any] = message(
    "WriteTxnMarkersResponse",
    "What became of the markers.",
    "markers []Marker",
    flexible=False,
    types={"Marker": WritableTxnMarkerResult},
    api=_RESPONSE,
)

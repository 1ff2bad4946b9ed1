"""WriteTxnMarkers v0: the only version of brokers before Kafka 2.8, removed in 4.0 (KIP-896).

It has the same fields as version 1, in the old encoding. An operator who ends a transaction on such
a broker has no other version; our own brokers begin with version 1 in every release. Kafka's
counterpart is ``WriteTxnMarkersRequest.json`` up to 3.9.
"""

from typing import Any, Final

from kio.schema.request_header.v1.header import RequestHeader
from kio.schema.response_header.v0.header import ResponseHeader
from kio.schema.write_txn_markers.v1 import request, response

from txnsim.wire._declared_messages import remake_class

_VERSION_0_VARIABLES: Final[dict[str, Any]] = {"version": 0, "flexible": False}
_REQUEST_VARIABLES: Final[dict[str, Any]] = {**_VERSION_0_VARIABLES, "header_schema": RequestHeader}
_RESPONSE_VARIABLES: Final[dict[str, Any]] = {
    **_VERSION_0_VARIABLES,
    "header_schema": ResponseHeader,
}

WritableTxnMarkerTopic: Final[Any] = remake_class(
    request.WritableTxnMarkerTopic, **_REQUEST_VARIABLES
)
WritableTxnMarker: Final[Any] = remake_class(
    request.WritableTxnMarker, WritableTxnMarkerTopic, **_REQUEST_VARIABLES
)
WriteTxnMarkersRequest: Final[Any] = remake_class(
    request.WriteTxnMarkersRequest, WritableTxnMarker, **_REQUEST_VARIABLES
)
WritableTxnMarkerPartitionResult: Final[Any] = remake_class(
    response.WritableTxnMarkerPartitionResult, **_RESPONSE_VARIABLES
)
WritableTxnMarkerTopicResult: Final[Any] = remake_class(
    response.WritableTxnMarkerTopicResult, WritableTxnMarkerPartitionResult, **_RESPONSE_VARIABLES
)
WritableTxnMarkerResult: Final[Any] = remake_class(
    response.WritableTxnMarkerResult, WritableTxnMarkerTopicResult, **_RESPONSE_VARIABLES
)
WriteTxnMarkersResponse: Final[Any] = remake_class(
    response.WriteTxnMarkersResponse, WritableTxnMarkerResult, **_RESPONSE_VARIABLES
)

"""WriteTxnMarkers v0: the only version of brokers before Kafka 2.8, removed in 4.0 (KIP-896).

It has the same fields as version 1, in the old encoding. An operator who ends a transaction on such
a broker has no other version; our own brokers begin with version 1 in every release. Kafka's
counterpart is ``WriteTxnMarkersRequest.json`` up to 3.9.
"""

from typing import Any, Final

from kio.schema.request_header.v1.header import RequestHeader
from kio.schema.response_header.v0.header import ResponseHeader
from kio.schema.write_txn_markers.v1 import request, response

from txnsim.wire._declared_messages import remade

_OLD: Final[dict[str, Any]] = {"version": 0, "flexible": False}
_ASKED: Final[dict[str, Any]] = {**_OLD, "header_schema": RequestHeader}
_ANSWERED: Final[dict[str, Any]] = {**_OLD, "header_schema": ResponseHeader}

WritableTxnMarkerTopic: Final[Any] = remade(request.WritableTxnMarkerTopic, **_ASKED)
WritableTxnMarker: Final[Any] = remade(request.WritableTxnMarker, WritableTxnMarkerTopic, **_ASKED)
WriteTxnMarkersRequest: Final[Any] = remade(
    request.WriteTxnMarkersRequest, WritableTxnMarker, **_ASKED
)
WritableTxnMarkerPartitionResult: Final[Any] = remade(
    response.WritableTxnMarkerPartitionResult, **_ANSWERED
)
WritableTxnMarkerTopicResult: Final[Any] = remade(
    response.WritableTxnMarkerTopicResult, WritableTxnMarkerPartitionResult, **_ANSWERED
)
WritableTxnMarkerResult: Final[Any] = remade(
    response.WritableTxnMarkerResult, WritableTxnMarkerTopicResult, **_ANSWERED
)
WriteTxnMarkersResponse: Final[Any] = remade(
    response.WriteTxnMarkersResponse, WritableTxnMarkerResult, **_ANSWERED
)

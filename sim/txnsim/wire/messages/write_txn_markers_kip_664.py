"""WriteTxnMarkers v1, as the text of KIP-664 has it.

Kafka's own version 1 is version 0 made flexible; in the text each partition is a separate element
with a tagged field: the offset since which the transaction to end is open, -1 where it is unknown.
The answer is that of Kafka's version 1.
"""

from typing import Any, Final

from kio.schema.request_header.v2.header import RequestHeader
from kio.schema.write_txn_markers.v1 import request

from txnsim.wire._declared_messages import message, remake_class

_REQUEST_VARIABLES: Final = {
    "__version__": 1,
    "__api_key__": 27,
    "__header_schema__": RequestHeader,
}

WritableTxnMarkerPartition: Final[Any] = message(
    "WritableTxnMarkerPartition",
    "A partition, and the transaction that is to end there.",
    "partition_index int32",
    "txn_start_offset int64 tag 0 = -1",
    class_attributes=_REQUEST_VARIABLES,
)
WritableTxnMarkerTopic: Final[Any] = message(
    "WritableTxnMarkerTopic",
    "The partitions of one topic.",
    "name string",
    "partitions []Partition",
    types={"Partition": WritableTxnMarkerPartition},
    class_attributes=_REQUEST_VARIABLES,
)
WritableTxnMarker: Final[Any] = remake_class(request.WritableTxnMarker, WritableTxnMarkerTopic)
WriteTxnMarkersRequest: Final[Any] = remake_class(request.WriteTxnMarkersRequest, WritableTxnMarker)

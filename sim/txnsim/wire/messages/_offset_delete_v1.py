"""OffsetDelete v1 (KIP-1313): the fields of version 0 in the flexible encoding, so that the request
can have header v3.
"""

from typing import Any, Final

from kio.schema.offset_delete.v0 import request, response
from kio.schema.request_header.v2.header import RequestHeader
from kio.schema.response_header.v1.header import ResponseHeader

from txnsim.wire._declared_messages import remake_class

_REQUEST_VARIABLES: Final[dict[str, Any]] = {
    "version": 1,
    "flexible": True,
    "header_schema": RequestHeader,
}
_RESPONSE_VARIABLES: Final[dict[str, Any]] = {
    "version": 1,
    "flexible": True,
    "header_schema": ResponseHeader,
}

OffsetDeleteRequestPartition: Final[Any] = remake_class(
    request.OffsetDeleteRequestPartition, **_REQUEST_VARIABLES
)
OffsetDeleteRequestTopic: Final[Any] = remake_class(
    request.OffsetDeleteRequestTopic, OffsetDeleteRequestPartition, **_REQUEST_VARIABLES
)
OffsetDeleteRequest: Final[Any] = remake_class(
    request.OffsetDeleteRequest, OffsetDeleteRequestTopic, **_REQUEST_VARIABLES
)
OffsetDeleteResponsePartition: Final[Any] = remake_class(
    response.OffsetDeleteResponsePartition, **_RESPONSE_VARIABLES
)
OffsetDeleteResponseTopic: Final[Any] = remake_class(
    response.OffsetDeleteResponseTopic, OffsetDeleteResponsePartition, **_RESPONSE_VARIABLES
)
OffsetDeleteResponse: Final[Any] = remake_class(
    response.OffsetDeleteResponse, OffsetDeleteResponseTopic, **_RESPONSE_VARIABLES
)

"""PushTelemetry v1 (KIP-1313): the client's instance id has moved from the request's body to its
header. The response is that of version 0.
"""

from typing import Any, Final

from kio.schema.push_telemetry.v0.request import PushTelemetryRequest as RequestV0
from kio.schema.push_telemetry.v0.response import PushTelemetryResponse as ResponseV0

from txnsim.wire._declared_messages import message, remake_class

PushTelemetryRequest: Final[Any] = message(
    "PushTelemetryRequest",
    "The metrics of a client.",
    "subscription_id int32",
    "terminating bool",
    "compression_type int8",
    "metrics bytes",
    class_attributes={
        "__version__": 1,
        "__api_key__": RequestV0.__api_key__,
        "__header_schema__": RequestV0.__header_schema__,
    },
)
PushTelemetryResponse: Final[Any] = remake_class(ResponseV0, version=1)

"""GetTelemetrySubscriptions v1 (KIP-1313): the client's instance id has moved from the request's
body to its header. The response is that of version 0.
"""

from typing import Any, Final

from kio.schema.get_telemetry_subscriptions.v0.request import (
    GetTelemetrySubscriptionsRequest as RequestV0,
)
from kio.schema.get_telemetry_subscriptions.v0.response import (
    GetTelemetrySubscriptionsResponse as ResponseV0,
)

from txnsim.wire._declared_messages import message, remake_class

GetTelemetrySubscriptionsRequest: Final[Any] = message(
    "GetTelemetrySubscriptionsRequest",
    "Asks for the metrics that the client has to push.",
    class_attributes={
        "__version__": 1,
        "__api_key__": RequestV0.__api_key__,
        "__header_schema__": RequestV0.__header_schema__,
    },
)
GetTelemetrySubscriptionsResponse: Final[Any] = remake_class(ResponseV0, version=1)

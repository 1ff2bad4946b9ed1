"""ApiVersions v5 (KIP-1242): the client names the cluster and the node that it means to reach.

The response is that of version 4.
"""

from typing import Any, Final

from kio.schema.api_versions.v4 import response
from kio.schema.api_versions.v4.request import ApiVersionsRequest as RequestV4

from txnsim.wire._declared_messages import message, remake_class

ApiVersionsRequest: Final[Any] = message(
    "ApiVersionsRequest",
    "What a client asks first.",
    "client_software_name string",
    "client_software_version string",
    "cluster_id string? = None",
    "node_id int32 = -1",
    class_attributes={
        "__version__": 5,
        "__api_key__": RequestV4.__api_key__,
        "__header_schema__": RequestV4.__header_schema__,
    },
)
ApiVersion: Final[Any] = remake_class(response.ApiVersion, version=5)
SupportedFeatureKey: Final[Any] = remake_class(response.SupportedFeatureKey, version=5)
FinalizedFeatureKey: Final[Any] = remake_class(response.FinalizedFeatureKey, version=5)
ApiVersionsResponse: Final[Any] = remake_class(
    response.ApiVersionsResponse, ApiVersion, SupportedFeatureKey, FinalizedFeatureKey, version=5
)

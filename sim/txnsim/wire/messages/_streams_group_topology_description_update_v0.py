"""StreamsGroupTopologyDescriptionUpdate v0 (KIP-1331): a member describes its topology."""

from typing import Any, Final

from kio.schema.request_header.v2.header import RequestHeader
from kio.schema.response_header.v1.header import ResponseHeader

from txnsim.wire._declared_messages import message

_REQUEST_VARIABLES: Final = {
    "__version__": 0,
    "__api_key__": 93,
    "__header_schema__": RequestHeader,
}

TopologyDescriptionNode: Final[Any] = message(
    "TopologyDescriptionNode",
    "A node of the graph.",
    "name string",
    "node_type int8",
    "source_topics []string",
    "sink_topic string? = None",
    "stores []string",
    "successors []string",
    class_attributes=_REQUEST_VARIABLES,
)
TopologyDescriptionSubtopology: Final[Any] = message(
    "TopologyDescriptionSubtopology",
    "The nodes of a subtopology.",
    "subtopology_id string",
    "nodes []Node",
    types={"Node": TopologyDescriptionNode},
    class_attributes=_REQUEST_VARIABLES,
)
TopologyDescriptionGlobalStore: Final[Any] = message(
    "TopologyDescriptionGlobalStore",
    "A store that every instance has as a whole.",
    "source Node",
    "processor Node",
    types={"Node": TopologyDescriptionNode},
    class_attributes=_REQUEST_VARIABLES,
)
TopologyDescription: Final[Any] = message(
    "TopologyDescription",
    "A whole topology.",
    "subtopologies []Subtopology",
    "global_stores []Store",
    types={
        "Subtopology": TopologyDescriptionSubtopology,
        "Store": TopologyDescriptionGlobalStore,
    },
    class_attributes=_REQUEST_VARIABLES,
)
StreamsGroupTopologyDescriptionUpdateRequest: Final[Any] = message(
    "StreamsGroupTopologyDescriptionUpdateRequest",
    "A member's description of its topology.",
    "group_id string",
    "member_id string",
    "topology_epoch int32",
    "topology_description Description",
    types={"Description": TopologyDescription},
    class_attributes=_REQUEST_VARIABLES,
)
StreamsGroupTopologyDescriptionUpdateResponse: Final[Any] = message(
    "StreamsGroupTopologyDescriptionUpdateResponse",
    "Whether it was taken.",
    "throttle_time timedelta_i32",
    "error_code error_code",
    "error_message string? = None",
    class_attributes={**_REQUEST_VARIABLES, "__header_schema__": ResponseHeader},
)

"""StreamsGroupDescribe v1: descriptions of topologies (KIP-1331), the assignor (KIP-1357)."""

from typing import Any, Final

from kio.schema.streams_group_describe.v0.request import StreamsGroupDescribeRequest as RequestV0
from kio.schema.streams_group_describe.v0.response import (
    Assignment,
    Endpoint,
    KeyValue,
    Member,
    Subtopology,
    TaskIds,
    TaskOffset,
    TopicInfo,
    Topology,
)
from kio.schema.streams_group_describe.v0.response import StreamsGroupDescribeResponse as ResponseV0

from txnsim.wire._declared_messages import message, remake_class
from txnsim.wire.messages._streams_group_topology_description_update_v0 import TopologyDescription

__all__ = [
    "Assignment",
    "DescribedGroup",
    "Endpoint",
    "KeyValue",
    "Member",
    "StreamsGroupDescribeRequest",
    "StreamsGroupDescribeResponse",
    "Subtopology",
    "TaskIds",
    "TaskOffset",
    "TopicInfo",
    "Topology",
]

StreamsGroupDescribeRequest: Final[Any] = message(
    "StreamsGroupDescribeRequest",
    "Which groups, and what of them.",
    "group_ids []string",
    "include_authorized_operations bool",
    "include_topology_description bool = False",
    class_attributes={
        "__version__": 1,
        "__api_key__": RequestV0.__api_key__,
        "__header_schema__": RequestV0.__header_schema__,
    },
)
DescribedGroup: Final[Any] = message(
    "DescribedGroup",
    "A group.",
    "error_code error_code",
    "error_message string? = None",
    "group_id string",
    "group_state string",
    "group_epoch int32",
    "assignment_epoch int32",
    "topology Topology? = None",
    "members []Member",
    "authorized_operations int32 = -2147483648",
    "topology_description Description? = None",
    "topology_description_status int8 = 0",
    "assignor_name string? = None",
    types={"Topology": Topology, "Member": Member, "Description": TopologyDescription},
    class_attributes={
        "__version__": 1,
        "__api_key__": ResponseV0.__api_key__,
        "__header_schema__": ResponseV0.__header_schema__,
    },
)
StreamsGroupDescribeResponse: Final[Any] = remake_class(ResponseV0, DescribedGroup, version=1)

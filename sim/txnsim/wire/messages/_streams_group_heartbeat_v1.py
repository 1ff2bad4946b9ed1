"""StreamsGroupHeartbeat v1 (KIP-1331): the response has a recovery lag of 64 bits, and may ask for
a description of the topology. The request is that of version 0.
"""

from typing import Any, Final

from kio.schema.streams_group_heartbeat.v0.request import StreamsGroupHeartbeatRequest as RequestV0
from kio.schema.streams_group_heartbeat.v0.request import Subtopology, Topology
from kio.schema.streams_group_heartbeat.v0.response import (
    Endpoint,
    EndpointToPartitions,
    Status,
    TaskIds,
    TopicPartition,
)
from kio.schema.streams_group_heartbeat.v0.response import (
    StreamsGroupHeartbeatResponse as ResponseV0,
)

from txnsim.wire._declared_messages import message, remake_class

__all__ = [
    "Endpoint",
    "EndpointToPartitions",
    "Status",
    "StreamsGroupHeartbeatRequest",
    "StreamsGroupHeartbeatResponse",
    "Subtopology",
    "TaskIds",
    "TopicPartition",
    "Topology",
]

StreamsGroupHeartbeatRequest: Final[Any] = remake_class(RequestV0, version=1)
StreamsGroupHeartbeatResponse: Final[Any] = message(
    "StreamsGroupHeartbeatResponse",
    "The member's epoch and tasks.",
    "throttle_time timedelta_i32",
    "error_code error_code",
    "error_message string? = None",
    "member_id string",
    "member_epoch int32",
    "heartbeat_interval timedelta_i32",
    "task_offset_interval timedelta_i32",
    "acceptable_recovery_lag int64 = -1",
    "status []Status?",
    "active_tasks []TaskIds? = None",
    "standby_tasks []TaskIds? = None",
    "warmup_tasks []TaskIds? = None",
    "topology_description_required bool = False",
    "endpoint_information_epoch int32",
    "partitions_by_user_endpoint []Endpoints? = None",
    types={"Status": Status, "TaskIds": TaskIds, "Endpoints": EndpointToPartitions},
    class_attributes={
        "__version__": 1,
        "__api_key__": ResponseV0.__api_key__,
        "__header_schema__": ResponseV0.__header_schema__,
    },
)

"""Values of the records of streams groups in ``__consumer_offsets`` (KIP-1071).

Kafka's counterparts: StreamsGroup*Value.json; all are of version 0 and flexible. Keys, and the
value of kind 20, are those of the consumer protocol under another number.
"""

from typing import Any, Final

from txnsim.wire._declared_messages import message

KeyValue: Final[Any] = message("KeyValue", "A config, or a tag.", "key string", "value string")
GroupMetadataValue: Final[Any] = message(
    "GroupMetadataValue",
    "The group's epoch (kind 17).",
    "epoch int32",
    "metadata_hash int64",
    "validated_topology_epoch int32 tag 0 = -1",
    "last_assignment_configs []Config? tag 1 = None",
    "stored_description_topology_epoch int32 tag 2 = -1",
    "failed_description_topology_epoch int32 tag 3 = -1",
    types={"Config": KeyValue},
)
Endpoint: Final[Any] = message(
    "Endpoint", "Where a member answers interactive queries.", "host string", "port uint16"
)
MemberMetadataValue: Final[Any] = message(
    "MemberMetadataValue",
    "A member (kind 19).",
    "instance_id string?",
    "rack_id string?",
    "client_id string",
    "client_host string",
    "rebalance_timeout_ms int32 = -1",
    "topology_epoch int32",
    "process_id string",
    "user_endpoint Endpoint? = None",
    "client_tags []Tag",
    types={"Endpoint": Endpoint, "Tag": KeyValue},
)
TaskIds: Final[Any] = message(
    "TaskIds", "Tasks of a subtopology.", "subtopology_id string", "partitions []int32"
)
AssignedTasks: Final[Any] = message(
    "AssignedTasks",
    "Tasks of a subtopology, active ones with the epochs at which a member got them.",
    "subtopology_id string",
    "partitions []int32",
    "assignment_epochs []int32? tag 0 = None",
)
TargetMemberValue: Final[Any] = message(
    "TargetMemberValue",
    "A member's target assignment (kind 21).",
    "active_tasks []Tasks",
    "standby_tasks []Tasks",
    "warmup_tasks []Tasks",
    types={"Tasks": TaskIds},
)
CurrentAssignmentValue: Final[Any] = message(
    "CurrentAssignmentValue",
    "The current assignment of a member (kind 22).",
    "member_epoch int32",
    "previous_member_epoch int32",
    "state int8",
    "assigned_active_tasks []Assigned",
    "standby_tasks []Tasks",
    "warmup_tasks []Tasks",
    "active_tasks_pending_revocation []Assigned",
    "standby_tasks_pending_revocation []Tasks",
    "warmup_tasks_pending_revocation []Tasks",
    types={"Assigned": AssignedTasks, "Tasks": TaskIds},
)
TopicInfo: Final[Any] = message(
    "TopicInfo",
    "An internal topic.",
    "name string",
    "partitions int32",
    "replication_factor int16",
    "topic_configs []Config",
    types={"Config": KeyValue},
)
CopartitionGroup: Final[Any] = message(
    "CopartitionGroup",
    "Topics that need equal numbers of partitions, by their places in the subtopology.",
    "source_topics []int16",
    "source_topic_regex []int16",
    "repartition_source_topics []int16",
)
Subtopology: Final[Any] = message(
    "Subtopology",
    "A part of an application.",
    "subtopology_id string",
    "source_topics []string",
    "source_topic_regex []string",
    "state_changelog_topics []Topic",
    "repartition_sink_topics []string",
    "repartition_source_topics []Topic",
    "copartition_groups []Group",
    types={"Topic": TopicInfo, "Group": CopartitionGroup},
)
TopologyValue: Final[Any] = message(
    "TopologyValue",
    "The topology of an application (kind 23).",
    "topology_epoch int32",
    "subtopologies []Subtopology",
    types={"Subtopology": Subtopology},
)

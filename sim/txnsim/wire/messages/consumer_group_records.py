"""Keys and values of the consumer protocol's records in ``__consumer_offsets`` (KIP-848).

Kafka's counterparts: ConsumerGroup*Key.json and ConsumerGroup*Value.json; all values are of version
0 and flexible, no key is.
"""

from typing import Any, Final

from txnsim.wire._declared_messages import message

GroupKey: Final[Any] = message(
    "GroupKey", "Of records of a whole group (kinds 3, 4 and 6).", "group string", is_flexible=False
)
MemberKey: Final[Any] = message(
    "MemberKey",
    "Of records of one member (kinds 5, 7 and 8).",
    "group string",
    "member_id string",
    is_flexible=False,
)
RegularExpressionKey: Final[Any] = message(
    "RegularExpressionKey",
    "Of what a regular expression stands for (kind 16).",
    "group string",
    "regular_expression string",
    is_flexible=False,
)
GroupMetadataValue: Final[Any] = message(
    "GroupMetadataValue",
    "The group's epoch (kind 3).",
    "epoch int32",
    "metadata_hash int64 tag 0 = 0",
)
ClassicProtocol: Final[Any] = message(
    "ClassicProtocol",
    "A protocol of a member that speaks the classic one.",
    "name string",
    "metadata bytes",
)
ClassicMemberMetadata: Final[Any] = message(
    "ClassicMemberMetadata",
    "Data that a member of the classic protocol has sent.",
    "session_timeout_ms int32",
    "supported_protocols []Protocol",
    types={"Protocol": ClassicProtocol},
)
NO_CLASSIC_METADATA: Final[Any] = ClassicMemberMetadata(
    session_timeout_ms=-1, supported_protocols=()
)
"""The value to use where nothing is written; for a member of the consumer protocol Kafka writes
null.
"""

MemberMetadataValue: Final[Any] = message(
    "MemberMetadataValue",
    "A member's subscription (kind 5).",
    "instance_id string?",
    "rack_id string?",
    "client_id string",
    "client_host string",
    "subscribed_topic_names []string",
    "subscribed_topic_regex string?",
    "rebalance_timeout_ms int32 = -1",
    "server_assignor string?",
    "classic_member_metadata Classic? tag 0 = NO_CLASSIC_METADATA",
    types={"Classic": ClassicMemberMetadata, "NO_CLASSIC_METADATA": NO_CLASSIC_METADATA},
)
TargetMetadataValue: Final[Any] = message(
    "TargetMetadataValue",
    "The epoch of the target assignment (kind 6).",
    "assignment_epoch int32",
    "assignment_timestamp int64 tag 0 = 0",
)
TopicPartitions: Final[Any] = message(
    "TopicPartitions", "Partitions of a topic.", "topic_id uuid", "partitions []int32"
)
TargetMemberValue: Final[Any] = message(
    "TargetMemberValue",
    "A member's target assignment (kind 7).",
    "topic_partitions []Topic",
    types={"Topic": TopicPartitions},
)
AssignedPartitions: Final[Any] = message(
    "AssignedPartitions",
    "Partitions of a topic, with the epochs at which a member got them (KIP-1251).",
    "topic_id uuid",
    "partitions []int32",
    "assignment_epochs []int32? tag 0 = None",
)
CurrentAssignmentValue: Final[Any] = message(
    "CurrentAssignmentValue",
    "The current assignment of a member (kind 8).",
    "member_epoch int32",
    "previous_member_epoch int32",
    "state int8",
    "assigned_partitions []Assigned",
    "partitions_pending_revocation []Assigned",
    types={"Assigned": AssignedPartitions},
)
RegularExpressionValue: Final[Any] = message(
    "RegularExpressionValue",
    "The topics that a regular expression stood for (kind 16).",
    "topics []string",
    "version int64",
    "timestamp int64",
)

"""Values of the records of share groups in ``__consumer_offsets`` (KIP-932).

Kafka's counterparts: ShareGroup*Value.json; all are of version 0 and flexible. Keys, and the values
of kinds 12 and 13, are those of the consumer protocol under another number.
"""

from typing import Any, Final

from txnsim.wire._declared_messages import message
from txnsim.wire.messages.consumer_group_records import TopicPartitions

MemberMetadataValue: Final[Any] = message(
    "MemberMetadataValue",
    "A member's subscription (kind 10).",
    "rack_id string?",
    "client_id string",
    "client_host string",
    "subscribed_topic_names []string",
)
GroupMetadataValue: Final[Any] = message(
    "GroupMetadataValue", "The group's epoch (kind 11).", "epoch int32", "metadata_hash int64"
)
CurrentAssignmentValue: Final[Any] = message(
    "CurrentAssignmentValue",
    "The current assignment of a member (kind 14).",
    "member_epoch int32",
    "previous_member_epoch int32",
    "state int8",
    "topic_partitions []Topic",
    types={"Topic": TopicPartitions},
)
TopicPartitionsInfo: Final[Any] = message(
    "TopicPartitionsInfo",
    "Partitions of a topic, by id and name.",
    "topic_id uuid",
    "topic_name string",
    "partitions []int32",
)
TopicInfo: Final[Any] = message(
    "TopicInfo", "A topic, by id and name.", "topic_id uuid", "topic_name string"
)
StatePartitionMetadataValue: Final[Any] = message(
    "StatePartitionMetadataValue",
    "Topics whose share state is being initialised, is, or is being deleted (kind 15).",
    "initializing_topics []Partitions",
    "initialized_topics []Partitions",
    "deleting_topics []Topic",
    types={"Partitions": TopicPartitionsInfo, "Topic": TopicInfo},
)

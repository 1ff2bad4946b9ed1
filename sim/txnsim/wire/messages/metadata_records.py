"""Records of the metadata log, as far as it is read here; kio has no classes for them.

Each is preceded by a frame version, the record's key and its version. Kafka's counterparts:
TopicRecord.json, PartitionRecord.json, PartitionChangeRecord.json, ConfigRecord.json,
FeatureLevelRecord.json, ProducerIdsRecord.json, RemoveTopicRecord.json, ClearElrRecord.json,
RegisterBrokerRecord.json.
"""

from typing import Any, Final

from txnsim.wire._declared_messages import message, versions

BrokerEndpoint: Final[Any] = message(
    "BrokerEndpoint",
    "Where a broker listens.",
    "name string",
    "host string",
    "port uint16",
    "security_protocol int16",
)
BrokerFeature: Final[Any] = message(
    "BrokerFeature",
    "Levels of a feature that a broker supports.",
    "name string",
    "min_supported_version int16",
    "max_supported_version int16",
)
RegisterBrokerRecordV3: Final[Any] = message(
    "RegisterBrokerRecordV3",
    "A broker has registered (0).",
    "broker_id int32",
    "is_migrating_zk_broker bool = False",
    "incarnation_id uuid",
    "broker_epoch int64",
    "end_points []Endpoint",
    "features []Feature",
    "rack string?",
    "fenced bool = True",
    "in_controlled_shutdown bool = False",
    "log_dirs []uuid tag 0 = ()",
    types={"Endpoint": BrokerEndpoint, "Feature": BrokerFeature},
)
TopicRecord: Final[Any] = message(
    "TopicRecord", "A topic was created (2).", "name string", "topic_id uuid"
)
PARTITION_RECORDS: Final = versions(
    "PartitionRecord",
    "A partition as a whole (3), with the log directory of each replica (KIP-858) and eligible"
    " leader replicas (KIP-966).",
    "partition_id int32",
    "topic_id uuid",
    "replicas []int32",
    "isr []int32",
    "removing_replicas []int32",
    "adding_replicas []int32",
    "leader int32",
    "leader_recovery_state int8 tag 0 = 0",
    "leader_epoch int32",
    "partition_epoch int32",
    "directories []uuid 1+",
    "eligible_leader_replicas []int32? 2+ tag 1 = None",
    "last_known_elr []int32? 2+ tag 2 = None",
    flexible_since=0,
    newest_version=2,
)
PartitionChangeRecord: Final[Any] = message(
    "PartitionChangeRecord",
    "What is different in a partition (5). Later versions only have more tagged fields; the log"
    " directories are skipped.",
    "partition_id int32",
    "topic_id uuid",
    "isr []int32? tag 0 = None",
    "leader int32 tag 1 = -2",
    "replicas []int32? tag 2 = None",
    "removing_replicas []int32? tag 3 = None",
    "adding_replicas []int32? tag 4 = None",
    "leader_recovery_state int8 tag 5 = -1",
    "eligible_leader_replicas []int32? tag 6 = None",
    "last_known_elr []int32? tag 7 = None",
)
ConfigRecord: Final[Any] = message(
    "ConfigRecord",
    "A config of a resource, set or taken back (4).",
    "resource_type int8",
    "resource_name string",
    "name string",
    "value string?",
)
FeatureLevelRecord: Final[Any] = message(
    "FeatureLevelRecord",
    "A feature's finalized level (12).",
    "name string",
    "feature_level int16",
)
ProducerIdsRecord: Final[Any] = message(
    "ProducerIdsRecord",
    "A block of producer ids was given out (15).",
    "broker_id int32",
    "broker_epoch int64",
    "next_producer_id int64",
)
RemoveTopicRecord: Final[Any] = message(
    "RemoveTopicRecord", "A topic was deleted (9).", "topic_id uuid"
)
ClearElrRecord: Final[Any] = message(
    "ClearElrRecord",
    "Eligible leader replicas of a topic count no more; without a name, of all topics (28).",
    "topic_name string",
)

"""Which right each API asks for: requests that are refused without it, for both the simulator and a
real broker.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.support.logs import batch, plain
from tests.support.security import acl
from txnsim.errors import ErrorCode
from txnsim.security.acls import CLUSTER_NAME, AclOperation, PatternType, Permission, ResourceType

GROUP, CLUSTER, TXN = ResourceType.GROUP, ResourceType.CLUSTER, ResourceType.TRANSACTIONAL_ID
TOPIC = ResourceType.TOPIC
NAMES = {GROUP: "g", CLUSTER: CLUSTER_NAME, TXN: "tx", TOPIC: "orders"}
ERRORS = {
    GROUP: ErrorCode.group_authorization_failed,
    CLUSTER: ErrorCode.cluster_authorization_failed,
    TXN: ErrorCode.transactional_id_authorization_failed,
}

COMMITTED = [{"name": "orders", "partitions": [{"partition_index": 0, "committed_offset": 1}]}]
OF_GROUP: dict[str, Any] = {"group_id": "g"}
OF_MEMBER: dict[str, Any] = {**OF_GROUP, "member_id": "m"}
PROTOCOL = {"protocol_type": "consumer", "protocol_name": "range"}
OF_TXN: dict[str, Any] = {"transactional_id": "tx"}
IN_BOTH = {**OF_GROUP, **OF_TXN}
ADDED = {
    "v3_and_below_transactional_id": "tx",
    "v3_and_below_topics": [{"name": "orders", "partitions": [0]}],
}
MARKERS = {"markers": [{"topics": [{"name": "orders", "partition_indexes": [0]}]}]}
WRITTEN = {
    **OF_TXN,
    "acks": -1,
    "topic_data": [
        {
            "name": "orders",
            "partition_data": [{"index": 0, "records": batch(is_transactional=True)}],
        }
    ],
}

ANY_ACL: dict[str, Any] = {
    "resource_type_filter": ResourceType.ANY,
    "resource_name_filter": None,
    "pattern_type_filter": PatternType.ANY,
    "principal_filter": None,
    "host_filter": None,
    "operation": AclOperation.ANY,
    "permission_type": Permission.ANY,
}
NO_ACL = {**ANY_ACL, "principal_filter": "User:nobody"}
NEW_ACL = {
    "resource_type": ResourceType.TOPIC,
    "resource_name": "elsewhere",
    "resource_pattern_type": PatternType.LITERAL,
    "principal": "User:nobody",
    "host": "*",
    "operation": AclOperation.READ,
    "permission_type": Permission.ALLOW,
}

SHARE_STATES = {
    f"{name}ShareGroupState{suffix}": {
        "group_id": "g",
        "topics": [{"topic_id": None, "partitions": [{"partition": 0, **part}]}],
    }
    for name, suffix, part in (
        ("Initialize", "", {"state_epoch": 0, "start_offset": 0}),
        ("Read", "", {"leader_epoch": 0}),
        (
            "Write",
            "",
            {"state_epoch": 0, "leader_epoch": 0, "start_offset": 0, "state_batches": []},
        ),
        ("Delete", "", {}),
        ("Read", "Summary", {"leader_epoch": 0}),
    )
}
"""The requests to a share coordinator by their names."""

WHOLE: list[tuple[str, int, dict[str, Any], list[tuple[ResourceType, AclOperation]]]] = [
    ("Produce", 9, WRITTEN, [(TXN, AclOperation.WRITE)]),
    ("OffsetCommit", 8, {**OF_GROUP, "topics": COMMITTED}, [(GROUP, AclOperation.READ)]),
    ("JoinGroup", 5, OF_GROUP, [(GROUP, AclOperation.READ)]),
    ("Heartbeat", 3, OF_GROUP, [(GROUP, AclOperation.READ)]),
    ("LeaveGroup", 3, OF_GROUP, [(GROUP, AclOperation.READ)]),
    ("SyncGroup", 5, {**OF_GROUP, **PROTOCOL}, [(GROUP, AclOperation.READ)]),
    ("InitProducerId", 4, OF_TXN, [(TXN, AclOperation.WRITE)]),
    ("InitProducerId", 4, {"transactional_id": None}, [(CLUSTER, AclOperation.IDEMPOTENT_WRITE)]),
    ("AddPartitionsToTxn", 3, ADDED, [(TXN, AclOperation.WRITE)]),
    (
        "AddPartitionsToTxn",
        5,
        {"transactions": [{"transactional_id": "tx"}]},
        [(CLUSTER, AclOperation.CLUSTER_ACTION)],
    ),
    ("AddOffsetsToTxn", 3, IN_BOTH, [(TXN, AclOperation.WRITE), (GROUP, AclOperation.READ)]),
    ("EndTxn", 3, OF_TXN, [(TXN, AclOperation.WRITE)]),
    ("WriteTxnMarkers", 1, MARKERS, [(CLUSTER, AclOperation.ALTER)]),
    ("WriteTxnMarkers", 1, MARKERS, [(CLUSTER, AclOperation.CLUSTER_ACTION)]),
    (
        "TxnOffsetCommit",
        3,
        {**IN_BOTH, "topics": COMMITTED},
        [(TXN, AclOperation.WRITE), (GROUP, AclOperation.READ)],
    ),
    ("DescribeAcls", 3, ANY_ACL, [(CLUSTER, AclOperation.DESCRIBE)]),
    ("CreateAcls", 3, {"creations": [NEW_ACL]}, [(CLUSTER, AclOperation.ALTER)]),
    ("DeleteAcls", 3, {"filters": [NO_ACL]}, [(CLUSTER, AclOperation.ALTER)]),
    (
        "AlterReplicaLogDirs",
        2,
        {"dirs": [{"path": "/", "topics": [{"name": "orders", "partitions": [0]}]}]},
        [(CLUSTER, AclOperation.ALTER)],
    ),
    ("DescribeLogDirs", 4, {}, [(CLUSTER, AclOperation.DESCRIBE)]),
    ("ElectLeaders", 2, {}, [(CLUSTER, AclOperation.ALTER)]),
    (
        "AlterPartitionReassignments",
        1,
        {"topics": [{"name": "orders", "partitions": [{"partition_index": 0}]}]},
        [(CLUSTER, AclOperation.ALTER)],
    ),
    ("ListPartitionReassignments", 0, {}, [(CLUSTER, AclOperation.DESCRIBE)]),
    ("OffsetDelete", 0, OF_GROUP, [(GROUP, AclOperation.DELETE)]),
    ("DescribeClientQuotas", 1, {}, [(CLUSTER, AclOperation.DESCRIBE_CONFIGS)]),
    (
        "AlterClientQuotas",
        1,
        {"entries": [{"entity": [{"entity_type": "user", "entity_name": "a"}]}]},
        [(CLUSTER, AclOperation.ALTER_CONFIGS)],
    ),
    ("DescribeUserScramCredentials", 0, {}, [(CLUSTER, AclOperation.DESCRIBE)]),
    (
        "AlterUserScramCredentials",
        0,
        {"deletions": [{"name": "a", "mechanism": 1}]},
        [(CLUSTER, AclOperation.ALTER)],
    ),
    (
        "DescribeQuorum",
        2,
        {"topics": [{"topic_name": "t", "partitions": [{"partition_index": 0}]}]},
        [(CLUSTER, AclOperation.DESCRIBE)],
    ),
    ("UpdateFeatures", 1, {}, [(CLUSTER, AclOperation.ALTER)]),
    ("UnregisterBroker", 0, {}, [(CLUSTER, AclOperation.ALTER)]),
    ("ConsumerGroupHeartbeat", 0, OF_GROUP, [(GROUP, AclOperation.READ)]),
    ("ListConfigResources", 1, {}, [(CLUSTER, AclOperation.DESCRIBE_CONFIGS)]),
    ("ShareGroupHeartbeat", 1, OF_GROUP, [(GROUP, AclOperation.READ)]),
    ("StreamsGroupHeartbeat", 1, OF_GROUP, [(GROUP, AclOperation.READ)]),
    ("StreamsGroupTopologyDescriptionUpdate", 0, OF_GROUP, [(GROUP, AclOperation.READ)]),
    ("AlterShareGroupOffsets", 0, OF_GROUP, [(GROUP, AclOperation.READ)]),
    ("DeleteShareGroupOffsets", 0, OF_GROUP, [(GROUP, AclOperation.DELETE)]),
    ("ShareFetch", 1, OF_MEMBER, [(GROUP, AclOperation.READ)]),
    ("ShareAcknowledge", 1, OF_MEMBER, [(GROUP, AclOperation.READ)]),
    *(
        (api_name, 0, values, [(CLUSTER, AclOperation.CLUSTER_ACTION)])
        for api_name, values in SHARE_STATES.items()
    ),
]
"""Requests that are refused as a whole: API, version, values, and rights in the order in which the
broker checks them.
"""

TOPICS = ("orders", "hidden", "missing")


def topics(name: str, field_name: str = "partitions", **partition: Any) -> dict[str, Any]:
    return {"name": name, field_name: [partition]}


def per_topic(make_element: Callable[[str], Any]) -> list[Any]:
    return [make_element(topic_name) for topic_name in TOPICS]


OFFSETS = per_topic(lambda name: topics(name, partition_index=0, committed_offset=1))
READ_G = acl(GROUP, "g", AclOperation.READ)
WRITE_TX = acl(ResourceType.TRANSACTIONAL_ID, "tx", AclOperation.WRITE)

PARTS: list[tuple[str, int, dict[str, Any], AclOperation, str, list[Any]]] = [
    (
        "Produce",
        9,
        {
            "transactional_id": None,
            "acks": -1,
            "topic_data": per_topic(
                lambda name: topics(name, "partition_data", index=0, records=plain())
            ),
        },
        AclOperation.WRITE,
        "responses.partition_responses",
        [],
    ),
    (
        "Fetch",
        12,
        {
            "replica_id": -1,
            "session_epoch": -1,
            "topics": per_topic(
                lambda topic: {
                    "topic": topic,
                    "partitions": [{"partition": 0, "partition_max_bytes": 1000}],
                }
            ),
        },
        AclOperation.READ,
        "responses.partitions",
        [],
    ),
    (
        "ListOffsets",
        5,
        {"topics": per_topic(lambda name: topics(name, partition_index=0, timestamp=-1))},
        AclOperation.DESCRIBE,
        "topics.partitions",
        [],
    ),
    (
        "OffsetForLeaderEpoch",
        3,
        {
            "topics": per_topic(
                lambda topic: {"topic": topic, "partitions": [{"partition": 0, "leader_epoch": 0}]}
            )
        },
        AclOperation.DESCRIBE,
        "topics.partitions",
        [],
    ),
    (
        "OffsetCommit",
        8,
        {
            "group_id": "g",
            "generation_id_or_member_epoch": -1,
            "topics": OFFSETS,
        },
        AclOperation.READ,
        "topics.partitions",
        [READ_G],
    ),
    (
        "TxnOffsetCommit",
        3,
        {"group_id": "g", "transactional_id": "tx", "topics": OFFSETS},
        AclOperation.READ,
        "topics.partitions",
        [READ_G, WRITE_TX],
    ),
    (
        "OffsetFetch",
        5,
        {
            "group_id": "g",
            "topics": per_topic(lambda name: {"name": name, "partition_indexes": [0]}),
        },
        AclOperation.DESCRIBE,
        "topics.partitions",
        [READ_G],
    ),
    (
        "OffsetDelete",
        0,
        {
            "group_id": "g",
            "topics": per_topic(lambda name: topics(name, partition_index=0)),
        },
        AclOperation.READ,
        "topics.partitions",
        [acl(GROUP, "g", AclOperation.DELETE)],
    ),
    (
        "DeleteRecords",
        1,
        {"topics": per_topic(lambda name: topics(name, partition_index=0, offset=0))},
        AclOperation.DELETE,
        "topics.partitions",
        [],
    ),
    (
        "CreatePartitions",
        1,
        {
            "validate_only": True,
            "topics": per_topic(lambda name: {"name": name, "count": 3, "assignments": None}),
        },
        AclOperation.ALTER,
        "results",
        [],
    ),
    (
        "DescribeProducers",
        0,
        {"topics": per_topic(lambda name: {"name": name, "partition_indexes": [0]})},
        AclOperation.READ,
        "topics.partitions",
        [],
    ),
    (
        "DescribeConfigs",
        4,
        {
            "resources": per_topic(
                lambda resource_name: {"resource_type": 2, "resource_name": resource_name}
            )
        },
        AclOperation.DESCRIBE_CONFIGS,
        "results",
        [],
    ),
    (
        "AlterConfigs",
        2,
        {
            "validate_only": True,
            "resources": per_topic(
                lambda resource_name: {"resource_type": 2, "resource_name": resource_name}
            ),
        },
        AclOperation.ALTER_CONFIGS,
        "responses",
        [],
    ),
    (
        "IncrementalAlterConfigs",
        1,
        {
            "validate_only": True,
            "resources": per_topic(
                lambda resource_name: {"resource_type": 2, "resource_name": resource_name}
            ),
        },
        AclOperation.ALTER_CONFIGS,
        "responses",
        [],
    ),
    (
        "CreateTopics",
        7,
        {
            "validate_only": True,
            "topics": per_topic(
                lambda name: {"name": name, "num_partitions": 1, "replication_factor": 1}
            ),
        },
        AclOperation.CREATE,
        "topics",
        [],
    ),
    (
        "DescribeTopicPartitions",
        0,
        {"response_partition_limit": 10, "topics": per_topic(lambda name: {"name": name})},
        AclOperation.DESCRIBE,
        "topics",
        [],
    ),
    (
        "Metadata",
        9,
        {"topics": per_topic(lambda name: {"name": name}), "allow_auto_topic_creation": False},
        AclOperation.DESCRIBE,
        "topics",
        [],
    ),
]
"""Requests that name topics: API, version, values, the right on a topic, where the answer has their
errors, and what has to be granted before.
"""

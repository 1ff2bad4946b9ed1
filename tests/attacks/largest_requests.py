"""The requests of ``tests.attacks.largest``, each with the greatest number of elements allowed."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from tests.attacks.sending import request
from txnsim.wire.batch import Record, build_batch

WIDE: Final = "wide"
PARTITIONS: Final = 9_990
ELEMENTS: Final = 19_990
"""Elements of a request. Of the 20,000 allowed, some are needed around them."""
TIMES: Final = 10
CREATE_TOPICS: Final = 19
_WIDE: Final = range(PARTITIONS)


class RequestNames(NamedTuple):
    """The names and ids of which requests are made."""

    topic_id: uuid.UUID
    producer_id: int
    producer_epoch: int


class LargestRequest(NamedTuple):
    """An API's largest request."""

    name: str
    make: Callable[[RequestNames, int], bytes]
    """The frame of the so-manyth time."""
    times: int = TIMES
    answers: bool = True


def _same_frame(
    key: int, version: int, **request_fields: Any
) -> Callable[[RequestNames, int], bytes]:
    return lambda _request_names, _number: request(key, version, **request_fields)


def _names(count: int = ELEMENTS, prefix: str = "no-such-") -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


def _partitions(**request_fields: Any) -> list[dict[str, Any]]:
    return [{"partition_index": partition_index, **request_fields} for partition_index in _WIDE]


def _produce(request_names: RequestNames, _number: int) -> bytes:
    records = build_batch([Record(key=None, value=b"v")], timestamp_ms=1_700_000_000_000)
    partition_data = [{"index": index, "records": records} for index in _WIDE]
    topic = {"topic_id": request_names.topic_id, "partition_data": partition_data}
    return request(0, 13, acks=-1, timeout=30_000, topic_data=[topic])


def _fetch(request_names: RequestNames, _number: int) -> bytes:
    partitions = [
        {"partition": partition_index, "current_leader_epoch": -1, "partition_max_bytes": 1_000}
        for partition_index in _WIDE
    ]
    topic = {"topic_id": request_names.topic_id, "partitions": partitions}
    return request(
        *(1, 18),
        max_wait=0,
        max_bytes=50 << 20,
        session_id=0,
        session_epoch=-1,
        topics=[topic],
        replica_state={"replica_id": -1, "replica_epoch": -1},
    )


def _fetch_unknown(_request_names: RequestNames, _number: int) -> bytes:
    topics = [
        {"topic_id": uuid.UUID(int=topic_number), "partitions": [{"partition": 0}]}
        for topic_number in range(1, ELEMENTS // 2)
    ]
    return request(
        *(1, 18),
        max_bytes=50 << 20,
        session_epoch=-1,
        topics=topics,
        replica_state={"replica_id": -1, "replica_epoch": -1},
    )


def _offset_commit(request_names: RequestNames, _number: int) -> bytes:
    topic = {"topic_id": request_names.topic_id, "partitions": _partitions(committed_offset=0)}
    return request(
        *(8, 10), group_id="g", generation_id_or_member_epoch=-1, member_id="", topics=[topic]
    )


def _offset_fetch(request_names: RequestNames, _number: int) -> bytes:
    topic = {"topic_id": request_names.topic_id, "partition_indexes": _WIDE}
    return request(9, 10, groups=[{"group_id": "g", "member_epoch": -1, "topics": [topic]}])


def _create_topics(_request_names: RequestNames, number: int) -> bytes:
    topic = {"name": f"many-{number}", "num_partitions": PARTITIONS, "replication_factor": 1}
    return request(CREATE_TOPICS, 7, topics=[topic], timeout=10_000)


def _create_small_topics(_request_names: RequestNames, number: int) -> bytes:
    topics = [
        {"name": f"small-{number}-{partition_index}", "num_partitions": 1, "replication_factor": 1}
        for partition_index in range(PARTITIONS)
    ]
    return request(CREATE_TOPICS, 7, topics=topics, timeout=10_000)


def _create_partitions(_request_names: RequestNames, number: int) -> bytes:
    topic = {"name": "neighbour", "count": number * 1_000 + 1_001}
    return request(37, 3, topics=[topic], timeout=10_000)


def _add_partitions(request_names: RequestNames, _number: int) -> bytes:
    return request(
        *(24, 3),
        v3_and_below_transactional_id="t",
        v3_and_below_producer_id=request_names.producer_id,
        v3_and_below_producer_epoch=request_names.producer_epoch,
        v3_and_below_topics=[{"name": WIDE, "partitions": _WIDE}],
    )


def _end_txn(request_names: RequestNames, _number: int) -> bytes:
    return request(
        *(26, 3),
        transactional_id="t",
        producer_id=request_names.producer_id,
        producer_epoch=request_names.producer_epoch,
        committed=True,
    )


def _txn_offset_commit(request_names: RequestNames, _number: int) -> bytes:
    topic = {"name": WIDE, "partitions": _partitions(committed_offset=0)}
    return request(
        *(28, 3),
        transactional_id="t",
        group_id="g",
        producer_id=request_names.producer_id,
        producer_epoch=request_names.producer_epoch,
        generation_id=-1,
        topics=[topic],
    )


def _write_markers(request_names: RequestNames, _number: int) -> bytes:
    marker = {
        "producer_id": request_names.producer_id + 1_000,
        "producer_epoch": 0,
        "transaction_result": True,
        "topics": [{"name": WIDE, "partition_indexes": _WIDE}],
        "coordinator_epoch": 0,
    }
    return request(27, 1, markers=[marker])


def _write_markers_twice(request_names: RequestNames, _number: int) -> bytes:
    """Markers for every partition once, and at the end for one of them again."""
    marker = {
        "producer_id": request_names.producer_id + 2_000,
        "producer_epoch": 0,
        "transaction_result": True,
        "topics": [{"name": WIDE, "partition_indexes": [*_WIDE, 50_000, 50_000]}],
        "coordinator_epoch": 0,
    }
    return request(27, 1, markers=[marker])


def _add_unknown_partitions(request_names: RequestNames, _number: int) -> bytes:
    transaction = {
        "transactional_id": "t",
        "producer_id": request_names.producer_id,
        "producer_epoch": request_names.producer_epoch,
        "verify_only": False,
        "topics": [{"name": "no-such", "partitions": range(ELEMENTS)}],
    }
    return request(24, 4, transactions=[transaction])


def _acls(_request_names: RequestNames, topic_number: int) -> bytes:
    """ACLs of which half are new, as many as one request may create."""
    creations = [
        {
            "resource_type": 2,
            "resource_name": f"t-{topic_number}-{creation_index // 2}",
            "resource_pattern_type": 3,
            "principal": "User:a",
            "host": "*",
            "operation": 3,
            "permission_type": 3,
        }
        for creation_index in range(ELEMENTS)
    ]
    return request(30, 3, creations=creations)


def _acl_filters(_request_names: RequestNames, _number: int) -> bytes:
    """Filters that together match more ACLs than one answer may contain."""
    of_all = {"resource_type_filter": 1, "pattern_type_filter": 1, "permission_type": 1}
    return request(31, 3, filters=[{**of_all, "operation": 1}] * ELEMENTS)


_TOPIC_CONFIG: Final = {"name": "retention.ms", "value": "1000"}
_COMPONENTS: Final = [{"entity_type": "user", "match_type": 0, "match": "a"}] * ELEMENTS
_SCRAM: Final = {
    "mechanism": 1,
    "iterations": 4096,
    "salt": b"salt",
    "salted_password": b"x" * 32,
}

ALL: Final = (
    LargestRequest("Produce", _produce),
    LargestRequest("Fetch", _fetch),
    LargestRequest("Fetch unknown topics", _fetch_unknown),
    LargestRequest(
        "ListOffsets",
        _same_frame(
            2, 9, replica_id=-1, topics=[{"name": WIDE, "partitions": _partitions(timestamp=-1)}]
        ),
    ),
    LargestRequest(
        "Metadata unknown topics",
        _same_frame(
            3, 12, topics=[{"name": name} for name in _names()], allow_auto_topic_creation=False
        ),
    ),
    LargestRequest(
        "Metadata", _same_frame(3, 12, topics=[{"name": WIDE}], allow_auto_topic_creation=False)
    ),
    LargestRequest(
        "Metadata auto-create",
        _same_frame(
            3,
            12,
            topics=[{"name": n} for n in _names(ELEMENTS, "auto-")],
            allow_auto_topic_creation=True,
        ),
        times=1,
    ),
    LargestRequest("OffsetCommit", _offset_commit),
    LargestRequest("OffsetFetch", _offset_fetch),
    LargestRequest(
        "OffsetFetch all",
        _same_frame(9, 9, groups=[{"group_id": "g", "member_epoch": -1, "topics": None}]),
    ),
    LargestRequest(
        "OffsetFetch groups",
        _same_frame(
            9,
            9,
            groups=[
                {"group_id": group_id, "member_epoch": -1, "topics": None}
                for group_id in _names(ELEMENTS)
            ],
        ),
    ),
    LargestRequest(
        "FindCoordinator", _same_frame(10, 4, key_type=0, coordinator_keys=_names(ELEMENTS))
    ),
    LargestRequest(
        "JoinGroup",
        _same_frame(
            11,
            9,
            group_id="j",
            session_timeout=6_000,
            rebalance_timeout=1_000,
            protocol_type="consumer",
            protocols=[{"name": n, "metadata": b""} for n in _names()],
        ),
    ),
    LargestRequest(
        "LeaveGroup",
        _same_frame(
            13, 5, group_id="g", members=[{"member_id": member_id} for member_id in _names()]
        ),
    ),
    LargestRequest(
        "SyncGroup",
        _same_frame(
            14,
            5,
            group_id="g",
            generation_id=1,
            member_id="m",
            assignments=[{"member_id": member_id, "assignment": b""} for member_id in _names()],
        ),
    ),
    LargestRequest("DescribeGroups", _same_frame(15, 5, groups=_names())),
    LargestRequest("ListGroups", _same_frame(16, 5, states_filter=_names(ELEMENTS))),
    LargestRequest("CreateTopics 10,000 partitions", _create_topics, times=3),
    LargestRequest("CreateTopics 10,000 topics", _create_small_topics, times=2),
    LargestRequest(
        "DeleteTopics of 10,000 partitions",
        _same_frame(20, 6, topics=[{"name": "many-2"}], timeout=10_000),
        times=1,
    ),
    LargestRequest("Metadata of all", _same_frame(3, 12, topics=None)),
    LargestRequest(
        "DeleteTopics unknown",
        _same_frame(20, 6, topics=[{"name": n} for n in _names()], timeout=10_000),
    ),
    LargestRequest(
        "DeleteTopics",
        _same_frame(
            20,
            6,
            topics=[
                {"name": f"small-0-{partition_index}"} for partition_index in range(PARTITIONS)
            ],
            timeout=10_000,
        ),
        times=1,
    ),
    LargestRequest(
        "DeleteRecords",
        _same_frame(
            21, 2, topics=[{"name": WIDE, "partitions": _partitions(offset=0)}], timeout=10_000
        ),
    ),
    LargestRequest(
        "OffsetForLeaderEpoch",
        _same_frame(
            23,
            4,
            replica_id=-2,
            topics=[
                {
                    "topic": WIDE,
                    "partitions": [
                        {
                            "partition": partition_index,
                            "current_leader_epoch": -1,
                            "leader_epoch": 0,
                        }
                        for partition_index in _WIDE
                    ],
                }
            ],
        ),
    ),
    LargestRequest("AddPartitionsToTxn", _add_partitions),
    LargestRequest("AddPartitionsToTxn unknown", _add_unknown_partitions, times=3),
    LargestRequest("TxnOffsetCommit", _txn_offset_commit),
    LargestRequest("EndTxn of 10,000 partitions", _end_txn, times=1),
    LargestRequest("WriteTxnMarkers", _write_markers),
    LargestRequest("WriteTxnMarkers repeated", _write_markers_twice, times=3),
    LargestRequest("CreateAcls", _acls, times=3),
    LargestRequest(
        "DescribeAcls",
        _same_frame(
            29, 3, resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1
        ),
    ),
    LargestRequest(
        "DeleteAcls",
        _same_frame(
            31,
            3,
            filters=[
                {
                    "resource_type_filter": 2,
                    "resource_name_filter": n,
                    "pattern_type_filter": 3,
                    "operation": 1,
                    "permission_type": 1,
                }
                for n in _names(ELEMENTS, "t-0-")
            ],
        ),
        times=1,
    ),
    LargestRequest("DeleteAcls of all, often", _acl_filters, times=1),
    LargestRequest(
        "DescribeConfigs",
        _same_frame(
            32,
            4,
            resources=[
                {"resource_type": 2, "resource_name": WIDE, "configuration_keys": None}
                for _ in range(ELEMENTS)
            ],
            include_synonyms=True,
            include_documentation=True,
        ),
    ),
    LargestRequest(
        "AlterConfigs",
        _same_frame(
            33,
            2,
            resources=[
                {
                    "resource_type": 2,
                    "resource_name": f"small-1-{partition_index}",
                    "configs": [_TOPIC_CONFIG],
                }
                for partition_index in range(PARTITIONS - 10)
            ],
        ),
        times=2,
    ),
    LargestRequest(
        "IncrementalAlterConfigs",
        _same_frame(
            44,
            1,
            resources=[
                {
                    "resource_type": 2,
                    "resource_name": f"small-1-{partition_index}",
                    "configs": [_TOPIC_CONFIG],
                }
                for partition_index in range(PARTITIONS - 10)
            ],
        ),
        times=2,
    ),
    LargestRequest(
        "AlterReplicaLogDirs",
        _same_frame(34, 2, dirs=[{"path": "/x", "topics": [{"name": WIDE, "partitions": _WIDE}]}]),
    ),
    LargestRequest(
        "DescribeLogDirs", _same_frame(35, 4, topics=[{"topic": WIDE, "partitions": _WIDE}])
    ),
    LargestRequest("DescribeLogDirs of all", _same_frame(35, 4, topics=None)),
    LargestRequest("CreatePartitions", _create_partitions, times=5),
    LargestRequest(
        "CreateDelegationToken",
        _same_frame(
            38,
            3,
            renewers=[
                {"principal_type": "User", "principal_name": principal_name}
                for principal_name in _names()
            ],
        ),
    ),
    LargestRequest(
        "DescribeDelegationToken",
        _same_frame(
            41,
            3,
            owners=[
                {"principal_type": "User", "principal_name": principal_name}
                for principal_name in _names()
            ],
        ),
    ),
    LargestRequest("DeleteGroups", _same_frame(42, 2, groups_names=_names())),
    LargestRequest(
        "ElectLeaders",
        _same_frame(
            43,
            2,
            election_type=0,
            topic_partitions=[{"topic": WIDE, "partitions": _WIDE}],
            timeout=10_000,
        ),
    ),
    LargestRequest(
        "ElectLeaders of all",
        _same_frame(43, 2, election_type=0, topic_partitions=None, timeout=10_000),
    ),
    LargestRequest(
        "AlterPartitionReassignments",
        _same_frame(
            45,
            1,
            timeout=10_000,
            topics=[
                {
                    "name": WIDE,
                    "partitions": [
                        {"partition_index": i, "replicas": [1]} for i in range(PARTITIONS - 10)
                    ],
                }
            ],
        ),
    ),
    LargestRequest(
        "ListPartitionReassignments",
        _same_frame(46, 0, timeout=10_000, topics=[{"name": WIDE, "partition_indexes": _WIDE}]),
    ),
    LargestRequest(
        "OffsetDelete",
        _same_frame(47, 0, group_id="g", topics=[{"name": WIDE, "partitions": _partitions()}]),
    ),
    LargestRequest("DescribeClientQuotas", _same_frame(48, 1, components=_COMPONENTS)),
    LargestRequest(
        "AlterClientQuotas",
        _same_frame(
            49,
            1,
            entries=[
                {
                    "entity": [{"entity_type": "user", "entity_name": entity_name}],
                    "ops": [{"key": "producer_byte_rate", "value": 1.0}],
                }
                for entity_name in _names(ELEMENTS // 3)
            ],
        ),
    ),
    LargestRequest(
        "DescribeUserScramCredentials", _same_frame(50, 0, users=[{"name": n} for n in _names()])
    ),
    LargestRequest(
        "AlterUserScramCredentials",
        _same_frame(51, 0, upsertions=[{"name": n, **_SCRAM} for n in _names()]),
    ),
    LargestRequest(
        "DescribeQuorum",
        _same_frame(
            55,
            2,
            topics=[
                {"topic_name": topic_name, "partitions": [{"partition_index": 0}]}
                for topic_name in _names(ELEMENTS // 2)
            ],
        ),
    ),
    LargestRequest(
        "UpdateFeatures",
        _same_frame(
            57,
            2,
            timeout=10_000,
            feature_updates=[
                {"feature": n, "max_version_level": 1, "upgrade_type": 1} for n in _names()
            ],
        ),
    ),
    LargestRequest(
        "DescribeProducers", _same_frame(61, 0, topics=[{"name": WIDE, "partition_indexes": _WIDE}])
    ),
    LargestRequest("DescribeTransactions", _same_frame(65, 0, transactional_ids=_names(ELEMENTS))),
    LargestRequest("ListTransactions", _same_frame(66, 2, state_filters=_names(ELEMENTS))),
    LargestRequest(
        "ConsumerGroupHeartbeat",
        _same_frame(
            68,
            1,
            group_id="c",
            member_id="m",
            rebalance_timeout=1_000,
            subscribed_topic_names=_names(),
            topic_partitions=[],
        ),
    ),
    LargestRequest("ConsumerGroupDescribe", _same_frame(69, 1, group_ids=_names())),
    LargestRequest(
        "DescribeTopicPartitions",
        _same_frame(75, 0, topics=[{"name": n} for n in _names()], response_partition_limit=2_000),
    ),
    LargestRequest(
        "DescribeTopicPartitions of all",
        _same_frame(75, 0, topics=[], response_partition_limit=2_000),
    ),
)

"""What a guest asks, API by API, with too few rights and with just enough.

All APIs in all versions without any right; then each without one of the rights that it asks for;
then what only a longer question shows: deny over allow, prefixes, hosts, ids instead of names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from tests.support.broker_api import KEYS, NO_SUCH_ID
from tests.support.denials import Denial, GuardedBroker
from tests.support.logs import plain as plain_batch
from tests.support.rights import NAMES, PARTS, READ_G, WHOLE, WRITE_TX, topics
from tests.support.security import acl
from txnsim.api.registry import ACCEPTED
from txnsim.security.acls import (
    CLUSTER_NAME,
    AclBinding,
    AclOperation,
    PatternType,
    Permission,
    ResourceType,
)

_OTHERWISE_FROM: Final = {
    ("AddPartitionsToTxn", 3): 4,
    ("Fetch", 12): 13,
    ("OffsetCommit", 8): 10,
    ("OffsetFetch", 5): 8,
    ("Produce", 9): 13,
}
"""API and version of a request in ``rights`` -> the first version whose request differs: it names
several transactions or groups, or topics by id.
"""
_ASKED_FROM: Final = {("AddPartitionsToTxn", 5): 4}

Values = dict[str, Any] | Callable[[GuardedBroker], dict[str, Any]]


def denials() -> Iterator[Denial]:
    """All denials, each with a name of its own."""
    yield from _without_any_right()
    for api, version, values, needs in WHOLE:
        acl_bindings = tuple(
            acl(resource_type, NAMES[resource_type], operation)
            for resource_type, operation in needs
        )
        for right_count in range(1, len(acl_bindings)):
            denial_label = f"without {_describe_acl(acl_bindings[right_count])}"
            yield _denial(api, version, denial_label, values, acl_bindings[:right_count])
        yield Denial(
            name=f"{api} v{version} {_describe_rights(acl_bindings)}: is it denied",
            api=api,
            version=version,
            values=values,
            acls=acl_bindings,
            is_denied=True,
        )
    for api, version, values, operation, _path, granted in PARTS:
        acl_binding = acl(ResourceType.TOPIC, "orders", operation)
        for granted_acls in ((*granted,), (*granted, acl_binding)):
            if granted_acls:
                yield _denial(
                    api,
                    version,
                    f"of three topics {_describe_rights(granted_acls)}",
                    values,
                    granted_acls,
                )
    for request_label, api, version, more_values, acls in MORE:
        denial_label = f"{request_label} {_describe_rights(tuple(acls))}".strip()
        yield _denial(api, version, denial_label, more_values, tuple(acls))


def _without_any_right() -> Iterator[Denial]:
    """Each request in each version, without any right."""
    values_by_api: dict[tuple[str, int], list[Any]] = {}
    whole_requests = [(api, version, values) for api, version, values, _ in WHOLE]
    parts = [(api, version, values) for api, version, values, *_ in PARTS]
    for api, asked_version, values in whole_requests + parts:
        lowest_version, highest_version = ACCEPTED[KEYS[api]]
        highest_version = min(
            highest_version, _OTHERWISE_FROM.get((api, asked_version), highest_version + 1) - 1
        )
        for version in range(
            _ASKED_FROM.get((api, asked_version), lowest_version), highest_version + 1
        ):
            values_before = values_by_api.setdefault((api, version), [])
            if values not in values_before:
                values_before.append(values)
                prefix = "" if len(values_before) == 1 else "of something else "
                yield _denial(api, version, f"{prefix}without any right", values, ())


def _denial(
    api: str, version: int, denial_label: str, values: Values, acls: tuple[AclBinding, ...]
) -> Denial:
    return Denial(
        name=f"{api} v{version} {denial_label}", api=api, version=version, values=values, acls=acls
    )


TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
TXN: Final = ResourceType.TRANSACTIONAL_ID
DESCRIBE_ORDERS: Final = acl(TOPIC, "orders", AclOperation.DESCRIBE)
DESCRIBE_G: Final = acl(GROUP, "g", AclOperation.DESCRIBE)
PREFIXED: Final = PatternType.PREFIXED
CLUSTER_ACTION: Final = acl(CLUSTER, CLUSTER_NAME, AclOperation.CLUSTER_ACTION)
_PREFIX: Final = acl(TOPIC, "ord", AclOperation.ALL, pattern=PREFIXED)
_ANYBODY: Final = acl(TOPIC, "orders", AclOperation.ALL, principal="User:*")
_FROM_ELSEWHERE: Final = acl(TOPIC, "orders", AclOperation.ALL, host="10.1.2.3")
ALL_TOPICS: Final = acl(TOPIC, "*", AclOperation.ALL)


def _deny(binding: AclBinding) -> AclBinding:
    return msgspec.structs.replace(binding, permission=Permission.DENY)


def _list_offsets(name: str = "orders") -> dict[str, Any]:
    return {"topics": [topics(name, partition_index=0, timestamp=-1)]}


def _add_partitions(*names: str) -> dict[str, Any]:
    added_topics = [{"name": name, "partitions": [0]} for name in names]
    return {"v3_and_below_transactional_id": "tx", "v3_and_below_topics": added_topics}


_RESOURCES: Final = {
    "resources": [
        {"resource_type": resource_type, "resource_name": resource_name}
        for resource_type, resource_name in (
            (4, "1"),
            (4, ""),
            (8, "1"),
            (16, "metrics"),
            (32, "g"),
        )
    ]
}
"""Every kind of resource that has configs, except topics."""


_FOLLOWER: Final = {
    "replica_id": 1,
    "session_epoch": -1,
    "topics": [{"topic": "orders", "partitions": [{"partition": 0, "partition_max_bytes": 1000}]}],
}
_BEAT: Final[dict[str, Any]] = {"group_id": "g2", "member_id": "m", "rebalance_timeout": 1_000}
_READ_G2: Final = acl(GROUP, "g2", AclOperation.READ)
_DELETED: Final = {"topics": [{"name": name} for name in ("orders", "missing")]}
DELETE_ALL: Final = acl(CLUSTER, CLUSTER_NAME, AclOperation.DELETE)


def _by_ids(guarded_broker: GuardedBroker) -> dict[str, Any]:
    """Two existing topics and a missing one, by their ids."""
    ids = (guarded_broker.ids["orders"], guarded_broker.ids["hidden"], NO_SUCH_ID)
    return {"topics": [{"name": None, "topic_id": topic_id} for topic_id in ids]}


def _each_by_id(
    guarded_broker: GuardedBroker, field_name: str, **partition: Any
) -> list[dict[str, Any]]:
    ids = (topic["topic_id"] for topic in _by_ids(guarded_broker)["topics"])
    return [{"topic_id": topic_id, field_name: [partition]} for topic_id in ids]


def _produce_by_id(guarded_broker: GuardedBroker) -> dict[str, Any]:
    topic_data = _each_by_id(guarded_broker, "partition_data", index=0, records=plain_batch())
    return {"transactional_id": None, "acks": -1, "topic_data": topic_data}


def _fetch_by_id(guarded_broker: GuardedBroker) -> dict[str, Any]:
    fetched_topics = _each_by_id(
        guarded_broker, "partitions", partition=0, partition_max_bytes=1_000
    )
    return {"replica_id": -1, "session_epoch": -1, "topics": fetched_topics}


def _commit_by_id(guarded_broker: GuardedBroker) -> dict[str, Any]:
    committed_topics = _each_by_id(
        guarded_broker, "partitions", partition_index=0, committed_offset=1
    )
    return {"group_id": "g", "generation_id_or_member_epoch": -1, "topics": committed_topics}


def _fetch_offsets_by_id(guarded_broker: GuardedBroker) -> dict[str, Any]:
    asked_topics = [
        {**topic, "partition_indexes": [0]} for topic in _by_ids(guarded_broker)["topics"]
    ]
    return {"groups": [{"group_id": "g", "topics": asked_topics}]}


_CONFIGS: Final = {"resources": [{"resource_type": 2, "resource_name": "orders"}]}
_PRODUCERS: Final = {"topics": [{"name": "orders", "partition_indexes": [0]}]}
_NEW: Final = {
    "validate_only": True,
    "topics": [{"name": "new", "num_partitions": 1, "replication_factor": 1}],
}
_SHARE: Final = {"key_type": 2, "coordinator_keys": ["a:b:0"]}
_OPERATIONS: Final = {"include_cluster_authorized_operations": True}
_OF_GROUPS: Final = {"include_authorized_operations": True}
_CURSOR: Final = {
    "response_partition_limit": 9,
    "cursor": {"topic_name": "hidden", "partition_index": 0},
}
_EPOCHS: Final = {
    "topics": [{"topic": "orders", "partitions": [{"partition": 0, "leader_epoch": 0}]}]
}
_MARKERS: Final = {"markers": [{"topics": [{"name": "orders", "partition_indexes": [0]}]}]}
_UNACKED: Final = {
    "transactional_id": None,
    "acks": 0,
    "topic_data": [topics("orders", "partition_data", index=0, records=plain_batch())],
}

_READ_S: Final = acl(GROUP, "s", AclOperation.READ)
_SHARED: Final = {
    "groups": [
        {
            "group_id": group_id,
            "topics": [
                {"topic_name": topic_name, "partitions": [0]}
                for topic_name in ("orders", "missing")
            ],
        }
        for group_id in ("s", "x")
    ]
}
_STARTS: Final = [
    {"topic_name": topic_name, "partitions": [{"partition_index": 0, "start_offset": 1}]}
    for topic_name in ("orders", "missing")
]

MORE: Final[tuple[tuple[str, str, int, Values, list[AclBinding]], ...]] = (
    ("", "DeleteGroups", 2, {"groups_names": ["g", "x"]}, []),
    ("", "DescribeGroups", 5, {"groups": ["g", "x"]}, []),
    ("", "DescribeGroups", 6, {"groups": ["g", "x"]}, []),
    ("", "ConsumerGroupDescribe", 1, {"group_ids": ["g", "x"]}, []),
    ("", "ShareGroupDescribe", 1, {"group_ids": ["s", "x"]}, []),
    ("", "StreamsGroupDescribe", 1, {"group_ids": ["s", "x"]}, []),
    (
        "of topics",
        "ShareGroupHeartbeat",
        1,
        {"group_id": "s", "member_id": "m", "subscribed_topic_names": ["orders", "hidden"]},
        [_READ_S, DESCRIBE_ORDERS],
    ),
    ("", "DescribeShareGroupOffsets", 0, _SHARED, []),
    ("", "DescribeShareGroupOffsets", 1, _SHARED, []),
    ("", "DescribeShareGroupOffsets", 1, _SHARED, [acl(GROUP, "s", AclOperation.DESCRIBE)]),
    ("of topics", "AlterShareGroupOffsets", 0, {"group_id": "s", "topics": _STARTS}, [_READ_S]),
    (
        "of topics",
        "DeleteShareGroupOffsets",
        0,
        {"group_id": "s", "topics": [{"topic_name": "orders"}, {"topic_name": "missing"}]},
        [acl(GROUP, "s", AclOperation.DELETE)],
    ),
    ("", "ListGroups", 4, {}, []),
    ("", "ListGroups", 4, {}, [DESCRIBE_G]),
    ("", "ListGroups", 4, {}, [acl(CLUSTER, CLUSTER_NAME, AclOperation.DESCRIBE)]),
    ("", "ListTransactions", 1, {}, []),
    ("", "DescribeTransactions", 0, {"transactional_ids": ["tx", "x"]}, []),
    ("of a group", "FindCoordinator", 3, {"key_type": 0, "key": "g"}, []),
    ("of a transaction", "FindCoordinator", 4, {"key_type": 1, "coordinator_keys": ["tx"]}, []),
    ("all", "OffsetFetch", 8, {"groups": [{"group_id": "g", "topics": None}]}, []),
    ("all", "OffsetFetch", 8, {"groups": [{"group_id": "g", "topics": None}]}, [DESCRIBE_G]),
    (
        "all",
        "OffsetFetch",
        8,
        {"groups": [{"group_id": "g", "topics": None}]},
        [DESCRIBE_G, DESCRIBE_ORDERS],
    ),
    ("by name", "DeleteTopics", 5, {"topic_names": ["orders", "missing"]}, []),
    ("by name", "DeleteTopics", 5, {"topic_names": ["orders", "missing"]}, [DESCRIBE_ORDERS]),
    ("by id", "DeleteTopics", 6, lambda side: _by_ids(side), []),
    ("by id", "DeleteTopics", 6, lambda side: _by_ids(side), [DESCRIBE_ORDERS]),
    ("by name", "DeleteTopics", 6, _DELETED, []),
    ("of a missing one", "DeleteTopics", 6, {"topics": [{"name": "missing"}]}, [DELETE_ALL]),
    ("of all", "DescribeTopicPartitions", 0, {"response_partition_limit": 9}, []),
    ("of all", "DescribeTopicPartitions", 0, {"response_partition_limit": 9}, [DESCRIBE_ORDERS]),
    ("", "DescribeCluster", 1, {"include_cluster_authorized_operations": True}, []),
    ("of controllers", "DescribeCluster", 1, {"endpoint_type": 2}, []),
    ("", "CreateDelegationToken", 3, {}, []),
    ("", "DescribeDelegationToken", 3, {}, []),
    ("", "RenewDelegationToken", 2, {"hmac": b"x"}, []),
    ("", "ExpireDelegationToken", 2, {"hmac": b"x"}, []),
    ("of a follower", "Fetch", 12, _FOLLOWER, []),
    ("of a follower", "Fetch", 12, _FOLLOWER, [acl(TOPIC, "orders", AclOperation.READ)]),
    ("of all", "Metadata", 9, {"topics": None}, []),
    ("of all", "Metadata", 9, {"topics": None}, [DESCRIBE_ORDERS]),
    (
        "of all with operations",
        "Metadata",
        9,
        {"topics": None, "include_topic_authorized_operations": True},
        [acl(TOPIC, "orders", AclOperation.READ), acl(TOPIC, "orders", AclOperation.ALTER_CONFIGS)],
    ),
    (
        "that would create",
        "Metadata",
        9,
        {"topics": [{"name": "new"}], "allow_auto_topic_creation": True},
        [acl(TOPIC, "new", AclOperation.DESCRIBE)],
    ),
    ("by id", "Metadata", 12, lambda side: _by_ids(side), []),
    ("by id", "Metadata", 12, lambda side: _by_ids(side), [DESCRIBE_ORDERS]),
    ("by id", "Metadata", 13, lambda side: _by_ids(side), []),
    ("of a share group", "FindCoordinator", 6, _SHARE, []),
    (
        "of topics",
        "ConsumerGroupHeartbeat",
        1,
        {**_BEAT, "subscribed_topic_names": ["orders", "hidden"]},
        [_READ_G2, DESCRIBE_ORDERS],
    ),
    (
        "without a transaction",
        "InitProducerId",
        4,
        {"transactional_id": None},
        [acl(TOPIC, "somewhere", AclOperation.WRITE)],
    ),
    (
        "without a transaction",
        "InitProducerId",
        4,
        {"transactional_id": None},
        [acl(TOPIC, "somewhere", AclOperation.READ)],
    ),
    ("of two topics", "AddPartitionsToTxn", 3, _add_partitions("orders", "hidden"), [WRITE_TX]),
    (
        "of three topics",
        "AddPartitionsToTxn",
        3,
        _add_partitions("orders", "hidden", "missing"),
        [WRITE_TX, acl(TOPIC, "orders", AclOperation.WRITE)],
    ),
    (
        "of a missing one",
        "AddPartitionsToTxn",
        3,
        _add_partitions("orders", "missing"),
        [WRITE_TX, ALL_TOPICS],
    ),
    ("of all kinds", "DescribeConfigs", 4, _RESOURCES, []),
    ("of all kinds", "AlterConfigs", 2, {**_RESOURCES, "validate_only": True}, []),
    ("of all kinds", "IncrementalAlterConfigs", 1, {**_RESOURCES, "validate_only": True}, []),
    ("", "DescribeLogDirs", 1, {}, []),
    ("", "DescribeLogDirs", 3, {}, []),
    (
        "",
        "AlterPartitionReassignments",
        0,
        {"topics": [{"name": "orders", "partitions": [{"partition_index": 0, "replicas": [1]}]}]},
        [],
    ),
    ("without an answer", "Produce", 9, _UNACKED, []),
    # Which rule counts: ListOffsets asks for DESCRIBE.
    ("", "ListOffsets", 5, _list_offsets(), [acl(TOPIC, "orders", AclOperation.READ)]),
    ("", "ListOffsets", 5, _list_offsets(), [acl(TOPIC, "orders", AclOperation.WRITE)]),
    ("", "ListOffsets", 5, _list_offsets(), [acl(TOPIC, "orders", AclOperation.ALTER_CONFIGS)]),
    ("", "ListOffsets", 5, _list_offsets(), [ALL_TOPICS, _deny(DESCRIBE_ORDERS)]),
    (
        "",
        "ListOffsets",
        5,
        _list_offsets(),
        [ALL_TOPICS, _deny(acl(TOPIC, "orders", AclOperation.READ))],
    ),
    ("", "ListOffsets", 5, _list_offsets(), [DESCRIBE_ORDERS, _deny(ALL_TOPICS)]),
    (
        "",
        "ListOffsets",
        5,
        _list_offsets(),
        [acl(TOPIC, "ord", AclOperation.ALL, pattern=PatternType.PREFIXED)],
    ),
    (
        "",
        "ListOffsets",
        5,
        _list_offsets(),
        [acl(TOPIC, "orders", AclOperation.ALL, host="10.1.2.3")],
    ),
    (
        "",
        "ListOffsets",
        5,
        _list_offsets(),
        [acl(TOPIC, "orders", AclOperation.ALL, host="127.0.0.1")],
    ),
    ("of a missing topic", "ListOffsets", 5, _list_offsets("missing"), [ALL_TOPICS]),
    ("", "ListOffsets", 5, _list_offsets(), [DESCRIBE_ORDERS, _deny(_PREFIX)]),
    ("", "ListOffsets", 5, _list_offsets(), [_PREFIX, _deny(DESCRIBE_ORDERS)]),
    ("", "ListOffsets", 5, _list_offsets(), [_ANYBODY]),
    ("", "ListOffsets", 5, _list_offsets(), [DESCRIBE_ORDERS, _deny(_ANYBODY)]),
    ("", "ListOffsets", 5, _list_offsets(), [DESCRIBE_ORDERS, _deny(_FROM_ELSEWHERE)]),
    ("", "ListOffsets", 5, _list_offsets(), [acl(GROUP, "orders", AclOperation.ALL)]),
    *(
        (f"of a {subject}", "FindCoordinator", 3, {"key_type": key_type, "key": name}, [right])
        for subject, key_type, name, right in (
            ("group", 0, "g", acl(GROUP, "*", AclOperation.READ)),
            ("group", 0, "grouped", acl(GROUP, "g", AclOperation.READ, pattern=PREFIXED)),
            ("group", 0, "grouped", acl(GROUP, "g", AclOperation.READ)),
            ("group", 0, "g", acl(GROUP, "g", AclOperation.DELETE)),
            ("transaction", 1, "tx", acl(TXN, "*", AclOperation.WRITE)),
            ("transaction", 1, "txs", acl(TXN, "tx", AclOperation.WRITE, pattern=PREFIXED)),
            ("transaction", 1, "txs", acl(TXN, "tx", AclOperation.WRITE)),
            ("transaction", 1, "tx", acl(TXN, "tx", AclOperation.TWO_PHASE_COMMIT)),
        )
    ),
    # What is implied, and what is not.
    ("", "DescribeConfigs", 4, _CONFIGS, [acl(TOPIC, "orders", AclOperation.ALTER_CONFIGS)]),
    ("", "DescribeConfigs", 4, _CONFIGS, [acl(TOPIC, "orders", AclOperation.ALTER)]),
    ("", "DescribeProducers", 0, _PRODUCERS, [acl(TOPIC, "orders", AclOperation.WRITE)]),
    ("", "EndTxn", 3, {"transactional_id": "tx"}, [acl(TXN, "tx", AclOperation.DESCRIBE)]),
    ("", "DescribeTransactions", 0, {"transactional_ids": ["tx"]}, [WRITE_TX]),
    ("without a protocol", "SyncGroup", 5, {"group_id": "g"}, []),
    # By ids of topics.
    *(
        ("by id", api, version, values, list(acls))
        for api, version, values, rights in (
            ("Produce", 13, _produce_by_id, [acl(TOPIC, "orders", AclOperation.WRITE)]),
            ("Fetch", 13, _fetch_by_id, [acl(TOPIC, "orders", AclOperation.READ)]),
            ("Fetch", 18, _fetch_by_id, [acl(TOPIC, "orders", AclOperation.READ)]),
            ("OffsetCommit", 10, _commit_by_id, [READ_G, acl(TOPIC, "orders", AclOperation.READ)]),
            ("OffsetFetch", 10, _fetch_offsets_by_id, [READ_G, DESCRIBE_ORDERS]),
        )
        for acls in dict.fromkeys(((), tuple(rights[:-1]), tuple(rights)))
    ),
    # Creating.
    ("", "CreateTopics", 7, _NEW, [acl(CLUSTER, CLUSTER_NAME, AclOperation.CREATE)]),
    ("", "CreateTopics", 7, _NEW, [acl(TOPIC, "n", AclOperation.CREATE, pattern=PREFIXED)]),
    (
        "",
        "CreateTopics",
        7,
        _NEW,
        [acl(TOPIC, "new", AclOperation.CREATE), acl(TOPIC, "new", AclOperation.DESCRIBE_CONFIGS)],
    ),
    ("of a share group", "FindCoordinator", 6, _SHARE, [CLUSTER_ACTION]),
    (
        "of two groups",
        "OffsetFetch",
        8,
        {"groups": [{"group_id": group_id, "topics": None} for group_id in ("g", "x")]},
        [DESCRIBE_G, DESCRIBE_ORDERS],
    ),
    ("with operations", "Metadata", 9, {"topics": [], **_OPERATIONS}, []),
    (
        "with operations",
        "Metadata",
        9,
        {"topics": [], **_OPERATIONS},
        [acl(CLUSTER, CLUSTER_NAME, AclOperation.ALTER)],
    ),
    ("", "DescribeCluster", 1, _OPERATIONS, [acl(CLUSTER, CLUSTER_NAME, AclOperation.ALTER)]),
    (
        "",
        "DescribeGroups",
        5,
        {"groups": ["g"], **_OF_GROUPS},
        [acl(GROUP, "g", AclOperation.READ)],
    ),
    (
        "from a cursor",
        "DescribeTopicPartitions",
        0,
        _CURSOR,
        [acl(TOPIC, "orders", AclOperation.READ)],
    ),
    ("of a follower", "Fetch", 12, _FOLLOWER, [CLUSTER_ACTION]),
    ("of an epoch", "OffsetForLeaderEpoch", 3, _EPOCHS, [CLUSTER_ACTION]),
    ("", "WriteTxnMarkers", 1, _MARKERS, [acl(CLUSTER, CLUSTER_NAME, AclOperation.DESCRIBE)]),
)
"""Further questions: what is asked, API, version, values, rights of the guest."""


def _describe_rights(acls: tuple[AclBinding, ...]) -> str:
    return "with " + (" and ".join(map(_describe_acl, acls)) or "nothing")


def _describe_acl(binding: AclBinding) -> str:
    permission = "" if binding.permission == Permission.ALLOW else "DENY "
    pattern = "" if binding.pattern == PatternType.LITERAL else "…"
    host = "" if binding.host == "*" else f" from {binding.host}"
    host += "" if binding.principal == "User:alice" else f" of {binding.principal}"
    kind = ResourceType(binding.resource_type).name
    return (
        f"{permission}{AclOperation(binding.operation).name} {kind} {binding.name}{pattern}{host}"
    )

"""What somebody without rights is answered, API by API: the questions, and who asks them.

The same questions go to a real Kafka and to the simulator; answers are kept as plain values,
without what no two clusters share.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from datetime import timedelta
from enum import Enum
from typing import Any, Final

import msgspec

from sim.errors import ErrorCode
from sim.security.acls import (
    CLUSTER_NAME,
    AclBinding,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from tests.support.handlers import KEYS
from tests.support.logs import plain as plain_batch
from tests.support.patience import until
from tests.support.raw_wire import Outcome, RawConnection
from tests.support.rights import NAMES, OFFSETS, PARTS, WHOLE, WRITE_TX, topics
from tests.support.security import acl

GUEST: Final = "guest"
_EVERYTHING: Final[dict[str, Any]] = {
    "resource_type_filter": ResourceType.ANY,
    "resource_name_filter": None,
    "pattern_type_filter": PatternType.ANY,
    "principal_filter": None,
    "host_filter": None,
    "operation": Operation.ANY,
    "permission_type": Permission.ANY,
}
_JAVA_OBJECTS: Final = frozenset(
    {
        "AlterPartitionReassignments",
        "AlterUserScramCredentials",
        "ListPartitionReassignments",
        "UnregisterBroker",
        "UpdateFeatures",
    }
)
"""APIs whose refusals print a Java object (``api.authorization.words``)."""
_OWN: Final = frozenset(
    {
        *("host", "port", "cluster_id", "topic_id", "node_id", "broker_id", "controller_id"),
        *("producer_id", "transaction_start_time", "max_timestamp", "log_append_time"),
        # What the other questions have written in the meantime.
        *("offset", "end_offset", "base_offset", "high_watermark", "last_stable_offset"),
        *("log_dir", "total_bytes", "usable_bytes", "is_cordoned", "rack", "session_id"),
    }
)
"""Fields that no two clusters share."""


class Side:
    """One broker, asked as its super user and as a guest with few rights."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.admin = self.log_in("admin")
        self._created = frozenset({"orders", "hidden"})
        for name in sorted(self._created):
            topic = {"name": name, "num_partitions": 1, "replication_factor": 1}
            self.admin.ask(KEYS["CreateTopics"], 5, timeout=20_000, topics=[topic])
        until(lambda: self._coordinates("g", 0), bool, "somebody coordinates the group")
        until(lambda: self._coordinates("tx", 1), bool, "somebody coordinates the transaction")
        until(self._commits, bool, "the group has a position")

    def close(self) -> None:
        """End the super user's connection."""
        self.admin.__exit__(None, None, None)

    def log_in(self, user: str) -> RawConnection:
        """A connection of a user of PLAIN."""
        connection = RawConnection(self.address)
        handshake = connection.ask(KEYS["SaslHandshake"], 1, mechanism="PLAIN")
        assert handshake.error_code is ErrorCode.none
        token = f"\0{user}\0{user}-secret".encode()
        answer = connection.ask(KEYS["SaslAuthenticate"], 2, auth_bytes=token)
        assert answer.error_code is ErrorCode.none
        return connection

    def topic_id(self, name: str) -> Any:
        """The id of a topic."""
        answer = self.admin.ask(KEYS["Metadata"], 12, topics=[{"name": name, "topic_id": None}])
        return answer.topics[0].topic_id

    def allow(self, *acls: AclBinding) -> None:
        """Exactly these rights of the guest from now on."""
        self.admin.ask(KEYS["DeleteAcls"], 3, filters=[_EVERYTHING])
        if acls:
            creations = [
                _creation(msgspec.structs.replace(one, principal=f"User:{GUEST}")) for one in acls
            ]
            answer = self.admin.ask(KEYS["CreateAcls"], 3, creations=creations)
            assert {one.error_code for one in answer.results} == {ErrorCode.none}
        until(self._count, lambda count: count == len(acls), "the ACLs are in force")

    def guest(self, name: str, version: int, values: dict[str, Any]) -> Any:
        """What a guest is answered, on a connection of its own."""
        with self.log_in(GUEST) as connection:
            if name == "Produce" and values.get("acks") == 0:
                connection.send(KEYS[name], version, **values)
                return connection.silence()
            return connection.ask(KEYS[name], version, **{"timeout": 5_000, **values})

    def _count(self) -> int:
        answer = self.admin.ask(KEYS["DescribeAcls"], 3, **_EVERYTHING)
        return sum(len(resource.acls) for resource in answer.resources)

    def _coordinates(self, key: str, kind: int) -> bool:
        answer = self.admin.ask(KEYS["FindCoordinator"], 1, key=key, key_type=kind)
        return answer.error_code is ErrorCode.none

    def _commits(self) -> bool:
        commit = {"group_id": "g", "generation_id_or_member_epoch": -1, "topics": OFFSETS[:1]}
        answer = self.admin.ask(KEYS["OffsetCommit"], 8, **commit)
        return answer.topics[0].partitions[0].error_code is ErrorCode.none


Values = dict[str, Any] | Callable[[Side], dict[str, Any]]


class Denial(msgspec.Struct, frozen=True, kw_only=True):
    """A question that a guest asks with some rights."""

    name: str
    """Which API, what about it, and with which rights."""
    api: str
    version: int
    values: Any
    """Of the request; or a function that makes them at a side."""
    acls: tuple[AclBinding, ...] = ()

    def asked(self, side: Side) -> Any:
        """What the guest is answered, as plain values."""
        side.allow(*self.acls)
        values = self.values(side) if callable(self.values) else self.values
        return plainly(side.guest(self.api, self.version, values), api=self.api)


def denials() -> Iterator[Denial]:
    """All of them, by distinct names."""
    for api, version, values, needs in WHOLE:
        rights = tuple(acl(kind, NAMES[kind], operation) for kind, operation in needs)
        for count in range(len(rights)):
            without = rights[count]
            what = f"without {_spelled(without)}"
            yield Denial(
                name=f"{api} v{version} {what}",
                api=api,
                version=version,
                values=values,
                acls=rights[:count],
            )
    for api, version, values, operation, _path, granted in PARTS:
        right = acl(ResourceType.TOPIC, "orders", operation)
        for some in ((*granted,), (*granted, right)):
            yield Denial(
                name=f"{api} v{version} of three topics {_with(some)}",
                api=api,
                version=version,
                values=values,
                acls=some,
            )
    for about, api, version, more, acls in MORE:
        what = f" {about}" if about else ""
        yield Denial(
            name=f"{api} v{version}{what} {_with(tuple(acls))}",
            api=api,
            version=version,
            values=more,
            acls=tuple(acls),
        )


TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
TXN: Final = ResourceType.TRANSACTIONAL_ID
DESCRIBE_ORDERS: Final = acl(TOPIC, "orders", Operation.DESCRIBE)
DESCRIBE_G: Final = acl(GROUP, "g", Operation.DESCRIBE)
ALL_TOPICS: Final = acl(TOPIC, "*", Operation.ALL)


def _denied(binding: AclBinding) -> AclBinding:
    return msgspec.structs.replace(binding, permission=Permission.DENY)


def _ends(name: str = "orders") -> dict[str, Any]:
    return {"topics": [topics(name, partition_index=0, timestamp=-1)]}


def _added(*names: str) -> dict[str, Any]:
    wanted = [{"name": name, "partitions": [0]} for name in names]
    return {"v3_and_below_transactional_id": "tx", "v3_and_below_topics": wanted}


def _resources(**more: Any) -> dict[str, Any]:
    """Everything but topics that has configs."""
    kinds = ((4, "1"), (4, ""), (8, "1"), (16, "metrics"), (32, "g"))
    found = [{"resource_type": kind, "resource_name": name, **more} for kind, name in kinds]
    return {"resources": found, "validate_only": True}


_FOLLOWER: Final = {
    "replica_id": 1,
    "session_epoch": -1,
    "topics": [{"topic": "orders", "partitions": [{"partition": 0, "partition_max_bytes": 1000}]}],
}
_BEAT: Final[dict[str, Any]] = {"group_id": "g2", "member_id": "m", "rebalance_timeout": 1_000}
_READ_G2: Final = acl(GROUP, "g2", Operation.READ)
_UNACKED: Final = {
    "transactional_id": None,
    "acks": 0,
    "topic_data": [topics("orders", "partition_data", index=0, records=plain_batch())],
}

MORE: Final[tuple[tuple[str, str, int, Values, list[AclBinding]], ...]] = (
    ("", "DeleteGroups", 2, {"groups_names": ["g", "x"]}, []),
    ("", "DescribeGroups", 5, {"groups": ["g", "x"]}, []),
    ("", "DescribeGroups", 6, {"groups": ["g", "x"]}, []),
    ("", "ConsumerGroupDescribe", 1, {"group_ids": ["g", "x"]}, []),
    ("", "ListGroups", 4, {}, []),
    ("", "ListGroups", 4, {}, [DESCRIBE_G]),
    ("", "ListGroups", 4, {}, [acl(CLUSTER, CLUSTER_NAME, Operation.DESCRIBE)]),
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
    (
        "by id",
        "DeleteTopics",
        6,
        lambda side: {"topics": [{"name": None, "topic_id": side.topic_id("orders")}]},
        [],
    ),
    (
        "by id",
        "DeleteTopics",
        6,
        lambda side: {"topics": [{"name": None, "topic_id": side.topic_id("orders")}]},
        [DESCRIBE_ORDERS],
    ),
    ("of all", "DescribeTopicPartitions", 0, {"response_partition_limit": 9}, []),
    ("of all", "DescribeTopicPartitions", 0, {"response_partition_limit": 9}, [DESCRIBE_ORDERS]),
    ("", "DescribeCluster", 1, {"include_cluster_authorized_operations": True}, []),
    ("of controllers", "DescribeCluster", 1, {"endpoint_type": 2}, []),
    ("", "CreateDelegationToken", 3, {}, []),
    ("", "DescribeDelegationToken", 3, {}, []),
    ("", "RenewDelegationToken", 2, {"hmac": b"x"}, []),
    ("", "ExpireDelegationToken", 2, {"hmac": b"x"}, []),
    ("of a follower", "Fetch", 12, _FOLLOWER, []),
    ("of a follower", "Fetch", 12, _FOLLOWER, [acl(TOPIC, "orders", Operation.READ)]),
    ("of all", "Metadata", 9, {"topics": None}, []),
    ("of all", "Metadata", 9, {"topics": None}, [DESCRIBE_ORDERS]),
    (
        "of all with operations",
        "Metadata",
        9,
        {"topics": None, "include_topic_authorized_operations": True},
        [acl(TOPIC, "orders", Operation.READ), acl(TOPIC, "orders", Operation.ALTER_CONFIGS)],
    ),
    (
        "that would create",
        "Metadata",
        9,
        {"topics": [{"name": "new"}], "allow_auto_topic_creation": True},
        [acl(TOPIC, "new", Operation.DESCRIBE)],
    ),
    ("by id", "Metadata", 12, lambda side: _by_id(side, "orders"), []),
    ("of a share group", "FindCoordinator", 6, {"key_type": 2, "coordinator_keys": ["a:b:0"]}, []),
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
        [acl(TOPIC, "somewhere", Operation.WRITE)],
    ),
    (
        "without a transaction",
        "InitProducerId",
        4,
        {"transactional_id": None},
        [acl(TOPIC, "somewhere", Operation.READ)],
    ),
    ("of two topics", "AddPartitionsToTxn", 3, _added("orders", "hidden"), [WRITE_TX]),
    (
        "of three topics",
        "AddPartitionsToTxn",
        3,
        _added("orders", "hidden", "missing"),
        [WRITE_TX, acl(TOPIC, "orders", Operation.WRITE)],
    ),
    (
        "of a missing one",
        "AddPartitionsToTxn",
        3,
        _added("orders", "missing"),
        [WRITE_TX, ALL_TOPICS],
    ),
    ("of all kinds", "DescribeConfigs", 4, _resources(), []),
    ("of all kinds", "AlterConfigs", 2, _resources(), []),
    ("of all kinds", "IncrementalAlterConfigs", 1, _resources(), []),
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
    ("", "ListOffsets", 5, _ends(), [acl(TOPIC, "orders", Operation.READ)]),
    ("", "ListOffsets", 5, _ends(), [acl(TOPIC, "orders", Operation.WRITE)]),
    ("", "ListOffsets", 5, _ends(), [acl(TOPIC, "orders", Operation.ALTER_CONFIGS)]),
    ("", "ListOffsets", 5, _ends(), [ALL_TOPICS, _denied(DESCRIBE_ORDERS)]),
    ("", "ListOffsets", 5, _ends(), [ALL_TOPICS, _denied(acl(TOPIC, "orders", Operation.READ))]),
    ("", "ListOffsets", 5, _ends(), [DESCRIBE_ORDERS, _denied(ALL_TOPICS)]),
    (
        "",
        "ListOffsets",
        5,
        _ends(),
        [acl(TOPIC, "ord", Operation.ALL, pattern=PatternType.PREFIXED)],
    ),
    ("", "ListOffsets", 5, _ends(), [acl(TOPIC, "orders", Operation.ALL, host="10.1.2.3")]),
    ("", "ListOffsets", 5, _ends(), [acl(TOPIC, "orders", Operation.ALL, host="127.0.0.1")]),
    ("of a missing topic", "ListOffsets", 5, _ends("missing"), [ALL_TOPICS]),
)
"""Further questions: what is asked, API, version, values, rights of the guest."""


def _by_id(side: Side, name: str) -> dict[str, Any]:
    return {"topics": [{"name": None, "topic_id": side.topic_id(name)}]}


def plainly(value: Any, *, api: str) -> Any:
    """An answer as plain values, without what no two clusters share."""
    match value:
        case Outcome():
            return value.name
        case ErrorCode():
            return value.name.upper()
        case Enum():
            return value.name
        case timedelta():
            return round(value.total_seconds() * 1_000)
        case tuple():
            return sorted((plainly(one, api=api) for one in value), key=str)
        case bytes():
            return value.hex()
        case _ if dataclasses.is_dataclass(value):
            return {
                field.name: plainly(getattr(value, field.name), api=api)
                for field in dataclasses.fields(value)
                if field.name not in _OWN
                and not (field.name == "error_message" and api in _JAVA_OBJECTS)
            }
        case _:
            return value if isinstance(value, bool | int | float | None) else str(value)


def _with(acls: tuple[AclBinding, ...]) -> str:
    return "with " + (" and ".join(map(_spelled, acls)) or "nothing")


def _spelled(binding: AclBinding) -> str:
    permission = "" if binding.permission == Permission.ALLOW else "DENY "
    pattern = "" if binding.pattern == PatternType.LITERAL else "…"
    host = "" if binding.host == "*" else f" from {binding.host}"
    kind = ResourceType(binding.resource_type).name
    return f"{permission}{Operation(binding.operation).name} {kind} {binding.name}{pattern}{host}"


def _creation(binding: AclBinding) -> dict[str, Any]:
    return {
        "resource_type": binding.resource_type,
        "resource_name": binding.name,
        "resource_pattern_type": binding.pattern,
        "principal": binding.principal,
        "host": binding.host,
        "operation": binding.operation,
        "permission_type": binding.permission,
    }

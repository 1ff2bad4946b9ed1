"""What somebody without rights is answered: the same by a real Kafka with StandardAuthorizer and by
the simulator, API by API, errors and texts.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec
import pytest

from sim.errors import ErrorCode
from sim.security.acls import AclBinding, Operation, PatternType, Permission, ResourceType
from tests.support.apache_kafka import ApacheKafka
from tests.support.apache_listeners import plain_users
from tests.support.handlers import KEYS
from tests.support.raw_wire import Outcome, RawConnection
from tests.support.rights import NAMES, OFFSETS, PARTS, WHOLE
from tests.support.security import acl
from tests.support.txnsim_server import TxnsimServer

pytestmark = pytest.mark.real

GUEST: Final = "guest"
EVERYTHING: Final[dict[str, Any]] = {
    "resource_type_filter": ResourceType.ANY,
    "resource_name_filter": None,
    "pattern_type_filter": PatternType.ANY,
    "principal_filter": None,
    "host_filter": None,
    "operation": Operation.ANY,
    "permission_type": Permission.ANY,
}
JAVA_OBJECTS: Final = frozenset(
    {"ListPartitionReassignments", "UpdateFeatures", "UnregisterBroker"}
)
"""APIs whose refusals print a Java object (``api.authorization.words``), with those of users."""
PATIENCE: Final = 200


class Side:
    """One broker, asked as its super user and as a guest without rights."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.admin = self.log_in("admin")
        for name in ("orders", "hidden"):
            topic = {"name": name, "num_partitions": 1, "replication_factor": 1}
            self.admin.ask(KEYS["CreateTopics"], 5, timeout=20_000, topics=[topic])
        self._until_committed()

    def log_in(self, user: str) -> RawConnection:
        connection = RawConnection(self.address)
        handshake = connection.ask(KEYS["SaslHandshake"], 1, mechanism="PLAIN")
        assert handshake.error_code is ErrorCode.none
        token = f"\0{user}\0{user}-secret".encode()
        answer = connection.ask(KEYS["SaslAuthenticate"], 2, auth_bytes=token)
        assert answer.error_code is ErrorCode.none
        return connection

    def allow(self, *acls: AclBinding) -> None:
        """Exactly these rights from now on."""
        self.admin.ask(KEYS["DeleteAcls"], 3, filters=[EVERYTHING])
        if acls:
            creations = [_creation(one) for one in acls]
            answer = self.admin.ask(KEYS["CreateAcls"], 3, creations=creations)
            assert {one.error_code for one in answer.results} == {ErrorCode.none}
        self._until(lambda: self._count() == len(acls), "the ACLs are in force")

    def guest(self, name: str, version: int, values: dict[str, Any]) -> Any:
        """What a guest is answered, on a connection of its own."""
        with self.log_in(GUEST) as connection:
            return plainly(connection.ask(KEYS[name], version, **{"timeout": 5_000, **values}))

    def _count(self) -> int:
        answer = self.admin.ask(KEYS["DescribeAcls"], 3, **EVERYTHING)
        return sum(len(resource.acls) for resource in answer.resources)

    def _until_committed(self) -> None:
        self._until(lambda: self._coordinates("g", 0), "somebody coordinates the group")
        self._until(lambda: self._coordinates("tx", 1), "somebody coordinates the transaction")
        self._until(self._commits, "the group has a position")

    def _coordinates(self, key: str, kind: int) -> bool:
        answer = self.admin.ask(KEYS["FindCoordinator"], 1, key=key, key_type=kind)
        return answer.error_code is ErrorCode.none

    def _commits(self) -> bool:
        commit = {"group_id": "g", "generation_id_or_member_epoch": -1, "topics": OFFSETS[:1]}
        answer = self.admin.ask(KEYS["OffsetCommit"], 8, **commit)
        return answer.topics[0].partitions[0].error_code is ErrorCode.none

    def _until(self, is_so: Callable[[], bool], what: str) -> None:
        for _ in range(PATIENCE):
            if is_so():
                return
            # Somebody who is denied waits for nothing else: this is the pause between two looks.
            self.admin.ask(KEYS["Metadata"], 9, topics=[])
        raise AssertionError(f"never: {what}")


@pytest.fixture(scope="module")
def sides() -> Iterator[tuple[Side, Side]]:
    """A real broker and a simulated one, with the same users."""
    users = {name: f"{name}-secret" for name in ("admin", GUEST)}
    properties = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:admin",
    }
    with (
        ApacheKafka(
            properties=properties, listeners=plain_users(users), jvm_options=("-Xmx512m",)
        ) as kafka,
        TxnsimServer(brokers=1, arguments=("--security", "demo")) as server,
    ):
        simulated = server.ready["security"]["bootstrap"]["SASL_PLAINTEXT"]
        pair = Side(kafka.bootstrap_at("SASL")), Side(simulated)
        with pair[0].admin, pair[1].admin:
            yield pair


def of_guest(binding: AclBinding) -> AclBinding:
    return msgspec.structs.replace(binding, principal=f"User:{GUEST}")


def answers(
    sides: tuple[Side, Side], acls: list[AclBinding], name: str, version: int, values: Any
) -> list[Any]:
    for side in sides:
        side.allow(*map(of_guest, acls))
    found = [side.guest(name, version, values) for side in sides]
    if name in JAVA_OBJECTS or name == "AlterUserScramCredentials":
        found = [_without_text(one) for one in found]
    return found


@pytest.mark.parametrize(("name", "version", "values", "needs"), WHOLE)
def test_whole_requests_are_refused_alike(
    sides: tuple[Side, Side], name: str, version: int, values: Any, needs: Any
) -> None:
    rights = [acl(kind, NAMES[kind], operation) for kind, operation in needs]
    for count in range(len(rights)):
        real, simulated = answers(sides, rights[:count], name, version, values)
        assert simulated == real


@pytest.mark.parametrize(("name", "version", "values", "operation", "_path", "granted"), PARTS)
def test_topics_are_refused_alike(
    sides: tuple[Side, Side],
    name: str,
    version: int,
    values: Any,
    operation: Operation,
    _path: str,
    granted: list[AclBinding],
) -> None:
    right = acl(ResourceType.TOPIC, "orders", operation)
    for acls in (granted, [*granted, right]):
        real, simulated = answers(sides, acls, name, version, values)
        assert simulated == real


@pytest.mark.parametrize(
    ("name", "version", "values"),
    [
        ("DeleteGroups", 2, {"groups_names": ["g", "x"]}),
        ("DescribeGroups", 5, {"groups": ["g", "x"]}),
        ("DescribeGroups", 6, {"groups": ["g", "x"]}),
        ("ConsumerGroupDescribe", 1, {"group_ids": ["g", "x"]}),
        ("ListGroups", 4, {}),
        ("ListTransactions", 1, {}),
        ("DescribeTransactions", 0, {"transactional_ids": ["tx", "x"]}),
        ("FindCoordinator", 3, {"key_type": 0, "key": "g"}),
        ("FindCoordinator", 4, {"key_type": 1, "coordinator_keys": ["tx"]}),
        ("OffsetFetch", 8, {"groups": [{"group_id": "g", "topics": None}]}),
        ("DeleteTopics", 5, {"topic_names": ["orders", "missing"]}),
        ("DescribeTopicPartitions", 0, {"response_partition_limit": 9}),
        ("DescribeCluster", 1, {"include_cluster_authorized_operations": True}),
        ("CreateDelegationToken", 3, {}),
        ("DescribeDelegationToken", 3, {}),
    ],
)
def test_what_may_not_be_seen_is_hidden_alike(
    sides: tuple[Side, Side], name: str, version: int, values: Any
) -> None:
    real, simulated = answers(sides, [], name, version, values)
    assert simulated == real


def plainly(value: Any) -> Any:
    """An answer as plain values, without what no two clusters share."""
    if isinstance(value, Outcome) or not dataclasses.is_dataclass(value):
        return value
    found: dict[str, Any] = {}
    for field in dataclasses.fields(value):
        part = getattr(value, field.name)
        if field.name in _OWN:
            continue
        if isinstance(part, tuple):
            found[field.name] = sorted(map(str, map(plainly, part)))
        else:
            found[field.name] = plainly(part)
    return found


_OWN: Final = frozenset(
    {
        *("host", "port", "cluster_id", "topic_id", "node_id", "broker_id", "controller_id"),
        # What the other cases have written in the meantime.
        *("offset", "end_offset", "base_offset", "high_watermark", "last_stable_offset"),
    }
)


def _without_text(answer: Any) -> Any:
    return re.sub(r"'error_message': ('[^']*'|\"[^\"]*\"|None)", "", str(answer))


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

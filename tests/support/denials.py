"""What somebody without rights is answered, API by API: the questions, and who asks them.

The same questions go to a real Kafka and to the simulator; answers are kept as plain values,
without what no two clusters share.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Mapping
from datetime import timedelta
from enum import Enum
from typing import Any, Final

import msgspec

from tests.support.broker_api import KEYS, NOT_YET
from tests.support.patience import until
from tests.support.rights import ANY_ACL, OFFSETS
from txnsim.client.raw.connection import NoAnswer, RawConnection
from txnsim.errors import ErrorCode
from txnsim.security.acls import AclBinding
from txnsim.wire import codec

GUEST: Final = "guest"
_JAVA_OBJECTS: Final = frozenset(
    {
        "AlterPartitionReassignments",
        "AlterUserScramCredentials",
        "CreateAcls",
        "DeleteAcls",
        "DescribeAcls",
        "ListPartitionReassignments",
        "UnregisterBroker",
        "UpdateFeatures",
    }
)
"""APIs whose refusals contain a printed Java object (``api.authorization.words``)."""
_OWN: Final = frozenset(
    {
        *("host", "port", "cluster_id", "node_id", "broker_id", "controller_id"),
        *("producer_id", "transaction_start_time", "max_timestamp", "log_append_time"),
        # What the other questions have written in the meantime.
        *("offset", "end_offset", "base_offset", "high_watermark", "last_stable_offset"),
        *("records", "last_timestamp"),
        *("log_dir", "total_bytes", "usable_bytes", "is_cordoned", "rack", "session_id"),
    }
)
"""Fields that no two clusters share."""


class GuardedBroker:
    """A broker with an authorizer, a super user's connection and a guest's connections."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.admin = self.log_in("admin")
        for name in ("orders", "hidden"):
            topic = {"name": name, "num_partitions": 1, "replication_factor": 1}
            self.admin.ask(KEYS["CreateTopics"], 5, timeout=20_000, topics=[topic])
        self.ids = {name: self._topic_id(name) for name in ("orders", "hidden")}
        self._allowed: tuple[AclBinding, ...] | None = None
        until(lambda: self._coordinates("g", 0), bool, "somebody coordinates the group")
        until(lambda: self._coordinates("tx", 1), bool, "somebody coordinates the transaction")
        until(self._commits, bool, "the group has a position")

    def close(self) -> None:
        """End the super user's connection."""
        self.admin.__exit__(None, None, None)

    def log_in(self, user_name: str) -> RawConnection:
        """A connection of a user of PLAIN."""
        connection = RawConnection(self.address)
        handshake = connection.ask(KEYS["SaslHandshake"], 1, mechanism="PLAIN")
        assert handshake.error_code is ErrorCode.none
        token = f"\0{user_name}\0{user_name}-secret".encode()
        answer = connection.ask(KEYS["SaslAuthenticate"], 2, auth_bytes=token)
        assert answer.error_code is ErrorCode.none
        return connection

    def allow(self, *acls: AclBinding) -> None:
        """Replace all ACLs by these. The rights of alice, whom our own tests use, go to
        the guest.
        """
        if acls == self._allowed:
            return
        self.admin.ask(KEYS["DeleteAcls"], 3, filters=[ANY_ACL])
        until(self._count, lambda count: count == 0, "the ACLs before are gone")
        if acls:
            creations = [creation(binding) for binding in acls]
            answer = self.admin.ask(KEYS["CreateAcls"], 3, creations=creations)
            assert {result.error_code for result in answer.results} == {ErrorCode.none}
        until(self._count, lambda count: count == len(acls), "the ACLs are in force")
        self._allowed = acls

    def guest(self, api: str, version: int, values: Mapping[str, Any]) -> Any:
        """Send a request as the guest, on a new connection, and return the answer."""
        with self.log_in(GUEST) as connection:
            if api == "Produce" and values.get("acks") == 0:
                connection.send(KEYS[api], version, **values)
                return connection.silence()
            has_timeout = "timeout" in codec.request_class(KEYS[api], version).__dataclass_fields__
            fields = {"timeout": 5_000, **values} if has_timeout else values
            return until(
                lambda: connection.ask(KEYS[api], version, **fields),
                lambda answer: getattr(answer, "error_code", None) not in NOT_YET,
                "the coordinator is there",
            )

    def plainly(self, answer: Any, *, api: str) -> Any:
        """An answer as plain values, with this broker's topics by name."""
        return plainly(answer, api=api, ids={value: name for name, value in self.ids.items()})

    def _topic_id(self, name: str) -> Any:
        topics = [{"name": name, "topic_id": None}]
        return until(
            lambda: self.admin.ask(KEYS["Metadata"], 12, topics=topics).topics[0].topic_id,
            lambda topic_id: topic_id is not None,
            f"there is {name}",
        )

    def _count(self) -> int:
        answer = self.admin.ask(KEYS["DescribeAcls"], 3, **ANY_ACL)
        return sum(len(resource.acls) for resource in answer.resources)

    def _coordinates(self, key: str, key_type: int) -> bool:
        answer = self.admin.ask(KEYS["FindCoordinator"], 1, key=key, key_type=key_type)
        return answer.error_code is ErrorCode.none

    def _commits(self) -> bool:
        commit = {"group_id": "g", "generation_id_or_member_epoch": -1, "topics": OFFSETS[:1]}
        answer = self.admin.ask(KEYS["OffsetCommit"], 8, **commit)
        return answer.topics[0].partitions[0].error_code is ErrorCode.none


class Denial(msgspec.Struct, frozen=True, kw_only=True):
    """A request of a guest that has certain rights only."""

    name: str
    """The API, the version and the rights, in words."""
    api: str
    version: int
    values: Any
    """The fields of the request, or a function that makes them from a broker."""
    acls: tuple[AclBinding, ...] = ()
    is_denied: bool = False
    """Whether only the refusal for missing rights is compared. Other cases compare the rest."""

    def ask_guest(self, guarded_broker: GuardedBroker) -> Any:
        """Send the request as the guest, and return the answer as plain values."""
        guarded_broker.allow(*self.acls)
        values = self.values(guarded_broker) if callable(self.values) else self.values
        answer = guarded_broker.plainly(
            guarded_broker.guest(self.api, self.version, values), api=self.api
        )
        return "AUTHORIZATION_FAILED" in str(answer) if self.is_denied else answer


def plainly(value: Any, *, api: str, ids: Mapping[Any, str] | None = None) -> Any:
    """An answer as plain values, without what no two clusters share; ids of topics by name."""
    match value:
        case NoAnswer():
            return value.name
        case ErrorCode():
            return value.name.upper()
        case Enum():
            return value.name
        case timedelta():
            return round(value.total_seconds() * 1_000)
        case tuple():
            return sorted((plainly(element, api=api, ids=ids) for element in value), key=str)
        case bytes():
            return value.hex()
        case uuid.UUID():
            return (ids or {}).get(value, "an id")
        case _ if dataclasses.is_dataclass(value):
            return {
                field.name: plainly(getattr(value, field.name), api=api, ids=ids)
                for field in dataclasses.fields(value)
                if field.name not in _OWN
                and not (field.name == "error_message" and api in _JAVA_OBJECTS)
            }
        case _:
            return value if isinstance(value, bool | int | float | None) else str(value)


def creation(binding: AclBinding) -> dict[str, Any]:
    return {
        "resource_type": binding.resource_type,
        "resource_name": binding.name,
        "resource_pattern_type": binding.pattern,
        "principal": binding.principal.replace(":alice", f":{GUEST}"),
        "host": binding.host,
        "operation": binding.operation,
        "permission_type": binding.permission,
    }

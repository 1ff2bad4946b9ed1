"""Keys and values of ``__consumer_offsets``, in kio's manner; kio has no classes for log records.

One class per version of a value. A record begins with two bytes outside of these: the kind in a
key, the version in a value. Kafka's counterparts: OffsetCommitKey.json, OffsetCommitValue.json,
GroupMetadataKey.json, GroupMetadataValue.json.
"""

import uuid
from dataclasses import dataclass, field
from typing import ClassVar

_STRING = {"kafka_type": "string"}
_BYTES = {"kafka_type": "bytes"}
_INT32 = {"kafka_type": "int32"}
_INT64 = {"kafka_type": "int64"}


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitKey:
    """Whose position, and where (kinds 0 and 1)."""

    __flexible__: ClassVar[bool] = False
    group: str = field(metadata=_STRING)
    topic: str = field(metadata=_STRING)
    partition: int = field(metadata=_INT32)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitValueV0:
    """The first form; version 2 has the same fields."""

    __flexible__: ClassVar[bool] = False
    offset: int = field(metadata=_INT64)
    metadata: str = field(metadata=_STRING)
    commit_timestamp: int = field(metadata=_INT64)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitValueV1:
    """With a time of expiry of its own: written only where the commit asked for one."""

    __flexible__: ClassVar[bool] = False
    offset: int = field(metadata=_INT64)
    metadata: str = field(metadata=_STRING)
    commit_timestamp: int = field(metadata=_INT64)
    expire_timestamp: int = field(metadata=_INT64, default=-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitValueV3:
    """With the leader epoch of the last consumed record."""

    __flexible__: ClassVar[bool] = False
    offset: int = field(metadata=_INT64)
    leader_epoch: int = field(metadata=_INT32, default=-1)
    metadata: str = field(metadata=_STRING)
    commit_timestamp: int = field(metadata=_INT64)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitValueV4:
    """The first flexible form, with the topic's id."""

    __flexible__: ClassVar[bool] = True
    offset: int = field(metadata=_INT64)
    leader_epoch: int = field(metadata=_INT32, default=-1)
    metadata: str = field(metadata=_STRING)
    commit_timestamp: int = field(metadata=_INT64)
    topic_id: uuid.UUID | None = field(metadata={"kafka_type": "uuid", "tag": 0}, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadataKey:
    """Which classic group (kind 2)."""

    __flexible__: ClassVar[bool] = False
    group: str = field(metadata=_STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberMetadataV0:
    """A member, before rebalance timeouts."""

    __flexible__: ClassVar[bool] = False
    member_id: str = field(metadata=_STRING)
    client_id: str = field(metadata=_STRING)
    client_host: str = field(metadata=_STRING)
    session_timeout: int = field(metadata=_INT32)
    subscription: bytes = field(metadata=_BYTES)
    assignment: bytes = field(metadata=_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberMetadataV1:
    """A member, before static membership."""

    __flexible__: ClassVar[bool] = False
    member_id: str = field(metadata=_STRING)
    client_id: str = field(metadata=_STRING)
    client_host: str = field(metadata=_STRING)
    rebalance_timeout: int = field(metadata=_INT32, default=-1)
    session_timeout: int = field(metadata=_INT32)
    subscription: bytes = field(metadata=_BYTES)
    assignment: bytes = field(metadata=_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberMetadataV3:
    """A member that may be static."""

    __flexible__: ClassVar[bool] = False
    member_id: str = field(metadata=_STRING)
    group_instance_id: str | None = field(metadata=_STRING, default=None)
    client_id: str = field(metadata=_STRING)
    client_host: str = field(metadata=_STRING)
    rebalance_timeout: int = field(metadata=_INT32, default=-1)
    session_timeout: int = field(metadata=_INT32)
    subscription: bytes = field(metadata=_BYTES)
    assignment: bytes = field(metadata=_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberMetadataV4:
    """The same, flexible."""

    __flexible__: ClassVar[bool] = True
    member_id: str = field(metadata=_STRING)
    group_instance_id: str | None = field(metadata=_STRING, default=None)
    client_id: str = field(metadata=_STRING)
    client_host: str = field(metadata=_STRING)
    rebalance_timeout: int = field(metadata=_INT32, default=-1)
    session_timeout: int = field(metadata=_INT32)
    subscription: bytes = field(metadata=_BYTES)
    assignment: bytes = field(metadata=_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadataValueV0:
    """A generation of a classic group."""

    __flexible__: ClassVar[bool] = False
    protocol_type: str = field(metadata=_STRING)
    generation: int = field(metadata=_INT32)
    protocol: str | None = field(metadata=_STRING)
    leader: str | None = field(metadata=_STRING)
    members: tuple[MemberMetadataV0, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadataValueV1:
    """With rebalance timeouts."""

    __flexible__: ClassVar[bool] = False
    protocol_type: str = field(metadata=_STRING)
    generation: int = field(metadata=_INT32)
    protocol: str | None = field(metadata=_STRING)
    leader: str | None = field(metadata=_STRING)
    members: tuple[MemberMetadataV1, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadataValueV2:
    """With the time of the last change of state."""

    __flexible__: ClassVar[bool] = False
    protocol_type: str = field(metadata=_STRING)
    generation: int = field(metadata=_INT32)
    protocol: str | None = field(metadata=_STRING)
    leader: str | None = field(metadata=_STRING)
    current_state_timestamp: int = field(metadata=_INT64, default=-1)
    members: tuple[MemberMetadataV1, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadataValueV3:
    """With static members."""

    __flexible__: ClassVar[bool] = False
    protocol_type: str = field(metadata=_STRING)
    generation: int = field(metadata=_INT32)
    protocol: str | None = field(metadata=_STRING)
    leader: str | None = field(metadata=_STRING)
    current_state_timestamp: int = field(metadata=_INT64, default=-1)
    members: tuple[MemberMetadataV3, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadataValueV4:
    """The first flexible form."""

    __flexible__: ClassVar[bool] = True
    protocol_type: str = field(metadata=_STRING)
    generation: int = field(metadata=_INT32)
    protocol: str | None = field(metadata=_STRING)
    leader: str | None = field(metadata=_STRING)
    current_state_timestamp: int = field(metadata=_INT64, default=-1)
    members: tuple[MemberMetadataV4, ...]

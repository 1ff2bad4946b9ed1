"""Keys and values of the consumer protocol's records in ``__consumer_offsets`` (KIP-848).

In kio's manner, like ``group_records``. Kafka's counterparts: ConsumerGroup*Key.json and
ConsumerGroup*Value.json; all values are of version 0 and flexible, no key is.
"""

import uuid
from dataclasses import dataclass, field
from typing import ClassVar

_STRING = {"kafka_type": "string"}
_BYTES = {"kafka_type": "bytes"}
_INT8 = {"kafka_type": "int8"}
_INT32 = {"kafka_type": "int32"}
_INT64 = {"kafka_type": "int64"}
_UUID = {"kafka_type": "uuid"}


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupKey:
    """Of records of a whole group (kinds 3, 4 and 6)."""

    __flexible__: ClassVar[bool] = False
    group: str = field(metadata=_STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberKey:
    """Of records of one member (kinds 5, 7 and 8)."""

    __flexible__: ClassVar[bool] = False
    group: str = field(metadata=_STRING)
    member_id: str = field(metadata=_STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegularExpressionKey:
    """Of what a regular expression stands for (kind 16)."""

    __flexible__: ClassVar[bool] = False
    group: str = field(metadata=_STRING)
    regular_expression: str = field(metadata=_STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadataValue:
    """The group's epoch (kind 3)."""

    __flexible__: ClassVar[bool] = True
    epoch: int = field(metadata=_INT32)
    metadata_hash: int = field(metadata={"kafka_type": "int64", "tag": 0}, default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicProtocol:
    """A protocol of a member that speaks the classic one."""

    __flexible__: ClassVar[bool] = True
    name: str = field(metadata=_STRING)
    metadata: bytes = field(metadata=_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicMemberMetadata:
    """What a member that speaks the classic protocol has told."""

    __flexible__: ClassVar[bool] = True
    session_timeout_ms: int = field(metadata=_INT32)
    supported_protocols: tuple[ClassicProtocol, ...]


NOT_TOLD = ClassicMemberMetadata(session_timeout_ms=-1, supported_protocols=())
"""What a reader finds where nothing is written; of a consumer's own member Kafka writes null."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberMetadataValue:
    """A member's subscription (kind 5)."""

    __flexible__: ClassVar[bool] = True
    instance_id: str | None = field(metadata=_STRING)
    rack_id: str | None = field(metadata=_STRING)
    client_id: str = field(metadata=_STRING)
    client_host: str = field(metadata=_STRING)
    subscribed_topic_names: tuple[str, ...] = field(metadata=_STRING)
    subscribed_topic_regex: str | None = field(metadata=_STRING)
    rebalance_timeout_ms: int = field(metadata=_INT32, default=-1)
    server_assignor: str | None = field(metadata=_STRING)
    classic_member_metadata: ClassicMemberMetadata | None = field(
        metadata={"tag": 0}, default=NOT_TOLD
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetMetadataValue:
    """The epoch of the target assignment (kind 6)."""

    __flexible__: ClassVar[bool] = True
    assignment_epoch: int = field(metadata=_INT32)
    assignment_timestamp: int = field(metadata={"kafka_type": "int64", "tag": 0}, default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPartitions:
    """Partitions of a topic."""

    __flexible__: ClassVar[bool] = True
    topic_id: uuid.UUID | None = field(metadata=_UUID)
    partitions: tuple[int, ...] = field(metadata=_INT32)


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetMemberValue:
    """A member's target assignment (kind 7)."""

    __flexible__: ClassVar[bool] = True
    topic_partitions: tuple[TopicPartitions, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedPartitions:
    """Partitions of a topic, with the epochs at which a member got them (KIP-1251)."""

    __flexible__: ClassVar[bool] = True
    topic_id: uuid.UUID | None = field(metadata=_UUID)
    partitions: tuple[int, ...] = field(metadata=_INT32)
    assignment_epochs: tuple[int, ...] | None = field(
        metadata={"kafka_type": "int32", "tag": 0}, default=None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentAssignmentValue:
    """What a member has been told (kind 8)."""

    __flexible__: ClassVar[bool] = True
    member_epoch: int = field(metadata=_INT32)
    previous_member_epoch: int = field(metadata=_INT32)
    state: int = field(metadata=_INT8)
    assigned_partitions: tuple[AssignedPartitions, ...]
    partitions_pending_revocation: tuple[AssignedPartitions, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RegularExpressionValue:
    """The topics that a regular expression stood for (kind 16)."""

    __flexible__: ClassVar[bool] = True
    topics: tuple[str, ...] = field(metadata=_STRING)
    version: int = field(metadata=_INT64)
    timestamp: int = field(metadata=_INT64)

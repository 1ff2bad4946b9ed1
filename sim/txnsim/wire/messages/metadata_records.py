"""Records of the metadata log, in kio's manner, as far as it is read here; kio has no classes for
them.

One class per version that differs. In front of each lie a frame version, the record's key and its
version, outside of these. Kafka's counterparts: TopicRecord.json, PartitionRecord.json,
PartitionChangeRecord.json, ConfigRecord.json, FeatureLevelRecord.json, ProducerIdsRecord.json,
RemoveTopicRecord.json, ClearElrRecord.json, RegisterBrokerRecord.json.
"""

import uuid
from dataclasses import dataclass, field
from typing import ClassVar

_STRING = {"kafka_type": "string"}
_UUID = {"kafka_type": "uuid"}
_INT8 = {"kafka_type": "int8"}
_INT16 = {"kafka_type": "int16"}
_INT32 = {"kafka_type": "int32"}
_INT64 = {"kafka_type": "int64"}


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerEndpoint:
    """Where a broker listens."""

    __flexible__: ClassVar[bool] = True
    name: str = field(metadata=_STRING)
    host: str = field(metadata=_STRING)
    port: int = field(metadata={"kafka_type": "uint16"})
    security_protocol: int = field(metadata=_INT16)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFeature:
    """Levels of a feature that a broker supports."""

    __flexible__: ClassVar[bool] = True
    name: str = field(metadata=_STRING)
    min_supported_version: int = field(metadata=_INT16)
    max_supported_version: int = field(metadata=_INT16)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBrokerRecordV3:
    """A broker has registered (0)."""

    __flexible__: ClassVar[bool] = True
    broker_id: int = field(metadata=_INT32)
    is_migrating_zk_broker: bool = field(metadata={"kafka_type": "bool"}, default=False)
    incarnation_id: uuid.UUID | None = field(metadata=_UUID)
    broker_epoch: int = field(metadata=_INT64)
    end_points: tuple[BrokerEndpoint, ...]
    features: tuple[BrokerFeature, ...]
    rack: str | None = field(metadata=_STRING)
    fenced: bool = field(metadata={"kafka_type": "bool"}, default=True)
    in_controlled_shutdown: bool = field(metadata={"kafka_type": "bool"}, default=False)
    log_dirs: tuple[uuid.UUID | None, ...] = field(
        metadata={"kafka_type": "uuid", "tag": 0}, default=()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecord:
    """A topic was created (2)."""

    __flexible__: ClassVar[bool] = True
    name: str = field(metadata=_STRING)
    topic_id: uuid.UUID | None = field(metadata=_UUID)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRecordV0:
    """A partition as a whole (3)."""

    __flexible__: ClassVar[bool] = True
    partition_id: int = field(metadata=_INT32)
    topic_id: uuid.UUID | None = field(metadata=_UUID)
    replicas: tuple[int, ...] = field(metadata=_INT32)
    isr: tuple[int, ...] = field(metadata=_INT32)
    removing_replicas: tuple[int, ...] = field(metadata=_INT32)
    adding_replicas: tuple[int, ...] = field(metadata=_INT32)
    leader: int = field(metadata=_INT32)
    leader_recovery_state: int = field(metadata={"kafka_type": "int8", "tag": 0}, default=0)
    leader_epoch: int = field(metadata=_INT32)
    partition_epoch: int = field(metadata=_INT32)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRecordV1:
    """With the log directory of each replica (KIP-858)."""

    __flexible__: ClassVar[bool] = True
    partition_id: int = field(metadata=_INT32)
    topic_id: uuid.UUID | None = field(metadata=_UUID)
    replicas: tuple[int, ...] = field(metadata=_INT32)
    isr: tuple[int, ...] = field(metadata=_INT32)
    removing_replicas: tuple[int, ...] = field(metadata=_INT32)
    adding_replicas: tuple[int, ...] = field(metadata=_INT32)
    leader: int = field(metadata=_INT32)
    leader_recovery_state: int = field(metadata={"kafka_type": "int8", "tag": 0}, default=0)
    leader_epoch: int = field(metadata=_INT32)
    partition_epoch: int = field(metadata=_INT32)
    directories: tuple[uuid.UUID | None, ...] = field(metadata=_UUID)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRecordV2:
    """With eligible leader replicas (KIP-966)."""

    __flexible__: ClassVar[bool] = True
    partition_id: int = field(metadata=_INT32)
    topic_id: uuid.UUID | None = field(metadata=_UUID)
    replicas: tuple[int, ...] = field(metadata=_INT32)
    isr: tuple[int, ...] = field(metadata=_INT32)
    removing_replicas: tuple[int, ...] = field(metadata=_INT32)
    adding_replicas: tuple[int, ...] = field(metadata=_INT32)
    leader: int = field(metadata=_INT32)
    leader_recovery_state: int = field(metadata={"kafka_type": "int8", "tag": 0}, default=0)
    leader_epoch: int = field(metadata=_INT32)
    partition_epoch: int = field(metadata=_INT32)
    directories: tuple[uuid.UUID | None, ...] = field(metadata=_UUID)
    eligible_leader_replicas: tuple[int, ...] | None = field(
        metadata={"kafka_type": "int32", "tag": 1}, default=None
    )
    last_known_elr: tuple[int, ...] | None = field(
        metadata={"kafka_type": "int32", "tag": 2}, default=None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChangeRecord:
    """What is different in a partition (5). Later versions only have more tagged fields; the log
    directories are skipped.
    """

    __flexible__: ClassVar[bool] = True
    partition_id: int = field(metadata=_INT32)
    topic_id: uuid.UUID | None = field(metadata=_UUID)
    isr: tuple[int, ...] | None = field(metadata={"kafka_type": "int32", "tag": 0}, default=None)
    leader: int = field(metadata={"kafka_type": "int32", "tag": 1}, default=-2)
    replicas: tuple[int, ...] | None = field(
        metadata={"kafka_type": "int32", "tag": 2}, default=None
    )
    removing_replicas: tuple[int, ...] | None = field(
        metadata={"kafka_type": "int32", "tag": 3}, default=None
    )
    adding_replicas: tuple[int, ...] | None = field(
        metadata={"kafka_type": "int32", "tag": 4}, default=None
    )
    leader_recovery_state: int = field(metadata={"kafka_type": "int8", "tag": 5}, default=-1)
    eligible_leader_replicas: tuple[int, ...] | None = field(
        metadata={"kafka_type": "int32", "tag": 6}, default=None
    )
    last_known_elr: tuple[int, ...] | None = field(
        metadata={"kafka_type": "int32", "tag": 7}, default=None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigRecord:
    """A config of a resource, set or taken back (4)."""

    __flexible__: ClassVar[bool] = True
    resource_type: int = field(metadata=_INT8)
    resource_name: str = field(metadata=_STRING)
    name: str = field(metadata=_STRING)
    value: str | None = field(metadata=_STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureLevelRecord:
    """A feature's finalized level (12)."""

    __flexible__: ClassVar[bool] = True
    name: str = field(metadata=_STRING)
    feature_level: int = field(metadata=_INT16)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdsRecord:
    """A block of producer ids was given out (15)."""

    __flexible__: ClassVar[bool] = True
    broker_id: int = field(metadata=_INT32)
    broker_epoch: int = field(metadata=_INT64)
    next_producer_id: int = field(metadata=_INT64)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveTopicRecord:
    """A topic was deleted (9)."""

    __flexible__: ClassVar[bool] = True
    topic_id: uuid.UUID | None = field(metadata=_UUID)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearElrRecord:
    """Eligible leader replicas of a topic count no more; without a name, of all topics (28)."""

    __flexible__: ClassVar[bool] = True
    topic_name: str = field(metadata=_STRING)

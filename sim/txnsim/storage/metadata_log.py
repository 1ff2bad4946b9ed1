"""Reads a broker's copy of the metadata log of a KRaft cluster: topics, features, configs and
producer ids.

Every KRaft broker has a copy, ``__cluster_metadata-0``: segments as in any other log, and snapshots
(``OFFSET-EPOCH.checkpoint``) with the whole state at an offset. A copy has no high watermark, so
all of it counts. This module reads what a cluster needs to go on with these disks; security, quotas
and log directories are skipped. Kafka's counterparts: MetadataRecordSerde, MetadataDelta.replay,
PartitionRegistration.merge.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from enum import IntEnum
from pathlib import Path
from typing import Any, ClassVar, Final

import msgspec

from txnsim.errors import CorruptBatchError, CorruptLogRecordError
from txnsim.metadata.image import ClusterImage, PartitionImage, TopicImage
from txnsim.storage.log_file import StoredBatch, TornTail, read_log_file
from txnsim.storage.names import Suffix
from txnsim.types import INTERNAL_TOPICS, BrokerId, LeaderEpoch
from txnsim.wire.decoder import DecodeFaultError, Reader, reader
from txnsim.wire.messages import metadata_records as schema
from txnsim.wire.records import read_records
from txnsim.wire.varint import read_uvarint

FRAME_VERSION: Final = 1
_SNAPSHOT: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
_NO_CHANGE: Final = -2
"""Leader of a PartitionChangeRecord that does not change the leader."""


class MetadataRecordKind(IntEnum):
    """Kinds of records that are read, with their numbers."""

    REGISTER_BROKER = 0
    UNREGISTER_BROKER = 1
    TOPIC = 2
    PARTITION = 3
    CONFIG = 4
    PARTITION_CHANGE = 5
    REMOVE_TOPIC = 9
    FEATURE_LEVEL = 12
    PRODUCER_IDS = 15
    BEGIN_TRANSACTION = 23
    END_TRANSACTION = 24
    ABORT_TRANSACTION = 25
    CLEAR_ELR = 28


class ResourceType(IntEnum):
    """Type of the resource that a config belongs to (ConfigResource.Type)."""

    TOPIC = 2
    BROKER = 4
    CLIENT_METRICS = 16
    GROUP = 32


_SCHEMAS: Final[dict[MetadataRecordKind, tuple[Any, ...]]] = {
    MetadataRecordKind.TOPIC: (schema.TopicRecord,),
    MetadataRecordKind.PARTITION: schema.PARTITION_RECORDS,
    MetadataRecordKind.CONFIG: (schema.ConfigRecord,),
    MetadataRecordKind.PARTITION_CHANGE: (schema.PartitionChangeRecord,) * 3,
    MetadataRecordKind.REMOVE_TOPIC: (schema.RemoveTopicRecord,),
    MetadataRecordKind.FEATURE_LEVEL: (schema.FeatureLevelRecord,),
    MetadataRecordKind.PRODUCER_IDS: (schema.ProducerIdsRecord,),
    MetadataRecordKind.CLEAR_ELR: (schema.ClearElrRecord,),
}
"""Kind -> schemas by version."""


class StoredMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """The metadata in a copy of the metadata log."""

    FOLDER: ClassVar[str] = "__cluster_metadata-0"

    image: ClusterImage
    """Topics, features and configs; without brokers, because their addresses are those of another
    machine.
    """
    broker_ids: frozenset[BrokerId]
    """Ids of the registered brokers."""
    next_producer_id: int
    """The lowest producer id that is in no allocated block."""
    controller_epoch: int
    """Epoch of the controller that wrote the last batch."""
    removed_topic_ids: frozenset[uuid.UUID] = frozenset()
    """Ids of deleted topics, as far back as the copy's records go."""
    is_torn: bool = False
    """Whether a file has a torn tail, so that newer metadata may be missing."""

    @staticmethod
    def read(folder: Path, *, cluster_id: str) -> StoredMetadata | None:
        """Read the copy in a folder, from its newest snapshot on; None if there is no record.

        Raises:
            CorruptLogRecordError: A record can't be read; the message begins with the file.
            OSError: A file can't be read.
        """
        if not folder.is_dir():
            return None
        reader = _MetadataReader()
        start_offset = 0
        snapshot = max(
            (
                (int(snapshot_name[1]), path)
                for path in folder.iterdir()
                if (snapshot_name := _SNAPSHOT.fullmatch(path.name))
            ),
            default=None,
        )
        if snapshot is not None:
            start_offset = snapshot[0]
            for batch in _batches(snapshot[1], reader.torn):
                reader.apply_batch(batch, snapshot[1])
            reader.end_offset = start_offset
        for _, path in Suffix.LOG.files_in(folder):
            for batch in _batches(path, reader.torn):
                if batch.header.base_offset >= start_offset:
                    reader.apply_batch(batch, path)
        return reader.stored_metadata(cluster_id) if reader.batches else None

    @property
    def age(self) -> tuple[int, int]:
        """(controller epoch, offset): the copy with the highest value is the newest."""
        return (self.controller_epoch, self.image.offset)


def _batches(path: Path, torn: list[TornTail]) -> Iterator[StoredBatch]:
    """The batches up to a torn tail, which a controller truncates, too (KafkaRaftLog.recover)."""
    return read_log_file(path, on_torn=torn.append)


class _TopicDraft(msgspec.Struct, eq=False):
    """A topic while records about it are read."""

    name: str
    topic_id: uuid.UUID
    partitions: dict[int, PartitionImage] = {}


class _MetadataReader:
    """The state after the records that were read."""

    def __init__(self) -> None:
        self.batches = 0
        self.torn: list[TornTail] = []
        self._removed: set[uuid.UUID] = set()
        self.end_offset = 0
        self._controller_epoch = 0
        self._topics: dict[uuid.UUID, _TopicDraft] = {}
        self._features: dict[str, int] = {}
        self._features_epoch = 0
        self._configs: dict[ResourceType, dict[str, dict[str, str]]] = {
            resource: {} for resource in ResourceType
        }
        self._broker_ids: set[BrokerId] = set()
        self._next_producer_id = 0
        self._open_txn_records: list[tuple[MetadataRecordKind, Any]] | None = None
        """Records of an unfinished metadata transaction (KIP-868); None outside of one."""

    def apply_batch(self, batch: StoredBatch, path: Path) -> None:
        """Apply the records of the next batch.

        Raises:
            CorruptLogRecordError: A record can't be read.
        """
        self.batches += 1
        self.end_offset = batch.header.last_offset + 1
        self._controller_epoch = batch.header.leader_epoch
        if batch.header.is_control:
            return
        record_place = f"{path}, offset {batch.header.base_offset}"
        try:
            record_values = [record.value for record in read_records(batch.batch_bytes)]
        except CorruptBatchError as error:
            raise CorruptLogRecordError(f"{record_place}: {error}") from error
        for record_value in record_values:
            kind_and_record = _decode_record(record_value or b"", record_place)
            if kind_and_record is None:
                continue
            try:
                self._replay(*kind_and_record)
            except KeyError as error:
                raise CorruptLogRecordError(
                    f"{record_place}: a record of kind {kind_and_record[0].name} is about {error}, "
                    "which no record before it has made"
                ) from None

    def _replay(self, key: MetadataRecordKind, record: Any) -> None:
        match key:
            case MetadataRecordKind.BEGIN_TRANSACTION:
                self._open_txn_records = []
            case MetadataRecordKind.ABORT_TRANSACTION:
                self._open_txn_records = None
            case MetadataRecordKind.END_TRANSACTION:
                held_records, self._open_txn_records = self._open_txn_records or [], None
                for held_record in held_records:
                    self._apply_record(*held_record)
            case _ if self._open_txn_records is not None:
                self._open_txn_records.append((key, record))
            case _:
                self._apply_record(key, record)

    def _apply_record(self, key: MetadataRecordKind, record: Any) -> None:
        match key:
            case MetadataRecordKind.REGISTER_BROKER:
                self._broker_ids.add(record)
            case MetadataRecordKind.UNREGISTER_BROKER:
                self._broker_ids.discard(record)
            case MetadataRecordKind.TOPIC:
                self._topics[record.topic_id] = _TopicDraft(record.name, record.topic_id)
            case MetadataRecordKind.PARTITION:
                partition_by_index = self._topics[record.topic_id].partitions
                partition_by_index[record.partition_id] = _partition_image(record)
            case MetadataRecordKind.PARTITION_CHANGE:
                partition_by_index = self._topics[record.topic_id].partitions
                partition_by_index[record.partition_id] = _apply_change(
                    partition_by_index[record.partition_id], record
                )
            case MetadataRecordKind.REMOVE_TOPIC:
                removed_topic = self._topics.pop(record.topic_id)
                self._removed.add(record.topic_id)
                self._configs[ResourceType.TOPIC].pop(removed_topic.name, None)
            case MetadataRecordKind.CONFIG:
                self._configure(record)
            case MetadataRecordKind.FEATURE_LEVEL:
                self._features[record.name] = record.feature_level
                self._features_epoch = self.end_offset
            case MetadataRecordKind.PRODUCER_IDS:
                self._next_producer_id = record.next_producer_id
            case _:
                self._clear_elr(record.topic_name)

    def _configure(self, record: Any) -> None:
        if record.resource_type not in set(ResourceType):
            return
        configs_by_name = self._configs[ResourceType(record.resource_type)]
        configs = configs_by_name.setdefault(record.resource_name, {})
        if record.value is None:
            configs.pop(record.name, None)
        else:
            configs[record.name] = record.value

    def _clear_elr(self, topic_name: str) -> None:
        for topic in self._topics.values():
            if topic_name in ("", topic.name):
                topic.partitions = {
                    partition_id: msgspec.structs.replace(partition, elr=(), last_known_elr=())
                    for partition_id, partition in topic.partitions.items()
                }

    def stored_metadata(self, cluster_id: str) -> StoredMetadata:
        """The state as an immutable value."""
        configs = {
            resource: {
                resource_name: configs
                for resource_name, configs in sorted(configs_by_name.items())
                if configs
            }
            for resource, configs_by_name in self._configs.items()
        }
        topics = {
            topic.name: TopicImage(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=tuple(partition for _, partition in sorted(topic.partitions.items())),
                configs=configs[ResourceType.TOPIC].get(topic.name, {}),
                is_internal=topic.name in INTERNAL_TOPICS,
            )
            for topic in sorted(self._topics.values(), key=lambda topic: topic.name)
        }
        return StoredMetadata(
            image=ClusterImage(
                cluster_id=cluster_id,
                offset=self.end_offset,
                topics=topics,
                topic_names={
                    topic.topic_id: resource_name for resource_name, topic in topics.items()
                },
                features=self._features,
                features_epoch=self._features_epoch,
                broker_configs=configs[ResourceType.BROKER],
                group_configs=configs[ResourceType.GROUP],
                client_metrics=configs[ResourceType.CLIENT_METRICS],
            ),
            broker_ids=frozenset(self._broker_ids),
            next_producer_id=self._next_producer_id,
            controller_epoch=self._controller_epoch,
            removed_topic_ids=frozenset(self._removed),
            is_torn=bool(self.torn),
        )


def _decode_record(value: bytes, record_place: str) -> tuple[MetadataRecordKind, Any] | None:
    """Decode a record: (kind, message); None for a kind that is not read.

    Of a broker registration only the id is decoded: it is the first field in every version.
    """
    try:
        frame_version, position = read_uvarint(value, 0)
        kind_number, position = read_uvarint(value, position)
        record_version, position = read_uvarint(value, position)
        if frame_version != FRAME_VERSION:
            raise CorruptLogRecordError(
                f"{record_place}: a record of frame version {frame_version}"
            )
        if kind_number not in set(MetadataRecordKind):
            return None
        key = MetadataRecordKind(kind_number)
        if key in (MetadataRecordKind.REGISTER_BROKER, MetadataRecordKind.UNREGISTER_BROKER):
            return key, BrokerId(int.from_bytes(value[position : position + 4], "big", signed=True))
        if key not in _SCHEMAS:
            return key, None
        schema_by_version = _SCHEMAS[key]
        if record_version >= len(schema_by_version):
            raise CorruptLogRecordError(
                f"{record_place}: a {schema_by_version[0].__name__} of version {record_version},"
                f" known up to {len(schema_by_version) - 1}"
            )
        read_record: Reader = reader(schema_by_version[record_version])
        return key, read_record(value, position, len(value))[0]
    except (DecodeFaultError, IndexError, ValueError) as error:
        raise CorruptLogRecordError(f"{record_place}: {error}") from error


def _partition_image(record: Any) -> PartitionImage:
    return PartitionImage(
        leader=BrokerId(record.leader),
        leader_epoch=LeaderEpoch(record.leader_epoch),
        partition_epoch=record.partition_epoch,
        replicas=_broker_ids_of(record.replicas),
        isr=_broker_ids_of(record.isr),
        elr=_broker_ids_of(getattr(record, "eligible_leader_replicas", None)),
        last_known_elr=_broker_ids_of(getattr(record, "last_known_elr", None)),
        is_recovering=record.leader_recovery_state == 1,
        removing=_broker_ids_of(record.removing_replicas),
        adding=_broker_ids_of(record.adding_replicas),
    )


def _apply_change(old_image: PartitionImage, record: Any) -> PartitionImage:
    """Apply a PartitionChangeRecord. A null field keeps the old value. Each election begins a new
    leader epoch, even if the same leader is elected.
    """

    def either(
        ids: tuple[int, ...] | None, ids_before: tuple[BrokerId, ...]
    ) -> tuple[BrokerId, ...]:
        return ids_before if ids is None else _broker_ids_of(ids)

    is_led_anew = record.leader != _NO_CHANGE
    recovery_state = record.leader_recovery_state
    return PartitionImage(
        leader=BrokerId(record.leader) if is_led_anew else old_image.leader,
        leader_epoch=LeaderEpoch(old_image.leader_epoch + 1)
        if is_led_anew
        else old_image.leader_epoch,
        partition_epoch=old_image.partition_epoch + 1,
        replicas=either(record.replicas, old_image.replicas),
        isr=either(record.isr, old_image.isr),
        elr=either(record.eligible_leader_replicas, old_image.elr),
        last_known_elr=either(record.last_known_elr, old_image.last_known_elr),
        is_recovering=old_image.is_recovering if recovery_state < 0 else recovery_state == 1,
        removing=either(record.removing_replicas, old_image.removing),
        adding=either(record.adding_replicas, old_image.adding),
    )


def _broker_ids_of(ids: tuple[int, ...] | None) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, ids or ()))

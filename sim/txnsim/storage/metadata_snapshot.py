"""Writes a copy of the metadata log, as a broker has it after a snapshot: the whole state at one
offset, as records.

``storage.metadata_log`` reads it back, and so does Kafka's own ``kafka-dump-log
--cluster-metadata-decoder``. State that is not in our metadata is left out: logins are stored
elsewhere here. Kafka's counterparts: MetadataImage.write, RecordsSnapshotWriter.
"""

from __future__ import annotations

import uuid
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from txnsim.metadata.image import (
    CLIENT_LISTENER,
    KRAFT_VERSION,
    METADATA_VERSION,
    BrokerImage,
    ClusterImage,
    PartitionImage,
)
from txnsim.storage.metadata_log import (
    FRAME_VERSION,
    MetadataRecordKind,
    ResourceType,
    StoredMetadata,
)
from txnsim.storage.names import Suffix
from txnsim.storage.stored_file import StoredFile
from txnsim.wire.batch import Record, build_batch, read_batch_header
from txnsim.wire.batch_header import pack_batch
from txnsim.wire.encoder import writer
from txnsim.wire.messages import metadata_records as schema
from txnsim.wire.records import encode_record

SNAPSHOT_EPOCH: Final = 1
"""Epoch of the only controller."""
RECORDS_PER_BATCH: Final = 1_000

_CONTROL: Final = 0x20
_HEADER_KEY: Final = b"\0\0\0\3"
_HEADER: Final = b"\0\0" + bytes(8) + b"\0"
"""SnapshotHeaderRecord: version, timestamp of the last record, no tags."""
_FOOTER_KEY: Final = b"\0\0\0\4"
_FOOTER: Final = b"\0\0\0"


def metadata_files_in_steps(
    image: ClusterImage,
    *,
    features: Mapping[str, tuple[int, int]],
    next_producer_id: int,
    now_ms: int,
) -> Generator[int, None, list[StoredFile]]:
    """Make the files of the metadata log's folder; the image never changes, so other tasks may run
    between steps.

    Yields:
        The number of records, after each batch: some ten milliseconds of work.
    """
    record_values = _record_values(image, features, next_producer_id)
    batches = [_control_batch(_HEADER_KEY, _HEADER, 0, now_ms)]
    while batch_records := [
        Record(value=record_value) for record_value in islice(record_values, RECORDS_PER_BATCH)
    ]:
        batches.append(
            build_batch(
                batch_records,
                timestamp_ms=now_ms,
                base_offset=_end_offset(batches),
                leader_epoch=SNAPSHOT_EPOCH,
            )
        )
        yield len(batch_records)
    batches.append(_control_batch(_FOOTER_KEY, _FOOTER, _end_offset(batches), now_ms))
    # A snapshot has the state of all records below its offset; its batches count from 0.
    snapshot_name = f"{image.offset:020d}-{SNAPSHOT_EPOCH:010d}.checkpoint"
    return [
        StoredFile(path=f"{StoredMetadata.FOLDER}/{snapshot_name}", parts=tuple(batches)),
        *(
            StoredFile.of(f"{StoredMetadata.FOLDER}/{suffix.file_name(image.offset)}", b"")
            for suffix in (Suffix.LOG, Suffix.INDEX, Suffix.TIME_INDEX)
        ),
    ]


def _end_offset(batches: Sequence[bytes]) -> int:
    return read_batch_header(batches[-1]).last_offset + 1


def _control_batch(key: bytes, record_value: bytes, offset: int, now_ms: int) -> bytes:
    record = encode_record(
        Record(key=key, value=record_value), offset_delta=0, timestamp_delta_ms=0
    )
    return pack_batch(
        record,
        base_offset=offset,
        leader_epoch=SNAPSHOT_EPOCH,
        attributes=_CONTROL,
        last_offset_delta=0,
        base_timestamp_ms=now_ms,
        max_timestamp_ms=now_ms,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        records_count=1,
    )


def _record_values(
    image: ClusterImage, features: Mapping[str, tuple[int, int]], next_producer_id: int
) -> Iterator[bytes]:
    # The metadata version comes first: reading the rest needs it.
    for feature_name in sorted(
        image.features, key=lambda feature_name: (feature_name != METADATA_VERSION, feature_name)
    ):
        level = image.features[feature_name]
        if level > 0 and feature_name != KRAFT_VERSION:
            yield _encode_record(
                MetadataRecordKind.FEATURE_LEVEL,
                schema.FeatureLevelRecord(name=feature_name, feature_level=level),
            )
    for _, broker in sorted(image.brokers.items()):
        yield _encode_record(
            MetadataRecordKind.REGISTER_BROKER, _registration_record(broker, features), version=3
        )
    for _, topic in sorted(image.topics.items()):
        yield _encode_record(
            MetadataRecordKind.TOPIC, schema.TopicRecord(name=topic.name, topic_id=topic.topic_id)
        )
        for partition_id, partition in enumerate(topic.partitions):
            partition_record = _partition_record(topic.topic_id, partition_id, partition)
            yield _encode_record(MetadataRecordKind.PARTITION, partition_record, version=2)
    yield from _config_records(
        ResourceType.TOPIC,
        {feature_name: topic.configs for feature_name, topic in image.topics.items()},
    )
    yield from _config_records(ResourceType.BROKER, image.broker_configs)
    yield from _config_records(ResourceType.GROUP, image.group_configs)
    yield from _config_records(ResourceType.CLIENT_METRICS, image.client_metrics)
    yield _encode_record(
        MetadataRecordKind.PRODUCER_IDS,
        schema.ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=next_producer_id),
    )


def _encode_record(key: MetadataRecordKind, message: Any, *, version: int = 0) -> bytes:
    encoded_parts = [bytes((FRAME_VERSION, key, version))]
    writer(type(message))(message, encoded_parts.append)
    return b"".join(encoded_parts)


def _config_records(
    resource_type: ResourceType, configs_by_resource: Mapping[str, Mapping[str, str]]
) -> Iterable[bytes]:
    return (
        _encode_record(
            MetadataRecordKind.CONFIG,
            schema.ConfigRecord(
                resource_type=resource_type,
                resource_name=resource_name,
                name=config_name,
                value=config_value,
            ),
        )
        for resource_name, configs in sorted(configs_by_resource.items())
        for config_name, config_value in sorted(configs.items())
    )


def _registration_record(broker: BrokerImage, features: Mapping[str, tuple[int, int]]) -> Any:
    return schema.RegisterBrokerRecordV3(
        broker_id=broker.broker_id,
        incarnation_id=broker.incarnation_id or uuid.UUID(int=0),
        broker_epoch=broker.epoch,
        end_points=(
            schema.BrokerEndpoint(
                name=CLIENT_LISTENER, host=broker.host, port=broker.port, security_protocol=0
            ),
        ),
        features=tuple(
            schema.BrokerFeature(
                name=feature_name,
                min_supported_version=min_version,
                max_supported_version=max_version,
            )
            for feature_name, (min_version, max_version) in sorted(features.items())
        ),
        rack=broker.rack,
        fenced=not broker.alive,
        in_controlled_shutdown=broker.in_controlled_shutdown,
    )


def _partition_record(topic_id: uuid.UUID, partition_id: int, partition: PartitionImage) -> Any:
    return schema.PARTITION_RECORDS[2](
        partition_id=partition_id,
        topic_id=topic_id,
        replicas=partition.replicas,
        isr=partition.isr,
        removing_replicas=partition.removing,
        adding_replicas=partition.adding,
        leader=partition.leader,
        leader_recovery_state=int(partition.is_recovering),
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=tuple(uuid.UUID(int=0) for _ in partition.replicas),
        eligible_leader_replicas=partition.elr or None,
        last_known_elr=partition.last_known_elr or None,
    )

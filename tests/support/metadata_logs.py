"""Metadata logs of tests: records as a controller writes them, and the folder that holds them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from txnsim.storage.names import Suffix
from txnsim.wire.batch import Record, assign, build_batch
from txnsim.wire.encoder import writer
from txnsim.wire.messages import metadata_records as schema

FRAME: bytes = b"\x01"


def encode_value(key: int, message: Any, *, version: int = 0) -> bytes:
    """A record's value: frame version, key, version, message."""
    chunks: list[bytes] = []
    writer(type(message))(message, chunks.append)
    return FRAME + bytes((key, version)) + b"".join(chunks)


def topic(name: str, topic_id: Any) -> bytes:
    """A TopicRecord."""
    return encode_value(2, schema.TopicRecord(name=name, topic_id=topic_id))


def remove_topic(topic_id: Any) -> bytes:
    """A RemoveTopicRecord."""
    return encode_value(9, schema.RemoveTopicRecord(topic_id=topic_id))


def partition(
    topic_id: Any,
    index: int = 0,
    *,
    replicas: tuple[int, ...] = (1,),
    isr: tuple[int, ...] | None = None,
    leader: int | None = None,
    epoch: int = 0,
    elr: tuple[int, ...] | None = None,
) -> bytes:
    """A PartitionRecord of the newest version."""
    in_sync = replicas if isr is None else isr
    return encode_value(
        3,
        schema.PARTITION_RECORDS[2](
            partition_id=index,
            topic_id=topic_id,
            replicas=replicas,
            isr=in_sync,
            removing_replicas=(),
            adding_replicas=(),
            leader=leader if leader is not None else in_sync[0] if in_sync else -1,
            leader_epoch=epoch,
            partition_epoch=epoch,
            directories=(),
            eligible_leader_replicas=elr,
        ),
        version=2,
    )


def config(
    name: str, config_value: str | None, *, resource_name: str = "", resource_type: int = 2
) -> bytes:
    """A ConfigRecord."""
    message = schema.ConfigRecord(
        resource_type=resource_type, resource_name=resource_name, name=name, value=config_value
    )
    return encode_value(4, message)


def feature(name: str, transaction_version: int) -> bytes:
    """A FeatureLevelRecord."""
    return encode_value(12, schema.FeatureLevelRecord(name=name, feature_level=transaction_version))


def producer_ids(next_id: int) -> bytes:
    """A ProducerIdsRecord."""
    message = schema.ProducerIdsRecord(broker_id=1, broker_epoch=1, next_producer_id=next_id)
    return encode_value(15, message)


def register_broker(broker_id: int) -> bytes:
    """A RegisterBrokerRecord, complete only as far as txnsim reads it."""
    return FRAME + b"\x00\x04" + broker_id.to_bytes(4, "big") + b"the rest"


def unregister_broker(broker_id: int) -> bytes:
    """An UnregisterBrokerRecord, complete only as far as txnsim reads it."""
    return FRAME + b"\x01\x00" + broker_id.to_bytes(4, "big") + bytes(9)


def write_metadata_log(
    folder: Path,
    records: Sequence[bytes],
    *,
    base_offset: int = 0,
    epoch: int = 1,
    name: str | None = None,
) -> Path:
    """Write a segment with one batch per record, and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / (name or Suffix.LOG.file_name(base_offset))
    path.write_bytes(
        b"".join(
            assign(
                build_batch([Record(value=config_value)], timestamp_ms=0),
                base_offset=base_offset + record_index,
                leader_epoch=epoch,
            )
            for record_index, config_value in enumerate(records)
        )
    )
    return path

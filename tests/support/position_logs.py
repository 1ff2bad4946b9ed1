"""Partitions of ``__consumer_offsets``, made by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.support.logs import NOW
from txnsim.group.log_format import encode_batch
from txnsim.group.records import GroupRecord, OffsetCommitted
from txnsim.storage import names
from txnsim.types import CONSUMER_OFFSETS_TOPIC, TopicPartition
from txnsim.wire.batch import assign, read_batch_header
from txnsim.wire.control import control_batch

ORDERS: Final = TopicPartition("orders", 0)


def commit_record(offset: int, group: str = "g") -> OffsetCommitted:
    return OffsetCommitted(
        group_id=group, topic_partition=ORDERS, position=offset, commit_timestamp_ms=NOW
    )


def position_batch(*records: GroupRecord, producer_id: int = -1) -> bytes:
    return encode_batch(
        records, now_ms=NOW, producer_id=producer_id, producer_epoch=0 if producer_id >= 0 else -1
    )


def end_marker(*, committed: bool, producer_id: int) -> bytes:
    return control_batch(
        producer_id=producer_id,
        producer_epoch=0,
        is_commit=committed,
        coordinator_epoch=0,
        base_offset=0,
        leader_epoch=0,
        timestamp_ms=NOW,
    )


def offsets_log(log_dir: Path, *batches: bytes, partition: int = 0) -> Path:
    """A partition of ``__consumer_offsets`` in a log directory."""
    folder = log_dir / names.directory_name(TopicPartition(CONSUMER_OFFSETS_TOPIC, partition))
    folder.mkdir()
    data, offset = b"", 0
    for batch in batches:
        data += assign(batch, base_offset=offset, leader_epoch=0)
        offset += read_batch_header(batch).last_offset + 1
    (folder / names.Suffix.LOG.file_name(0)).write_bytes(data)
    return folder

"""The table ``offsets``: the decoded log of the group coordinators.

Every record is a row. Records of the newer protocols have their fields as JSON; a record that this
release can't decode has a ``problem``. Kafka's counterparts: GroupCoordinatorRecordSerde,
GroupMetadataManager.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from functools import partial
from typing import Final

import msgspec

from txnsim.group.log_format import decode_record
from txnsim.group.record_kinds import kinds
from txnsim.group.records import OffsetCommitted, OffsetDeleted
from txnsim.types import uuid_text
from txnsim.wire.batch import BatchHeader, Record
from txnsim_spark.scan import kernel
from txnsim_spark.scan.pieces import Ints
from txnsim_spark.scan.segments import SegmentFile
from txnsim_spark.schemas import OffsetRow
from txnsim_spark.tables._decoded import decode_or_problem, decoded_records
from txnsim_spark.tables._transactions import version_of
from txnsim_spark.tables.rows import (
    Rows,
    TableJob,
    none_if_negative,
    rows_of_structs,
    segment_columns,
)

KINDS: Final = {
    0: "offset_commit",
    1: "offset_commit",
    2: "group_metadata",
    3: "consumer_group_metadata",
    4: "consumer_group_partition_metadata",
    5: "consumer_group_member_metadata",
    6: "consumer_group_target_assignment_metadata",
    7: "consumer_group_target_assignment_member",
    8: "consumer_group_current_member_assignment",
    10: "share_group_member_metadata",
    11: "share_group_metadata",
    12: "share_group_target_assignment_metadata",
    13: "share_group_target_assignment_member",
    14: "share_group_current_member_assignment",
    15: "share_group_state_partition_metadata",
    16: "consumer_group_regular_expression",
    17: "streams_group_metadata",
    19: "streams_group_member_metadata",
    20: "streams_group_target_assignment_metadata",
    21: "streams_group_target_assignment_member",
    22: "streams_group_current_member_assignment",
    23: "streams_group_topology",
}
"""Key version -> name, as CoordinatorRecordType has it; 0 is an offset commit of before 0.9."""
UNKNOWN: Final = "unknown"
DECODED: Final = frozenset({0, 1, *(number for number, kind in kinds().items() if kind.values)})


def read(segment: SegmentFile, job: TableJob) -> Iterator[Rows]:
    rows = (row_of(record, batch) for record, batch in decoded_records(segment, job))
    return rows_of_structs(rows, partial(segment_columns, segment))


def row_of(record: Record, batch: Ints) -> OffsetRow:
    """The row of a record.

    Args:
        record: The record.
        batch: ``kernel.BATCH_COLUMNS`` of its batch.
    """
    key = record.key or b""
    version = version_of(key)
    record_kind = UNKNOWN if version is None else KINDS.get(version, UNKNOWN)
    decoded_record, problem = decode_or_problem(
        record, decode_record, partial(_unknown_reason, key, record.value, record_kind)
    )
    committed_offset = decoded_record if isinstance(decoded_record, OffsetCommitted) else None
    committed_position = (
        decoded_record if isinstance(decoded_record, OffsetCommitted | OffsetDeleted) else None
    )
    producer_id = int(batch[kernel.PRODUCER_ID])
    return OffsetRow(
        offset=record.offset,
        timestamp_ms=record.timestamp_ms,
        kind=record_kind,
        key_version=version,
        value_version=version_of(record.value),
        is_tombstone=record.value is None,
        group_id=None if decoded_record is None else decoded_record.group_id,
        committed_topic=None
        if committed_position is None
        else committed_position.topic_partition.topic,
        committed_partition=None
        if committed_position is None
        else committed_position.topic_partition.partition,
        committed_topic_id=None
        if committed_offset is None
        else _uuid_or_none(committed_offset.topic_id),
        committed_offset=None if committed_offset is None else committed_offset.position,
        committed_leader_epoch=None
        if committed_offset is None
        else none_if_negative(committed_offset.leader_epoch),
        committed_metadata=None if committed_offset is None else committed_offset.metadata,
        commit_timestamp_ms=None
        if committed_offset is None
        else none_if_negative(committed_offset.commit_timestamp_ms),
        expire_timestamp_ms=None
        if committed_offset is None
        else none_if_negative(committed_offset.expire_timestamp_ms),
        detail=None
        if decoded_record is None or committed_position is not None
        else _detail_json(decoded_record),
        producer_id=None if producer_id < 0 else producer_id,
        producer_epoch=None if producer_id < 0 else int(batch[kernel.PRODUCER_EPOCH]),
        is_transactional=bool(batch[kernel.ATTRIBUTES] & BatchHeader.TRANSACTIONAL),
        problem=problem,
    )


def _unknown_reason(key: bytes, value: bytes | None, kind: str) -> str:
    if kind == UNKNOWN:
        return f"a key of version {version_of(key)}, which is no kind that is known"
    if version_of(key) in DECODED:
        return f"{kind}: a value of version {version_of(value)}, which is not known"
    return f"{kind}: a kind that is not decoded"


_NAMES_IN_DETAIL: Final = {
    "group_epoch": "epoch",
    "assignment_epoch": "epoch",
    "member_epoch": "epoch",
    "previous_member_epoch": "previous_epoch",
}
"""Field of a record -> its name in ``detail``, which users' queries use."""


def _detail_json(record: msgspec.Struct) -> str:
    """The fields of a record without its group; bytes in base64."""
    fields = {
        _NAMES_IN_DETAIL.get(field_name, field_name): getattr(record, field_name)
        for field_name in record.__struct_fields__
        if field_name != "group_id"
    }
    return msgspec.json.encode(fields).decode()


def _uuid_or_none(topic_id: uuid.UUID | None) -> str | None:
    """A topic's id; null in older versions, zeros where the coordinator does not know it."""
    return None if topic_id is None or not topic_id.int else uuid_text(topic_id)

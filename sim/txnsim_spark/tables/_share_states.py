"""The table ``share_states``: the decoded log of the share coordinators.

Every record is a row. A record that this release can't read has a ``problem``. Kafka's
counterparts: ShareCoordinatorRecordSerde, ShareCoordinatorShard.replay.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

import msgspec

from txnsim.share_state.log_format import decode_record
from txnsim.wire.batch import Record
from txnsim_spark.scan.segments import SegmentFile
from txnsim_spark.schemas import ShareStateRow
from txnsim_spark.tables._decoded import decode_or_problem, decoded_records
from txnsim_spark.tables._transactions import version_of
from txnsim_spark.tables.rows import (
    Rows,
    TableJob,
    none_if_negative,
    rows_of_structs,
    segment_columns,
)

KINDS: Final = {0: "snapshot", 1: "update"}
"""Key version -> name, as CoordinatorRecordType of the share coordinator has it."""
UNKNOWN: Final = "unknown"


def read(segment: SegmentFile, job: TableJob) -> Iterator[Rows]:
    rows = (row_of(record) for record, _ in decoded_records(segment, job))
    return rows_of_structs(rows, partial(segment_columns, segment))


def row_of(record: Record) -> ShareStateRow:
    key, value = record.key or b"", record.value
    kind_number = version_of(key)
    record_kind = UNKNOWN if kind_number is None else KINDS.get(kind_number, UNKNOWN)
    decoded_record, problem = decode_or_problem(
        record, decode_record, partial(_unknown_reason, record_kind, kind_number, value)
    )
    state_key = None if decoded_record is None else decoded_record.key
    value_by_field = {} if decoded_record is None else msgspec.structs.asdict(decoded_record)
    batches = value_by_field.get("batches")
    return ShareStateRow(
        offset=record.offset,
        timestamp_ms=record.timestamp_ms,
        kind=record_kind,
        key_version=kind_number,
        value_version=version_of(value),
        is_tombstone=value is None,
        group_id=None if state_key is None else state_key.group_id,
        shared_topic_id=None if state_key is None else state_key.topic_id,
        shared_partition=None if state_key is None else state_key.partition,
        snapshot_epoch=value_by_field.get("snapshot_epoch"),
        state_epoch=value_by_field.get("state_epoch"),
        leader_epoch=value_by_field.get("leader_epoch"),
        start_offset=none_if_negative(value_by_field.get("start_offset", -1)),
        delivery_complete_count=none_if_negative(value_by_field.get("delivery_complete_count", -1)),
        state_batches=None if batches is None else tuple(map(msgspec.structs.asdict, batches)),
        create_timestamp_ms=none_if_negative(value_by_field.get("create_timestamp_ms", -1)),
        write_timestamp_ms=none_if_negative(value_by_field.get("write_timestamp_ms", -1)),
        problem=problem,
    )


def _unknown_reason(kind: str, kind_number: int | None, value: bytes | None) -> str:
    """Why the type of a record is unknown; Kafka skips it, too."""
    if kind == UNKNOWN:
        return f"a key of version {kind_number}, which is no kind that is known"
    if value is None:
        return f"{kind}: a tombstone, which only a snapshot has"
    return f"{kind}: a value of version {version_of(value)}, only 0 is known"

"""The table ``batches``: a row per record batch, from its header."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from txnsim.wire.batch import BatchHeader
from txnsim.wire.compression import CODEC_NAMES
from txnsim_spark.options import CrcCheck
from txnsim_spark.scan import kernel
from txnsim_spark.scan.crcs import crcs_are_right
from txnsim_spark.scan.pieces import Ints
from txnsim_spark.scan.segments import SegmentFile
from txnsim_spark.tables._damage import checks_crcs, refuse_wrong_crcs, refuser_of, sound_rows
from txnsim_spark.tables.rows import (
    ArrayMaker,
    SegmentTables,
    TableJob,
    boolean_column,
    integer_column,
    nonnegative_column,
    null_column,
    rows_in_span,
    word_column,
)

CODECS: Final = tuple(CODEC_NAMES[number] for number in sorted(CODEC_NAMES))
TIMESTAMP_TYPES: Final = ("CreateTime", "LogAppendTime")
CONTROL_TYPES: Final = (
    "abort",
    "commit",
    "leader_change",
    "snapshot_header",
    "snapshot_footer",
    "kraft_version",
    "kraft_voters",
)
"""Kafka's ControlRecordType; those after commit occur only in ``__cluster_metadata``."""


def read(segment: SegmentFile, job: TableJob) -> Iterator[Ints]:
    """The rows of a segment."""
    on_damage = refuser_of(segment, job)
    for table in sound_rows(segment, on_damage):
        if checks_crcs(segment, job) and not job.options.passes_over_corrupt:
            refuse_wrong_crcs(segment, table, on_damage)
        if segment.offset_span is not None:
            table = table[:, rows_in_span(table[kernel.BASE_OFFSET], segment)]
        if job.producer_ids is not None:
            table = table[:, np.isin(table[kernel.PRODUCER_ID], list(job.producer_ids))]
        yield table.T


def columns_of(
    rows: Ints, segment_tables: SegmentTables, crc_check: CrcCheck
) -> dict[str, ArrayMaker]:
    """Columns from rows of the kernel's table."""
    table = rows.T
    attributes = table[kernel.ATTRIBUTES]
    return {
        **header_columns(table),
        "position": integer_column(table[kernel.POSITION]),
        "size_bytes": integer_column(table[kernel.BATCH_SIZE]),
        "base_offset": integer_column(table[kernel.BASE_OFFSET]),
        "last_offset": integer_column(table[kernel.LAST_OFFSET]),
        "crc": integer_column(table[kernel.CRC]),
        "has_delete_horizon": boolean_column((attributes & BatchHeader.DELETE_HORIZON) != 0),
        "base_timestamp_ms": integer_column(table[kernel.BASE_TIMESTAMP]),
        "max_timestamp_ms": integer_column(table[kernel.MAX_TIMESTAMP]),
        "base_sequence": nonnegative_column(table[kernel.BASE_SEQUENCE]),
        "records": integer_column(table[kernel.RECORD_COUNT]),
        "is_valid": _validity_column(len(rows), segment_tables, crc_check),
    }


def header_columns(table: Ints) -> dict[str, ArrayMaker]:
    """Columns of a batch's header that hold for each of its records, too."""
    attributes = table[kernel.ATTRIBUTES]
    lacks_producer = table[kernel.PRODUCER_ID] < 0
    return {
        "leader_epoch": integer_column(table[kernel.LEADER_EPOCH]),
        "codec": word_column(attributes & BatchHeader.COMPRESSION, CODECS),
        "timestamp_type": word_column(
            (attributes & BatchHeader.LOG_APPEND_TIME) >> 3, TIMESTAMP_TYPES
        ),
        "is_transactional": boolean_column((attributes & BatchHeader.TRANSACTIONAL) != 0),
        "is_control": boolean_column((attributes & BatchHeader.CONTROL) != 0),
        "producer_id": integer_column(table[kernel.PRODUCER_ID], absent_value=lacks_producer),
        "producer_epoch": integer_column(table[kernel.PRODUCER_EPOCH], absent_value=lacks_producer),
        "control_type": word_column(table[kernel.CONTROL_TYPE], CONTROL_TYPES),
        "coordinator_epoch": nonnegative_column(table[kernel.COORDINATOR_EPOCH]),
    }


def _validity_column(count: int, segment_tables: SegmentTables, crc_check: CrcCheck) -> ArrayMaker:
    if crc_check is CrcCheck.NONE:
        return null_column(count)

    def make(arrow_type: pa.DataType) -> Any:
        is_right_by_segment = [
            crcs_are_right(Path(segment.path), table.T)
            if crc_check is CrcCheck.ALL or not (segment.is_clean or segment.is_recovered)
            else np.full(len(table), segment.is_recovered)  # what is wrong in such a one is cut
            for segment, table in segment_tables
        ]
        is_unchecked = np.repeat(
            [crc_check is CrcCheck.AUTO and segment.is_clean for segment, _ in segment_tables],
            [len(table) for _, table in segment_tables],
        )
        return boolean_column(np.concatenate(is_right_by_segment), absent_value=is_unchecked)(
            arrow_type
        )

    return make

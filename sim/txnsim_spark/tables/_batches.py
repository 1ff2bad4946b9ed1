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
from txnsim_spark.tables._damage import checks_crcs, refuse_wrong_crcs, refusing, sound_rows
from txnsim_spark.tables.rows import (
    ArrayMaker,
    SegmentTables,
    TableJob,
    in_span,
    integers,
    not_negative,
    nothing,
    truths,
    words,
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
    on_damage = refusing(segment, job)
    for table in sound_rows(segment, on_damage):
        if checks_crcs(segment, job) and not job.options.passes_over_corrupt:
            refuse_wrong_crcs(segment, table, on_damage)
        if segment.offset_span is not None:
            table = table[:, in_span(table[kernel.BASE_OFFSET], segment)]
        if job.producer_ids is not None:
            table = table[:, np.isin(table[kernel.PRODUCER_ID], list(job.producer_ids))]
        yield table.T


def columns_of(rows: Ints, segment_tables: SegmentTables, check: CrcCheck) -> dict[str, ArrayMaker]:
    """Columns from rows of the kernel's table."""
    table = rows.T
    attributes = table[kernel.ATTRIBUTES]
    return {
        **of_headers(table),
        "position": integers(table[kernel.POSITION]),
        "size_bytes": integers(table[kernel.BATCH_SIZE]),
        "base_offset": integers(table[kernel.BASE_OFFSET]),
        "last_offset": integers(table[kernel.LAST_OFFSET]),
        "crc": integers(table[kernel.CRC]),
        "has_delete_horizon": truths((attributes & BatchHeader.DELETE_HORIZON) != 0),
        "base_timestamp_ms": integers(table[kernel.BASE_TIMESTAMP]),
        "max_timestamp_ms": integers(table[kernel.MAX_TIMESTAMP]),
        "base_sequence": not_negative(table[kernel.BASE_SEQUENCE]),
        "records": integers(table[kernel.RECORD_COUNT]),
        "is_valid": _validity(len(rows), segment_tables, check),
    }


def of_headers(table: Ints) -> dict[str, ArrayMaker]:
    """Columns of a batch's header that hold for each of its records, too."""
    attributes = table[kernel.ATTRIBUTES]
    no_producer = table[kernel.PRODUCER_ID] < 0
    return {
        "leader_epoch": integers(table[kernel.LEADER_EPOCH]),
        "codec": words(attributes & BatchHeader.COMPRESSION, CODECS),
        "timestamp_type": words((attributes & BatchHeader.LOG_APPEND_TIME) >> 3, TIMESTAMP_TYPES),
        "is_transactional": truths((attributes & BatchHeader.TRANSACTIONAL) != 0),
        "is_control": truths((attributes & BatchHeader.CONTROL) != 0),
        "producer_id": integers(table[kernel.PRODUCER_ID], absent=no_producer),
        "producer_epoch": integers(table[kernel.PRODUCER_EPOCH], absent=no_producer),
        "control_type": words(table[kernel.CONTROL_TYPE], CONTROL_TYPES),
        "coordinator_epoch": not_negative(table[kernel.COORDINATOR_EPOCH]),
    }


def _validity(count: int, segment_tables: SegmentTables, check: CrcCheck) -> ArrayMaker:
    if check is CrcCheck.NONE:
        return nothing(count)

    def make(kind: pa.DataType) -> Any:
        computed = [
            crcs_are_right(Path(segment.path), table.T)
            if check is CrcCheck.ALL or not (segment.is_clean or segment.is_recovered)
            else np.full(len(table), segment.is_recovered)  # what is wrong in such a one is cut
            for segment, table in segment_tables
        ]
        unknown = np.repeat(
            [check is CrcCheck.AUTO and segment.is_clean for segment, _ in segment_tables],
            [len(table) for _, table in segment_tables],
        )
        return truths(np.concatenate(computed), absent=unknown)(kind)

    return make

"""Record batches as raw bytes (magic 2): the place from which other packages import.

- ``batch_header``: the header, iterating over batches, changing offset, epoch and timestamp, CRC.
- ``records``: building a batch from records and reading them back.
- ``control``: transaction markers.
- ``compression``: codecs.
"""

from __future__ import annotations

from txnsim.wire.batch_header import (
    BatchHeader,
    Buffer,
    assign,
    crc_is_valid,
    crc_of,
    iter_batches,
    read_batch_header,
    restamp,
)
from txnsim.wire.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD
from txnsim.wire.control import ABORT, COMMIT, ControlRecord, control_batch, read_control_record
from txnsim.wire.records import Record, build_batch, only_record, read_records

__all__ = [
    "ABORT",
    "COMMIT",
    "GZIP",
    "LZ4",
    "NONE",
    "SNAPPY",
    "ZSTD",
    "BatchHeader",
    "Buffer",
    "ControlRecord",
    "Record",
    "assign",
    "build_batch",
    "control_batch",
    "crc_is_valid",
    "crc_of",
    "iter_batches",
    "only_record",
    "read_batch_header",
    "read_control_record",
    "read_records",
    "restamp",
]

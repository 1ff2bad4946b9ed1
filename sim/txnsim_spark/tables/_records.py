"""The table ``records``: every record, decompressed and decoded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from txnsim.errors import CorruptBatchError
from txnsim.wire.batch import BatchHeader
from txnsim.wire.compression import decompress
from txnsim_spark.scan import kernel
from txnsim_spark.scan import kernel_records as kr
from txnsim_spark.scan.pieces import Bytes, Ints
from txnsim_spark.scan.segments import SegmentFile
from txnsim_spark.tables._batches import of_headers
from txnsim_spark.tables._damage import refusing
from txnsim_spark.tables._decoded import OnDamage, chosen_runs, undecoded_batch_damage
from txnsim_spark.tables.arrays import of_lists, of_pieces, of_struct, repeat_value
from txnsim_spark.tables.rows import ROWS_MAX, ArrayMaker, Rows, TableJob, integers, of_segment

BYTES_MAX: Final = 8 << 20
"""Approximate limit of the bytes of keys and values in a batch of rows."""


def read(segment: SegmentFile, job: TableJob) -> Iterator[Rows]:
    """The rows of a segment."""
    on_damage = refusing(segment, job)
    for data, start, run in chosen_runs(segment, job, on_damage):
        for buffer, starts, ends, batches in _unpack_batches(data, start, run, on_damage):
            yield from _decode_records(segment, buffer, starts, ends, batches, on_damage)


def _unpack_batches(
    data: Bytes, start: int, run: Ints, on_damage: OnDamage
) -> Iterator[tuple[Bytes, Ints, Ints, Ints]]:
    """(bytes, start and end of each batch's records in them, the batches): a whole run if nothing
    is compressed, else batches of some megabytes together.
    """
    starts = run[kernel.POSITION] - start + BatchHeader.SIZE
    ends = run[kernel.POSITION] - start + run[kernel.BATCH_SIZE]
    codecs = run[kernel.ATTRIBUTES] & BatchHeader.COMPRESSION
    if not codecs.any():
        yield data, starts, ends, run
        return
    view = memoryview(data.data)
    first_batch, payload_bytes = 0, 0
    parts: list[bytes] = []
    for number in range(run.shape[1]):
        packed = view[starts[number] : ends[number]]
        part = _payload(int(codecs[number]), packed, run[:, number], on_damage)
        if parts and payload_bytes + len(part) > BYTES_MAX:
            yield (*_join_parts(parts), run[:, first_batch:number])
            first_batch, payload_bytes, parts = number, 0, []
        parts.append(part)
        payload_bytes += len(part)
    yield (*_join_parts(parts), run[:, first_batch:])


def _payload(codec: int, packed: memoryview, batch: Ints, on_damage: OnDamage) -> bytes:
    try:
        return decompress(codec, bytes(packed))
    except CorruptBatchError as error:
        on_damage(undecoded_batch_damage(batch, str(error)))
        return b""


def _join_parts(parts: Sequence[bytes]) -> tuple[Bytes, Ints, Ints]:
    ends = np.cumsum([len(part) for part in parts])
    return (
        np.frombuffer(b"".join(parts), dtype=np.uint8),
        ends - [len(part) for part in parts],
        ends,
    )


def _decode_records(
    segment: SegmentFile,
    buffer: Bytes,
    starts: Ints,
    ends: Ints,
    batches: Ints,
    on_damage: OnDamage,
) -> Iterator[Rows]:
    next_record = np.zeros(3, dtype=np.int64)
    counts = batches[kernel.RECORD_COUNT]
    decoded = np.zeros(len(starts), dtype=np.int64)
    while next_record[0] < len(starts):
        rows = kr.empty_record_table(ROWS_MAX)
        count = kr.record_rows(buffer, starts, ends, counts, next_record, rows, BYTES_MAX)
        if count:
            decoded += np.bincount(rows[:count, kr.BATCH_NUMBER], minlength=len(starts))
            yield _rows(segment, buffer, rows[:count], batches)
    for number in np.flatnonzero(decoded < counts):
        text = f"{decoded[number]} of the {counts[number]} records that the batch claims"
        on_damage(undecoded_batch_damage(batches[:, number], text))


def _rows(segment: SegmentFile, buffer: Bytes, records: Ints, batches: Ints) -> Rows:
    of_batch = records[:, kr.BATCH_NUMBER]
    first_batch, end = int(of_batch[0]), int(of_batch[-1]) + 1
    # Nothing is copied where each batch has one record.
    table = (
        batches[:, first_batch:end] if end - first_batch == len(records) else batches[:, of_batch]
    )
    offsets = table[kernel.BASE_OFFSET] + records[:, kr.OFFSET_DELTA]
    is_appended = (table[kernel.ATTRIBUTES] & BatchHeader.LOG_APPEND_TIME) != 0
    created = table[kernel.BASE_TIMESTAMP] + records[:, kr.TIME_DELTA]
    times = np.where(is_appended, table[kernel.MAX_TIMESTAMP], created)
    return Rows(
        len(records),
        {
            **of_segment(segment, len(records)),
            "offset": integers(offsets),
            "timestamp_ms": integers(times),
            "key": _bytes(buffer, records[:, kr.KEY_AT], records[:, kr.KEY_SIZE]),
            "value": _bytes(buffer, records[:, kr.VALUE_AT], records[:, kr.VALUE_SIZE]),
            "headers": _headers(buffer, records),
            "sequence": _sequences(table, offsets),
            "batch_base_offset": integers(table[kernel.BASE_OFFSET]),
            "batch_position": integers(table[kernel.POSITION]),
            **of_headers(table),
        },
    )


def _bytes(buffer: Bytes, begins: Ints, sizes: Ints) -> ArrayMaker:
    return lambda kind: of_pieces(buffer, begins, sizes, kind)


def _headers(buffer: Bytes, records: Ints) -> ArrayMaker:
    def make(kind: pa.DataType) -> Any:
        count = int(records[:, kr.HEADER_COUNT].sum())
        if not count:
            return repeat_value((), len(records), kind)
        header_bounds = np.empty((count, kr.HEADER_COLUMNS), dtype=np.int64)
        kr.header_rows(buffer, records, header_bounds)
        inner = kind.value_type
        names = of_pieces(
            buffer,
            header_bounds[:, kr.NAME_AT],
            header_bounds[:, kr.NAME_SIZE],
            inner.field("key").type,
        )
        contents = of_pieces(
            buffer,
            header_bounds[:, kr.CONTENT_AT],
            header_bounds[:, kr.CONTENT_SIZE],
            inner.field("value").type,
        )
        return of_lists(of_struct([names, contents], inner), records[:, kr.HEADER_COUNT], kind)

    return make


def _sequences(table: Ints, offsets: Ints) -> ArrayMaker:
    """The sequence of each record; after the largest int32 they begin again at 0
    (incrementSequence).
    """
    base = table[kernel.BASE_SEQUENCE]
    sequences = (base + offsets - table[kernel.BASE_OFFSET]) & BatchHeader.SEQUENCE_MAX
    return integers(sequences, absent=base < 0)

"""The compiled reader of records, held against the one in Python."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest

from txnsim.errors import CorruptBatchError
from txnsim.runtime.rng import RandomStreams
from txnsim.wire.batch_header import BatchHeader, read_batch_header
from txnsim.wire.records import Record, build_batch, iter_records
from txnsim_spark.scan import kernel_records as kr
from txnsim_spark.scan.pieces import Bytes, Ints

SEEDS = 40
MUTATIONS = 50


def in_python(batch: bytes) -> list[Record]:
    """The records in front of the first one that makes no sense."""
    records: list[Record] = []
    with contextlib.suppress(CorruptBatchError):
        records.extend(iter_records(batch))
    return records


def read_compiled(
    batches: list[bytes], *, row_count: int = 1_000, bytes_max: int = 1 << 20
) -> list[Record]:
    """Read the records of several batches with the compiled reader."""
    headers = [read_batch_header(batch) for batch in batches]
    ends = np.cumsum([len(batch) for batch in batches])
    starts = ends - [len(batch) - BatchHeader.SIZE for batch in batches]
    counts = np.array([header.records_count for header in headers], dtype=np.int64)
    buffer = np.frombuffer(b"".join(batches), dtype=np.uint8)
    cursor = np.zeros(3, dtype=np.int64)
    records: list[Record] = []
    while cursor[0] < len(batches):
        rows = kr.empty_record_table(row_count)
        count = kr.record_rows(buffer, starts, ends, counts, cursor, rows, bytes_max)
        records += records_of(
            buffer, rows[:count], [header.base_timestamp_ms for header in headers]
        )
    return records


def records_of(buffer: Bytes, rows: Ints, base_ms: list[int]) -> list[Record]:
    headers = np.empty((int(rows[:, kr.HEADER_COUNT].sum()), kr.HEADER_COLUMNS), dtype=np.int64)
    kr.header_rows(buffer, rows, headers)
    header_rows = iter(headers.tolist())
    records = []
    for row in rows.tolist():
        pairs = []
        for name_at, name_size, value_at, size in (
            next(header_rows) for _ in range(row[kr.HEADER_COUNT])
        ):
            name = piece(buffer, name_at, name_size)
            assert name is not None
            pairs.append((name.decode("utf-8", "replace"), piece(buffer, value_at, size)))
        records.append(
            Record(
                key=piece(buffer, row[kr.KEY_POSITION], row[kr.KEY_SIZE]),
                value=piece(buffer, row[kr.VALUE_POSITION], row[kr.VALUE_SIZE]),
                timestamp_ms=base_ms[row[kr.BATCH_NUMBER]] + row[kr.TIME_DELTA],
                headers=tuple(pairs),
                offset=row[kr.OFFSET_DELTA],
            )
        )
    return records


def piece(buffer: Bytes, value_at: int, size: int) -> bytes | None:
    return None if size < 0 else buffer[value_at : value_at + size].tobytes()


def draw_records(chance: Any) -> bytes:
    def draw_bytes(size_limit: int) -> bytes | None:
        return None if chance.random() < 0.2 else chance.randbytes(chance.randrange(size_limit))

    records = [
        Record(
            key=draw_bytes(20),
            value=draw_bytes(200),
            timestamp_ms=chance.randrange(1 << 40),
            headers=tuple(
                (f"h{header_number}", draw_bytes(10))
                for header_number in range(chance.choice((0, 0, 3)))
            ),
        )
        for _ in range(chance.randrange(1, 12))
    ]
    return build_batch(records, timestamp_ms=1_000)


@pytest.mark.costly
def test_sound_batches_have_the_records_that_python_finds() -> None:
    random_source = RandomStreams(7).stream("records")
    batches = [draw_records(random_source) for _ in range(SEEDS)]
    expected_records = [record for batch in batches for record in in_python(batch)]
    assert read_compiled(batches) == expected_records
    assert read_compiled(batches, row_count=3) == expected_records, "it goes on within a batch"
    assert read_compiled(batches, bytes_max=1) == expected_records, "a record at least"


def test_damaged_batches_have_the_records_in_front_of_the_damage() -> None:
    random_source = RandomStreams(8).stream("records")
    shorter = 0
    for _ in range(SEEDS):
        records = draw_records(random_source)
        for _ in range(MUTATIONS):
            damaged_records = bytearray(records)
            damaged_records[random_source.randrange(BatchHeader.SIZE, len(damaged_records))] = (
                random_source.choice((0, 1, 127, 255))
            )
            expected_records = in_python(bytes(damaged_records))
            shorter += len(expected_records) < read_batch_header(records).records_count
            assert read_compiled([bytes(damaged_records), records]) == [
                *expected_records,
                *in_python(records),
            ]
    assert shorter > SEEDS, "damage that is noticed"


def test_each_record_begins_where_the_one_before_ends() -> None:
    batch = draw_records(RandomStreams(9).stream("records"))
    counts = np.array([read_batch_header(batch).records_count])
    rows = kr.empty_record_table(counts[0])
    starts, ends = np.array([BatchHeader.SIZE]), np.array([len(batch)])
    buffer, cursor = np.frombuffer(batch, dtype=np.uint8), np.zeros(3, dtype=np.int64)
    assert kr.record_rows(buffer, starts, ends, counts, cursor, rows, len(batch)) == counts[0]
    assert rows[0, kr.RECORD_POSITION] == BatchHeader.SIZE
    assert (rows[:, kr.RECORD_POSITION] + rows[:, kr.RECORD_SIZE]).tolist() == [
        *rows[1:, kr.RECORD_POSITION],
        len(batch),
    ]


def test_more_records_than_bytes_are_none() -> None:
    batch = bytearray(build_batch([Record(value=b"v")], timestamp_ms=1))
    batch[57:61] = (1_000).to_bytes(4)
    assert read_compiled([bytes(batch)]) == in_python(bytes(batch)) == []
    batch[57:61] = (-1).to_bytes(4, signed=True)
    assert read_compiled([bytes(batch)]) == []

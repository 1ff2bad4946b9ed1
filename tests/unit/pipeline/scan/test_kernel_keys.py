"""The compiled walk over keys, held against the codec of records."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.logs import NOW
from txnsim.pipeline.scan import kernel_keys as kk
from txnsim.pipeline.scan.pieces import Ints
from txnsim.wire.batch import Record, assign, build_batch
from txnsim.wire.batch_header import HEADER_SIZE

KEYS = (b"", b"a", b"k" * 200, None)
VALUES = (None, b"", b"v" * 3_000)
BASE = 1_000
"""Position in the file of the first byte."""


def walked(*batches: bytes) -> tuple[Ints, int]:
    data = np.frombuffer(b"".join(batches), dtype=np.uint8)
    sizes = np.array([len(one) for one in batches], dtype=np.int64)
    starts = BASE + np.r_[0, np.cumsum(sizes)[:-1]].astype(np.int64)
    offsets = np.array([100 * number for number in range(len(batches))], dtype=np.int64)
    rows = np.empty((kk.RECORD_COLUMNS, 50), dtype=np.int64)
    count, broken = kk.key_rows(data, BASE, starts, sizes, offsets, rows)
    return rows[:, :count], broken


def made(*records: Record) -> bytes:
    return assign(build_batch(list(records), timestamp_ms=NOW), base_offset=0, leader_epoch=0)


def fnv(key: bytes) -> int:
    state = 0xCBF29CE484222325
    for byte in key:
        state = (state ^ byte) * 0x100000001B3 % (1 << 64)
    return state - (1 << 64) if state >> 63 else state


def test_every_record_has_its_key_and_its_bytes() -> None:
    records = [Record(key=key, value=value) for key in KEYS for value in VALUES]
    batches = made(*records), made(*records[:2])
    data = b"".join(batches)
    rows, broken = walked(*batches)
    assert broken == 0
    for row, record in zip(rows.T, [*records, *records[:2]], strict=True):
        size, at = int(row[kk.KEY_SIZE]), int(row[kk.KEY_AT]) - BASE
        assert size == (-1 if record.key is None else len(record.key))
        assert data[at : at + max(size, 0)] == (record.key or b"")
        assert row[kk.VALUE_SIZE] == (-1 if record.value is None else len(record.value))
        assert row[kk.KEY_HASH] == fnv(record.key or b"")
    assert rows[kk.OFFSET].tolist() == [*range(len(records)), 100, 101]
    assert rows[kk.BYTES].sum() == len(data)
    assert rows[kk.BYTES, len(records)] > HEADER_SIZE


@pytest.mark.parametrize("cut", range(1, 30))
def test_a_batch_that_ends_early_is_counted_and_left(cut: int) -> None:
    whole = made(Record(key=b"key", value=b"v" * 20))
    rows, broken = walked(whole[: len(whole) - cut])
    assert (rows.shape[1], broken) in {(0, 1), (0, 0)}
    assert broken or len(whole) - cut <= HEADER_SIZE


def test_lengths_that_make_no_sense_end_the_batch() -> None:
    whole = bytearray(made(Record(key=b"key", value=b"v")))
    for noise in (b"\xff" * 12, b"\x01" * 8, b"\x80" * 9):
        broken_batch = bytes(whole[:HEADER_SIZE]) + noise
        rows, broken = walked(broken_batch)
        assert (rows.shape[1], broken) == (0, 1)

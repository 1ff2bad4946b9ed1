"""Which CRCs are right."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.support.log_tables import cut, overwrite, segment
from tests.support.logs import plain
from txnsim_spark.scan import kernel
from txnsim_spark.scan.crcs import crcs_are_right, runs_of
from txnsim_spark.scan.pieces import PIECE_BYTES
from txnsim_spark.scan.walk import batch_rows

BATCH = len(plain())


def test_runs_lie_within_so_many_bytes_or_are_one_batch() -> None:
    table = np.zeros((kernel.BATCH_COLUMNS, 6), dtype=np.int64)
    sizes = np.array([10, 10, 10, 50, 10, 10])
    table[kernel.SIZE] = sizes
    table[kernel.POSITION] = np.cumsum(sizes) - sizes
    assert list(runs_of(table, bytes_max=20)) == [(0, 2), (2, 3), (3, 4), (4, 6)]


def test_every_batch_of_a_table_is_judged_for_itself(tmp_path: Path) -> None:
    large = plain(value=b"v" * (PIECE_BYTES + 1))
    path = segment(tmp_path, [plain(), large, plain(), plain()])
    overwrite(path, BATCH + len(large) + BATCH - 1, b"!")
    (table,) = batch_rows(path)
    assert crcs_are_right(path, table).tolist() == [True, True, False, True]


def test_batches_that_are_gone_meanwhile_are_not_right(tmp_path: Path) -> None:
    for number, one in enumerate([plain(), plain(value=b"v" * 5_000)]):
        path = segment(tmp_path / str(number), [one, one])
        (table,) = batch_rows(path)
        cut(path, len(one) + 65)
        assert crcs_are_right(path, table).tolist() == [True, False]

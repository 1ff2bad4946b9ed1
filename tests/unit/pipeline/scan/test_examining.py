"""One pass over a segment finds what separate walks find: damage, gaps, what producers did. That
holds for any bound on memory. Damaged directories are in tests/pipeline/test_damaged.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.fragment_model import Act, acts, fragments_of, on_file, segment_of
from tests.support.log_tables import cut, overwrite, segment
from tests.support.logs import batch, plain
from txnsim.pipeline.scan import kernel, recovery
from txnsim.pipeline.scan import kernel_fragments as fk
from txnsim.pipeline.scan.examining import Examiner
from txnsim.pipeline.scan.pieces import PIECE_BYTES_MIN, Ints
from txnsim.pipeline.scan.walk import Bounds, batch_rows, fragment_rows

BOUNDS = st.builds(
    Bounds,
    piece_bytes=st.integers(PIECE_BYTES_MIN, 600),
    rows=st.integers(1, 5),
    producers=st.just(64),
)


def rows_of(tables: list[Ints]) -> list[list[int]]:
    return [row for table in tables for row in table.tolist()]


@given(acts(), BOUNDS)
def test_a_sound_segment_whatever_the_bounds(history: list[Act], bounds: Bounds) -> None:
    data = segment_of(history)

    def check(path: Path) -> None:
        examiner = Examiner(bounds)
        for _ in range(2):  # the second time in memory that was used
            found = examiner.examined(path, until=len(data), base_offset=0)
            assert found.damage is None
            assert rows_of(list(examiner.fragments(is_cut=True))) == fragments_of(data)

    on_file(data, check)


@given(acts(), BOUNDS, st.data())
def test_a_wrong_crc_is_where_separate_walks_find_it(
    history: list[Act], bounds: Bounds, draw: st.DataObject
) -> None:
    data = bytearray(segment_of(history))
    if not data:
        return
    at = draw.draw(st.integers(0, len(data) - 1), label="damaged byte")
    data[at] ^= 0xFF

    def check(path: Path) -> None:
        examiner = Examiner(bounds)
        found = examiner.examined(path, until=len(data), base_offset=0)
        assert found.damage == recovery.damage_behind(path, until=len(data))
        sound = len(data) if found.damage is None else found.damage.position
        for until, is_cut in ((sound, True), (len(data), False)):
            walked = list(fragment_rows(path, until=until))
            assert rows_of(list(examiner.fragments(is_cut=is_cut))) == rows_of(walked)
            examiner.examined(path, until=len(data), base_offset=0)

    on_file(bytes(data), check)


@pytest.mark.parametrize("is_sound", [True, False])
def test_a_batch_larger_than_a_piece(tmp_path: Path, is_sound: bool) -> None:
    large = batch(0, transactional=True, value=b"v" * 5_000)
    path = segment(tmp_path, [plain(), large, plain()])
    size = path.stat().st_size
    (table,) = batch_rows(path)
    if not is_sound:
        overwrite(path, int(table[kernel.POSITION, 1]) + 4_000, b"!")
    examiner = Examiner(Bounds(piece_bytes=PIECE_BYTES_MIN))
    found = examiner.examined(path, until=size, base_offset=0)
    assert (found.damage is None) == is_sound
    assert found.damaged_offset == (3 if is_sound else 1)
    opened = np.concatenate([*examiner.fragments(is_cut=True)])[:, fk.OPEN_OFFSET]
    assert (1 in opened.tolist()) == is_sound


def test_more_producers_than_are_kept_are_walked_over_again(tmp_path: Path) -> None:
    count = 10
    path = segment(tmp_path, [batch(0, transactional=True, pid=pid) for pid in range(count)])
    examiner = Examiner(Bounds(producers=4))
    assert examiner.examined(path, until=path.stat().st_size, base_offset=0).damage is None
    tables = list(examiner.fragments(is_cut=False))
    assert [len(table) for table in tables] == [4, 4, 2]
    assert [row[fk.PRODUCER] for row in rows_of(tables)] == list(range(count))


def test_a_section_begins_where_it_is_told(tmp_path: Path) -> None:
    path = segment(tmp_path, [plain(), plain(), plain()])
    size = path.stat().st_size
    cut(path, size - 1)
    examiner = Examiner()
    found = examiner.examined(path, until=size - 1, base_offset=1, start=size // 3)
    assert found.is_torn
    assert (found.lowest_offset, found.highest_offset, found.damaged_offset) == (1, 1, 2)
    assert found.gaps == ()

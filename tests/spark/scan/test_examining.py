"""One pass over a segment finds what separate walks find: damage, gaps, what producers did. That
holds for any bound on memory. Damaged directories are in tests/spark/pipeline/test_damaged.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.fragment_model import Act, acts, fragments_of, on_file, segment_of
from tests.support.log_tables import broker_dir, busy_log, cut, overwrite, replica, segment
from tests.support.logs import batch, plain
from tests.support.old_messages import old_message
from txnsim_spark.scan import kernel
from txnsim_spark.scan import kernel_fragments as fk
from txnsim_spark.scan.crcs import crcs_are_right
from txnsim_spark.scan.examining import Examiner, cut_short, looked_through
from txnsim_spark.scan.pieces import PIECE_BYTES_MIN, Ints
from txnsim_spark.scan.segments import Damage, SegmentFile, replicas_in, segments_of
from txnsim_spark.scan.walk import Bounds, batch_rows, damage_of, fragment_rows

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
        wrong = [
            int(position)
            for table in batch_rows(path)
            for position in table[kernel.POSITION, ~crcs_are_right(path, table)]
        ]
        torn = damage_of(path)
        places = [*wrong[:1], *([] if torn is None else [torn.position])]
        assert (found.damage and found.damage.position) == min(places, default=None)
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


# What a broker that starts would cut off, and what it would leave

BATCH = len(plain())


def found(path: Path) -> list[SegmentFile]:
    return list(segments_of(replicas_in([path])[0]))


def kept(path: Path, *, is_cut: bool = True) -> list[tuple[int, Damage | None]]:
    """(bytes left, what goes) of each segment; the same, whoever has looked for it and when."""
    segments = found(path)
    cut = [(one.size, damage) for one, damage in cut_short(segments, is_cut=is_cut)]
    known = cut_short(looked_through(segments), is_cut=is_cut)
    assert [(one.size, damage) for one, damage in known] == cut
    return cut


def test_what_is_clean_is_not_gone_through(tmp_path: Path) -> None:
    folder = replica(broker_dir(tmp_path), busy_log())
    last = found(tmp_path)[-1]
    overwrite(Path(last.path), last.size - 5, b"!")
    assert [damage for _, damage in kept(tmp_path)] == [None] * len(found(tmp_path))
    assert folder.name == "orders-0"


def test_damage_ends_the_log_there_and_all_segments_behind_it(tmp_path: Path) -> None:
    replica(broker_dir(tmp_path, is_clean=False), busy_log())
    segments = found(tmp_path)
    overwrite(Path(segments[1].path), 79 + 30, b"!")  # in the second batch
    left = kept(tmp_path)
    assert left[0] == (segments[0].size, None)
    assert left[1][0] == 79
    assert left[1][1] is not None
    assert left[1][1].kind == "crc"
    for (size, damage), one in zip(left[2:], segments[2:], strict=True):
        assert size == 0
        assert damage is not None
        assert (damage.kind, damage.position, damage.size) == ("behind", 0, one.size)
    assert kept(tmp_path, is_cut=False) == [(one.size, None) for one in segments]


def test_damage_of_one_replica_is_none_of_another_s(tmp_path: Path) -> None:
    broker_dir(tmp_path, is_clean=False)
    segment(tmp_path / "orders-0", [plain(), plain()[:-3]])
    segment(tmp_path / "orders-1", [plain()])
    segments = [one for each in replicas_in([tmp_path]) for one in segments_of(each)]
    assert [one.size for one, _ in cut_short(segments)] == [BATCH, BATCH]


def test_messages_of_old_formats_are_not_cut(tmp_path: Path) -> None:
    """A broker knows them and reads on; here they are passed over."""
    broker_dir(tmp_path, is_clean=False)
    old = old_message(1, offset=1)
    path = segment(tmp_path / "orders-0", [plain()])
    path.write_bytes(path.read_bytes() + old)
    segment(tmp_path / "orders-0", [plain()], base_offset=5)
    assert kept(tmp_path) == [(BATCH + len(old), None), (BATCH, None)]
    overwrite(path, BATCH + 16, b"\x09")
    assert [damage and damage.kind for _, damage in kept(tmp_path)] == ["torn", "behind"]


def test_a_file_that_is_gone_is_left_for_others_to_notice(tmp_path: Path) -> None:
    broker_dir(tmp_path, is_clean=False)
    path = segment(tmp_path / "orders-0", [plain()])
    segments = found(tmp_path)
    path.unlink()
    assert list(cut_short(segments)) == [(segments[0], None)]

"""What a broker that starts would cut off, and what it would leave."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.support.log_tables import broker_dir, busy_log, cut, overwrite, replica, segment
from tests.support.logs import plain
from tests.support.old_messages import old_message
from txnsim.pipeline.scan import kernel
from txnsim.pipeline.scan.pieces import PIECE_BYTES
from txnsim.pipeline.scan.recovery import (
    crcs_are_right,
    cut_short,
    damage_behind,
    looked_through,
    runs_of,
)
from txnsim.pipeline.scan.segments import SegmentFile, replicas_in, segments_of
from txnsim.pipeline.scan.walk import Damage, batch_rows

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


def test_a_sound_segment_has_no_damage(tmp_path: Path) -> None:
    path = segment(tmp_path, [plain(), plain(3), plain()])
    assert damage_behind(path, until=path.stat().st_size) is None
    empty = segment(tmp_path, [], base_offset=9)
    assert damage_behind(empty, until=0) is None


def test_a_torn_batch_is_where_it_is_cut(tmp_path: Path) -> None:
    path = segment(tmp_path, [plain(), plain()])
    cut(path, 2 * BATCH - 1)
    damage = damage_behind(path, until=2 * BATCH - 1)
    assert damage is not None
    assert (damage.position, damage.size, damage.kind) == (BATCH, BATCH - 1, "torn")


@pytest.mark.parametrize("value_bytes", [10, 5_000, PIECE_BYTES + 10])
def test_a_wrong_crc_is_where_it_is_cut_whatever_the_size(tmp_path: Path, value_bytes: int) -> None:
    one = plain(value=b"v" * value_bytes)
    path = segment(tmp_path, [one, one, one])
    overwrite(path, 2 * len(one) - 10, b"!")
    damage = damage_behind(path, until=3 * len(one))
    assert damage is not None
    assert (damage.position, damage.size, damage.kind) == (len(one), 2 * len(one), "crc")
    assert "offset 1 " in damage.reason


def test_zeros_behind_the_last_batch_are_cut(tmp_path: Path) -> None:
    """As a file system leaves them that had made the file longer, but had not yet written it."""
    path = segment(tmp_path, [plain()])
    path.write_bytes(path.read_bytes() + bytes(500))
    damage = damage_behind(path, until=BATCH + 500)
    assert damage is not None
    assert (damage.position, damage.kind) == (BATCH, "length")


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

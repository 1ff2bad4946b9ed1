"""The walk over a segment, its checksums, and what a damaged one still says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.fragment_model import (
    Act,
    act,
    acts,
    events_of,
    fragments_of,
    merge_fragments,
    on_file,
    segment_of,
)
from tests.support.log_tables import broker_dir, busy_log, cut, overwrite, replica, segment
from tests.support.logs import batch, plain
from tests.support.old_messages import old_message
from txnsim.wire.batch import BatchHeader, iter_batches, read_control_record
from txnsim_spark.scan import kernel
from txnsim_spark.scan import kernel_fragments as fk
from txnsim_spark.scan.crcs import crcs_are_right, runs_of
from txnsim_spark.scan.pieces import PIECE_BYTES, PIECE_BYTES_MIN, Ints
from txnsim_spark.scan.segment_examination import Examiner, cut_short, examine_recovered
from txnsim_spark.scan.segments import SegmentDamage, SegmentFile, replicas_in, segments_of
from txnsim_spark.scan.walk import ScanLimits, batch_rows, damage_of, ending_rows, fragment_rows

# Walks over whole files, with bounds so small that everything happens at their edges.


SCAN_LIMITS = st.builds(
    ScanLimits,
    piece_bytes=st.sampled_from([256, 300, 1_000, 1 << 20]),
    rows_max=st.integers(1, 20),
    fragments_max=st.integers(1, 8),
)
JUDGED_WITHIN = (
    *(fk.SEQUENCE_GAPS, fk.EPOCHS_BACK, fk.IDLE_MARKERS, fk.LAST_SEQUENCE),
    *(fk.FIRST_EPOCH, fk.FIRST_SEQUENCE),
)


def never(damage: SegmentDamage) -> None:
    raise AssertionError(damage)


def expected_rows(batch_data: bytes) -> list[list[int]]:
    rows = []
    for position, header in iter_batches(batch_data):
        control = read_control_record(batch_data, position) if header.is_control else None
        rows.append(
            [
                position,
                header.size,
                header.base_offset,
                header.last_offset,
                header.leader_epoch,
                header.crc,
                header.attributes,
                header.base_timestamp_ms,
                header.max_timestamp_ms,
                header.producer_id,
                header.producer_epoch,
                header.base_sequence,
                header.records_count,
                kernel.NO_CONTROL if control is None else control.type,
                -1 if control is None else control.coordinator_epoch,
            ]
        )
    return rows


def expected_endings(log_bytes: bytes) -> list[list[int]]:
    """A row per marker, in order of offset."""
    rows = []
    for producer, events in events_of(log_bytes).items():
        since: list[int] = []
        for position, event in enumerate(events):
            if event.opens:
                since.append(position)
            if not event.is_marker:
                continue
            first_header = events[since[0]].header if since else None
            rows.append(
                [
                    producer,
                    event.header.producer_epoch,
                    first_header.base_offset if first_header else -1,
                    event.header.base_offset,
                    event.control,
                    event.coordinator_epoch,
                    first_header.max_timestamp_ms if first_header else -1,
                    event.header.max_timestamp_ms,
                    sum(events[event_number].header.records_count for event_number in since),
                ]
            )
            since = []
    return sorted(rows, key=lambda row: row[fk.ENDED_MARKER])


@given(acts(), SCAN_LIMITS)
def test_every_batch_is_a_row_whatever_the_bounds(
    act_history: list[Act], scan_limits: ScanLimits
) -> None:
    segment_bytes = segment_of(act_history)

    def check(path: Path) -> None:
        tables = list(batch_rows(path, on_damage=never, limits=scan_limits))
        assert all(0 < table.shape[1] <= scan_limits.rows_max for table in tables)
        assert [row.tolist() for table in tables for row in table.T] == expected_rows(segment_bytes)

    on_file(segment_bytes, check)


@given(acts(), SCAN_LIMITS)
def test_fragments_merge_to_the_same_whatever_the_bounds(
    act_history: list[Act], scan_limits: ScanLimits
) -> None:
    """Several fragments of a producer merge to the fragment that one table would have."""
    segment_bytes = segment_of(act_history)

    def check(path: Path) -> None:
        tables = list(fragment_rows(path, on_damage=never, limits=scan_limits))
        assert all(0 < len(table) <= scan_limits.fragments_max for table in tables)
        by_producer: dict[int, list[list[int]]] = {}
        for table in tables:
            for row in table.tolist():
                by_producer.setdefault(row[fk.PRODUCER], []).append(row)
        for rows in by_producer.values():
            assert rows == sorted(rows, key=lambda row: row[fk.FIRST_OFFSET])
        merged_rows = {producer: merge_fragments(rows) for producer, rows in by_producer.items()}
        rows_of_whole = {row[fk.PRODUCER]: row for row in fragments_of(segment_bytes)}
        for row in [*merged_rows.values(), *rows_of_whole.values()]:
            for column in JUDGED_WITHIN:
                row[column] = 0
        assert merged_rows == rows_of_whole

    on_file(segment_bytes, check)


@given(acts(), SCAN_LIMITS)
def test_one_table_of_fragments_suffices_for_few_producers(
    act_history: list[Act], scan_limits: ScanLimits
) -> None:
    segment_bytes = segment_of(act_history)

    def check(path: Path) -> None:
        rows_of_whole = fragments_of(segment_bytes)
        roomy_limits = ScanLimits(
            piece_bytes=scan_limits.piece_bytes, rows_max=scan_limits.rows_max, fragments_max=64
        )
        tables = list(fragment_rows(path, on_damage=never, limits=roomy_limits))
        assert [row for table in tables for row in table.tolist()] == rows_of_whole
        assert len(tables) == bool(rows_of_whole)

    on_file(segment_bytes, check)


@given(acts(), SCAN_LIMITS)
def test_every_marker_is_an_ending_whatever_the_bounds(
    act_history: list[Act], scan_limits: ScanLimits
) -> None:
    segment_bytes = segment_of(act_history)

    def check(path: Path) -> None:
        roomy_limits = ScanLimits(
            piece_bytes=scan_limits.piece_bytes, rows_max=scan_limits.rows_max, fragments_max=64
        )
        tables = list(ending_rows(path, on_damage=never, limits=roomy_limits))
        assert all(0 < table.shape[1] <= scan_limits.rows_max for table in tables)
        merged_rows = [row.tolist() for table in tables for row in table.T]
        assert merged_rows == expected_endings(segment_bytes)

    on_file(segment_bytes, check)


@pytest.mark.slow
@given(acts(), SCAN_LIMITS, st.data())
def test_all_walks_stop_at_the_same_damage(
    act_history: list[Act], scan_limits: ScanLimits, data_strategy: st.DataObject
) -> None:
    segment_bytes = bytearray(segment_of(act_history))
    for _ in range(data_strategy.draw(st.integers(0, 2)) if segment_bytes else 0):
        segment_bytes[data_strategy.draw(st.integers(0, len(segment_bytes) - 1))] = (
            data_strategy.draw(st.integers(0, 255))
        )
    torn_bytes = bytes(segment_bytes[: data_strategy.draw(st.integers(0, len(segment_bytes)))])

    def check(path: Path) -> None:
        damages: dict[str, list[SegmentDamage]] = {"batches": [], "fragments": [], "endings": []}
        end = sum(
            int(table[kernel.BATCH_SIZE].sum())
            for table in batch_rows(path, on_damage=damages["batches"].append, limits=scan_limits)
        )
        folded = sum(
            int(table[:, fk.BYTES].sum())
            for table in fragment_rows(
                path, on_damage=damages["fragments"].append, limits=scan_limits
            )
        )
        for _ in ending_rows(path, on_damage=damages["endings"].append, limits=scan_limits):
            pass
        assert end == folded
        damage = damage_of(path, limits=scan_limits)
        expected_damages = [] if damage is None else [damage]
        assert list(damages.values()) == [expected_damages] * 3
        assert (damage is None) == (end == len(torn_bytes))
        if damage is not None:
            assert (damage.position, damage.size) == (end, len(torn_bytes) - end)

    on_file(torn_bytes, check)


@pytest.mark.parametrize(
    ("tail", "kind", "reason"),
    [
        (b"\0" * (BatchHeader.SIZE - 1), "torn", "60 bytes, less than a header"),
        (segment_of([act()])[:-1], "torn", "bytes, less than the batch that begins there"),
        (b"\0" * 500, "length", "500 bytes, a batch that claims an impossible length"),
        (b"\1" * 8 + b"\0\0\0\x60" + b"\1" * 500, "format", "a batch of another format than 2"),
    ],
    ids=["header", "batch", "zeros", "format"],
)
def test_damage_is_told_with_its_place_and_reason(tail: bytes, kind: str, reason: str) -> None:
    sound_bytes = segment_of([act(), act("commit")])

    def check(path: Path) -> None:
        damage = damage_of(path, limits=ScanLimits(piece_bytes=256))
        assert damage is not None
        assert (damage.position, damage.size, damage.kind) == (len(sound_bytes), len(tail), kind)
        assert reason in damage.reason

    on_file(sound_bytes + tail, check)


def test_a_batch_may_be_larger_than_a_piece() -> None:
    segment_bytes = segment_of([act(value_bytes=40_000), act("commit"), act(value_bytes=3_000)])

    def check(path: Path) -> None:
        scan_limits = ScanLimits(piece_bytes=256)
        (table,) = batch_rows(path, on_damage=never, limits=scan_limits)
        assert table[kernel.BATCH_SIZE].sum() == len(segment_bytes)
        (fragment,) = fragment_rows(path, on_damage=never, limits=scan_limits)
        assert fragment.tolist() == fragments_of(segment_bytes)

    on_file(segment_bytes, check)


# Memory

MEASURE = """
import sys
from pathlib import Path
from txnsim_spark.scan.walk import batch_rows, damage_of, ending_rows, fragment_rows

def used_kb():
    # Not getrusage: its figure is inherited from the process that started this one.
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

def go_through(path):
    for walk in (batch_rows, fragment_rows, ending_rows):
        rows = 0
        for table in walk(path, on_damage=print):
            rows += table.size
        assert rows or walk is ending_rows
    assert damage_of(path) is None

go_through(Path(sys.argv[1]))
before_kb = used_kb()
go_through(Path(sys.argv[2]))
print(used_kb() - before_kb)
"""
GROWTH_MAX_KB = 64 << 10


def growth_kb(small_file: Path, large_file: Path) -> int:
    """How much more memory a process needs for a large segment after a small one."""
    process = subprocess.run(
        [sys.executable, "-c", MEASURE, str(small_file), str(large_file)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return int(process.stdout)


@pytest.fixture
def small_segment(tmp_path: Path) -> Path:
    path = tmp_path / "small.log"
    path.write_bytes(segment_of([act(), act("commit")]))
    return path


@pytest.mark.costly
@pytest.mark.slow
def test_memory_does_not_grow_with_the_segment_nor_with_its_batches(
    small_segment: Path, tmp_path: Path
) -> None:
    """640 megabytes, most of them holes: batches of a megabyte, and one of half a gigabyte."""
    header = bytearray(segment_of([act()])[: BatchHeader.SIZE])
    large_file = tmp_path / "large.log"
    with large_file.open("wb") as file:
        for size in [1 << 20] * 128 + [1 << 29]:
            header[8:12] = (size - BatchHeader.OVERHEAD).to_bytes(4)
            file.write(header)
            file.seek(size - len(header), 1)
        file.truncate()
    assert large_file.stat().st_size == 640 << 20
    assert growth_kb(small_segment, large_file) < GROWTH_MAX_KB


@pytest.mark.costly
@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_producers(
    small_segment: Path, tmp_path: Path
) -> None:
    """A million of them, a batch and a marker each: their fragments alone would be 200 MB."""
    pair = np.frombuffer(segment_of([act(), act("commit")]), dtype=np.uint8)
    producers = np.arange(1 << 20, dtype=">i8").view(np.uint8).reshape(-1, 8)
    pairs = np.tile(pair, (len(producers), 1))
    marker_at = int.from_bytes(pair[8:12].tobytes()) + BatchHeader.OVERHEAD
    for position in (43, marker_at + 43):
        pairs[:, position : position + 8] = producers
    large_file = tmp_path / "large.log"
    large_file.write_bytes(pairs.tobytes())
    assert growth_kb(small_segment, large_file) < GROWTH_MAX_KB


# One pass over a segment finds what separate walks find: damage, gaps, what producers did. That
# holds for any bound on memory. Damaged directories are in tests/spark/pipeline/test_damaged.


EXAMINING_BOUNDS = st.builds(
    ScanLimits,
    piece_bytes=st.integers(PIECE_BYTES_MIN, 600),
    rows_max=st.integers(1, 5),
    fragments_max=st.just(64),
)


def rows_of(tables: list[Ints]) -> list[list[int]]:
    return [row for table in tables for row in table.tolist()]


@given(acts(), EXAMINING_BOUNDS)
def test_a_sound_segment_whatever_the_bounds(
    act_history: list[Act], scan_limits: ScanLimits
) -> None:
    record_data = segment_of(act_history)

    def check(path: Path) -> None:
        examiner = Examiner(scan_limits)
        for _ in range(2):  # the second time in memory that was used
            examination = examiner.examine(path, end_position=len(record_data), base_offset=0)
            assert examination.damage is None
            assert rows_of(list(examiner.fragments(stops_at_damage=True))) == fragments_of(
                record_data
            )

    on_file(record_data, check)


@given(acts(), EXAMINING_BOUNDS, st.data())
def test_a_wrong_crc_is_where_separate_walks_find_it(
    act_history: list[Act], scan_limits: ScanLimits, data_strategy: st.DataObject
) -> None:
    record_data = bytearray(segment_of(act_history))
    if not record_data:
        return
    position = data_strategy.draw(st.integers(0, len(record_data) - 1), label="damaged byte")
    record_data[position] ^= 0xFF

    def check(path: Path) -> None:
        examiner = Examiner(scan_limits)
        examination = examiner.examine(path, end_position=len(record_data), base_offset=0)
        wrong_positions = [
            int(position)
            for table in batch_rows(path)
            for position in table[kernel.POSITION, ~crcs_are_right(path, table)]
        ]
        tail_damage = damage_of(path)
        damage_positions = [
            *wrong_positions[:1],
            *([] if tail_damage is None else [tail_damage.position]),
        ]
        assert (examination.damage and examination.damage.position) == min(
            damage_positions, default=None
        )
        sound_size = len(record_data) if examination.damage is None else examination.damage.position
        for until, is_cut in ((sound_size, True), (len(record_data), False)):
            walked = list(fragment_rows(path, end_position=until))
            assert rows_of(list(examiner.fragments(stops_at_damage=is_cut))) == rows_of(walked)
            examiner.examine(path, end_position=len(record_data), base_offset=0)

    on_file(bytes(record_data), check)


@pytest.mark.parametrize("is_sound", [True, False])
def test_a_batch_larger_than_a_piece(tmp_path: Path, is_sound: bool) -> None:
    large_batch = batch(0, is_transactional=True, record_value=b"v" * 5_000)
    path = segment(tmp_path, [plain(), large_batch, plain()])
    file_size = path.stat().st_size
    (table,) = batch_rows(path)
    if not is_sound:
        overwrite(path, int(table[kernel.POSITION, 1]) + 4_000, b"!")
    examiner = Examiner(ScanLimits(piece_bytes=PIECE_BYTES_MIN))
    examination = examiner.examine(path, end_position=file_size, base_offset=0)
    assert (examination.damage is None) == is_sound
    assert examination.damaged_offset == (3 if is_sound else 1)
    open_offsets = np.concatenate([*examiner.fragments(stops_at_damage=True)])[:, fk.OPEN_OFFSET]
    assert (1 in open_offsets.tolist()) == is_sound


def test_more_producers_than_are_kept_are_walked_over_again(tmp_path: Path) -> None:
    count = 10
    path = segment(
        tmp_path,
        [batch(0, is_transactional=True, producer_id=producer_id) for producer_id in range(count)],
    )
    examiner = Examiner(ScanLimits(fragments_max=4))
    assert examiner.examine(path, end_position=path.stat().st_size, base_offset=0).damage is None
    tables = list(examiner.fragments(stops_at_damage=False))
    assert [len(table) for table in tables] == [4, 4, 2]
    assert [row[fk.PRODUCER] for row in rows_of(tables)] == list(range(count))


def test_a_section_begins_where_it_is_told(tmp_path: Path) -> None:
    path = segment(tmp_path, [plain(), plain(), plain()])
    file_size = path.stat().st_size
    cut(path, file_size - 1)
    examiner = Examiner()
    examination = examiner.examine(
        path, end_position=file_size - 1, base_offset=1, start=file_size // 3
    )
    assert examination.is_torn
    assert (examination.lowest_offset, examination.highest_offset, examination.damaged_offset) == (
        1,
        1,
        2,
    )
    assert examination.gaps == ()


# What a broker that starts would cut off, and what it would leave

BATCH = len(plain())


def segments_at(path: Path) -> list[SegmentFile]:
    return list(segments_of(replicas_in([path])[0]))


def surviving_segments(
    path: Path, *, is_cut: bool = True
) -> list[tuple[int, SegmentDamage | None]]:
    """The bytes left and the finding of each segment; every way of looking gives the same."""
    segments = segments_at(path)
    cut_segments = [
        (numbered_segment.size, damage)
        for numbered_segment, damage in cut_short(segments, applies_cuts=is_cut)
    ]
    examined_segments = cut_short(examine_recovered(segments), applies_cuts=is_cut)
    assert [
        (numbered_segment.size, damage) for numbered_segment, damage in examined_segments
    ] == cut_segments
    return cut_segments


def test_what_is_clean_is_not_gone_through(tmp_path: Path) -> None:
    folder = replica(broker_dir(tmp_path), busy_log())
    last_segment = segments_at(tmp_path)[-1]
    overwrite(Path(last_segment.path), last_segment.size - 5, b"!")
    assert [damage for _, damage in surviving_segments(tmp_path)] == [None] * len(
        segments_at(tmp_path)
    )
    assert folder.name == "orders-0"


def test_damage_ends_the_log_there_and_all_segments_behind_it(tmp_path: Path) -> None:
    replica(broker_dir(tmp_path, is_clean=False), busy_log())
    segments = segments_at(tmp_path)
    overwrite(Path(segments[1].path), 79 + 30, b"!")  # in the second batch
    segments_left = surviving_segments(tmp_path)
    assert segments_left[0] == (segments[0].size, None)
    assert segments_left[1][0] == 79
    assert segments_left[1][1] is not None
    assert segments_left[1][1].kind == "crc"
    for (size, damage), cut_segment in zip(segments_left[2:], segments[2:], strict=True):
        assert size == 0
        assert damage is not None
        assert (damage.kind, damage.position, damage.size) == ("behind", 0, cut_segment.size)
    assert surviving_segments(tmp_path, is_cut=False) == [
        (segment.size, None) for segment in segments
    ]


def test_damage_of_one_replica_is_none_of_another_s(tmp_path: Path) -> None:
    broker_dir(tmp_path, is_clean=False)
    segment(tmp_path / "orders-0", [plain(), plain()[:-3]])
    segment(tmp_path / "orders-1", [plain()])
    segments = [segment for replica in replicas_in([tmp_path]) for segment in segments_of(replica)]
    assert [numbered_segment.size for numbered_segment, _ in cut_short(segments)] == [BATCH, BATCH]


def test_messages_of_old_formats_are_not_cut(tmp_path: Path) -> None:
    """A broker reads old messages; this walk passes over them."""
    broker_dir(tmp_path, is_clean=False)
    old_batch = old_message(1, offset=1)
    path = segment(tmp_path / "orders-0", [plain()])
    path.write_bytes(path.read_bytes() + old_batch)
    segment(tmp_path / "orders-0", [plain()], base_offset=5)
    assert surviving_segments(tmp_path) == [(BATCH + len(old_batch), None), (BATCH, None)]
    overwrite(path, BATCH + 16, b"\x09")
    assert [damage and damage.kind for _, damage in surviving_segments(tmp_path)] == [
        "torn",
        "behind",
    ]


def test_a_file_that_is_gone_is_left_for_others_to_notice(tmp_path: Path) -> None:
    broker_dir(tmp_path, is_clean=False)
    path = segment(tmp_path / "orders-0", [plain()])
    segments = segments_at(tmp_path)
    path.unlink()
    assert list(cut_short(segments)) == [(segments[0], None)]


# Which CRCs are right.


def test_runs_lie_within_so_many_bytes_or_are_one_batch() -> None:
    table = np.zeros((kernel.BATCH_COLUMNS, 6), dtype=np.int64)
    sizes = np.array([10, 10, 10, 50, 10, 10])
    table[kernel.BATCH_SIZE] = sizes
    table[kernel.POSITION] = np.cumsum(sizes) - sizes
    assert list(runs_of(table, bytes_max=20)) == [(0, 2), (2, 3), (3, 4), (4, 6)]


def test_every_batch_of_a_table_is_judged_for_itself(tmp_path: Path) -> None:
    large_batch = plain(record_value=b"v" * (PIECE_BYTES + 1))
    path = segment(tmp_path, [plain(), large_batch, plain(), plain()])
    overwrite(path, BATCH + len(large_batch) + BATCH - 1, b"!")
    (table,) = batch_rows(path)
    assert crcs_are_right(path, table).tolist() == [True, True, False, True]


def test_batches_that_are_gone_meanwhile_are_not_right(tmp_path: Path) -> None:
    for number, batch_data in enumerate([plain(), plain(record_value=b"v" * 5_000)]):
        path = segment(tmp_path / str(number), [batch_data, batch_data])
        (table,) = batch_rows(path)
        cut(path, len(batch_data) + 65)
        assert crcs_are_right(path, table).tolist() == [True, False]

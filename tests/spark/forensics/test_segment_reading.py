"""The pass over segments that Spark's workers and this process share. It says what the tables
``fragments`` and ``errors`` say; damaged directories are in tests/spark/pipeline/test_damaged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from tests.support.log_tables import (
    Row,
    broker_dir,
    busy_log,
    cut,
    logs_of,
    overwrite,
    segment,
    table,
    write_dense_index,
)
from tests.support.log_tables import replica as made_replica
from tests.support.logs import plain
from tests.support.old_messages import old_message
from tests.support.strides import every
from txnsim.storage import names
from txnsim.wire.batch import assign, read_batch_header
from txnsim_spark.forensics._read_compiled import ReplicaRead, place_of, read_of, walked
from txnsim_spark.forensics._read_notes import Note, NoteKind
from txnsim_spark.forensics.replica_state import ReplicaState, state_of
from txnsim_spark.scan.sections import in_sections
from txnsim_spark.scan.segments import SegmentFile, replicas_in, segments_of
from txnsim_spark.schemas import TABLES
from txnsim_spark.tables import _fragments as fragments
from txnsim_spark.tables.rows import Rows, of_segment


def at(offset: int) -> bytes:
    """A batch of one record."""
    return assign(plain(), base_offset=offset, leader_epoch=3)


OLD = old_message(0, offset=1) + old_message(1, offset=2)


@pytest.mark.parametrize(
    ("first", "following", "gaps"),
    [
        ([plain(), OLD], 3, []),
        ([plain(), OLD], 5, [(3, 5)]),
        ([OLD], 5, [(3, 5)]),
        ([plain(), OLD, at(3)], 4, []),
        ([plain(), OLD, at(7)], 9, [(3, 7), (8, 9)]),
    ],
    ids=["whole", "old end", "all old", "old middle", "gap behind old messages"],
)
def test_gaps_behind_messages_of_old_formats(
    tmp_path: Path, first: list[bytes], following: int, gaps: list[tuple[int, int]]
) -> None:
    folder = broker_dir(tmp_path) / "orders-0"
    segment(folder, [])
    (folder / f"{0:020}.log").write_bytes(b"".join(first))
    segment(folder, [plain()], base_offset=following)
    (replica,) = replicas_in([tmp_path])
    notes = [one for _, one in walked(segments_of(replica)) if isinstance(one, Note)]
    assert [(one.kind, one.from_offset, one.to_offset) for one in notes] == [
        (NoteKind.GAP, *gap) for gap in gaps
    ]


# In sections


def told(state: ReplicaState, tasks: Iterable[Iterable[SegmentFile]]) -> ReplicaRead:
    """What tasks read, put together."""
    return read_of(state, [(place_of(one), found) for task in tasks for one, found in walked(task)])


def both(log_dir: Path) -> tuple[ReplicaRead, ReplicaRead, int]:
    """The whole replica in one task, and each section in a task of its own, in any order; how many
    of these could not be judged apart.
    """
    (replica,) = replicas_in([log_dir])
    state = state_of(replica, use_snapshots=False)
    shared = in_sections(state.unread, 100)
    assert len(shared) > 2 * len(state.unread)
    again = sum(
        isinstance(found, Note) and found.kind is NoteKind.AGAIN for _, found in walked(shared)
    )
    apart = told(state, ([one] for one in reversed(shared)))
    return told(state, [state.unread]), apart, again


def in_many_segments(log_dir: Path, *, is_clean: bool) -> list[Path]:
    folder = made_replica(broker_dir(log_dir, is_clean=is_clean), busy_log())
    for path in logs_of(folder):
        write_dense_index(path)
    return logs_of(folder)


@pytest.mark.parametrize("is_clean", [True, False])
def test_sections_tell_what_the_whole_tells(tmp_path: Path, *, is_clean: bool) -> None:
    paths = in_many_segments(tmp_path, is_clean=is_clean)
    whole, apart, again = both(tmp_path)
    assert whole == apart
    assert whole.opened
    assert not again
    cut(paths[-1], paths[-1].stat().st_size - 3)  # as a killed broker leaves it
    whole, apart, again = both(tmp_path)
    assert whole == apart
    assert again == is_clean
    assert (whole.notes.cut_off is None) is is_clean


@pytest.mark.costly
@pytest.mark.slow
@every(11)
@pytest.mark.parametrize("is_clean", [True, False])
def test_one_flipped_bit_is_told_alike(tmp_path: Path, step: int, *, is_clean: bool) -> None:
    """Behind the recovery point what is read again is a segment whose batches do not end where the
    next section begins.
    """
    paths = in_many_segments(tmp_path, is_clean=is_clean)
    alike = again = 0
    for path in paths[:1] + paths[-2:]:
        data = path.read_bytes()
        for position in range(0, len(data), step):
            overwrite(path, position, bytes([data[position] ^ 1 << position % 8]))
            whole, apart, twice = both(tmp_path)
            assert whole == apart, (path, position)
            alike += not twice
            again += bool(twice)
        path.write_bytes(data)
    assert alike
    assert again


@pytest.mark.slow
@every(101)
def test_of_a_replica_that_no_checkpoint_names_segments_are_tasks(
    tmp_path: Path, step: int
) -> None:
    """Its broker would go through all of it. Damage in one segment ends those behind it, which
    other tasks have read.
    """
    paths = in_many_segments(tmp_path, is_clean=False)
    (tmp_path / names.RECOVERY_POINTS_NAME).write_text("0\n0\n")
    (replica,) = replicas_in([tmp_path])
    state = state_of(replica, use_snapshots=False)
    assert all(one.is_recovered for one in state.unread)
    assert len(state.unread) > 3
    cuts = set()
    for path in paths:
        data = path.read_bytes()
        for position in range(0, len(data), step):
            overwrite(path, position, bytes([data[position] ^ 1 << position % 8]))
            whole, apart, _ = both(tmp_path)
            assert whole == apart, (path, position)
            cuts.add(whole.notes.cut_off and whole.notes.cut_off.file)
        path.write_bytes(data)
    assert cuts >= set(map(str, paths))


TOLD_KINDS = {"torn", "format", "length", "crc"}


def segments_in(path: Path) -> list[SegmentFile]:
    return [one for replica in replicas_in([path]) for one in segments_of(replica)]


def rows_and_notes(path: Path) -> tuple[list[Row], list[Note]]:
    """Rows of the table ``fragments``, and what came to light."""
    schema = TABLES["fragments"].arrow()
    rows: list[Row] = []
    notes: list[Note] = []
    for one, found in walked(segments_in(path)):
        if isinstance(found, Note):
            notes.append(found)
            continue
        columns = {**of_segment(one, len(found)), **fragments.columns_of(found)}
        rows += Rows(len(found), columns).in_schema(schema).to_pylist()
    return rows, notes


Damage = Callable[[Path, int], None]
"""Of a segment, given where its second batch begins."""


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize(
    ("damage", "is_told"),
    [
        (lambda _path, _at: None, {True: False, False: False}),
        (lambda path, at: cut(path, at + 20), {True: True, False: True}),
        (lambda path, at: overwrite(path, at + 8, b"\x7f\xff\xff\xff"), {True: True, False: True}),
        (lambda path, at: overwrite(path, at + 16, b"\x07"), {True: True, False: True}),
        (lambda path, at: overwrite(path, at + 70, b"\x07"), {True: True, False: True}),
    ],
    ids=["sound", "torn", "length", "format", "crc"],
)
def test_what_two_tables_tell(
    tmp_path: Path, damage: Damage, is_told: dict[bool, bool], is_clean: bool
) -> None:
    folder = made_replica(broker_dir(tmp_path, is_clean=is_clean), busy_log())
    first, *_ = logs_of(folder)
    damage(first, read_batch_header(first.read_bytes()).size)
    rows, notes = rows_and_notes(tmp_path)
    assert rows == table(tmp_path, "fragments")
    # After an orderly stop no broker computes a CRC; only what was asked for is told.
    checked = table(tmp_path, "errors", options={"checkCrc": "true"})
    errors = [row for row in checked if row["kind"] in TOLD_KINDS]
    assert [
        (one.file, one.position, one.text, one.kind.value)
        for one in notes
        if one.kind is not NoteKind.GAP
    ] == [
        (row["file"], row["position"], row["reason"], "cut" if row["is_cut"] else "damage")
        for row in errors
    ]
    assert bool(errors) is is_told[is_clean]


def test_missing_offsets_are_told(tmp_path: Path) -> None:
    folder = made_replica(broker_dir(tmp_path), busy_log())
    _, second, *_ = logs_of(folder)
    second.write_bytes(b"")
    (gap,) = [one for one in rows_and_notes(tmp_path)[1] if one.kind is NoteKind.GAP]
    assert (gap.file, gap.from_offset) == (str(second), int(second.stem))
    assert gap.to_offset > gap.from_offset


@pytest.mark.parametrize("is_clean", [True, False])
def test_offsets_behind_a_tear_are_missing_where_the_log_goes_on(
    tmp_path: Path, is_clean: bool
) -> None:
    folder = made_replica(broker_dir(tmp_path, is_clean=is_clean), busy_log())
    first, second, *_ = logs_of(folder)
    cut(first, first.stat().st_size - 3)
    gaps = [one for one in rows_and_notes(tmp_path)[1] if one.kind is NoteKind.GAP]
    # After a crash all behind the tear is cut off: nothing is left that a gap could lie before.
    assert [one.to_offset for one in gaps] == ([int(second.stem)] if is_clean else [])


def test_a_segment_that_can_not_be_read_is_told(tmp_path: Path) -> None:
    folder = made_replica(broker_dir(tmp_path), busy_log())
    segments = segments_in(tmp_path)
    for path in logs_of(folder):
        path.unlink()
    notes = [found for _, found in walked(segments)]
    assert [(one.text, one.kind) for one in notes if isinstance(one, Note)] == [
        ("No such file or directory; passed by", NoteKind.DAMAGE)
    ] * len(segments)

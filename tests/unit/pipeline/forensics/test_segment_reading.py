"""The pass over segments that Spark's workers and this process share; its notes as rows are in
test_segment_job, damaged directories in tests/pipeline/test_damaged.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.support.broker_dirs import BrokerDir
from tests.support.log_tables import (
    broker_dir,
    busy_log,
    cut,
    logs_of,
    overwrite,
    segment,
    write_dense_index,
)
from tests.support.log_tables import replica as made_replica
from tests.support.logs import PID, LogDriver, plain
from tests.support.old_messages import old_message
from tests.support.strides import every
from txnsim.pipeline.forensics.open_transactions import Fragment, open_after
from txnsim.pipeline.forensics.read_compiled import fragments_of
from txnsim.pipeline.forensics.read_notes import Note, NoteKind, ReadNotes, joined
from txnsim.pipeline.forensics.segment_reading import walked
from txnsim.pipeline.forensics.verdicts import OpenTxn
from txnsim.pipeline.scan import kernel_fragments as fk
from txnsim.pipeline.scan.sections import in_sections
from txnsim.pipeline.scan.segments import SegmentFile, replicas_in, segments_of
from txnsim.wire.batch import assign


def test_what_producers_did_and_what_is_cut_off(tmp_path: Path) -> None:
    driver = LogDriver()
    driver.txn(0)
    made = BrokerDir(tmp_path / "broker-1", 1)
    folder = made.replica(driver)
    log_dir = made.kill()
    (segment,) = folder.glob("*.log")
    size = segment.stat().st_size
    with segment.open("ab") as file:
        file.write(b"torn")
    (replica,) = replicas_in([log_dir])
    found = [one for _, one in walked(segments_of(replica))]
    notes = [one for one in found if isinstance(one, Note)]
    assert [(one.kind, one.position, one.from_offset) for one in notes] == [(NoteKind.CUT, size, 1)]
    (table,) = (one for one in found if not isinstance(one, Note))
    assert table[:, fk.PRODUCER].tolist() == [PID]


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

Told = tuple[dict[int, OpenTxn], ReadNotes]
"""What is open, and what came to light."""


def told(tasks: Iterable[Iterable[SegmentFile]]) -> Told | None:
    """What tasks read, put together; None where one of them has a section to be read again."""
    notes: list[Note] = []
    pieces: list[dict[int, Fragment]] = []
    for task in tasks:
        for _, one in walked(task):
            if isinstance(one, Note):
                notes.append(one)
            else:
                pieces.append({each.producer_id: each for each in fragments_of(one)})
    if any(one.kind is NoteKind.AGAIN for one in notes):
        return None
    return open_after({}, pieces), joined(0, notes)


def both(log_dir: Path) -> tuple[Told | None, Told | None]:
    """The whole replica in one task, and each section in a task of its own."""
    (replica,) = replicas_in([log_dir])
    whole = list(segments_of(replica))
    shared = in_sections(whole, 100)
    assert len(shared) > 2 * len(whole)
    return told([whole]), told([one] for one in shared)


def in_many_segments(log_dir: Path, *, is_clean: bool) -> list[Path]:
    folder = made_replica(broker_dir(log_dir, is_clean=is_clean), busy_log())
    for path in logs_of(folder):
        write_dense_index(path)
    return logs_of(folder)


@pytest.mark.parametrize("is_clean", [True, False])
def test_sections_tell_what_the_whole_tells(tmp_path: Path, *, is_clean: bool) -> None:
    paths = in_many_segments(tmp_path, is_clean=is_clean)
    whole, apart = both(tmp_path)
    assert whole == apart
    assert whole is not None
    assert whole[0]
    cut(paths[-1], paths[-1].stat().st_size - 3)  # as a killed broker leaves it
    whole, apart = both(tmp_path)
    assert whole is not None
    assert apart == (None if is_clean else whole)
    assert (whole[1].cut_off is None) is is_clean


@every(11)
@pytest.mark.parametrize("is_clean", [True, False])
def test_one_flipped_bit_is_read_again_or_told_alike(
    tmp_path: Path, step: int, *, is_clean: bool
) -> None:
    paths = in_many_segments(tmp_path, is_clean=is_clean)
    alike = again = 0
    for path in paths[:1] + paths[-2:]:
        data = path.read_bytes()
        for position in range(0, len(data), step):
            overwrite(path, position, bytes([data[position] ^ 1 << position % 8]))
            whole, apart = both(tmp_path)
            if apart is None:
                again += 1
            else:
                alike += 1
                assert whole == apart, (path, position)
        path.write_bytes(data)
    assert alike
    assert again > 1_100 // step

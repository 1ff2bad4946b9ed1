"""The pass over segments that Spark's workers and this process share; its notes as rows are in
test_segment_job, damaged directories in tests/pipeline/test_damaged.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.broker_dirs import BrokerDir
from tests.support.log_tables import broker_dir, segment
from tests.support.logs import PID, LogDriver, plain
from tests.support.old_messages import old_message
from txnsim.pipeline.forensics.read_notes import Note, NoteKind
from txnsim.pipeline.forensics.segment_reading import walked
from txnsim.pipeline.scan import kernel_fragments as fk
from txnsim.pipeline.scan.segments import replicas_in, segments_of
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

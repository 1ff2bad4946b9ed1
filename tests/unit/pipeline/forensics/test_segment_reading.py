"""The pass over segments that Spark's workers and this process share; its notes as rows are in
test_segment_job, damaged directories in tests/pipeline/test_damaged.
"""

from __future__ import annotations

from pathlib import Path

from tests.support.broker_dirs import BrokerDir
from tests.support.logs import PID, LogDriver
from txnsim.pipeline.forensics.read_notes import Note, NoteKind
from txnsim.pipeline.forensics.segment_reading import walked
from txnsim.pipeline.scan import kernel_fragments as fk
from txnsim.pipeline.scan.segments import replicas_in, segments_of


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

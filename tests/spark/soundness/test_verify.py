"""How the work of ``logs verify`` is shared out; that it is done is in tests/spark/pipeline."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.support.engines import verify_here
from tests.support.log_tables import logs_of, overwrite, write_dense_index
from tests.support.soundness import busy_log, write_log_dir
from tests.support.strides import every
from txnsim.errors import BadInputError
from txnsim.storage import names
from txnsim_spark.soundness import verify
from txnsim_spark.soundness._parts import SegmentPart
from txnsim_spark.soundness.verify import plan, put_together
from txnsim_spark.soundness.violations import Invariant, Violation


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    write_log_dir(tmp_path, 4, {"orders-0": busy_log(), "payments-0": busy_log()})
    return tmp_path


def test_each_segment_has_a_task_when_a_task_takes_no_more(log_dir: Path) -> None:
    planned = plan([log_dir], task_bytes=1)
    assert (planned.replicas, planned.segments) == (2, 10)
    assert [len(task) for task in planned.tasks] == [1] * 10
    assert planned.bytes == sum(path.stat().st_size for path in log_dir.rglob("*.log"))


def test_there_is_more_than_one_task_for_little_work(log_dir: Path) -> None:
    assert len(plan([log_dir]).tasks) > 1


def test_topics_can_be_chosen(log_dir: Path) -> None:
    planned = plan([log_dir], frozenset({"payments"}))
    assert {work.segment.topic for task in planned.tasks for work in task} == {"payments"}


def test_a_checkpoint_that_cannot_be_read_is_found_by_the_plan(log_dir: Path) -> None:
    (log_dir / names.FileName.HIGH_WATERMARKS).write_text("no")
    (found,) = plan([log_dir]).findings
    assert (found.rule, found.broker, found.partition) == (Invariant.UNREADABLE_FILE, 4, -1)


def test_where_nobody_noted_it_the_newest_segment_is_recovered(log_dir: Path) -> None:
    (log_dir / names.FileName.RECOVERY_POINTS).unlink()
    works = [work for task in plan([log_dir]).tasks for work in task]
    newest = max(work.segment.base_offset for work in works)
    assert {work.facts.recovery_point for work in works} == {newest}


def test_what_holds_nothing_of_kafka_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputError):
        plan([tmp_path / "nowhere"])


REPLICA = "orders-0"


@pytest.fixture
def indexed(tmp_path: Path) -> Path:
    """A broker whose segments have an index entry for each batch but the first."""
    write_log_dir(tmp_path, 4, {REPLICA: busy_log()})
    for path in logs_of(tmp_path / REPLICA):
        write_dense_index(path)
    return tmp_path


def both(indexed: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[list[Violation], list[Violation]]:
    """Findings of whole segments, and of sections of about three batches."""
    whole = plan([indexed], task_bytes=250)
    monkeypatch.setattr(verify, "SECTION_BYTES_MIN", 250)
    cut = plan([indexed], task_bytes=250)
    monkeypatch.undo()
    assert whole.segments == cut.segments
    assert whole.bytes == cut.bytes
    assert all(work.segment.section is None for task in whole.tasks for work in task)
    parts = [work for task in cut.tasks for work in task if work.segment.section is not None]
    assert len(parts) > whole.segments
    return verify_here(whole), verify_here(cut)


def test_a_sound_log_is_sound_in_sections(indexed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, cut = both(indexed, monkeypatch)
    assert whole == cut
    assert [one for one in whole if one.severity.value == "error"] == []


def test_sections_that_are_sound_are_not_walked_over_again(
    indexed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify, "SECTION_BYTES_MIN", 250)
    planned = plan([indexed], task_bytes=250)
    walked = [verify.examine_work(work) for task in planned.tasks for work in task]
    joined = put_together(walked, lambda part: pytest.fail(part.file))
    whole = [verify.examine_work(work) for task in _whole(indexed, monkeypatch) for work in task]
    assert [_plain(one) for one in joined] == [_plain(one) for one in whole]


def _whole(indexed: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[tuple[verify.Work, ...], ...]:
    monkeypatch.setattr(verify, "SECTION_BYTES_MIN", 1 << 30)
    return plan([indexed]).tasks


def _plain(part: SegmentPart) -> SegmentPart:
    """Without rows: sections have more of them."""
    return msgspec.structs.replace(part, rows=())


@pytest.mark.costly
@pytest.mark.slow
@every(7)
@pytest.mark.parametrize("number", range(3))
def test_one_flipped_bit_leads_to_the_same_findings(
    indexed: Path, number: int, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = logs_of(indexed / REPLICA)[number]
    data = path.read_bytes()
    found = 0
    for position in range(number, len(data), step):
        overwrite(path, position, bytes([data[position] ^ 1 << position % 8]))
        whole, cut = both(indexed, monkeypatch)
        assert whole == cut, (path, position)
        found += bool(whole)
        overwrite(path, position, data[position : position + 1])
    assert found > 350 // step


@pytest.mark.costly
@pytest.mark.slow
@every(5)
@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".txnindex", ".snapshot"])
def test_damaged_files_beside_a_segment_lead_to_the_same_findings(
    indexed: Path, suffix: str, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = 0
    for path in sorted((indexed / REPLICA).glob(f"*{suffix}")):
        data = path.read_bytes()
        for position in range(0, len(data), step):
            overwrite(path, position, bytes([data[position] ^ 1 << position % 8]))
            whole = verify_here(plan([indexed]))
            monkeypatch.setattr(verify, "SECTION_BYTES_MIN", 250)
            cut = verify_here(plan([indexed], task_bytes=250))
            monkeypatch.undo()
            assert whole == cut, (path, position)
            told += bool(whole)
            overwrite(path, position, data[position : position + 1])
    assert told

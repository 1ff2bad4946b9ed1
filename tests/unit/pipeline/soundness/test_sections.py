"""Sections of segments put together: the same findings as of whole segments, sound and damaged."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.support.log_tables import logs_of, overwrite, write_dense_index
from tests.support.soundness import busy_log, write_log_dir
from tests.support.strides import every
from txnsim.pipeline.soundness import verify
from txnsim.pipeline.soundness.parts import SegmentPart
from txnsim.pipeline.soundness.sections import put_together
from txnsim.pipeline.soundness.verify import plan, verify_here
from txnsim.pipeline.soundness.violations import Violation

REPLICA = "orders-0"


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """A broker whose segments have an index entry for each batch but the first."""
    write_log_dir(tmp_path, 4, {REPLICA: busy_log()})
    for path in logs_of(tmp_path / REPLICA):
        write_dense_index(path)
    return tmp_path


def both(log_dir: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[list[Violation], list[Violation]]:
    """Findings of whole segments, and of sections of about three batches."""
    whole = plan([log_dir], task_bytes=250)
    monkeypatch.setattr(verify, "SECTION_BYTES_MIN", 250)
    cut = plan([log_dir], task_bytes=250)
    monkeypatch.undo()
    assert whole.segments == cut.segments
    assert whole.bytes == cut.bytes
    assert all(work.segment.section is None for task in whole.tasks for work in task)
    parts = [work for task in cut.tasks for work in task if work.segment.section is not None]
    assert len(parts) > whole.segments
    return list(verify_here(whole)), list(verify_here(cut))


def test_a_sound_log_is_sound_in_sections(log_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, cut = both(log_dir, monkeypatch)
    assert whole == cut
    assert [one for one in whole if one.severity.value == "error"] == []


def test_sections_that_are_sound_are_not_walked_over_again(
    log_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify, "SECTION_BYTES_MIN", 250)
    planned = plan([log_dir], task_bytes=250)
    walked = [verify.examine_work(work) for task in planned.tasks for work in task]
    joined = put_together(walked, lambda part: pytest.fail(part.file))
    whole = [verify.examine_work(work) for task in _whole(log_dir, monkeypatch) for work in task]
    assert [_plain(one) for one in joined] == [_plain(one) for one in whole]


def _whole(log_dir: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[tuple[verify.Work, ...], ...]:
    monkeypatch.setattr(verify, "SECTION_BYTES_MIN", 1 << 30)
    return plan([log_dir]).tasks


def _plain(part: SegmentPart) -> SegmentPart:
    """Without stretches: sections have more of them."""
    return msgspec.structs.replace(part, stretches=())


@pytest.mark.slow
@every(7)
@pytest.mark.parametrize("number", range(3))
def test_one_flipped_bit_leads_to_the_same_findings(
    log_dir: Path, number: int, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = logs_of(log_dir / REPLICA)[number]
    data = path.read_bytes()
    found = 0
    for position in range(number, len(data), step):
        overwrite(path, position, bytes([data[position] ^ 1 << position % 8]))
        whole, cut = both(log_dir, monkeypatch)
        assert whole == cut, (path, position)
        found += bool(whole)
        overwrite(path, position, data[position : position + 1])
    assert found > 350 // step


@pytest.mark.slow
@every(5)
@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".txnindex", ".snapshot"])
def test_damaged_files_beside_a_segment_lead_to_the_same_findings(
    log_dir: Path, suffix: str, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = 0
    for path in sorted((log_dir / REPLICA).glob(f"*{suffix}")):
        data = path.read_bytes()
        for position in range(0, len(data), step):
            overwrite(path, position, bytes([data[position] ^ 1 << position % 8]))
            whole = list(verify_here(plan([log_dir])))
            monkeypatch.setattr(verify, "SECTION_BYTES_MIN", 250)
            cut = list(verify_here(plan([log_dir], task_bytes=250)))
            monkeypatch.undo()
            assert whole == cut, (path, position)
            told += bool(whole)
            overwrite(path, position, data[position : position + 1])
    assert told

"""What a segment leaves, on its way between tasks."""

from __future__ import annotations

from pathlib import Path

import msgspec

from tests.support.soundness import busy_log, write_log_dir
from txnsim.pipeline.soundness.parts import SegmentPart
from txnsim.pipeline.soundness.verify import examine_work, plan


def test_a_part_comes_out_of_its_bytes_as_it_went_in(tmp_path: Path) -> None:
    write_log_dir(tmp_path, 1, {"orders-0": busy_log()})
    for task in plan([tmp_path]).tasks:
        for work in task:
            part = examine_work(work)
            assert part.stretches
            assert msgspec.msgpack.decode(msgspec.msgpack.encode(part), type=SegmentPart) == part

"""Which CRCs the tables of segments compute, and which part of a segment tells its damage."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.support.log_tables import broker_dir, overwrite, segment
from tests.support.logs import plain
from txnsim.storage import names
from txnsim_spark.options import KafkaLogOptions
from txnsim_spark.scan.segments import SegmentDamage, SegmentFile, replicas_in, segments_of
from txnsim_spark.tables._damage import checks_crcs, sound_rows
from txnsim_spark.tables.rows import TableJob

BATCH = len(plain())


def segment_in(log_dir: Path) -> SegmentFile:
    (segment,) = segments_of(replicas_in([log_dir])[0])
    return segment


@pytest.mark.parametrize(
    ("check_name", "stop", "is_expected"),
    [
        ("auto", "in order", False),
        ("auto", "killed", False),
        ("auto", "flushed", True),
        ("true", "in order", True),
        ("true", "flushed", True),
        ("false", "flushed", False),
    ],
)
def test_crcs_are_computed_where_no_stop_in_order_vouches_for_them(
    tmp_path: Path, check_name: str, stop: str, is_expected: bool
) -> None:
    log_dir = broker_dir(tmp_path, is_clean=stop == "in order")
    segment(log_dir / "orders-0", [plain()])
    damaged_segment = segment_in(log_dir)
    if stop == "flushed":
        damaged_segment = msgspec.structs.replace(damaged_segment, is_recovered=False)
    else:
        assert damaged_segment.is_recovered is (stop == "killed"), (
            "a starting broker goes through it"
        )
    options = KafkaLogOptions.of({"path": str(tmp_path), "checkCrc": check_name})
    assert checks_crcs(damaged_segment, TableJob(options=options, columns=())) is is_expected


def test_a_part_of_a_segment_tells_the_damage_that_ends_it(tmp_path: Path) -> None:
    log_dir = broker_dir(tmp_path)
    log = segment(log_dir / "orders-0", [plain()] * 4)
    overwrite(log, 3 * BATCH + 8, bytes(4))
    assert (log_dir / names.FileName.CLEAN_SHUTDOWN).exists()

    def damage_offsets(span: tuple[int, int] | None) -> list[int]:
        damages: list[SegmentDamage] = []
        segment_part = msgspec.structs.replace(segment_in(log_dir), offset_span=span)
        assert sum(rows.shape[1] for rows in sound_rows(segment_part, damages.append)) == 3
        return [damage.position for damage in damages]

    assert damage_offsets(None) == [3 * BATCH]
    assert damage_offsets((0, 3)) == []
    assert damage_offsets((2, 4)) == [3 * BATCH]

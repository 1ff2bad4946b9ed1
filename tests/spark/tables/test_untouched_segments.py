"""Segments that a producer wrote nothing to."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("numba", reason="the extra spark is not installed")

from tests.support.log_tables import broker_dir, replica, table
from tests.support.logs import LogDriver
from txnsim.log.config import LogConfig
from txnsim.releases.rules import LATEST_RULES
from txnsim_spark.scan.segments import replicas_in, segments_of
from txnsim_spark.tables._untouched_segments import segments_with_batches


def test_segments_without_a_producer_are_left_out_where_snapshots_show_it(tmp_path: Path) -> None:
    driver = LogDriver(LogConfig(rules=LATEST_RULES, roll_bytes=1_000))
    for number in range(100):
        if number in (3, 47):
            driver.txn(number // 40, producer_id=77)
        driver.txn(number)
    folder = replica(broker_dir(tmp_path), driver)
    all_rows = [row for row in table(tmp_path, "batches") if row["producer_id"] == 77]
    (found_replica,) = replicas_in([tmp_path])
    segments = list(segments_of(found_replica))
    touched_segments = list(segments_with_batches(segments, frozenset({77})))
    assert {row["segment_base_offset"] for row in all_rows} <= {
        segment.base_offset for segment in touched_segments
    }
    assert len(touched_segments) < len(segments) - 2
    assert list(segments_with_batches(segments, None)) == segments
    assert list(segments_with_batches(segments, frozenset({77, 5}))) == segments, "5 is not known"
    for snapshot_file in folder.glob("*.snapshot"):
        snapshot_file.write_bytes(b"torn")
    assert list(segments_with_batches(segments, frozenset({77}))) == segments

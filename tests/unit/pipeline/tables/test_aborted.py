"""Indexes of aborted transactions as rows."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql.datasource import EqualTo

from tests.support.log_tables import broker_dir, busy_log, overwrite, replica, table
from txnsim.storage import names
from txnsim.storage.txn_index import ENTRY_BYTES


def test_all_aborts_of_all_segments_are_told(tmp_path: Path) -> None:
    driver = busy_log()
    replica(broker_dir(tmp_path), driver)
    rows = table(tmp_path, "aborted")
    assert [
        (row["producer_id"], row["first_offset"], row["marker_offset"], row["last_stable_offset"])
        for row in rows
    ] == [
        (one.producer_id, one.first_offset, one.last_offset, one.last_stable_offset)
        for one in driver.log.snapshot().aborted
    ]
    bases = {one.base_offset for one in driver.log.local.segments}
    assert {row["segment_base_offset"] for row in rows} <= bases
    assert all(row["segment_base_offset"] <= row["marker_offset"] for row in rows)


def test_only_producers_that_are_wanted_have_rows(tmp_path: Path) -> None:
    replica(broker_dir(tmp_path), busy_log())
    rows = table(tmp_path, "aborted", where=[EqualTo(("producer_id",), 8)])
    assert {row["producer_id"] for row in rows} == {8}


def test_an_index_without_its_segment_is_read(tmp_path: Path) -> None:
    """As it lies there where the segment itself is in tiered storage by now."""
    folder = replica(broker_dir(tmp_path), busy_log())
    before = table(tmp_path, "aborted")
    (folder / names.file_name(0, names.LOG_SUFFIX)).unlink()
    assert table(tmp_path, "aborted") == before


def test_entries_in_front_of_damage_are_told(tmp_path: Path) -> None:
    folder = replica(broker_dir(tmp_path), busy_log())
    before = table(tmp_path, "aborted")
    overwrite(folder / names.file_name(0, names.TXN_INDEX_SUFFIX), ENTRY_BYTES, b"\x00\x09")
    after = table(tmp_path, "aborted")
    assert after[0] == before[0]
    assert {row["marker_offset"] for row in after if row["segment_base_offset"] == 0} == {
        before[0]["marker_offset"]
    }
    assert len(after) < len(before)

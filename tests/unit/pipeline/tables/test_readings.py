"""Every table is made of something, and nothing ends a job."""

from __future__ import annotations

from pathlib import Path

import pytest

from sim.pipeline.schemas import TABLES
from sim.pipeline.tables.readings import TABLES as READINGS
from sim.pipeline.tables.readings import reads_of
from tests.support.log_tables import broker_dir, busy_log, replica, segment, table
from tests.support.logs import plain


def test_every_table_that_is_documented_can_be_read() -> None:
    assert {*READINGS, "errors", "replicas"} == {*TABLES}
    for name in TABLES:
        reads = reads_of(name)
        assert reads.segments or reads.replicas
    assert reads_of("errors").log_dirs
    assert reads_of("transactions").topic == "__transaction_state"


@pytest.mark.parametrize("name", TABLES)
def test_a_file_that_vanishes_takes_only_its_own_rows(tmp_path: Path, name: str) -> None:
    """Between the plan and the reading, as with a broker that is alive."""
    broker_dir(tmp_path)
    gone = segment(tmp_path / "orders-0", [plain()])
    segment(tmp_path / "orders-1", [plain()])
    before = table(tmp_path, name)
    gone.unlink()
    gone.symlink_to(gone)
    after = table(tmp_path, name)
    if name == "replicas":
        assert [row["size_bytes"] > 0 for row in after] == [False, True]
    elif name in ("batches", "records", "fragments", "segments"):
        assert [row["partition"] for row in before] == [0, 1]
        assert [row["partition"] for row in after] == [1]
    elif name == "errors":
        assert [row["kind"] for row in after] == ["unreadable"]
    else:
        assert before == after == []


@pytest.mark.parametrize("name", sorted({*TABLES} - {"errors", "offsets", "transactions"}))
def test_several_brokers_directories_are_read_at_once(tmp_path: Path, name: str) -> None:
    for broker in (1, 2):
        replica(broker_dir(tmp_path / str(broker), broker=broker), busy_log())
    rows = table(tmp_path, name)
    ones = [row for row in rows if row["broker"] == 1]
    assert ones
    assert len(rows) == 2 * len(ones)


@pytest.mark.parametrize("name", sorted({*TABLES} - {"errors"}))
def test_empty_folders_have_no_rows_but_that_they_are_there(tmp_path: Path, name: str) -> None:
    (broker_dir(tmp_path) / "orders-0").mkdir()
    assert len(table(tmp_path, name)) == (1 if name == "replicas" else 0)

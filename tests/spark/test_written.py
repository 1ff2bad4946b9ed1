"""What producers wrote; what commands make of it is in tests/spark/questions."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark.test_views import disks
from tests.support.full_disk import little_room
from tests.support.logs import PID
from txnsim.errors import ConfigError
from txnsim_spark.written import Written

__all__ = ["disks"]
pytest.importorskip("duckdb", reason="the extra spark is not installed")


def test_each_record_has_the_outcome_of_its_transaction(disks: Path) -> None:
    found = Written([disks], [PID]).rows(
        "SELECT `offset`, outcome, transaction_offset FROM kafka_outcomes ORDER BY `offset`"
    )
    assert [(row["offset"], row["outcome"], row["transaction_offset"]) for row in found] == [
        *((0, "committed", 0), (1, "committed", 0), (3, "aborted", 3)),
        *((5, "open", 5), (6, "open", 5), (7, "open", 5)),
    ]


def test_records_are_counted_by_transaction_whether_they_are_written_or_not(
    disks: Path, tmp_path: Path
) -> None:
    target = tmp_path / "out"
    written = Written([disks], [PID]).lots(target, outcomes=("aborted", "open"))
    assert written == Written([disks], [PID]).lots(None, outcomes=("aborted", "open"))
    assert [(one["outcome"], one["records"], one["bytes"], one["keys"]) for one in written] == [
        ("aborted", 1, 2, 1),
        ("open", 3, 6, 1),
    ]
    assert [one.parent.name for one in target.rglob("*.parquet")] == ["topic=orders"]


def test_nothing_is_written_of_a_producer_that_is_not_there(disks: Path, tmp_path: Path) -> None:
    for producer_ids in ((), (12345,)):
        assert Written([disks], producer_ids).lots(tmp_path / f"out-{producer_ids}") == []


def test_a_full_disk_leaves_nothing(disks: Path, tmp_path: Path) -> None:
    written = Written([disks], [PID])
    with little_room(file_bytes_max=100), pytest.raises(ConfigError, match="out"):
        written.lots(tmp_path / "out")
    assert not (tmp_path / "out").exists()

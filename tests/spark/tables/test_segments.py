"""Segments as rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.log_tables import broker_dir, busy_log, replica, segment, table
from tests.support.logs import NOW, plain
from txnsim_spark.schemas import TABLES
from txnsim_spark.tables import _segments as segments
from txnsim_spark.tables._segments import WALKED


def test_a_row_tells_what_a_segment_spans(tmp_path: Path) -> None:
    path = segment(
        broker_dir(tmp_path) / "orders-0", [plain(2), plain(timestamp=NOW + 9)], base_offset=5
    )
    (row,) = table(tmp_path, "segments")
    size = path.stat().st_size
    del row["log_dir"], row["broker"], row["topic"], row["partition"]
    assert row == {
        "segment_base_offset": 5,
        "file": str(path),
        "size_bytes": size,
        "sound_bytes": size,
        "is_last": True,
        "batches": 2,
        "records": 3,
        "first_offset": 5,
        "last_offset": 7,
        "max_timestamp_ms": NOW + 9,
    }


def test_an_empty_segment_spans_nothing(tmp_path: Path) -> None:
    segment(broker_dir(tmp_path) / "orders-0", [])
    (row,) = table(tmp_path, "segments")
    assert (row["batches"], row["size_bytes"], row["sound_bytes"]) == (0, 0, 0)
    assert (row["first_offset"], row["last_offset"], row["max_timestamp_ms"]) == (None,) * 3


@pytest.mark.parametrize("is_clean", [True, False])
def test_what_is_torn_is_not_sound(tmp_path: Path, is_clean: bool) -> None:
    path = segment(broker_dir(tmp_path, is_clean=is_clean) / "orders-0", [plain(), plain()])
    path.write_bytes(path.read_bytes()[:-1])
    (row,) = table(tmp_path, "segments")
    assert row["sound_bytes"] == len(plain())
    assert row["size_bytes"] == 2 * len(plain()) - 1


def test_a_replica_has_a_row_per_segment(tmp_path: Path) -> None:
    driver = busy_log()
    replica(broker_dir(tmp_path), driver)
    rows = table(tmp_path, "segments", options={"taskBytes": "1"})
    assert [row["segment_base_offset"] for row in rows] == [
        one.base_offset for one in driver.log.local.segments
    ]
    assert sum(row["batches"] for row in rows) == 90
    assert [row["is_last"] for row in rows] == [False] * (len(rows) - 1) + [True]


def test_nobody_goes_through_segments_for_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica(broker_dir(tmp_path), busy_log())
    whole = table(tmp_path, "segments")
    cheap = [name for name in TABLES["segments"].names if name not in WALKED]

    def never(*args: object, **named: object) -> None:
        raise AssertionError(args)

    monkeypatch.setattr(segments, "batch_rows", never)
    rows = table(tmp_path, "segments", columns=cheap)
    assert rows == [{name: row[name] for name in cheap} for row in whole]

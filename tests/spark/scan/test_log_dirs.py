"""What the top of a log directory says, and what counts where it says nothing."""

from __future__ import annotations

from pathlib import Path

from tests.support.log_tables import ORDERS, broker_dir
from txnsim.storage import names
from txnsim.storage.checkpoints import encode_offsets
from txnsim.types import TopicPartition
from txnsim_spark.scan.log_dirs import LogDirectory, meta_of


def test_everything_that_is_there_is_read(tmp_path: Path) -> None:
    broker_dir(tmp_path, broker=4)
    for name, offset in (
        (names.HIGH_WATERMARKS_NAME, 30),
        (names.RECOVERY_POINTS_NAME, 20),
        (names.LOG_STARTS_NAME, 10),
    ):
        (tmp_path / name).write_text(encode_offsets({ORDERS: offset}))
    found = LogDirectory.at(tmp_path)
    assert found.meta is not None
    assert (found.meta.node_id, found.meta.cluster_id) == (4, "a-cluster")
    assert found.is_clean
    assert found.high_watermarks == {ORDERS: 30}
    assert found.recovery_points == {ORDERS: 20}
    assert found.log_starts == {ORDERS: 10}


def test_what_is_missing_or_damaged_counts_as_not_told(tmp_path: Path) -> None:
    (tmp_path / names.META_PROPERTIES_NAME).write_bytes(b"\xff\xfe")
    (tmp_path / names.HIGH_WATERMARKS_NAME).write_text("nonsense")
    found = LogDirectory.at(tmp_path)
    assert found == LogDirectory(
        path=tmp_path,
        meta=None,
        is_clean=False,
        high_watermarks={},
        log_starts={},
        recovery_points=None,
        written_ms=found.written_ms,
    )
    assert [file for file, _ in found.written_ms] == [str(tmp_path / names.HIGH_WATERMARKS_NAME)]
    assert meta_of(tmp_path / "nowhere") is None


def test_a_log_is_gone_through_from_its_recovery_point_on_unless_it_is_clean(
    tmp_path: Path,
) -> None:
    broker_dir(tmp_path, is_clean=False)
    (tmp_path / names.RECOVERY_POINTS_NAME).write_text(encode_offsets({ORDERS: 20}))
    assert LogDirectory.at(tmp_path).recovered_from(ORDERS, 90) == 20
    other = TopicPartition("orders", 1)
    assert LogDirectory.at(tmp_path).recovered_from(other, 90) == 0
    (tmp_path / names.CLEAN_SHUTDOWN_NAME).touch()
    assert LogDirectory.at(tmp_path).recovered_from(ORDERS, 90) is None


def test_a_copy_without_checkpoints_is_gone_through_in_its_last_segment(tmp_path: Path) -> None:
    assert LogDirectory.at(tmp_path).recovered_from(ORDERS, 90) == 90

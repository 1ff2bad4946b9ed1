"""Names in a log directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from txnsim.storage import names
from txnsim.types import TopicPartition


def test_a_file_is_named_for_its_offset_in_twenty_digits() -> None:
    assert names.file_name(42, ".log") == "00000000000000000042.log"
    assert names.offset_of("00000000000000000042.log", ".log") == 42


@pytest.mark.parametrize(
    "name",
    [
        "00000000000000000042.index",
        "42.log",
        "00000000000000000042.log.deleted",
        "leader-epoch-checkpoint",
    ],
)
def test_other_files_are_no_segments(name: str) -> None:
    assert names.offset_of(name, ".log") is None


def test_a_topic_may_have_hyphens_and_numbers_in_its_name() -> None:
    where = TopicPartition("a-1-b", 12)
    assert names.directory_name(where) == "a-1-b-12"
    assert names.topic_partition_of("a-1-b-12") == where


@pytest.mark.parametrize(
    "name",
    [
        "meta.properties",
        "orders-0.0123456789abcdef0123456789abcdef-delete",
        "orders-0.0123456789abcdef0123456789abcdef-future",
        "orders-0.0123456789abcdef0123456789abcdef-stray",
        "orders",
    ],
)
def test_what_is_no_replica_or_is_going_is_left_out(name: str) -> None:
    assert names.topic_partition_of(name) is None


def test_replicas_are_listed_by_topic_and_partition(tmp_path: Path) -> None:
    for name in ("b-0", "a-10", "a-2", "not a partition"):
        (tmp_path / name).mkdir()
    (tmp_path / "a-3").write_bytes(b"a file")
    found = names.partition_directories(tmp_path)
    assert [str(one.topic_partition) for one in found] == ["a-2", "a-10", "b-0"]
    assert found[0].path == tmp_path / "a-2"


def test_files_of_a_kind_are_listed_by_offset(tmp_path: Path) -> None:
    for offset in (30, 4, 0):
        (tmp_path / names.file_name(offset, ".log")).touch()
    (tmp_path / names.file_name(4, ".index")).touch()
    assert [offset for offset, _ in names.numbered_files(tmp_path, ".log")] == [0, 4, 30]

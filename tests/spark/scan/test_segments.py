"""Which folders and files count."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.log_tables import ORDERS, broker_dir, busy_log, replica, segment
from tests.support.logs import plain
from txnsim.errors import BadInputError
from txnsim.storage import names
from txnsim.storage.checkpoints import encode_offsets
from txnsim.storage.replica_files import replica_files
from txnsim.types import TopicPartition
from txnsim_spark.scan.log_dirs import topic_id_of
from txnsim_spark.scan.segments import (
    UNKNOWN_BROKER,
    by_topic_id,
    log_dirs_in,
    replicas_in,
    segments_of,
)

UUID = "0123456789abcdef0123456789abcdef"


def folder(path: Path) -> Path:
    segment(path, [plain()])
    return path


def test_a_log_directory_has_its_replicas_in_order(tmp_path: Path) -> None:
    broker_dir(tmp_path, broker=3)
    for name in ("orders-10", "orders-2", "a-b.c_d-0", "not a replica"):
        folder(tmp_path / name)
    found = replicas_in([tmp_path])
    assert [(one.topic, one.partition, one.broker) for one in found] == [
        ("a-b.c_d", 0, 3),
        ("orders", 2, 3),
        ("orders", 10, 3),
    ]
    assert replicas_in([tmp_path], frozenset({"a-b.c_d"})) == found[:1]
    assert {one.log_dir for one in found} == {str(tmp_path)}


def test_a_folder_of_several_log_directories_is_looked_through(tmp_path: Path) -> None:
    for broker in (1, 2):
        folder(broker_dir(tmp_path / f"broker-{broker}", broker=broker) / "orders-0")
    (tmp_path / "notes").mkdir()
    assert [one.broker for one in replicas_in([tmp_path])] == [1, 2]
    assert log_dirs_in([tmp_path]) == (tmp_path / "broker-1", tmp_path / "broker-2")


def test_a_copy_without_meta_properties_is_a_log_directory_of_nobody(tmp_path: Path) -> None:
    folder(tmp_path / "orders-0")
    (found,) = replicas_in([tmp_path])
    assert found.broker == UNKNOWN_BROKER


def test_a_replica_s_folder_can_be_named_itself(tmp_path: Path) -> None:
    folder(broker_dir(tmp_path, broker=5) / "orders-0")
    folder(tmp_path / "orders-1")
    (found,) = replicas_in([tmp_path / "orders-1"])
    assert (found.topic_partition, found.broker) == (TopicPartition("orders", 1), 5)
    assert log_dirs_in([tmp_path / "orders-1"]) == (tmp_path,)


@pytest.mark.parametrize("fate", ["delete", "future", "stray"])
def test_what_a_broker_does_not_serve_is_read_only_where_it_is_named(
    tmp_path: Path, fate: str
) -> None:
    broker_dir(tmp_path)
    going = folder(tmp_path / f"orders-0.{UUID}-{fate}")
    assert replicas_in([tmp_path]) == ()
    (found,) = replicas_in([going])
    assert found.topic_partition == ORDERS


def test_the_layout_of_local_tiered_storage_is_read(tmp_path: Path) -> None:
    topic_id, segment_id = "LWgrMmVrT0a__7a4SasuPA", "o8CQPT86QQmbFmi3xRmiHA"
    folder = tmp_path / f"pay-2-orders-10-{topic_id}"
    folder.mkdir()
    endings = ("log", "index", "timeindex", "txnindex", "snapshot", "leader_epoch_checkpoint")
    for offset in (0, 11):
        for ending in endings:
            (folder / f"{offset:020}-{segment_id}.{ending}").touch()
    for path in (tmp_path, folder):
        (replica,) = replicas_in([path])
        assert (replica.topic, replica.partition, replica.broker) == ("pay-2-orders", 10, -1)
        assert topic_id_of(Path(replica.path)) == topic_id
        segments = list(segments_of(replica))
        assert [(one.base_offset, one.next_base_offset) for one in segments] == [
            (0, 11),
            (11, None),
        ]
        assert Path(segments[0].path).with_suffix(".timeindex").is_file()
    found = replica_files(folder)
    assert [one.txn_index is not None and one.has_index for one in found.segments] == [True, True]
    assert found.snapshots == (), "they are those of the segments' ends"


def test_a_path_that_is_named_twice_is_read_once(tmp_path: Path) -> None:
    inner = folder(broker_dir(tmp_path) / "orders-0")
    assert len(replicas_in([tmp_path, inner, tmp_path])) == 1
    assert log_dirs_in([tmp_path, inner]) == (tmp_path,)


def test_what_is_no_log_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="is no directory"):
        replicas_in([tmp_path / "nowhere"])
    with pytest.raises(BadInputError, match="holds no log directory"):
        replicas_in([tmp_path])
    with pytest.raises(BadInputError, match="holds no log directory"):
        log_dirs_in([tmp_path])


def test_an_empty_log_directory_is_one(tmp_path: Path) -> None:
    broker_dir(tmp_path)
    assert replicas_in([tmp_path]) == ()
    assert log_dirs_in([tmp_path]) == (tmp_path,)


def test_segments_come_in_order_and_know_where_they_end(tmp_path: Path) -> None:
    driver = busy_log()
    replica(broker_dir(tmp_path), driver)
    (found,) = replicas_in([tmp_path])
    segments = list(segments_of(found))
    assert [one.base_offset for one in segments] == [
        one.base_offset for one in driver.log.local.segments
    ]
    assert [one.next_base_offset for one in segments] == [
        *(one.base_offset for one in segments[1:]),
        None,
    ]
    assert [one.is_last for one in segments] == [False] * (len(segments) - 1) + [True]
    assert sum(one.size for one in segments) == driver.log.local.segments.size_bytes
    assert {(one.topic, one.partition) for one in segments} == {("orders", 0)}
    assert not any(one.is_recovered for one in segments)


def test_segments_with_offsets_behind_the_recovery_point_are_gone_through(tmp_path: Path) -> None:
    replica(broker_dir(tmp_path, is_clean=False), busy_log())
    (found,) = replicas_in([tmp_path])
    bases = [one.base_offset for one in segments_of(found)]
    checkpoint = tmp_path / names.RECOVERY_POINTS_NAME
    checkpoint.write_text(encode_offsets({ORDERS: bases[2] - 1}))
    assert [one.is_recovered for one in segments_of(found)] == [
        False,
        *[True] * (len(bases) - 1),
    ]
    checkpoint.write_text(encode_offsets({ORDERS: bases[2]}))
    assert [one.is_recovered for one in segments_of(found)][:3] == [False, False, True]


def test_interrupted_compaction_is_finished_as_a_broker_would(tmp_path: Path) -> None:
    """``.swap`` files are done and replace what they cover, ``.cleaned`` ones are not done."""
    folder = broker_dir(tmp_path) / "orders-0"
    for base_offset, count in ((0, 3), (3, 3), (6, 1)):
        segment(folder, [plain(count)], base_offset=base_offset)
    swap = segment(folder, [plain(6)]).rename(folder / f"{0:020d}.log.swap")
    segment(folder, [plain()], base_offset=6).rename(folder / f"{6:020d}.log.cleaned")
    segment(folder, [plain()], base_offset=6)
    (found,) = replicas_in([tmp_path])
    assert [one.path for one in segments_of(found)] == [
        str(swap),
        str(folder / names.file_name(6, names.LOG_SUFFIX)),
    ]


def test_a_folder_without_segments_has_none(tmp_path: Path) -> None:
    (broker_dir(tmp_path) / "orders-0").mkdir()
    (found,) = replicas_in([tmp_path])
    assert list(segments_of(found)) == []


@pytest.mark.parametrize(
    ("ids", "groups"),
    [
        (("a", "a"), [("a", "a")]),
        (("a", None), [("a", None)]),
        ((None, None), [(None, None)]),
        (("b", "a", "b"), [("a",), ("b", "b")]),
        (("b", None, "a"), [(None,), ("a",), ("b",)]),
    ],
)
def test_replicas_of_one_topic_are_together(
    ids: tuple[str | None, ...], groups: list[tuple[str | None, ...]]
) -> None:
    assert list(by_topic_id(ids, lambda its: its)) == groups

"""The log directories of a cluster, looked through before anything is read."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from tests.support.log_dirs import write_disk
from tests.support.logs import NOW, LogDriver, plain
from tests.support.metadata_logs import partition, registered, topic, write_metadata_log
from txnsim.errors import ConfigError
from txnsim.storage.disks import Disks, find_disks, newest_time
from txnsim.types import TopicPartition

ORDERS = ("orders", 0)
FOLDER = "__cluster_metadata-0"


def filled(count: int = 2) -> LogDriver:
    driver = LogDriver()
    for _ in range(count):
        driver.append(plain())
    return driver


def broker(parent: Path, node_id: int, *partitions: tuple[str, int], name: str = "") -> Path:
    path = parent / (name or f"broker-{node_id}")
    write_disk(path, {one: filled().log for one in partitions or (ORDERS,)}, node_id=node_id)
    return path


def held(disks: Disks) -> list[tuple[int, str]]:
    return [(node, str(one.replica.topic_partition)) for node, one in disks.all_folders()]


def refused(*paths: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        find_disks(paths)
    return str(caught.value)


def test_each_replica_is_found_with_all_that_stands_beside_it(tmp_path: Path) -> None:
    two = broker(tmp_path, 2, ORDERS, ("a.b", 4))
    disks = find_disks([two, broker(tmp_path, 1)])
    assert disks.cluster_id == "abc"
    assert held(disks) == [(1, "orders-0"), (2, "a.b-4"), (2, "orders-0")]
    folder = next(one for _, one in disks.all_folders())
    assert folder.topic_id is not None
    assert folder.high_watermark == folder.noted.recovery_point == 2
    assert folder.was_clean
    assert disks.size == sum(path.stat().st_size for path in tmp_path.rglob("*.log"))
    assert disks.metadata is None


def test_only_some_topics_can_be_taken(tmp_path: Path) -> None:
    disks = find_disks([broker(tmp_path, 1, ORDERS, ("other", 0))]).only(["orders", "unknown"])
    assert held(disks) == [(1, "orders-0")]


def test_what_is_not_noted_is_nought(tmp_path: Path) -> None:
    path = broker(tmp_path, 1)
    for file in (*path.glob("*-checkpoint"), path / ".kafka_cleanshutdown"):
        file.unlink()
    (path / "orders-0" / "partition.metadata").unlink()
    ((_, folder),) = find_disks([path]).all_folders()
    assert (folder.high_watermark, folder.noted.recovery_point, folder.was_clean) == (0, 0, False)
    assert folder.topic_id is None
    assert folder.noted.cleaned_until is None


def test_a_checkpoint_that_was_made_and_not_filled_notes_nothing(tmp_path: Path) -> None:
    path = broker(tmp_path, 1)
    (path / "cleaner-offset-checkpoint").write_text("")
    ((_, folder),) = find_disks([path]).all_folders()
    assert folder.noted.cleaned_until is None


def test_a_broker_may_have_several_directories(tmp_path: Path) -> None:
    first = broker(tmp_path, 1, name="disk-a")
    second = broker(tmp_path, 1, ("orders", 1), name="disk-b")
    assert held(find_disks([first, second])) == [(1, "orders-0"), (1, "orders-1")]


# What can't be loaded


def test_a_folder_that_is_no_log_directory_is_refused(tmp_path: Path) -> None:
    assert refused(tmp_path).startswith(f"{tmp_path / 'meta.properties'} is missing")
    assert "is missing" in refused(tmp_path / "nowhere")


def test_damaged_notes_are_refused_by_file(tmp_path: Path) -> None:
    path = broker(tmp_path, 1)
    (path / "orders-0" / "partition.metadata").write_text("version: 9\n")
    assert refused(path).startswith(f"{path / 'orders-0' / 'partition.metadata'}: ")
    (path / "recovery-point-offset-checkpoint").write_text("0\n1\n")
    assert refused(path).startswith(f"{path / 'recovery-point-offset-checkpoint'}: ")
    (path / "meta.properties").write_text("node.id=x\n")
    assert refused(path).startswith(f"{path / 'meta.properties'}: ")


def test_directories_of_two_clusters_are_refused(tmp_path: Path) -> None:
    one, two = broker(tmp_path, 1), broker(tmp_path, 2)
    text = (two / "meta.properties").read_text()
    (two / "meta.properties").write_text(text.replace("cluster.id=abc", "cluster.id=other"))
    told = refused(one, two)
    assert told.startswith(f"{two / 'meta.properties'}: cluster.id is 'other'")
    assert str(one) in told


def test_two_brokers_of_one_id_are_refused(tmp_path: Path) -> None:
    one, two = broker(tmp_path, 1, name="a"), broker(tmp_path, 1, name="b")
    assert refused(one, two).startswith(f"{two / 'orders-0'}: node 1 has that replica in {one}")


def test_one_directory_twice_is_refused(tmp_path: Path) -> None:
    one = broker(tmp_path, 1)
    assert refused(one, one).endswith(f"it is the same directory as {one}")


# The metadata log


def test_the_copy_that_knows_most_counts(tmp_path: Path) -> None:
    one, two, three = (broker(tmp_path, number) for number in (1, 2, 3))
    topic_id = uuid.UUID(int=1)
    records = [topic("orders", topic_id), partition(topic_id)]
    write_metadata_log(one / FOLDER, [*records, *records], epoch=1)
    write_metadata_log(two / FOLDER, records, epoch=2)
    write_metadata_log(three / FOLDER, records[:1], epoch=2)
    metadata = find_disks([one, two, three]).metadata
    assert metadata is not None
    assert metadata.age == (2, 2)
    assert TopicPartition("__cluster_metadata", 0) not in {
        one.replica.topic_partition for _, one in find_disks([one]).all_folders()
    }


def test_a_metadata_log_that_makes_no_sense_is_refused(tmp_path: Path) -> None:
    path = broker(tmp_path, 1)
    file = write_metadata_log(path / FOLDER, [b"\x00\x00\x00"])
    assert refused(path).startswith(f"{file}, offset 0: ")


def test_a_mere_controller_is_no_broker(tmp_path: Path) -> None:
    one = broker(tmp_path, 1)
    write_disk(tmp_path / "controller", {}, node_id=100)
    write_metadata_log(tmp_path / "controller" / FOLDER, [registered(1), registered(7)])
    disks = find_disks([one, tmp_path / "controller"])
    assert list(disks.folders) == [1]
    assert disks.metadata is not None
    write_disk(tmp_path / "empty", {}, node_id=7)
    assert list(find_disks([tmp_path / "controller", tmp_path / "empty"]).folders) == [7]
    assert "no broker has left anything there" in refused(tmp_path / "controller")


def stamped(*times: int) -> LogDriver:
    driver = LogDriver()
    for time in times:
        driver.append(plain(timestamp=time))
    return driver


def test_coordinators_clocks_are_asked_before_producers(tmp_path: Path) -> None:
    write_disk(
        tmp_path,
        {("orders", 0): stamped(NOW + 900_000).log, ("__transaction_state", 3): stamped(NOW).log},
    )
    assert newest_time(find_disks([tmp_path])) == NOW


def test_records_have_to_do_where_no_coordinator_wrote(tmp_path: Path) -> None:
    write_disk(tmp_path, {("orders", 0): stamped(NOW, NOW - 5).log, ("orders", 1): stamped().log})
    assert newest_time(find_disks([tmp_path])) == NOW


def test_without_a_record_nothing_is_known(tmp_path: Path) -> None:
    write_disk(tmp_path, {("orders", 0): stamped().log})
    assert newest_time(find_disks([tmp_path])) is None

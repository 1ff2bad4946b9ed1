"""Replicas put into the log directory of a stopped broker."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from tests.support.log_dirs import hold_directory, write_disk
from tests.support.logs import NOW, LogDriver, plain
from tests.support.metadata_logs import partition, topic, write_metadata_log
from txnsim.errors import ConfigError
from txnsim.log.config import LogConfig
from txnsim.releases.rules import LATEST_RULES
from txnsim.storage.disks import find_disks
from txnsim.storage.metadata_files import decode_partition_metadata
from txnsim.storage.replica_install import InstalledReplica, InstallTarget, install
from txnsim.storage.replica_loading import load_replica
from txnsim.types import TopicPartition
from txnsim.wire.batch import read_batch_header

OURS, THEIRS = uuid.UUID(int=1), uuid.UUID(int=2)


@pytest.fixture
def driver() -> LogDriver:
    """Several segments under several leaders: an aborted transaction and an open one."""
    log_driver = LogDriver(LogConfig(rules=LATEST_RULES, roll_bytes=200), leader_epoch=4)
    log_driver.txn(0)
    log_driver.end(committed=False)
    log_driver.log.become_leader(7)
    log_driver.txn(1, count=2)
    log_driver.append(plain())
    log_driver.txn(3)
    return log_driver


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """A broker's directory with an empty topic of that name, and another one."""
    path = tmp_path / "theirs"
    other_driver = LogDriver()
    other_driver.append(plain())
    write_disk(
        path,
        {("orders", 0): LogDriver().log, ("other", 0): other_driver.log},
        cluster_id="theirs",
        topic_ids={"orders": THEIRS},
    )
    return path


def installed(driver: LogDriver, target_path: Path) -> InstalledReplica:
    source_path = target_path.parent / "ours"
    write_disk(source_path, {("orders", 0): driver.log}, topic_ids={"orders": OURS})
    folders_told: list[object] = []
    (installed_replica,) = install(
        {source_path: InstallTarget.find_in([target_path], ["orders"])},
        on_folder=folders_told.append,
    )
    assert len(folders_told) == 1
    return installed_replica


def test_the_broker_finds_the_records_as_its_own(driver: LogDriver, target: Path) -> None:
    installed_replica = installed(driver, target)
    ((_, orders_folder), (_, other_replica_folder)) = find_disks([target]).all_folders()
    assert orders_folder.topic_id == THEIRS
    assert (
        orders_folder.high_watermark
        == orders_folder.checkpointed.recovery_point
        == driver.log.log_end_offset
    )
    assert (
        other_replica_folder.high_watermark,
        other_replica_folder.checkpointed.recovery_point,
    ) == (1, 1)
    assert installed_replica.directory == str(target / "orders-0")
    assert (installed_replica.end_offset, installed_replica.bytes) == (
        driver.log.log_end_offset,
        driver.log.local.segments.size_bytes,
    )
    assert installed_replica.files == sum(1 for _ in (target / "orders-0").iterdir())
    for is_clean in (True, False):
        loaded_replica = load_replica(
            orders_folder.replica,
            config=LogConfig(rules=LATEST_RULES),
            checkpointed_offsets=orders_folder.checkpointed,
            was_clean=is_clean,
            now_ms=NOW,
        )
        assert loaded_replica.losses == ()
        assert (
            loaded_replica.log.producers.open_transaction_of(7)
            == driver.log.producers.open_transaction_of(7)
            >= 0
        )
        assert loaded_replica.log.snapshot().aborted == driver.log.snapshot().aborted
        assert loaded_replica.log.snapshot().leader_epochs == ((0, 0),)
        assert len(loaded_replica.log.local.segments) == len(driver.log.local.segments)


def test_only_the_leader_epoch_of_a_batch_is_another(driver: LogDriver, target: Path) -> None:
    installed(driver, target)
    batch_data = b"".join(path.read_bytes() for path in sorted((target / "orders-0").glob("*.log")))
    own_bytes = b"".join(driver.log.batches())
    position = 0
    for batch in driver.log.batches():
        assert read_batch_header(batch_data, position).leader_epoch == 0
        assert batch_data[position : position + 12] == own_bytes[position : position + 12]
        assert (
            batch_data[position + 16 : position + len(batch)]
            == own_bytes[position + 16 : position + len(batch)]
        )
        position += len(batch)
    assert position == len(batch_data)


def test_what_was_there_is_gone_but_for_the_topics_id(driver: LogDriver, target: Path) -> None:
    folder = target / "orders-0"
    (folder / f"{900:020d}.log").write_bytes(b"")
    (folder / f"{900:020d}.timeindex").write_bytes(b"")
    installed(driver, target)
    assert not list(folder.glob(f"{900:020d}.*"))
    file_text = (folder / "partition.metadata").read_text()
    assert decode_partition_metadata(file_text, error_prefix="") == THEIRS
    assert not list(target.parent.glob("txnsim-*"))


def test_a_log_whose_beginning_was_deleted_comes_with_its_start(
    driver: LogDriver, target: Path
) -> None:
    driver.log.raise_log_start(3)
    driver.log.local.cleaned_until = 1
    (target / "log-start-offset-checkpoint").unlink()
    installed(driver, target)
    ((_, orders_folder), _) = find_disks([target]).all_folders()
    assert (
        orders_folder.checkpointed.log_start_offset,
        orders_folder.checkpointed.cleaned_until,
    ) == (3, 1)
    assert (target / "orders-0" / "leader-epoch-checkpoint").read_text() == "0\n1\n0 3\n"


def test_an_empty_log_takes_the_place_of_another(target: Path) -> None:
    installed_replica = installed(LogDriver(), target)
    assert (installed_replica.end_offset, installed_replica.bytes) == (0, 0)
    assert (target / "orders-0" / "leader-epoch-checkpoint").read_text() == "0\n0\n"


def test_empty_and_written_folders_differ(target: Path) -> None:
    first_target, second_target = InstallTarget.find_in([target], ["orders", "other"])
    assert (first_target.replica.topic_partition, first_target.is_empty) == (
        TopicPartition("orders", 0),
        True,
    )
    assert (second_target.replica.topic_partition, second_target.is_empty) == (
        TopicPartition("other", 0),
        False,
    )


def test_a_topic_that_is_not_there_is_refused(target: Path) -> None:
    with pytest.raises(ConfigError, match=f"{target}: no replica of topic new is there; create"):
        InstallTarget.find_in([target], ["orders", "new"])


def test_a_replica_that_would_stay_empty_is_refused(target: Path) -> None:
    folder = target / "__cluster_metadata-0"
    write_metadata_log(folder, [topic("orders", THEIRS), partition(THEIRS, replicas=(1, 2))])
    with pytest.raises(ConfigError, match="orders-0: it has a replica on broker 2, too"):
        InstallTarget.find_in([target], ["orders"])
    other_directory = target.parent / "second"
    write_disk(other_directory, {("orders", 0): LogDriver().log}, node_id=2)
    assert len(InstallTarget.find_in([target, other_directory], ["orders"])) == 2
    # What this copy does not know is of a topic that was made later.
    assert len(InstallTarget.find_in([target], ["other"])) == 1


def test_a_folder_that_is_no_log_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is no log directory"):
        InstallTarget.find_in([tmp_path], ["orders"])


def test_a_directory_that_a_broker_holds_is_left_alone(target: Path) -> None:
    complaint = r"\.lock: a broker runs on that directory; stop it"
    with hold_directory(target), pytest.raises(ConfigError, match=complaint):
        InstallTarget.find_in([target], ["orders"])
    assert InstallTarget.find_in([target], ["orders"])

"""What lies in a replica's folder, in short."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from tests.support.log_dirs import write_partition
from tests.support.logs import LogDriver, batch, driven_log, plain
from txnsim.storage import names
from txnsim.types import TopicPartition
from txnsim.wire.batch import read_batch_header
from txnsim.wire.batch_rewrite import empty_batch
from txnsim_spark._replica_summary import ReplicaSummary, summarize


def summary(directory: Path) -> ReplicaSummary:
    return summarize(
        names.PartitionDirectory(topic_partition=TopicPartition("t", 0), path=directory)
    )


@pytest.fixture
def driver() -> LogDriver:
    return driven_log()


def test_offsets_batches_and_open_transactions_are_summed_up(
    tmp_path: Path, driver: LogDriver
) -> None:
    write_partition(tmp_path / "t-0", driver.log, topic_id=uuid.UUID(int=1))
    replica_summary = summary(tmp_path / "t-0")
    assert (replica_summary.topic, replica_summary.partition) == ("t", 0)
    assert replica_summary.segments == len(driver.log.local.segments) > 1
    assert (replica_summary.batches, replica_summary.bytes) == (
        len(list(driver.log.batches())),
        driver.log.local.segments.size_bytes,
    )
    assert (replica_summary.first_offset, replica_summary.end_offset) == (
        0,
        driver.log.log_end_offset,
    )
    assert [
        (transaction.producer_id, transaction.first_offset)
        for transaction in replica_summary.open_transactions
    ] == [(7, 4)]
    assert (replica_summary.torn, replica_summary.torn_file) == (None, "")


def test_a_transactional_batch_without_a_producer_opens_nothing(
    tmp_path: Path, driver: LogDriver
) -> None:
    driver.append(batch(producer_id=-1, is_transactional=True))
    write_partition(tmp_path / "t-0", driver.log, topic_id=uuid.UUID(int=1))
    assert [
        transaction.producer_id for transaction in summary(tmp_path / "t-0").open_transactions
    ] == [7]


def test_what_lies_behind_damage_is_not_counted(tmp_path: Path, driver: LogDriver) -> None:
    write_partition(tmp_path / "t-0", driver.log, topic_id=uuid.UUID(int=1))
    (_, first_log_file), *_ = names.Suffix.LOG.files_in(tmp_path / "t-0")
    sound_data = first_log_file.read_bytes()
    first_log_file.write_bytes(sound_data[:-1])
    replica_summary = summary(tmp_path / "t-0")
    assert replica_summary.torn is not None
    assert replica_summary.torn_file == first_log_file.name
    assert replica_summary.bytes == replica_summary.torn.position
    assert replica_summary.bytes + replica_summary.torn.size_bytes == len(sound_data) - 1


def test_what_began_in_deleted_segments_is_known_from_their_snapshot(
    tmp_path: Path, driver: LogDriver
) -> None:
    driver.txn(5)
    driver.append(plain(3))
    write_partition(tmp_path / "t-0", driver.log, topic_id=uuid.UUID(int=1))
    *older_logs, (offset, _) = names.Suffix.LOG.files_in(tmp_path / "t-0")
    assert offset > 4
    for _, path in older_logs:
        path.unlink()
    assert [
        transaction.first_offset for transaction in summary(tmp_path / "t-0").open_transactions
    ] == [4]
    (tmp_path / "t-0" / names.Suffix.SNAPSHOT.file_name(offset)).write_bytes(b"damaged")
    assert summary(tmp_path / "t-0").open_transactions == ()


def test_an_empty_folder_is_an_empty_replica(tmp_path: Path) -> None:
    replica_summary = summary(tmp_path)
    assert (replica_summary.segments, replica_summary.batches, replica_summary.end_offset) == (
        0,
        0,
        0,
    )


def test_a_marker_that_the_cleaner_emptied_ends_nothing(tmp_path: Path) -> None:
    driver = LogDriver()
    driver.txn(0)
    driver.end(committed=True)
    batch_data, marker = driver.log.batches()
    emptied_marker = empty_batch(read_batch_header(marker))
    (tmp_path / names.Suffix.LOG.file_name(0)).write_bytes(batch_data + emptied_marker)
    replica_summary = summary(tmp_path)
    assert (replica_summary.torn, replica_summary.batches) == (None, 2)
    assert [transaction.first_offset for transaction in replica_summary.open_transactions] == [0]

"""A replica's folder."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from tests.support.log_dirs import sound_batches, write_partition
from tests.support.logs import LogDriver
from txnsim.log.config import LogConfig
from txnsim.log.partition_log import PartitionLog
from txnsim.releases.rules import LATEST
from txnsim.storage import checkpoints, producer_snapshot, txn_index
from txnsim.storage.metadata_files import decode_partition_metadata
from txnsim.storage.names import numbered_files

TOPIC_ID = uuid.UUID(int=7)


@pytest.fixture
def log() -> PartitionLog:
    """Several segments; the last transaction is open."""
    driver = LogDriver(LogConfig(rules=LATEST, roll_bytes=400, index_interval_bytes=100))
    for number in range(8):
        driver.txn(2 * number, count=2)
        driver.end(committed=number % 2 == 0)
    driver.txn(16)
    return driver.log


def test_all_that_a_log_has_is_in_its_folder(tmp_path: Path, log: PartitionLog) -> None:
    directory = tmp_path / "t-0"
    write_partition(directory, log, topic_id=TOPIC_ID)
    segments = numbered_files(directory, ".log")
    assert len(segments) == len(log.local.segments) > 2
    stored = [batch for _, path in segments for batch in sound_batches(path)[0]]
    assert stored == list(log.batches())

    state = log.snapshot()
    aborted = [
        entry
        for _, path in numbered_files(directory, ".txnindex")
        for entry in txn_index.decode(path.read_bytes(), place=path.name)
    ]
    assert tuple(aborted) == state.aborted
    epochs = (directory / "leader-epoch-checkpoint").read_text()
    assert checkpoints.decode_leader_epochs(epochs, place="") == state.epochs
    metadata = (directory / "partition.metadata").read_text()
    assert decode_partition_metadata(metadata, place="") == TOPIC_ID


def test_the_last_snapshot_names_the_open_transaction(tmp_path: Path, log: PartitionLog) -> None:
    write_partition(tmp_path / "t-0", log, topic_id=TOPIC_ID)
    *older, (offset, path) = numbered_files(tmp_path / "t-0", ".snapshot")
    assert offset == log.log_end_offset
    (entry,) = producer_snapshot.decode(path.read_bytes())
    assert entry.txn_first_offset == log.last_stable_offset
    assert [number for number, _ in older] == [one[0] for one in log.producers.snapshots.all()]


def test_each_segment_has_its_indexes(tmp_path: Path, log: PartitionLog) -> None:
    write_partition(tmp_path / "t-0", log, topic_id=TOPIC_ID)
    numbers = {
        suffix: [offset for offset, _ in numbered_files(tmp_path / "t-0", suffix)]
        for suffix in (".log", ".index", ".timeindex")
    }
    assert numbers[".log"] == numbers[".index"] == numbers[".timeindex"]


def test_a_segment_without_aborted_transactions_has_no_file_of_them(tmp_path: Path) -> None:
    driver = LogDriver()
    driver.txn(0)
    driver.end(committed=True)
    write_partition(tmp_path / "t-0", driver.log, topic_id=TOPIC_ID)
    assert numbered_files(tmp_path / "t-0", ".txnindex") == ()

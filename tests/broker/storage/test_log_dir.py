"""A broker's log directory."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from tests.support.log_dirs import sound_batches, write_partition
from tests.support.logs import LogDriver, plain
from txnsim.log.config import LogConfig
from txnsim.log.partition_log import PartitionLog
from txnsim.releases.rules import LATEST
from txnsim.storage import checkpoints, producer_snapshot, txn_index
from txnsim.storage.checkpoints import decode_offsets
from txnsim.storage.log_dir import StoredReplica, log_dir_files
from txnsim.storage.metadata_files import (
    MetaProperties,
    decode_meta_properties,
    decode_partition_metadata,
)
from txnsim.storage.names import numbered_files
from txnsim.types import TopicPartition

META = MetaProperties(cluster_id="abc", node_id=2, directory_id=uuid.UUID(int=5))


def texts(*logs: LogDriver) -> dict[str, str]:
    """The files of the directory itself."""
    replicas = [StoredReplica(log=one.log, topic_id=uuid.UUID(int=9)) for one in logs]
    return {
        file.path: b"".join(file.parts).decode()
        for file in log_dir_files(replicas, META, broker_epoch=41)
        if "/" not in file.path
    }


def test_each_replica_has_a_folder() -> None:
    driver = LogDriver()
    files = log_dir_files(
        [StoredReplica(log=driver.log, topic_id=uuid.UUID(int=9))], META, broker_epoch=0
    )
    folder = f"{driver.log.topic_partition.topic}-{driver.log.topic_partition.partition}"
    assert f"{folder}/{0:020d}.log" in {file.path for file in files}


def test_offsets_are_noted_of_every_replica() -> None:
    driver = LogDriver(LogConfig(rules=LATEST, roll_bytes=1 << 20), follow=False)
    for _ in range(3):
        driver.append(plain(2))
    driver.log.advance_high_watermark(4)
    driver.log.raise_log_start(3)
    driver.log.local.cleaned_until = 2
    where = driver.log.topic_partition
    found = {
        name: decode_offsets(text, place=name)
        for name, text in texts(driver).items()
        if name.endswith("checkpoint")
    }
    assert found == {
        "replication-offset-checkpoint": {where: 4},
        "recovery-point-offset-checkpoint": {where: 6},
        "log-start-offset-checkpoint": {where: 3},
        "cleaner-offset-checkpoint": {where: 2},
    }


def test_a_start_that_the_oldest_segment_tells_is_not_noted() -> None:
    found = texts(LogDriver())
    assert decode_offsets(found["log-start-offset-checkpoint"], place="") == {}
    assert decode_offsets(found["cleaner-offset-checkpoint"], place="") == {}


def test_the_directory_tells_whose_it_is_and_that_it_was_left_in_order() -> None:
    found = texts()
    assert decode_meta_properties(found["meta.properties"], place="") == META
    assert found[".kafka_cleanshutdown"] == '{"version":0,"brokerEpoch":41}'


def test_replicas_are_written_by_topic_and_partition() -> None:
    first, second = LogDriver(), LogDriver()
    first.log.topic_partition, second.log.topic_partition = (
        TopicPartition("b", 0),
        TopicPartition("a", 1),
    )
    assert texts(first, second)["recovery-point-offset-checkpoint"] == "0\n2\na 1 0\nb 0 0\n"


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
    assert checkpoints.decode_leader_epochs(epochs, place="") == state.leader_epochs
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

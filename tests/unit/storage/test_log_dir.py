"""A broker's log directory."""

from __future__ import annotations

import uuid

from tests.support.logs import LogDriver, plain
from txnsim.log.config import LogConfig
from txnsim.releases.rules import LATEST
from txnsim.storage.checkpoints import decode_offsets
from txnsim.storage.log_dir import StoredReplica, log_dir_files
from txnsim.storage.metadata_files import MetaProperties, decode_meta_properties
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

"""A snapshot of the metadata log, which is read back as it was."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from tests.support.logs import NOW
from txnsim.metadata.image import BrokerImage, ClusterImage, PartitionImage, TopicImage
from txnsim.storage.log_file import read_log_file
from txnsim.storage.metadata_log import StoredMetadata, read_metadata_log
from txnsim.storage.metadata_snapshot import RECORDS_PER_BATCH, metadata_files_in_steps
from txnsim.types import BrokerId, LeaderEpoch
from txnsim.wire.batch import read_control_record

ONE, TWO = BrokerId(1), BrokerId(2)
BROKERS = {
    one: BrokerImage(broker_id=one, epoch=int(one), host="h", port=9092, alive=one == ONE)
    for one in (ONE, TWO)
}


def image(partitions: int = 1) -> ClusterImage:
    """With something of everything."""
    made = ClusterImage(
        cluster_id="abc",
        offset=700,
        brokers=BROKERS,
        features={"kraft.version": 0, "transaction.version": 2, "metadata.version": 30},
        broker_configs={"": {"min.insync.replicas": "2"}, "1": {"log.cleaner.threads": "3"}},
        group_configs={"g": {"consumer.session.timeout.ms": "50000"}},
        client_metrics={"m": {"interval.ms": "1000"}},
    )
    return made.with_topic(
        TopicImage(
            name="orders",
            topic_id=uuid.UUID(int=5),
            partitions=(
                PartitionImage(
                    leader=TWO,
                    leader_epoch=LeaderEpoch(6),
                    partition_epoch=9,
                    replicas=(ONE, TWO),
                    isr=(TWO,),
                    elr=(ONE,),
                    last_known_elr=(ONE,),
                    is_recovering=True,
                    removing=(ONE,),
                    adding=(TWO,),
                ),
            )
            * partitions,
            configs={"retention.ms": "7"},
        )
    )


def written(directory: Path, what: ClusterImage) -> Path:
    steps = metadata_files_in_steps(
        what, features={"metadata.version": (7, 30)}, next_producer_id=4_000, now_ms=NOW
    )
    files = None
    while files is None:
        try:
            next(steps)
        except StopIteration as end:
            files = end.value
    for file in files:
        path = directory / file.path
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"".join(file.parts))
    return directory / "__cluster_metadata-0"


def read(folder: Path) -> StoredMetadata:
    found = read_metadata_log(folder, cluster_id="abc")
    assert found is not None
    return found


def test_it_says_all_that_the_image_says(tmp_path: Path) -> None:
    was = image()
    found = read(written(tmp_path, was))
    assert found.image.topics == was.topics
    assert found.image.topic_names == was.topic_names
    assert found.image.features == {"transaction.version": 2, "metadata.version": 30}
    assert found.image.broker_configs == was.broker_configs
    assert found.image.group_configs == was.group_configs
    assert found.image.client_metrics == was.client_metrics
    assert (found.image.offset, found.next_producer_id) == (701, 4_000)
    assert found.broker_ids == {1, 2}


def test_the_level_that_is_needed_to_read_the_rest_comes_first(tmp_path: Path) -> None:
    (path,) = written(tmp_path, image()).glob("*.checkpoint")
    assert path.name == "00000000000000000701-0000000001.checkpoint"
    header, first, footer = list(read_log_file(path, on_torn=print))
    assert b"metadata.version" in first.data[:100]
    kinds = [read_control_record(one.data) for one in (header, footer)]
    assert [kind and kind.type for kind in kinds] == [3, 4]
    assert [one.header.base_offset for one in (header, first, footer)] == [
        *(0, 1, footer.header.base_offset)
    ]


@pytest.mark.costly
def test_many_records_are_several_batches(tmp_path: Path) -> None:
    folder = written(tmp_path, image(RECORDS_PER_BATCH + 1))
    (path,) = folder.glob("*.checkpoint")
    offsets = [one.header.base_offset for one in read_log_file(path, on_torn=print)]
    assert offsets[:3] == [0, 1, 1 + RECORDS_PER_BATCH]
    assert len(read(folder).image.topics["orders"].partitions) == RECORDS_PER_BATCH + 1

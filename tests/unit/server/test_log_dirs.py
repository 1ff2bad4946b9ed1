"""What lies on a broker's disk, as files."""

from __future__ import annotations

import uuid

import pytest

from tests.support.clusters import VirtualCluster, run_cluster
from txnsim.errors import ConfigError
from txnsim.server.log_dirs import log_dir_of
from txnsim.storage.metadata_files import (
    decode_meta_properties,
    decode_partition_metadata,
)
from txnsim.types import BrokerId


def test_each_broker_has_what_it_stores_under_an_id_that_stays() -> None:
    async def story(cluster: VirtualCluster) -> None:
        files = {file.path: b"".join(file.parts) for file in log_dir_of(cluster.sim, BrokerId(2))}
        meta = decode_meta_properties(files["meta.properties"].decode(), place="")
        assert (meta.node_id, meta.cluster_id) == (2, cluster.sim.metadata.image.cluster_id)
        again = {file.path: b"".join(file.parts) for file in log_dir_of(cluster.sim, BrokerId(2))}
        assert files == again
        folders = {path.split("/")[0] for path in files if "/" in path}
        assert folders == {"__cluster_metadata-0"} | {
            f"{topic.name}-{index}"
            for topic in cluster.sim.metadata.image.topics.values()
            for index, partition in enumerate(topic.partitions)
            if 2 in partition.replicas
        }
        topic = next(iter(cluster.sim.metadata.image.topics.values()))
        stored = decode_partition_metadata(
            files[f"{topic.name}-0/partition.metadata"].decode(), place=""
        )
        assert isinstance(stored, uuid.UUID)
        assert stored == topic.topic_id

    run_cluster(story)


def test_a_broker_that_is_not_there_has_none() -> None:
    async def story(cluster: VirtualCluster) -> None:
        with pytest.raises(ConfigError, match="no broker 9"):
            list(log_dir_of(cluster.sim, BrokerId(9)))

    run_cluster(story)

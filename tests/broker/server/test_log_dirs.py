"""What lies on a broker's disk, as files."""

from __future__ import annotations

import uuid

import pytest

from tests.support.clusters import VirtualCluster, run_cluster
from tests.support.within import within
from txnsim.controller.controller import NewTopic
from txnsim.errors import ConfigError
from txnsim.server.log_dirs import log_dir_in_steps, log_dir_of
from txnsim.storage.metadata_files import (
    decode_meta_properties,
    decode_partition_metadata,
)
from txnsim.types import BrokerId


@within(run_cluster)
async def test_each_broker_has_what_it_stores_under_an_id_that_stays(
    cluster: VirtualCluster,
) -> None:
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


@within(run_cluster)
async def test_a_broker_that_is_not_there_has_none(cluster: VirtualCluster) -> None:
    with pytest.raises(ConfigError, match="no broker 9"):
        log_dir_of(cluster.sim, BrokerId(9))


@within(run_cluster, topics=(("wide", 2_500),))
async def test_it_is_of_one_moment_though_others_come_between(cluster: VirtualCluster) -> None:
    wanted = log_dir_of(cluster.sim, BrokerId(1))
    steps = log_dir_in_steps(cluster.sim, BrokerId(1))
    next(steps)
    cluster.sim.metadata.create_topic(
        NewTopic(name="later", partitions=1, replication_factor=1, configs={})
    )
    count = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found = end.value
            break
        count += 1
    assert found == wanted
    assert count >= 3, "2,500 partitions are a step for each 1,000 of their records"

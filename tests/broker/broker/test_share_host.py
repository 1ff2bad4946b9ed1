"""The share coordinator on its broker: made late, its periodic jobs, deleted topics, faults."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.support.broker_api import STAMP_MS
from tests.support.clusters import VirtualCluster, run_cluster
from tests.support.within_environment import within
from txnsim.errors import ErrorCode
from txnsim.faults.actions import Drop
from txnsim.faults.points import FaultPoint
from txnsim.interbroker.share_state import (
    InitializeShareState,
    ReadShareState,
    ShareKey,
    ShareState,
    StateBatch,
    WriteShareState,
)
from txnsim.releases import Fleet
from txnsim.server.disk_loading import load_cluster
from txnsim.server.log_dirs import log_dir_of
from txnsim.server.options import ClusterOptions
from txnsim.settings import DEFAULTS
from txnsim.storage.disks import find_disks
from txnsim.types import SHARE_STATE_TOPIC, BrokerId, TopicPartition, partition_for, uuid_text

B1 = BrokerId(1)
INTERVAL_MS = 300_000


def key(cluster: VirtualCluster) -> ShareKey:
    topic = cluster.sim.brokers[B1].image.topics["orders"]
    return ShareKey("g", uuid_text(topic.topic_id), 0)


async def initialize_state(cluster: VirtualCluster, *, repeat_count: int = 1) -> None:
    for _ in range(repeat_count):
        command = InitializeShareState(key=key(cluster), state_epoch=0, start_offset=0)
        (answer_future,) = cluster.sim.brokers[B1].share_persister.initialize([command])
        assert (await answer_future).error == 0


def log_starts(cluster: VirtualCluster) -> set[int]:
    home_partition = partition_for(key(cluster).coordinator_key, 50)
    topic_partition = TopicPartition(SHARE_STATE_TOPIC, home_partition)
    return {
        broker.replicas.hosted[topic_partition].log_start_offset
        for broker in cluster.sim.brokers.values()
    }


async def advance_time(cluster: VirtualCluster, ms: int) -> None:
    cluster.advance(ms)
    await asyncio.sleep(0.5)


@within(run_cluster, brokers=3)
async def test_what_nobody_needs_is_pruned_on_all_replicas(cluster: VirtualCluster) -> None:
    await initialize_state(cluster, repeat_count=3)
    await advance_time(cluster, INTERVAL_MS - 60_000)
    assert log_starts(cluster) == {0}
    await advance_time(cluster, 60_000)
    assert log_starts(cluster) == {2}
    await advance_time(cluster, INTERVAL_MS)  # a cold state was written again, at offset 3
    assert log_starts(cluster) == {3}


@within(run_cluster, brokers=1)
async def test_the_jobs_are_faults_to_be_dropped_and_come_again(cluster: VirtualCluster) -> None:
    await initialize_state(cluster, repeat_count=2)
    for kind in ("share-state-pruning", "share-state-snapshots"):
        cluster.arm(Drop(), FaultPoint.CLOCK_TIMER, kind, kind=kind, limit=1)
    await advance_time(cluster, INTERVAL_MS)
    assert log_starts(cluster) == {0}
    await advance_time(cluster, INTERVAL_MS)
    assert log_starts(cluster) == {1}


@within(run_cluster, brokers=1, as_version=("4.1",))
async def test_without_share_groups_nothing_is_pruned(cluster: VirtualCluster) -> None:
    assert cluster.sim.brokers[B1].image.features.get("share.version", 0) == 0
    await initialize_state(cluster, repeat_count=2)
    await advance_time(cluster, 2 * INTERVAL_MS)
    assert log_starts(cluster) == {0}


@within(run_cluster, brokers=3)
async def test_the_states_of_a_deleted_topic_go(cluster: VirtualCluster) -> None:
    await initialize_state(cluster)
    states = [
        shard.states
        for broker in cluster.sim.brokers.values()
        for shard in broker.share_host.coordinator.shards()
    ]
    assert sum(map(len, states)) == 1
    metadata = cluster.sim.metadata
    metadata.publish(metadata.image.without_topic("orders"))
    await asyncio.sleep(0.5)
    assert sum(map(len, states)) == 0


@within(run_cluster, brokers=1)
async def test_a_broker_that_has_lost_its_disk_prunes_and_writes_nothing(
    cluster: VirtualCluster,
) -> None:
    await initialize_state(cluster, repeat_count=2)
    broker = cluster.sim.brokers[B1]
    broker.fail_directory()
    (answer_future,) = broker.share_persister.read(
        [ReadShareState(key=key(cluster), leader_epoch=5)]
    )
    await asyncio.sleep(60)
    assert answer_future.result().error in (
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
    )


@within(run_cluster, brokers=1)
async def test_most_clusters_have_no_share_coordinator(cluster: VirtualCluster) -> None:
    assert SHARE_STATE_TOPIC not in cluster.sim.brokers[B1].image.topics
    await advance_time(cluster, 2 * INTERVAL_MS)
    assert "coordinator" not in vars(cluster.sim.brokers[B1].share_host)


async def write_state(cluster: VirtualCluster) -> None:
    """Write a share state with a start offset, epochs and a batch."""
    await initialize_state(cluster)
    command = WriteShareState(
        key=key(cluster),
        state_epoch=0,
        leader_epoch=0,
        start_offset=4,
        delivery_complete_count=1,
        batches=(StateBatch(5, 5, 2, 1),),
    )
    (answer_future,) = cluster.sim.brokers[B1].share_persister.write([command])
    assert (await answer_future).error == 0


async def read_state(cluster: VirtualCluster) -> ShareState:
    command = ReadShareState(key=key(cluster), leader_epoch=0)
    (answer_future,) = cluster.sim.brokers[B1].share_persister.read([command])
    return await answer_future


@within(run_cluster, brokers=1)
async def test_a_broker_that_starts_again_knows_the_states(cluster: VirtualCluster) -> None:
    await write_state(cluster)
    state_before = await read_state(cluster)
    await cluster.sim.kill_broker(B1)
    await cluster.sim.start_broker(B1)
    assert await read_state(cluster) == state_before
    assert state_before.batches == (StateBatch(5, 5, 2, 1),)


@within(run_cluster, brokers=1, coordinator_load_min_ms=5_000)
async def test_while_a_coordinator_loads_its_askers_wait(cluster: VirtualCluster) -> None:
    await write_state(cluster)
    clock = cluster.env.clock
    await cluster.sim.stop_broker(B1)
    await cluster.sim.start_broker(B1)
    begun_ms = clock.monotonic_ms()
    assert (await read_state(cluster)).start_offset == 4
    assert 5_000 <= clock.monotonic_ms() - begun_ms < 20_000


def test_the_states_are_on_a_written_disk_and_loaded_from_it(tmp_path: Path) -> None:
    async def write(cluster: VirtualCluster) -> ShareState:
        await write_state(cluster)
        for file in log_dir_of(cluster.sim, B1):
            path = tmp_path / file.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"".join(file.parts))
        return await read_state(cluster)

    state_before = run_cluster(write, brokers=1)
    disks = find_disks([tmp_path])
    loaded_cluster = load_cluster(disks, settings=DEFAULTS, fleet=Fleet(), now_ms=STAMP_MS)
    assert (
        run_cluster(read_state, cluster_options=ClusterOptions(brokers=1, loaded=loaded_cluster))
        == state_before
    )

"""A replica that parts from its leader's, with thousands of producers to read again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.clusters import VirtualCluster, run_cluster
from tests.support.logs import batch
from tests.support.within_environment import within
from txnsim.log.leader_append import append_client
from txnsim.log.partition_log import PartitionLog
from txnsim.log.verification import SENTINEL
from txnsim.replication import replica_fetcher
from txnsim.runtime.loop_turns import Pace
from txnsim.types import BrokerId, TopicPartition

ORDERS = TopicPartition("orders", 0)
PRODUCERS = 3_000


class CountedPace(Pace):
    rests = 0

    async def yield_turn(self) -> None:
        CountedPace.rests += 1
        await super().yield_turn()


@pytest.fixture(autouse=True)
def counted(monkeypatch: pytest.MonkeyPatch) -> None:
    CountedPace.rests = 0
    monkeypatch.setattr(replica_fetcher, "Pace", CountedPace)


def log_of(cluster: VirtualCluster, broker: BrokerId) -> PartitionLog:
    return cluster.sim.brokers[broker].replicas.hosted[ORDERS]


def write(cluster: VirtualCluster, broker: BrokerId, producers: range) -> None:
    now_ms = cluster.env.clock.now_ms()
    for producer_id in producers:
        batch_data = batch(0, producer_id=producer_id, timestamp=now_ms)
        append_client(log_of(cluster, broker), batch_data, guard=SENTINEL, now_ms=now_ms)


async def parted(cluster: VirtualCluster) -> tuple[BrokerId, BrokerId]:
    """The old leader, whose log has a batch that no other replica has, and the new leader."""
    old_leader_id = cluster.leader(ORDERS)
    (new_leader_id,) = cluster.sim.brokers.keys() - {old_leader_id}
    write(cluster, old_leader_id, range(PRODUCERS))
    await asyncio.sleep(10)
    assert log_of(cluster, new_leader_id).log_end_offset == PRODUCERS
    cluster.sim.isolate(old_leader_id)
    write(cluster, old_leader_id, range(PRODUCERS, PRODUCERS + 1))
    cluster.sim.move_leader(ORDERS, new_leader_id)
    await asyncio.sleep(1)
    write(cluster, new_leader_id, range(PRODUCERS + 1, PRODUCERS + 3))
    return old_leader_id, new_leader_id


def assert_equal_logs(cluster: VirtualCluster, *brokers: BrokerId) -> None:
    first_log, second_log = (log_of(cluster, broker) for broker in brokers)
    assert [*first_log.batches()] == [*second_log.batches()]
    assert first_log.snapshot().producers == second_log.snapshot().producers
    first_log.check_invariants()


@within(run_cluster, brokers=2, topics=(("orders", 1),))
async def test_others_come_between_while_it_is_cut_off(cluster: VirtualCluster) -> None:
    old_leader_id, new_leader_id = await parted(cluster)
    cluster.sim.heal(old_leader_id)
    await asyncio.sleep(10)
    assert CountedPace.rests >= 2
    assert_equal_logs(cluster, old_leader_id, new_leader_id)


@pytest.mark.parametrize(
    "change",
    [
        lambda cluster, old: cluster.sim.kill_broker(old),
        lambda cluster, old: cluster.sim.move_leader(ORDERS, old),
    ],
)
def test_a_change_in_its_middle_leaves_it_whole(
    change: Callable[[VirtualCluster, BrokerId], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    @within(run_cluster, brokers=2, topics=(("orders", 1),))
    async def play(cluster: VirtualCluster) -> None:
        old_leader_id, new_leader_id = await parted(cluster)
        changed_event = asyncio.Event()

        class ChangingPace(CountedPace):
            async def yield_turn(self) -> None:
                if not changed_event.is_set():
                    changed_event.set()
                    result = change(cluster, old_leader_id)
                    if asyncio.iscoroutine(result):
                        asyncio.get_running_loop().create_task(result)
                await super().yield_turn()

        monkeypatch.setattr(replica_fetcher, "Pace", ChangingPace)
        cluster.sim.heal(old_leader_id)
        await asyncio.sleep(10)
        assert changed_event.is_set()
        if old_leader_id not in cluster.sim.brokers:
            await cluster.sim.start_broker(old_leader_id)
            await asyncio.sleep(30)
        assert_equal_logs(cluster, old_leader_id, new_leader_id)

    play()

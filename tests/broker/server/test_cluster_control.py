"""What a fault rule does to a cluster, how it is undone, and what they refuse."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.support.cluster_control import RecordingControl
from tests.support.clusters import VirtualCluster, run_cluster
from tests.support.images import B1, B2, B3
from tests.support.waiting import until
from tests.support.within_environment import within
from txnsim.errors import ConfigError
from txnsim.faults.cluster_actions import (
    ClockJump,
    ClusterAction,
    Crash,
    FillDisk,
    LagReplica,
    MoveLeader,
    Partition,
    ResignLeader,
)
from txnsim.metadata.image import PartitionImage
from txnsim.node.peers import CONTROLLER_ID
from txnsim.server._cluster_control import SimClusterControl
from txnsim.server.member import MemberLifeState
from txnsim.types import BrokerId, TopicPartition

P0 = TopicPartition("orders", 0)
NOBODY = BrokerId(9)


def control(cluster: VirtualCluster) -> SimClusterControl:
    cluster_control = cluster.sim.injector.cluster_control
    assert isinstance(cluster_control, SimClusterControl)
    return cluster_control


def partition_known(cluster: VirtualCluster) -> PartitionImage:
    partition = cluster.sim.metadata.image.partition(P0)
    assert partition is not None
    return partition


@pytest.mark.parametrize(
    ("action", "done_text"),
    [
        (Crash(broker=2, lose_unflushed=True), "crash 2 losing what was not flushed"),
        (Crash(), "crash 7"),
        (MoveLeader(topic="t", partition=1), "move t-1 to somebody"),
        (MoveLeader(topic="t", partition=1, to=3), "move t-1 to 3"),
        (ResignLeader(topic="t", partition=1), "resign t-1"),
        (Partition(groups=((1,), (2, 3))), "partition ((1,), (2, 3))"),
        (ClockJump(by_ms=-5), "clock -5 of all"),
        (ClockJump(by_ms=5, broker=1), "clock 5 of 1"),
        (FillDisk(broker=1), "fill 1"),
        (FillDisk(), "fill 7"),
        (LagReplica(broker=3, topic="t", partition=0), "lag t-0 on 3"),
    ],
)
async def test_an_action_is_carried_out_and_tells_how_to_end_it(
    action: ClusterAction, done_text: str
) -> None:
    control = RecordingControl()
    undo = await control.carry_out(action, struck_broker=BrokerId(7))
    assert control.actions == [done_text]
    assert (undo is None) == isinstance(action, MoveLeader | ResignLeader)
    if undo is not None:
        await undo()
        assert control.actions == [done_text, f"undo {done_text}"]


Misuse = Callable[[SimClusterControl], Awaitable[object]]


@pytest.mark.parametrize(
    ("misuse", "message"),
    [
        (lambda control: control.crash(NOBODY, lose_unflushed=False), "no broker 9, only 1, 2, 3"),
        (lambda control: control.fill_disk(NOBODY), "no broker 9"),
        (lambda control: control.move_clock(5, broker=NOBODY), "no broker 9"),
        (lambda control: control.partition(((B1,), (NOBODY,))), "no broker 9"),
        (lambda control: control.lag_replica(NOBODY, P0), "no broker 9"),
        (
            lambda control: control.lag_replica(B2, TopicPartition("orders", 7)),
            "no partition orders-7",
        ),
        (
            lambda control: control.lag_replica(B1, P0),
            "broker 1 leads orders-0: only a follower can lag",
        ),
        (lambda control: control.move_leader(P0, new_leader=NOBODY), "no broker 9"),
        (lambda control: control.move_leader(P0, new_leader=B1), "broker 1 leads orders-0 already"),
        (
            lambda control: control.move_leader(TopicPartition("x", 0), new_leader=None),
            "no partition x-0",
        ),
        (lambda control: control.resign_leader(TopicPartition("x", 0)), "No such partition as x-0"),
    ],
)
@within(run_cluster)
async def test_what_is_not_there_is_refused_in_words(
    cluster: VirtualCluster, misuse: Misuse, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        await misuse(control(cluster))
    assert partition_known(cluster).leader_epoch == 0


@within(run_cluster)
async def test_what_is_done_already_is_refused_but_for_a_crash(cluster: VirtualCluster) -> None:
    await control(cluster).fill_disk(B2)
    with pytest.raises(ConfigError, match="disk of broker 2 is full already"):
        await control(cluster).fill_disk(B2)
    await control(cluster).lag_replica(B2, P0)
    with pytest.raises(ConfigError, match="broker 2 lags in orders-0 already"):
        await control(cluster).lag_replica(B2, P0)
    await control(cluster).crash(B3, lose_unflushed=False)
    await control(cluster).crash(B3, lose_unflushed=False)
    assert cluster.sim.member(B3).state is MemberLifeState.DOWN


@within(run_cluster, brokers=4)
async def test_a_replica_is_needed_to_lag_and_another_one_to_lead(cluster: VirtualCluster) -> None:
    with pytest.raises(ConfigError, match="broker 4 has no replica of orders-0, only 1, 2, 3"):
        await control(cluster).lag_replica(BrokerId(4), P0)
    for broker_id in (B2, B3):
        await cluster.sim.kill_broker(broker_id)
    await until(lambda: partition_known(cluster).isr == (B1,), "they are out of sync")
    with pytest.raises(ConfigError, match="no other replica is in sync and lives"):
        await control(cluster).move_leader(P0, new_leader=None)


@within(run_cluster, brokers=1)
async def test_a_partition_without_a_leader_has_nobody_to_resign(cluster: VirtualCluster) -> None:
    await cluster.sim.kill_broker(B1)
    await until(lambda: partition_known(cluster).leader == -1, "nobody leads")
    with pytest.raises(ConfigError, match="orders-0 has no live leader"):
        await control(cluster).resign_leader(P0)


@within(run_cluster)
async def test_a_crashed_broker_is_started_again_unless_somebody_has(
    cluster: VirtualCluster,
) -> None:
    def state() -> MemberLifeState:
        return cluster.sim.member(B2).state

    undo = await control(cluster).crash(B2, lose_unflushed=False)
    assert state() is MemberLifeState.DOWN
    await undo()
    assert state() is MemberLifeState.RUNNING
    undo_again = await control(cluster).crash(B2, lose_unflushed=True)
    await cluster.sim.start_broker(B2)
    await undo_again()
    assert state() is MemberLifeState.RUNNING


@within(run_cluster)
async def test_whoever_kills_a_broker_that_is_started_again_has_the_last_word(
    cluster: VirtualCluster,
) -> None:
    undo = await control(cluster).crash(B2, lose_unflushed=False)
    starting_task = cluster.env.tasks.spawn(undo(), name="undo")
    await asyncio.sleep(1)
    await cluster.sim.kill_broker(B2)
    await starting_task
    assert cluster.sim.member(B2).state is MemberLifeState.DOWN


@within(run_cluster)
async def test_leaders_move_to_whom_one_asks_for_or_to_the_next_in_sync(
    cluster: VirtualCluster,
) -> None:
    await control(cluster).move_leader(P0, new_leader=B3)
    assert (partition_known(cluster).leader, partition_known(cluster).leader_epoch) == (B3, 1)
    await control(cluster).move_leader(P0, new_leader=None)
    assert (partition_known(cluster).leader, partition_known(cluster).leader_epoch) == (B1, 2)


@within(run_cluster)
async def test_a_leader_that_resigns_is_elected_again_under_a_later_epoch(
    cluster: VirtualCluster,
) -> None:
    await control(cluster).resign_leader(P0)
    assert partition_known(cluster).leader == B1
    assert partition_known(cluster).leader_epoch == 2
    assert partition_known(cluster).isr == (B1, B2, B3)


@within(run_cluster)
async def test_a_partition_cuts_what_is_between_groups_and_nothing_else(
    cluster: VirtualCluster,
) -> None:
    reaches = cluster.env.network.reaches
    heal = await control(cluster).partition(((B1,), (B2, B3)))
    assert not any(
        reaches(B1, other_broker) or reaches(other_broker, B1) for other_broker in (B2, B3)
    )
    assert reaches(B2, B3)
    assert reaches(B1, CONTROLLER_ID), "nobody has put it on a side"
    await heal()
    assert all(
        reaches(source_broker_id, target_broker_id)
        for source_broker_id in (B1, B2, B3)
        for target_broker_id in (B1, B2, B3)
    )


@within(run_cluster)
async def test_the_controller_can_be_put_on_a_side(cluster: VirtualCluster) -> None:
    await control(cluster).partition(((B1,), (B2, B3, CONTROLLER_ID)))
    assert cluster.sim.is_isolated(B1)
    await until(lambda: partition_known(cluster).leader == B2, "broker 1 is fenced")


@within(run_cluster)
async def test_overlapping_partitions_last_until_the_last_one_is_healed(
    cluster: VirtualCluster,
) -> None:
    reaches = cluster.env.network.reaches
    cluster.sim.isolate(B3)
    heal_first = await control(cluster).partition(((B1,), (B2, B3)))
    heal_second = await control(cluster).partition(((B2,), (B1,)))
    await heal_first()
    assert not reaches(B1, B2)
    await heal_second()
    assert reaches(B1, B2)
    assert not reaches(B1, B3), "somebody else has isolated it"


@within(run_cluster)
async def test_clocks_are_set_for_one_or_for_all_and_set_right_again(
    cluster: VirtualCluster,
) -> None:
    def ahead(broker_id: BrokerId) -> int:
        own_clock = cluster.sim.brokers[broker_id].environment.clock
        return own_clock.now_ms() - cluster.env.clock.now_ms()

    before_ms = cluster.env.clock.now_ms()
    restore_clock = await control(cluster).move_clock(-5_000, broker=B2)
    run_everybody = await control(cluster).move_clock(60_000, broker=None)
    assert [ahead(broker_id) for broker_id in (B1, B2, B3)] == [0, -5_000, 0]
    assert cluster.env.clock.now_ms() - before_ms == 60_000
    await cluster.sim.kill_broker(B2)
    await cluster.sim.start_broker(B2)
    assert ahead(B2) == -5_000, "a machine keeps its clock"
    await restore_clock()
    await run_everybody()
    assert [ahead(broker_id) for broker_id in (B1, B2, B3)] == [0, 0, 0]
    assert cluster.env.clock.advanced_ms == 0


@within(run_cluster)
async def test_a_full_disk_fails_its_directory_within_five_seconds_and_is_restarted_when_freed(
    cluster: VirtualCluster,
) -> None:
    member = cluster.sim.member(B1)
    free_disk = await control(cluster).fill_disk(B1)
    assert not member.disk.has_failed
    await until(lambda: member.disk.has_failed, "the high watermarks are noted")
    await until(lambda: partition_known(cluster).leader == B2, "the controller has heard of it")
    assert partition_known(cluster).isr == (B2, B3)
    assert member.state is MemberLifeState.RUNNING
    await free_disk()
    assert (member.disk.is_full, member.disk.has_failed) == (False, False)
    await until(lambda: set(partition_known(cluster).isr) == {B1, B2, B3}, "all are in sync")


@within(run_cluster)
async def test_a_disk_that_is_freed_in_time_restarts_nobody(cluster: VirtualCluster) -> None:
    epoch = cluster.sim.metadata.image.brokers[B1].epoch
    free_disk = await control(cluster).fill_disk(B1)
    await free_disk()
    await asyncio.sleep(10)
    assert cluster.sim.metadata.image.brokers[B1].epoch == epoch


@within(run_cluster)
async def test_a_broker_that_cant_tell_of_its_failed_directory_ends_itself(
    cluster: VirtualCluster,
) -> None:
    cluster.sim.isolate(B1)
    await control(cluster).fill_disk(B1)
    await asyncio.sleep(28)
    assert cluster.sim.member(B1).state is MemberLifeState.RUNNING
    await asyncio.sleep(8)
    assert cluster.sim.member(B1).state is MemberLifeState.DOWN


@within(run_cluster)
async def test_a_replica_lags_over_restarts_and_other_leaders_until_it_may_catch_up(
    cluster: VirtualCluster,
) -> None:
    catch_up = await control(cluster).lag_replica(B2, P0)
    await cluster.sim.kill_broker(B2)
    await cluster.sim.start_broker(B2)
    await control(cluster).move_leader(P0, new_leader=B3)
    await until(lambda: B2 not in partition_known(cluster).isr, "it was killed")
    await asyncio.sleep(60)
    assert B2 not in partition_known(cluster).isr
    await catch_up()
    await until(lambda: B2 in partition_known(cluster).isr, "it is in sync again")


@within(run_cluster)
async def test_nothing_is_undone_in_a_cluster_that_was_made_anew(cluster: VirtualCluster) -> None:
    undo = await control(cluster).crash(B2, lose_unflushed=False)
    free_disk = await control(cluster).fill_disk(B1)
    await cluster.sim.reset(cluster.sim.snapshot())
    epoch_by_broker_id = {
        broker_id: image.epoch for broker_id, image in cluster.sim.metadata.image.brokers.items()
    }
    await undo()
    await free_disk()
    await asyncio.sleep(20)
    brokers_after_reset_by_broker_id = cluster.sim.metadata.image.brokers
    assert {
        broker_id: image.epoch for broker_id, image in brokers_after_reset_by_broker_id.items()
    } == epoch_by_broker_id
    assert not cluster.sim.member(B1).disk.is_full

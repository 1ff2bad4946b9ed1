"""A cluster brought to rest."""

from __future__ import annotations

import asyncio

from tests.support.clusters import VirtualCluster, run_cluster
from tests.support.within import within
from txnsim.node.peers import CONTROLLER_ID
from txnsim.server.cluster import TURNS_TO_END, end_starts, let_end, undisturb
from txnsim.server.member import MemberState
from txnsim.types import BrokerId


@within(run_cluster)
async def test_a_start_is_ended_and_brokers_that_run_are_left_alone(
    cluster: VirtualCluster,
) -> None:
    sim = cluster.sim
    await sim.kill_broker(BrokerId(1))
    starting = asyncio.get_running_loop().create_task(sim.start_broker(BrokerId(1)))
    await asyncio.sleep(0.1)
    assert sim.members[BrokerId(1)].state is MemberState.STARTING
    await end_starts(sim.members.values())
    assert starting.done()
    assert "killed while it started" in str(starting.exception())
    assert [one.state.name for one in sim.members.values()] == ["DOWN", "RUNNING", "RUNNING"]
    await end_starts(sim.members.values())  # there is none


@within(run_cluster)
async def test_links_and_clock_are_right_again(cluster: VirtualCluster) -> None:
    sim = cluster.sim
    sim.isolate(BrokerId(2))
    cluster.env.clock.shift(-5_000)
    undisturb(cluster.env, (CONTROLLER_ID, *sim.members))
    assert not sim.is_isolated(BrokerId(2))
    assert cluster.env.clock.advanced_ms == 0


async def test_what_was_let_go_has_its_turns() -> None:
    turns = 0

    async def deep(depth: int) -> None:
        nonlocal turns
        for _ in range(depth):
            await asyncio.sleep(0)
            turns += 1

    task = asyncio.get_running_loop().create_task(deep(TURNS_TO_END - 2))
    await let_end()
    assert task.done()
    assert turns == TURNS_TO_END - 2

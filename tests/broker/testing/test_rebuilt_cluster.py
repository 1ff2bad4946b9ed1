"""A cluster that is taken down and built anew."""

from __future__ import annotations

import asyncio

import pytest

from txnsim.errors import ConfigError
from txnsim.testing.event_loop import ClusterLoop
from txnsim.testing.options import Wanted, wanted
from txnsim.testing.rebuilt_cluster import RebuiltCluster


def rebuilt(asked: Wanted) -> RebuiltCluster:
    return RebuiltCluster(ClusterLoop(asyncio.get_running_loop()), asked)


async def test_it_runs_between_start_and_stop() -> None:
    made = rebuilt(wanted(brokers=1))
    with pytest.raises(RuntimeError, match="does not run"):
        _ = made.sim
    await made.start()
    assert made.is_running
    with pytest.raises(RuntimeError, match="runs already"):
        await made.start()
    await made.stop()
    await made.stop()
    assert not made.is_running


async def test_a_reset_keeps_the_addresses_and_nothing_else() -> None:
    made = rebuilt(wanted(brokers=2, topics={"orders": 3}))
    await made.start()
    before = made.sim.bootstrap
    admin = await made.admin()
    await admin.create_topic("more", partitions=1)
    made.environment.clock.advance(86_400_000)
    await made.reset()
    assert (made.sim.bootstrap, made.starts) == (before, 2)
    assert made.environment.clock.advanced_ms == 0
    topics = await (await made.admin()).describe_topics(None)
    assert {topic.name for topic in topics if not topic.name.startswith("__")} == {"orders"}
    await made.stop()


async def test_a_start_that_fails_leaves_nothing_behind() -> None:
    made = rebuilt(wanted(brokers=1, topics={"no topic": 1}))
    with pytest.raises(ConfigError, match="no topic"):
        await made.start()
    assert not made.is_running


async def test_a_cluster_with_further_listeners_can_not_have_its_ports_again() -> None:
    made = rebuilt(wanted(brokers=1, settings={"kip_text": True}))
    await made.start()
    with pytest.raises(ConfigError, match="can't be reset"):
        await made.reset()
    await made.stop()
